#include "compiler/import/core/running_statistics.h"

#include <algorithm>
#include <map>

#include "compiler/ops/op_table.h"
#include "runtime/base/error.h"

namespace act::onnx_import {
namespace {

constexpr size_t kMean = 3, kVariance = 4;  // operands of a BatchNormalization, and of our BatchNorm

bool HasStatistics(const Node& node) {
  const Normalization& norm = OpOf(node).norm;
  return norm.role == Normalization::Role::kWhole && !norm.by_rows && node.inputs.size() > kVariance;
}
bool UpdatesStatistics(const Node& node) { return HasStatistics(node) && node.attrs.Int("frozen") == 0; }

}  // namespace

std::set<std::string> RunningStatistics(const std::vector<const onnx::NodeProto*>& nodes) {
  std::set<std::string> names;
  for (const onnx::NodeProto* node : nodes)
    if (node->op_type() == "BatchNormalization" && node->input_size() == 5)
      names.insert({node->input(kMean), node->input(kVariance)});
  return names;
}

bool HasRunningStatistics(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), HasStatistics);
}

llvm::Error CheckRunningStatistics(const Graph& graph) {
  std::map<ValueId, size_t> statistics;  // the operand as which each is updated
  for (const Node& node : graph.nodes)
    if (UpdatesStatistics(node))
      for (const size_t k : {kMean, kVariance}) statistics.emplace(node.inputs[k], k);
  for (const Node& node : graph.nodes)
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const auto found = statistics.find(node.inputs[k]);
      if (found == statistics.end() || (UpdatesStatistics(node) && found->second == k)) continue;
      const std::string name = graph.value(node.inputs[k]).name;
      return MakeError("node '" + node.name + "'",
                       "reads '" + name + "', which is a running " +
                           (found->second == kMean ? "mean" : "variance") + " of a BatchNormalization, too",
                       "exporters that merge equal tensors make one of two: export without that "
                       "(optimize=False)");
    }
  return llvm::Error::success();
}

}  // namespace act::onnx_import
