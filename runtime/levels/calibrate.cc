#include "runtime/levels/calibrate.h"

#include <llvm/Support/Format.h>
#include <llvm/Support/FormatVariadic.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

#include "runtime/base/error.h"
#include "runtime/base/json.h"
#include "runtime/base/size.h"
#include "runtime/levels/allocate_codecs.h"

namespace act {

llvm::Expected<Calibration> Calibrate(const Plan& plan, const GradientVariance& measured,
                                      double average_bits) {
  Calibration result;
  result.plan = plan;
  result.batch = measured.batch;
  result.measured.resize(plan.edges.size());
  for (const EdgeVariance& edge : measured.edges)
    if (edge.edge < measured.saved_edges)
      result.measured[edge.edge] = result.plan.edges[edge.edge].variance = edge.estimate.variance;
  const Totals before = TotalsOf(result.plan, measured.batch);
  const int64_t budget =
      average_bits > 0 ? BudgetOf(CodesWithLevels(plan), average_bits, measured.batch) : before.bytes;
  ACT_CHECK_OK(MoveLevels(result.plan, measured.batch, budget, Freedom::kForms,
                          average_bits > 0 ? CodeBytes::kPacked : CodeBytes::kStored));
  const Totals after = TotalsOf(result.plan, measured.batch);
  result.bytes_before = before.bytes;
  result.bytes_after = after.bytes;
  result.variance_before = before.variance;
  result.variance_after = after.variance;
  return result;
}

std::string FormatCalibration(const Plan& before, const Calibration& calibration) {
  const GradientEstimate &was = calibration.checked_before, &is = calibration.checked_after;
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "=== Calibration ===\n";
  out << "  codes with levels      " << FormatSize(calibration.bytes_before) << " -> "
      << FormatSize(calibration.bytes_after) << " at batch " << calibration.batch << "\n";
  out << llvm::format("  sum of the edges' v    %.3g measured -> %.3g predicted\n",
                      calibration.variance_before, calibration.variance_after);
  out << llvm::format("  v, measured again      %.3g +- %.1g -> %.3g +- %.1g\n", was.variance,
                      was.variance_error, is.variance, is.variance_error);
  out << "\n  v         form before                   form                          edge\n";
  for (size_t e = 0; e < before.edges.size(); ++e) {
    if (calibration.measured[e] == 0) continue;
    const std::string &form = before.edges[e].form, &now = calibration.plan.edges[e].form;
    out << llvm::format("  %-10.3g", calibration.measured[e]) << llvm::left_justify(form, 30)
        << llvm::left_justify(now == form ? "the same" : now, 30) << before.edges[e].name << "\n";
  }
  return out.str();
}

std::string CalibrationJson(const Plan& before, const Calibration& calibration) {
  llvm::json::Array edges;
  for (size_t e = 0; e < before.edges.size(); ++e) {
    if (calibration.measured[e] == 0) continue;
    edges.push_back(llvm::json::Object{{"name", JsonText(before.edges[e].name)},
                                       {"variance", NumberOrNull(calibration.measured[e])},
                                       {"form_before", JsonText(before.edges[e].form)},
                                       {"form", JsonText(calibration.plan.edges[e].form)}});
  }
  llvm::json::Object json{{"model", JsonText(before.model_name)},
                          {"level", JsonText(before.level)},
                          {"batch", calibration.batch},
                          {"bytes_before", calibration.bytes_before},
                          {"bytes", calibration.bytes_after},
                          {"sum_of_edges", NumberOrNull(calibration.variance_before)},
                          {"predicted", NumberOrNull(calibration.variance_after)},
                          {"variance_before", NumberOrNull(calibration.checked_before.variance)},
                          {"variance_before_error", NumberOrNull(calibration.checked_before.variance_error)},
                          {"variance", NumberOrNull(calibration.checked_after.variance)},
                          {"variance_error", NumberOrNull(calibration.checked_after.variance_error)},
                          {"edges", std::move(edges)}};
  return llvm::formatv("{0:2}\n", llvm::json::Value(std::move(json))).str();
}

}  // namespace act
