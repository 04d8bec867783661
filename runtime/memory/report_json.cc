#include <llvm/Support/FormatVariadic.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

#include "runtime/base/json.h"
#include "runtime/memory/report.h"

namespace act {
namespace {

llvm::json::Object ToJson(const ReportEdge& edge) {
  llvm::json::Array consumers;
  for (const std::string& consumer : edge.consumers) consumers.push_back(JsonText(consumer));
  return llvm::json::Object{{"name", JsonText(edge.name)}, {"consumers", std::move(consumers)},
                            {"form", JsonText(edge.form)}, {"bits", edge.bits},
                            {"bytes", edge.bytes},         {"bytes_uncompressed", edge.bytes_uncompressed}};
}

}  // namespace

std::string ReportJson(const MemoryReport& report) {
  const StepLayout& train = report.layout.train;
  const auto at_peak = [&](MemoryCategory c) { return train.category_bytes[static_cast<size_t>(c)]; };

  llvm::json::Array edges, timeline;
  for (const ReportEdge& edge : report.edges) edges.push_back(ToJson(edge));
  for (size_t t = 0; t < report.ops.size(); ++t)
    timeline.push_back(llvm::json::Array{JsonText(report.ops[t]), train.timeline[t]});
  llvm::json::Object max_batch;
  for (const BatchThatFits& fit : report.max_batch) max_batch[fit.card] = fit.batch;

  llvm::json::Object json{
      {"model", JsonText(report.model)},
      {"level", JsonText(report.level)},
      {"compute", ToString(report.compute)},
      {"batch", report.batch},
      {"target", ToString(report.layout.target)},
      {"peak_bytes", train.peak_bytes},
      {"lower_bound_bytes", train.lower_bound_bytes},
      {"arena_bytes", report.layout.arena_bytes},
      {"host_bytes", report.layout.host_bytes},
      {"parameters_bytes", at_peak(MemoryCategory::kParameters)},
      {"gradients_bytes", at_peak(MemoryCategory::kGradients)},
      {"kept_gradients_bytes", report.kept_gradients_bytes},
      {"optimizer_bytes", at_peak(MemoryCategory::kOptimizer)},
      {"saved_at_peak_bytes", at_peak(MemoryCategory::kSaved)},
      {"transient_bytes", at_peak(MemoryCategory::kTransient)},
      {"workspace_bytes", at_peak(MemoryCategory::kWorkspace)},
      {"frozen_bytes", report.frozen_bytes},
      {"frozen_bytes_uncompressed", report.frozen_bytes_uncompressed},
      {"saved_bytes", report.saved_bytes},
      {"saved_bytes_uncompressed", report.saved_bytes_uncompressed},
      {"peak_op",
       report.ops.empty() ? JsonText("") : JsonText(report.ops[static_cast<size_t>(train.peak_node)])},
      {"edges", std::move(edges)},
      {"timeline", std::move(timeline)},
      {"max_batch", std::move(max_batch)},
  };
  if (report.card) {
    json["card"] = llvm::json::Object{{"name", report.card->card},
                                      {"arena_bytes", report.card_bytes},
                                      {"fits", report.layout.arena_bytes <= report.card_bytes},
                                      {"max_batch", report.card->batch}};
  }
  std::string text;
  llvm::raw_string_ostream out(text);
  out << llvm::formatv("{0:2}", llvm::json::Value(std::move(json))) << "\n";
  return out.str();
}

}  // namespace act
