// Chooses a plan's levels from a measurement (actrun --calibrate).
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/measure/gradient_variance.h"
#include "runtime/plan/plan.h"

namespace act {

struct Calibration {
  Plan plan;
  int64_t batch = 0;
  int64_t bytes_before = 0, bytes_after = 0;       // of the codes with levels, at `batch`
  std::vector<double> measured;                    // by edge of the plan
  GradientEstimate checked_before, checked_after;  // of all codes, on other mini-batches
  double variance_before = 0, variance_after = 0;  // sum over these codes: measured; predicted
};

// Records in the plan what each code adds to the gradient's variance, then moves levels between
// codes. The budget is `average_bits` per element of the coded tensors, metadata included; 0 means
// the bytes that the codes take now. Errors: those of MoveLevels.
llvm::Expected<Calibration> Calibrate(const Plan& plan, const GradientVariance& measured,
                                      double average_bits);

// Totals, and a table of the measurements and of the form that each code gets.
std::string FormatCalibration(const Plan& before, const Calibration& calibration);
// The keys are in docs/gradient_variance.md.
std::string CalibrationJson(const Plan& before, const Calibration& calibration);

}  // namespace act
