// Memory reports of several plans of one model, side by side.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/memory/report.h"

namespace act {

struct ComparedPlan {
  std::string name = {};  // "L3", "auto:8GiB"
  std::string step = {};  // what a memory limit left: "L3 with --bits=4.5"; empty: `name` is a level
  MemoryReport report = {};
  double flops = 0;  // of a step
  // What codes are expected to add to the gradient, as a part of its squared norm. Nothing: not known.
  std::optional<double> variance = std::nullopt;
  std::optional<double> seconds = std::nullopt;  // that a step is expected to take
  std::optional<int64_t> fits = std::nullopt;    // the largest extent in Comparison::fit_bytes; 0: none
  std::vector<int64_t> micro_batch_peaks = {};   // for each of Comparison::micro_batches
};

// Plain values, at least one plan. Everything is also told relative to the first plan.
struct Comparison {
  std::vector<ComparedPlan> plans = {};
  int64_t fit_bytes = 0;    // 0: nothing was asked
  std::string fit_of = {};  // "batch", or the name of an axis
  // What is in use beside every arena. It is part of the peaks that are told and of what is to fit.
  int64_t share_bytes = 0;
  std::vector<int64_t> micro_batches = {};  // into how many the batch may be cut
  std::string rates = {};  // by which times are expected: "140 GFLOP/s of products and 12 GB/s, given"
  std::vector<std::string> warnings = {};  // of the import

  int64_t PeakOf(const ComparedPlan& plan) const { return plan.report.layout.train.peak_bytes + share_bytes; }
};

// A table.
std::string ComparisonText(const Comparison& comparison);
// One page that needs nothing else: the curves of live bytes over one step, and the tables.
std::string ComparisonHtml(const Comparison& comparison);

// "3.20x less", "1.04x more", "the same".
std::string Relative(double value, double reference);
// "0", ".062", "not known".
std::string VarianceText(const ComparedPlan& plan);
// "h100 leaves 78.0 GiB to an arena: too large for it: L0"; "" where no card was named.
std::string CardText(const Comparison& comparison);
// "2 x 32": micro-batches and the samples of each.
std::string MicroBatchesText(const Comparison& comparison, int64_t count);
// "Plans of model.onnx, batch 8".
std::string ComparisonTitle(const Comparison& comparison);

}  // namespace act
