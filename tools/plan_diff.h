// actplan diff: what differs between two plans, and the facts of a plan that `show` prints as well.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runtime/memory/layout.h"
#include "runtime/plan/plan.h"

namespace act {

// How many nodes of each operator the graph has.
std::map<std::string, int64_t> OperatorCounts(const Graph& graph);

// "160 kernels and 53 engines for NVIDIA H200 at batch 256, 4.2 MiB"; "nothing".
std::string DescribePrepared(const Plan& plan);

// A line "what: a -> b" for each difference; empty if there is none. The layouts are those of one batch
// and target, and give the peaks that are compared.
std::string DescribeDifferences(const Plan& a, const MemoryLayout& at_a, const Plan& b,
                                const MemoryLayout& at_b);

}  // namespace act
