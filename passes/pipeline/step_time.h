// How long a step is expected to take: an estimate from the work of its nodes, without running any of them.
#pragma once

#include <cstdint>

#include "runtime/plan/plan.h"

namespace act {

// What a machine does in a second. The defaults are those of docs/memory_report.md's measurements: two cores with
// AVX-512.
struct StepRates {
  double product_flops = 1.4e11;  // of convolutions, matrix products and attention
  double rounded_flops = 1.4e11;  // of products that may round their operands to bfloat16
  double bytes = 1.2e10;          // read and written
};

// A node takes the longer of the time for its arithmetic and for its bytes; nodes run one after the other. Codes that
// a loop makes or reads take time of their own. What a kernel loses at small extents is not counted.
double ExpectedSeconds(const Plan& plan, int64_t batch, const StepRates& rates);

}  // namespace act
