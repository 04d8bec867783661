#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/Format.h>
#include <llvm/Support/FormatVariadic.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>

#include "runtime/base/size.h"
#include "runtime/memory/comparison.h"

namespace act {

std::string Relative(double value, double reference) {
  if (value <= 0 || reference <= 0) return "-";
  const double ratio = std::max(value, reference) / std::min(value, reference);
  if (ratio < 1.005) return "the same";
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format(ratio < 100 ? "%.2fx " : "%.0fx ", ratio)
                                 << (value < reference ? "less" : "more");
  return text;
}

std::string ComparisonTitle(const Comparison& comparison) {
  const MemoryReport& first = comparison.plans.front().report;
  std::string title = "Plans of " + first.model + (first.compute == Compute::kBFloat16 ? ", bfloat16" : "") +
                      ", batch " + std::to_string(first.batch);
  if (first.layout.target != TargetKind::kCpu)
    title += std::string(", target ") + ToString(first.layout.target);
  return title;
}

std::string ComparisonText(const Comparison& comparison) {
  const ComparedPlan& first = comparison.plans.front();
  const auto bytes = [](int64_t value, int64_t reference) {
    return std::vector<std::string>{FormatSize(value),
                                    Relative(static_cast<double>(value), static_cast<double>(reference))};
  };
  std::vector<std::vector<std::string>> rows = {{"plan", "peak", "to " + first.report.level, "saved",
                                                 "to " + first.report.level, "GFLOP",
                                                 "to " + first.report.level}};
  if (comparison.fit_bytes > 0)
    rows[0].push_back("largest " + comparison.fit_of + " in " + FormatSize(comparison.fit_bytes));
  for (const ComparedPlan& plan : comparison.plans) {
    std::vector<std::string> row = {plan.report.level};
    for (std::string& cell : bytes(plan.report.layout.train.peak_bytes, first.report.layout.train.peak_bytes))
      row.push_back(std::move(cell));
    for (std::string& cell : bytes(plan.report.saved_bytes, first.report.saved_bytes))
      row.push_back(std::move(cell));
    row.push_back(llvm::formatv("{0:F2}", plan.flops / 1e9).str());
    row.push_back(Relative(plan.flops, first.flops));
    if (plan.fits) row.push_back(*plan.fits > 0 ? std::to_string(*plan.fits) : "none");
    rows.push_back(std::move(row));
  }
  std::vector<size_t> width(rows[0].size(), 0);
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  std::string text;
  llvm::raw_string_ostream out(text);
  out << ComparisonTitle(comparison) << "\n";
  for (const auto& row : rows) {
    out << "  " << llvm::left_justify(row[0], static_cast<unsigned>(width[0]));
    for (size_t c = 1; c < row.size(); ++c)
      out << "  " << llvm::right_justify(row[c], static_cast<unsigned>(width[c]));
    out << "\n";
  }
  return out.str();
}

}  // namespace act
