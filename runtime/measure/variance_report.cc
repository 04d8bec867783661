#include <llvm/Support/FormatVariadic.h>
#include <llvm/Support/JSON.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>

#include "runtime/base/json.h"
#include "runtime/base/size.h"
#include "runtime/measure/gradient_variance.h"

namespace act {
namespace {

__attribute__((format(printf, 1, 2))) std::string Format(const char* format, ...) {
  char text[320];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

// "0.0123 +- 0.0004"; without the second number if it is unknown.
std::string WithError(double value, double error) {
  if (std::isnan(value)) return "not known";
  return std::isnan(error) ? Format("%.3g", value) : Format("%.3g +- %.1g", value, error);
}

double SumOfEdges(const GradientVariance& result) {
  double sum = 0;
  for (const EdgeVariance& edge : result.edges) sum += edge.estimate.variance;
  return sum;
}

void AddEstimate(llvm::json::Object& json, const GradientEstimate& estimate) {
  json["variance"] = NumberOrNull(estimate.variance);
  json["variance_error"] = NumberOrNull(estimate.variance_error);
  json["bias"] = NumberOrNull(estimate.bias);
  json["bias_error"] = NumberOrNull(estimate.bias_error);
}

std::string Against(const ReferenceVariance& reference) {
  const auto row = [](const char* name, double value, double error) {
    return Format("  %-22s %s\n", name, WithError(value, error).c_str());
  };
  std::string text = "\nAgainst " + reference.model + ", level " + reference.level + ", " +
                     ToString(reference.compute) + ", without its codes:\n";
  text += Format("  %-22s %.4g\n", "norm, exact", reference.gradient_norm);
  text += row("without codes", reference.without_codes.variance, reference.without_codes.variance_error);
  text += row("variance v", reference.total.variance, reference.total.variance_error);
  text += row("squared bias b", reference.total.bias, reference.total.bias_error);
  return text;
}

llvm::json::Object AgainstJson(const ReferenceVariance& reference) {
  llvm::json::Object json{{"model", JsonText(reference.model)},
                          {"level", JsonText(reference.level)},
                          {"compute", ToString(reference.compute)},
                          {"gradient_norm", NumberOrNull(reference.gradient_norm)},
                          {"without_codes", NumberOrNull(reference.without_codes.variance)},
                          {"without_codes_error", NumberOrNull(reference.without_codes.variance_error)}};
  AddEstimate(json, reference.total);
  return json;
}

std::string Table(const char* title, const Plan& plan, const GradientVariance& result,
                  const std::vector<EdgeVariance>& edges) {
  if (edges.empty()) return "";
  std::string text = Format("\n%s\n", title);
  text += Format("  %-20s %-20s %10s  %-22s %s\n", "v", "b", "bytes", "form", "edge");
  for (const EdgeVariance& edge : edges) {
    const SavedEdge& saved = plan.edges[edge.edge];
    text += Format("  %-20s %-20s %10s  %-22s ",
                   WithError(edge.estimate.variance, edge.estimate.variance_error).c_str(),
                   WithError(edge.estimate.bias, edge.estimate.bias_error).c_str(),
                   FormatSize(saved.bytes.At(result.batch)).c_str(), saved.form.c_str());
    text += saved.name + "\n";
  }
  return text;
}

}  // namespace

std::string FormatGradientVariance(const Plan& plan, const GradientVariance& result) {
  std::string text = "=== Gradient variance ===\n";
  text += Format("  %-22s %s, level %s\n", "model", plan.model_name.c_str(), plan.level.c_str());
  text += Format("  %-22s %lld of %lld samples, %lld gradients of each\n", "mini-batches",
                 static_cast<long long>(result.batches), static_cast<long long>(result.batch),
                 static_cast<long long>(result.repeats));
  text += Format("  %-22s %.4g over %lld parameters\n", "norm, exact", result.gradient_norm,
                 static_cast<long long>(result.parameters));
  text += Format("  %-22s %zu of %zu\n", "edges with an error", result.codes, result.saved_edges);
  if (result.rerun_codes > 0)
    text += Format("  %-22s %zu codes within the backward pass\n", "re-run", result.rerun_codes);
  if (result.rounded_products > 0)
    text += Format("  %-22s %zu, in float32 here (docs/gradient_variance.md)\n", "rounded products",
                   result.rounded_products);
  text += Format("  %-22s %s\n", "variance v",
                 WithError(result.total.variance, result.total.variance_error).c_str());
  text +=
      Format("  %-22s %s\n", "squared bias b", WithError(result.total.bias, result.total.bias_error).c_str());
  if (!result.edges.empty())
    text += Format("  %-22s %.3g\n", result.rerun_codes > 0 ? "sum of v, re-run too" : "sum of the edges' v",
                   SumOfEdges(result));
  if (result.reference) text += Against(*result.reference);

  std::vector<EdgeVariance> edges = result.edges;
  std::stable_sort(edges.begin(), edges.end(), [](const EdgeVariance& a, const EdgeVariance& b) {
    return a.estimate.variance > b.estimate.variance;
  });
  const auto split = std::stable_partition(
      edges.begin(), edges.end(), [&](const EdgeVariance& edge) { return edge.edge < result.saved_edges; });
  text += Table("Each edge alone, all others exact:", plan, result, {edges.begin(), split});
  text +=
      Table("What the backward pass recomputes and encodes, each alone:", plan, result, {split, edges.end()});
  return text;
}

std::string GradientVarianceJson(const Plan& plan, const GradientVariance& result, uint64_t seed) {
  llvm::json::Array edges, rerun;
  for (const EdgeVariance& edge : result.edges) {
    const SavedEdge& saved = plan.edges[edge.edge];
    llvm::json::Object json{{"name", JsonText(saved.name)},
                            {"form", JsonText(saved.form)},
                            {"bits", saved.bits},
                            {"bytes", saved.bytes.At(result.batch)}};
    AddEstimate(json, edge.estimate);
    (edge.edge < result.saved_edges ? edges : rerun).push_back(std::move(json));
  }
  int64_t saved_bytes = 0, uncompressed = 0;
  for (size_t e = 0; e < result.saved_edges; ++e) {
    const SavedEdge& saved = plan.edges[e];
    saved_bytes += saved.bytes.At(result.batch);
    uncompressed += saved.bytes_uncompressed.At(result.batch);
  }
  llvm::json::Object json{{"model", JsonText(plan.model_name)},
                          {"level", JsonText(plan.level)},
                          {"batch", result.batch},
                          {"seed", seed},
                          {"mini_batches", result.batches},
                          {"repeats", result.repeats},
                          {"rounded_products", static_cast<int64_t>(result.rounded_products)},
                          {"gradient_norm", NumberOrNull(result.gradient_norm)},
                          {"saved_bytes", saved_bytes},
                          {"saved_bytes_uncompressed", uncompressed}};
  AddEstimate(json, result.total);
  if (result.reference) json["reference"] = AgainstJson(*result.reference);
  if (!result.edges.empty()) json["sum_of_edges"] = NumberOrNull(SumOfEdges(result));
  json["edges"] = std::move(edges);
  json["rerun"] = std::move(rerun);
  return llvm::formatv("{0:2}\n", llvm::json::Value(std::move(json))).str();
}

}  // namespace act
