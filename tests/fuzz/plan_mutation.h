// One change of a plan's meaning: operands, nodes, attributes, types, programs, storages, schedules, what
// holds for the whole plan.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/plan/plan.h"
#include "tests/fuzz/byte_reader.h"

namespace act::fuzz {

inline constexpr size_t kMutationBytes = 10;

// Reads kMutationBytes.
void MutatePlan(Plan& plan, ByteReader& bytes);

// Gives values with data as many bytes as their types take, so that a change of a type is not all that is
// found.
void FitData(Plan& plan);

// The parts of MutatePlan. `c` decides.
struct Choice {
  size_t a, b, c;
  // A number at which something may go wrong, by `c`.
  int64_t Number() const;
};
void MutateProgram(Program& program, const Choice& choice);
void MutateAttributes(Graph& graph, Node& node, const Choice& choice);
// Of a frozen parameter, in both graphs. Half of the codes fit what lies in the arena.
void MutateCode(Plan& plan, const std::string& name, const Choice& choice);

}  // namespace act::fuzz
