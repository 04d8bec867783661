// Where the time of a run goes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/executor/bound_graph.h"

namespace act {

struct ProfileRow {
  std::string what;  // a node's name, or an op's
  std::string op;
  std::string kernel;  // "dnnl.conv"; empty for a row of several kernels
  int64_t nodes = 0;   // counted in this row
  double seconds = 0;  // in the kernels, over the whole run, without what a first run takes longer
  double bytes = 0;    // of operands and results, each counted once a run of a node
  bool library = false;
};

struct Profile {
  std::vector<ProfileRow> nodes;    // most expensive first
  std::vector<ProfileRow> kernels;  // the same, summed by op and kernel
  double seconds = 0;
  double library_seconds = 0;  // in calls of a library
};

// Over all graphs that ran (a last partial batch runs in its own).
Profile CollectProfile(const std::vector<const BoundGraph*>& graphs);

// Two tables, in milliseconds per step and gigabytes of operands and results per second: kernels, then the most
// expensive nodes.
std::string FormatProfile(const Profile& profile, size_t steps, size_t most_nodes = 20);

// One line per node: its kernel, the kernel's description of itself, why each faster one refused, and the
// times by which it was chosen.
std::string FormatDispatch(std::span<const BoundNode> nodes);

}  // namespace act
