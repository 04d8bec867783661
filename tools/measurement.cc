#include "tools/measurement.h"

#include <llvm/Support/raw_ostream.h>

#include "runtime/base/dim.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/levels/calibrate.h"
#include "runtime/measure/gradient_variance.h"
#include "runtime/measure/switchable_codes.h"
#include "runtime/memory/layout.h"
#include "runtime/plan/plan_io.h"
#include "runtime/train/gradient_capture.h"

namespace act {
namespace {

constexpr char kReference[] = "--variance-reference";
constexpr int64_t kMostRepeats = 10000;
constexpr int64_t kVarianceBatches = 4;     // of a data set; other sources have one batch
constexpr int64_t kCalibrationRepeats = 4;  // gradients of each mini-batch, without --variance=R

struct Measured {
  SwitchablePlan codes;  // the edges of `result`: first the plan's, then those coded within a pass
  GradientVariance result;
  uint64_t seed = 0;
};

// A switchable form of a plan, ready to run.
struct Switchable {
  SwitchablePlan codes;
  Opened opened;

  int64_t batch() const { return opened.executor->layout().batch; }
};

// Opens a plan whose gradient counts as exact, for the default batch of `plan`. It is given that plan's parameters
// later, so no checkpoint is loaded.
llvm::Error OpenReference(const Plan& reference, const Plan& plan, const OpenPlan& open, Switchable& to) {
  ACT_TRY(to.codes, MakeCodesSwitchable(reference));
  if (!reference.fixed_batch) to.codes.plan.default_batch = plan.default_batch;
  ACT_TRY(to.opened, open(to.codes.plan, {.load = false}));
  return llvm::Error::success();
}

// Opens a switchable form of the plan and measures it, against `reference` if that is not null. First leaves out
// `skip` mini-batches of a data set.
llvm::Expected<Measured> Measure(const Plan& plan, const Plan* reference, const OpenPlan& open, int64_t skip,
                                 VarianceOptions options) {
  Measured measured;
  ACT_TRY(measured.codes, MakeCodesSwitchable(plan));
  Switchable exact;
  // The exact gradient, its copy at the end of a pass, and R errors.
  int64_t gradients = options.repeats + 2, arenas = 0;
  if (reference) {
    if (llvm::Error error = OpenReference(*reference, plan, open, exact))
      return WithPlace(std::move(error), kReference);
    options.reference = {exact.opened.executor.get(), &exact.codes};
    gradients += 2;
    const MemoryLayout& layout = exact.opened.executor->layout();
    if (layout.target == TargetKind::kCpu) arenas = BytesOf(layout, Arenas::kBoth);
  }
  const int64_t gradient_bytes = GradientBytesOf(plan, plan.default_batch);
  ACT_TRY(Opened opened, open(measured.codes.plan, {.beside_bytes = SaturatingAdd(
                                                        arenas, SaturatingMul(gradients, gradient_bytes))}));
  const int64_t batch = opened.executor->layout().batch;
  if (reference && exact.batch() != batch)
    return MakeError(kReference,
                     "has a fixed batch of " + std::to_string(exact.batch()) + ", and this run has one of " +
                         std::to_string(batch),
                     "compile both plans from the same model");
  opened.position.position += skip * batch;
  measured.seed = opened.position.seed;
  ACT_TRY(measured.result,
          MeasureGradientVariance(*opened.executor, measured.codes, *opened.data, opened.position, options));
  return measured;
}

}  // namespace

std::string MeasurementFlags::CheckUsage() const {
  if (variance_.getNumOccurrences() && (variance_ < 1 || variance_ > kMostRepeats))
    return "--variance: expected 1 to " + std::to_string(kMostRepeats) + " gradients of a mini-batch";
  if (batches_.getNumOccurrences() && batches_ < 1) return "--variance-batches: expected at least 1";
  if (calibrate_.getNumOccurrences() && calibrate_ < 1) return "--calibrate: expected at least 1 mini-batch";
  if (calibrate_ > 0 && save_plan_.empty())
    return "--calibrate: needs --save-plan=FILE, the plan that it makes";
  if (calibrate_ > 0 && (batches_.getNumOccurrences() || edges_.getNumOccurrences()))
    return "--variance-batches, --variance-edges: --calibrate=K measures all edges on K mini-batches";
  if (!reference_.empty() && (variance_ == 0 || calibrate_ > 0))
    return "--variance-reference: belongs to --variance=R";
  if (calibrate_ == 0 && (!save_plan_.empty() || bits_.getNumOccurrences()))
    return "--save-plan, --bits: belong to --calibrate=K";
  if (bits_.getNumOccurrences() && !(bits_ > 0 && bits_ <= 32))
    return "--bits: expected a number of bits an element, up to 32";
  return "";
}

llvm::Error MeasurementFlags::Run(const Plan& plan, const Plan* reference, const OpenPlan& open,
                                  bool data_set, const std::string& report_json,
                                  const volatile std::sig_atomic_t* stop) const {
  return calibrate_ > 0 ? CalibratePlan(plan, open, report_json, stop)
                        : MeasureVariance(plan, reference, open, data_set, report_json, stop);
}

llvm::Error MeasurementFlags::MeasureVariance(const Plan& plan, const Plan* reference, const OpenPlan& open,
                                              bool data_set, const std::string& report_json,
                                              const volatile std::sig_atomic_t* stop) const {
  const int64_t batches = batches_ > 0 ? static_cast<int64_t>(batches_) : data_set ? kVarianceBatches : 1;
  ACT_TRY(const Measured measured,
          Measure(plan, reference, open, 0,
                  {.repeats = variance_, .batches = batches, .edges = edges_, .stop = stop}));
  const Plan& form = measured.codes.plan;
  if (!report_json.empty())
    ACT_CHECK_OK(WriteFile(report_json, GradientVarianceJson(form, measured.result, measured.seed)));
  llvm::outs() << FormatGradientVariance(form, measured.result);
  return llvm::Error::success();
}

llvm::Error MeasurementFlags::CalibratePlan(const Plan& plan, const OpenPlan& open,
                                            const std::string& report_json,
                                            const volatile std::sig_atomic_t* stop) const {
  const int64_t repeats = variance_ > 0 ? static_cast<int64_t>(variance_) : kCalibrationRepeats;
  const VarianceOptions all{.repeats = repeats, .batches = calibrate_, .rerun = false, .stop = stop};
  ACT_TRY(const Measured measured, Measure(plan, nullptr, open, 0, all));
  ACT_TRY(Calibration calibration, Calibrate(plan, measured.result, bits_));
  ACT_CHECK_OK(WritePlan(calibration.plan, save_plan_));
  // Measured on mini-batches to which nothing was fitted, if the data has more of them.
  VarianceOptions total = all;
  total.edges = "";
  ACT_TRY(const Measured before, Measure(plan, nullptr, open, calibrate_, total));
  ACT_TRY(const Measured after, Measure(calibration.plan, nullptr, open, calibrate_, total));
  calibration.checked_before = before.result.total;
  calibration.checked_after = after.result.total;
  if (!report_json.empty()) ACT_CHECK_OK(WriteFile(report_json, CalibrationJson(plan, calibration)));
  llvm::outs() << FormatCalibration(plan, calibration);
  return llvm::Error::success();
}

}  // namespace act
