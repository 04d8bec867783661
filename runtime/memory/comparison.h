// Memory reports of several plans of one model, side by side.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/memory/report.h"

namespace act {

struct ComparedPlan {
  MemoryReport report;
  double flops = 0;             // of a step
  std::optional<int64_t> fits;  // the largest extent that fits Comparison::fit_bytes; 0: none
};

// Plain values, at least one plan. Everything is also told relative to the first plan.
struct Comparison {
  std::vector<ComparedPlan> plans = {};
  int64_t fit_bytes = 0;    // 0: nothing was asked
  std::string fit_of = {};  // "batch", or the name of an axis
};

// A table.
std::string ComparisonText(const Comparison& comparison);
// One page that needs nothing else: the curves of live bytes over one step, and the tables.
std::string ComparisonHtml(const Comparison& comparison);

// "3.20x less", "1.04x more", "the same".
std::string Relative(double value, double reference);
// "Plans of model.onnx, batch 8".
std::string ComparisonTitle(const Comparison& comparison);

}  // namespace act
