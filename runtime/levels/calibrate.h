// Chooses the levels of a plan from a measurement: actrun --calibrate.
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
// codes. The budget is `average_bits` bits an element of coded tensors, metadata included. With 0
// it is the bytes that the codes take now. Errors: those of MoveLevels.
llvm::Expected<Calibration> Calibrate(const Plan& plan, const GradientVariance& measured,
                                      double average_bits);

// Totals, and a table of the measured variances and the form that each code gets.
std::string FormatCalibration(const Plan& before, const Calibration& calibration);
// The keys of docs/gradient_variance.md.
std::string CalibrationJson(const Plan& before, const Calibration& calibration);

}  // namespace act
