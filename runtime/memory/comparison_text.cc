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

std::string VarianceText(const ComparedPlan& plan) {
  if (!plan.variance) return "not known";
  if (*plan.variance == 0) return "0";
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.2g", *plan.variance);
  return text;
}

std::string CardText(const Comparison& comparison) {
  const MemoryReport& first = comparison.plans.front().report;
  if (!first.card) return "";
  std::string too_large;
  for (const ComparedPlan& plan : comparison.plans)
    if (plan.report.layout.arena_bytes > first.card_bytes)
      too_large += (too_large.empty() ? "" : ", ") + plan.name;
  return first.card->card + " leaves " + FormatSize(first.card_bytes) +
         " to an arena: " + (too_large.empty() ? "all fit" : "too large for it: " + too_large);
}

std::string MicroBatchesText(const Comparison& comparison, int64_t count) {
  return std::to_string(count) + " x " + std::to_string(comparison.plans.front().report.batch / count);
}

namespace {

using Rows = std::vector<std::vector<std::string>>;

// The first column stands left, the others right.
void Print(llvm::raw_ostream& out, const Rows& rows) {
  std::vector<size_t> width(rows[0].size(), 0);
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  for (const auto& row : rows) {
    out << "  " << llvm::left_justify(row[0], static_cast<unsigned>(width[0]));
    for (size_t c = 1; c < row.size(); ++c)
      out << "  " << llvm::right_justify(row[c], static_cast<unsigned>(width[c]));
    out << "\n";
  }
}

Rows PlanRows(const Comparison& comparison) {
  const ComparedPlan& first = comparison.plans.front();
  const std::string to = "to " + first.name;
  Rows rows = {{"plan", "peak", to, "saved", to, "GFLOP", to, "variance"}};
  if (first.seconds) rows[0].push_back("time " + to);
  if (comparison.fit_bytes > 0)
    rows[0].push_back("largest " + comparison.fit_of + " in " + FormatSize(comparison.fit_bytes));
  for (const ComparedPlan& plan : comparison.plans) {
    std::vector<std::string> row = {plan.name};
    const auto bytes = [&row](int64_t value, int64_t reference) {
      row.push_back(FormatSize(value));
      row.push_back(Relative(static_cast<double>(value), static_cast<double>(reference)));
    };
    bytes(comparison.PeakOf(plan), comparison.PeakOf(first));
    bytes(plan.report.saved_bytes, first.report.saved_bytes);
    row.push_back(llvm::formatv("{0:F2}", plan.flops / 1e9).str());
    row.push_back(Relative(plan.flops, first.flops));
    row.push_back(VarianceText(plan));
    if (plan.seconds) row.push_back(Relative(*plan.seconds, first.seconds.value_or(0)));
    if (plan.fits) row.push_back(*plan.fits > 0 ? std::to_string(*plan.fits) : "none");
    rows.push_back(std::move(row));
  }
  return rows;
}

Rows MicroBatchRows(const Comparison& comparison) {
  Rows rows = {{"peak as"}};
  for (const int64_t count : comparison.micro_batches) rows[0].push_back(MicroBatchesText(comparison, count));
  for (const ComparedPlan& plan : comparison.plans) {
    rows.push_back({plan.name});
    for (const int64_t peak : plan.micro_batch_peaks)
      rows.back().push_back(FormatSize(peak + comparison.share_bytes));
  }
  return rows;
}

}  // namespace

std::string ComparisonText(const Comparison& comparison) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << ComparisonTitle(comparison) << "\n";
  Print(out, PlanRows(comparison));
  for (const ComparedPlan& plan : comparison.plans)
    if (!plan.step.empty()) out << "  " << plan.name << " is " << plan.step << "\n";
  if (comparison.share_bytes > 0)
    out << "  peaks hold the GPU's share, " << FormatSize(comparison.share_bytes) << "\n";
  if (const std::string card = CardText(comparison); !card.empty()) out << "  " << card << "\n";
  out << "  variance: what codes add to the gradient, as a part of its square; it and time are estimates\n";
  if (!comparison.rates.empty()) out << "  time: at " << comparison.rates << "\n";
  if (!comparison.micro_batches.empty()) {
    out << "micro-batches, whose gradients are summed for one update\n";
    Print(out, MicroBatchRows(comparison));
  }
  return out.str();
}

}  // namespace act
