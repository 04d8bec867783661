// Every BatchNormalization is imported in training mode, with batch statistics, unless --freeze-bn or
// a note of the Python helper at its running mean keeps the stored ones. Its number of outputs says
// nothing: the dynamo exporter writes one output, the inference form, even for a model in training
// mode. The outputs for running statistics (2 since opset 14, 4 before) are the update that our
// operator makes in place.
//
// Where the running statistics are no initializers, none are stored. Exporters compute them from the
// operand itself for a BatchNorm without running statistics, and for a convolution's weight that a
// model standardizes. Then batch statistics are all there is, in evaluation too.
#include "compiler/import/ops/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/ops/op_table.h"

namespace act::onnx_import {
namespace {

using Values = std::vector<ValueId>;

// The operands of a BatchNormalization, as ONNX numbers them.
enum : size_t { kX, kScale, kBias, kMean, kVariance };

bool IsStored(const Graph& graph, ValueId v) {
  const ValueKind kind = graph.value(v).kind;
  return kind == ValueKind::kParameter || kind == ValueKind::kBuffer;
}

// These values and all that they are computed from.
std::set<ValueId> Ancestors(const Graph& graph, std::set<ValueId> values) {
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node)
    for (const ValueId result : node->outputs)
      if (values.count(result)) values.insert(node->inputs.begin(), node->inputs.end());
  values.erase(kNoValue);
  return values;
}

// Whether these statistics of x follow from stored tensors alone, and from others than x does.
bool FollowFromStored(const Graph& graph, std::set<ValueId> statistics, ValueId x) {
  const std::set<ValueId> of_x = Ancestors(graph, {x}),
                          of_statistics = Ancestors(graph, std::move(statistics));
  const auto any = [&](auto&& holds) {
    return std::any_of(of_statistics.begin(), of_statistics.end(), holds);
  };
  return any([&](ValueId v) { return !of_x.count(v) && IsStored(graph, v); }) &&
         !any([&](ValueId v) { return graph.value(v).kind == ValueKind::kInput; });
}

const Node* MakerOf(const Graph& graph, ValueId v) {
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node)
    for (const ValueId result : node->outputs)
      if (result == v) return &*node;
  return nullptr;
}

// The operand of v, a mean over all axes but 1 of an operand of this rank; else kNoValue.
ValueId MeanOverChannels(const Graph& graph, ValueId v, int64_t rank) {
  const Node* mean = MakerOf(graph, v);
  while (mean && OpOf(*mean).movement == Movement::kReshape) mean = MakerOf(graph, mean->inputs[0]);
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i)
    if (i != 1) axes.push_back(i);
  return mean && mean->op == "ReduceMean" && mean->attrs.Ints("axes") == axes ? mean->inputs[0] : kNoValue;
}

// One number for each channel, in the shape that broadcasts against [N, C, S..].
Dims ChannelDims(NodeContext& c) {
  Dims dims(static_cast<size_t>(c.Type(kX).rank()) - 1, Dim(1));
  dims[0] = c.DimsOf(kX)[1];
  return dims;
}

// The Sub whose square v is.
const Node* SquaredSub(const Graph& graph, ValueId v) {
  const Node* product = MakerOf(graph, v);
  if (!product) return nullptr;
  const bool square =
      product->op == "Square" || (product->op == "Mul" && product->inputs[0] == product->inputs[1]);
  const Node* sub = square ? MakerOf(graph, product->inputs[0]) : nullptr;
  return sub && sub->op == "Sub" ? sub : nullptr;
}

// The mean and variance of x that the dynamo exporter computes for a BatchNorm without stored ones.
bool AreStatisticsOf(const Graph& graph, ValueId x, ValueId mean, ValueId variance) {
  const int64_t rank = graph.value(x).type.rank();
  if (MeanOverChannels(graph, mean, rank) != x) return false;
  const ValueId squares = MeanOverChannels(graph, variance, rank);
  const Node* sub = squares == kNoValue ? nullptr : SquaredSub(graph, squares);
  return sub && sub->inputs[0] == x && MeanOverChannels(graph, sub->inputs[1], rank) == x;
}

// The result where no statistics are stored: by those of the batch.
llvm::Expected<ValueId> NormalizeByBatch(NodeContext& c, const Values& in) {
  Attributes attrs;
  attrs.Set("epsilon", c.attrs.Float("epsilon", 1e-5));
  const int64_t rank = c.Type(kX).rank();
  if (rank == 2) return c.Emit("BatchNorm", {in[kX], in[kScale], in[kBias]}, attrs);
  if (c.DimsOf(kX)[0] != Dim(1)) {
    ACT_TRY(const ValueId x, c.ToChannelsLast(in[kX]));
    ACT_TRY(const ValueId y, c.Emit("BatchNorm", {x, in[kScale], in[kBias]}, attrs));
    return c.ToChannelsFirst(y);
  }
  // One sample, as a standardized weight is: [1, C, S..] has C rows, and needs no other layout.
  std::vector<int64_t> axes;
  for (int64_t i = 2; i < rank; ++i) axes.push_back(i);
  attrs.Set("axes", axes);
  ACT_TRY(const ValueId scale, c.Reshape(in[kScale], ChannelDims(c)));
  ACT_TRY(const ValueId bias, c.Reshape(in[kBias], ChannelDims(c)));
  return c.Emit("LayerNorm", {in[kX], scale, bias}, attrs);
}

