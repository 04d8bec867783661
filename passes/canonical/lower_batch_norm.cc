// Lowers BatchNorm, Dropout and the dropout of Attention to their form for training (batch
// statistics, a random mask) or for evaluation (stored statistics, no mask). What is random gets its stream.
#include <array>
#include <map>

#include "compiler/ir/replace.h"
#include "compiler/ops/graph_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "runtime/base/error.h"

namespace act {
namespace {

// Inputs of BatchNorm: x, gamma, beta, running_mean?, running_var?. Results: y, mean, rstd.
llvm::Expected<std::array<ValueId, 3>> Lower(GraphBuilder& builder, const Node& node, bool batch_statistics) {
  const auto& in = node.inputs;
  const bool stored = in.size() == 5;
  batch_statistics |= !stored;
  Attributes apply;
  apply.Set("batch", int64_t{batch_statistics});
  ValueId mean = kNoValue, rstd = kNoValue;
  if (batch_statistics) {
    Attributes stats;
    stats.Set("epsilon", node.attrs.Float("epsilon", 1e-5));
    stats.Set("momentum", node.attrs.Float("momentum", .1));
    for (const char* optional : {"updates_done", "population"})
      if (node.attrs.Has(optional)) stats.Set(optional, node.attrs.Int(optional));
    std::vector<ValueId> operands{in[0]};
    if (stored) operands.insert(operands.end(), {in[3], in[4]});
    ACT_TRY(const auto out, builder.Add("BatchNormStats", operands, stats, node.name + ".stats", 2));
    mean = out[0];
    rstd = out[1];
  } else {
    mean = in[3];
    Attributes epsilon;
    epsilon.Set("epsilon", node.attrs.Float("epsilon", 1e-5));
    ACT_TRY(rstd, builder.Add1("InverseDeviation", {in[4]}, epsilon, node.name + ".rstd"));
  }
  ACT_TRY(const ValueId y,
          builder.Add1("BatchNormApply", {in[0], mean, rstd, in[1], in[2]}, apply, node.name));
  return std::array{y, mean, rstd};
}

// Nodes with the same attribute `mask` (a dropout and its gradient in the model) share one stream
// of random numbers.
void SetStream(Node& node, std::map<int64_t, int64_t>& streams, PassContext& context) {
  const auto [it, added] = streams.emplace(node.attrs.Int("mask", -1), context.next_stream);
  if (added || !node.attrs.Has("mask")) it->second = context.next_stream++;
  node.attrs.Set("stream", it->second);
}

llvm::Error LowerAll(Graph& graph, PassContext& context, bool training) {
  Replacements replacements(graph, context.marks);
  std::map<int64_t, int64_t> streams;
  std::vector<Node> nodes = std::move(graph.nodes);
  graph.nodes.clear();
  GraphBuilder builder(graph);
  for (Node& node : nodes) {
    replacements.Update(node);
    if (node.op == "BatchNorm") {
      const bool frozen = node.attrs.Int("frozen") != 0;
      ACT_TRY(const auto results, Lower(builder, node, training && !frozen));
      for (size_t i = 0; i < node.outputs.size(); ++i) replacements.Replace(node.outputs[i], results[i]);
    } else if (node.op == "Dropout" && (!training || node.attrs.Float("probability") == 0)) {
      replacements.Replace(node.outputs[0], node.inputs[0]);
    } else {
      if (node.op == "Attention" && !training) node.attrs.Set("probability", 0.0);
      const bool draws = node.op != "Attention" || node.attrs.Float("probability") > 0;
      if (OpOf(node).random && draws) SetStream(node, streams, context);
      graph.nodes.push_back(std::move(node));
    }
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Error LowerForTraining(Graph& graph, PassContext& context) { return LowerAll(graph, context, true); }
llvm::Error LowerForEvaluation(Graph& graph, PassContext& context) { return LowerAll(graph, context, false); }

}  // namespace act