// The result by the numbers that the inputs have, wherever these come from.
llvm::Expected<ValueId> NormalizeByInputs(NodeContext& c, Values in) {
  for (size_t i : {kScale, kBias, kMean, kVariance}) {
    ACT_TRY(in[i], c.Reshape(in[i], ChannelDims(c)));
  }
  const ValueId epsilon = c.builder().Scalar(static_cast<float>(c.attrs.Float("epsilon", 1e-5)));
  ACT_TRY(const ValueId shifted, c.Emit("Add", {in[kVariance], epsilon}));
  ACT_TRY(const ValueId deviation, c.Emit("Sqrt", {shifted}));
  ACT_TRY(const ValueId centred, c.Emit("Sub", {in[kX], in[kMean]}));
  ACT_TRY(const ValueId normalized, c.Emit("Div", {centred, deviation}));
  ACT_TRY(const ValueId scaled, c.Emit("Mul", {normalized, in[kScale]}));
  return c.Emit("Add", {scaled, in[kBias]});
}

llvm::Error ImportWithoutStored(NodeContext& c, const Values& in) {
  const Graph& graph = c.builder().graph();
  if (FollowFromStored(graph, {in[kMean], in[kVariance]}, in[kX]))
    return c.Fail("running statistics are computed from stored ones, which is not supported",
                  "an InstanceNorm with track_running_stats=False keeps none");
  const bool trains = c.attrs.Int("training_mode") != 0 || c.WantsOutput(1);
  const bool of_batch = trains || AreStatisticsOf(graph, in[kX], in[kMean], in[kVariance]);
  return c.Return(of_batch ? NormalizeByBatch(c, in) : NormalizeByInputs(c, in));
}

}  // namespace

llvm::Error ImportBatchNormalization(NodeContext& c) {
  if (c.attrs.Int("spatial", 1) == 0)  // until opset 8
    return c.Fail("statistics of each element (spatial=0) are not supported");
  if (c.Type(kX).rank() < 2)
    return c.Fail("its operand, " + ToString(c.Type(kX)) + ", has no axis of channels");
  for (size_t i : {kScale, kBias, kMean, kVariance})
    if (c.Type(i).rank() != 1) return c.Fail("operand " + std::to_string(i) + " must have one axis");
  Values operands;
  for (size_t i : {kX, kScale, kBias, kMean, kVariance}) {
    ACT_TRY(const ValueId value, c.Value(i));
    operands.push_back(value);
  }
  const bool internal = c.node.op_type() == "BatchNormInternal";
  const Graph& graph = c.builder().graph();
  if (!internal && !(IsStored(graph, operands[kMean]) && IsStored(graph, operands[kVariance])))
    return ImportWithoutStored(c, operands);
  const bool spatial = c.Type(kX).rank() > 2;
  if (spatial) {
    ACT_TRY(operands[kX], c.ToChannelsLast(operands[kX]));
  }
  Attributes attrs;
  attrs.Set("epsilon", c.attrs.Float("epsilon", 1e-5));
  // ONNX: running = m running + (1 - m) new; PyTorch: (1 - m) running + m new. Rounded to 9 digits,
  // so that 1 - 0.9 gives 0.1.
  const double momentum = 1 - c.attrs.Float("momentum", .9);
  attrs.Set("momentum", std::round(momentum * 1e9) / 1e9);
  // TorchScript's exporter traces a model in training mode by running it once, and so writes
  // running statistics that hold one update by the example inputs. That run counts as the first
  // step's: after step k they hold k updates, as PyTorch's do. Only this form has outputs for the
  // statistics.
  const bool onnx = c.importer.onnx_statistics;
  if (c.WantsOutput(1) && !internal && !onnx) attrs.Set("updates_done", int64_t{1});
  // ONNX Runtime's form for training: the batch's mean and 1 / deviation are results too, for its
  // gradient.
  if (internal || onnx) attrs.Set("population", int64_t{1});
  const bool stored = c.importer.stored_statistics.count(c.node.input(kMean)) > 0;
  attrs.Set("frozen", int64_t{c.importer.freeze_bn || stored});
  ACT_TRY(const std::vector<ValueId> results,
          c.builder().Add("BatchNorm", std::move(operands), attrs, c.name(), internal ? 3 : 1));
  if (internal) {
    ACT_CHECK_OK(c.Set(3, results[1]));
    ACT_CHECK_OK(c.Set(4, results[2]));
  }
  return spatial ? c.Return(c.ToChannelsFirst(results[0])) : c.Set(0, results[0]);
}

}  // namespace act::onnx_import
