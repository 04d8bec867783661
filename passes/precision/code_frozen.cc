// --frozen-weights: parameters that do not train lie in the arena as codes. A product that multiplies one reads a copy,
// which a loop decodes right before it. So of all these weights, one or two exist as numbers at a time. Whatever else
// reads such a weight, as DoRA takes its norms, gets a copy, too.
//
// Some nodes read the code itself (RuntimeOp::decodes): a lookup, which decodes the rows that it takes, and products of
// large weights, as the last layer of a language model, which decode a piece at a time.
//
// The codes are made when the weights are loaded, rounded to nearest: a weight has the same error in every step, which
// belongs to the model that is trained. What no product and no lookup reads stays float32: scales and shifts are small,
// and a loop that computes with them may not bear their errors.
//
// What is decoded is float32 here. Under --compute=bf16, narrow-values makes the factors of matrix products bfloat16. A
// weight that is stored in bfloat16 needs no loop then: the product reads it.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "compiler/ops/expr_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "passes/precision/round_factors.h"
#include "runtime/plan/alias.h"
#include "runtime/plan/operand_extents.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

// Smaller ones take few bytes, and a loop of their own would cost more time than they are worth.
constexpr int64_t kLeastElements = 4096;

// A product decodes a weight of so many elements in pieces: the copy in bfloat16 of a smaller one takes no more memory
// than the pieces (kCodedPiecesBytes, kRoundedSumBytes).
constexpr int64_t kLeastElementsOfPieces = 8 << 20;
// A convolution decodes into the layout that it multiplies, beside some rows in float32 (kCodedRowsBytes). A copy would
// be float32, too.
constexpr int64_t kLeastElementsOfConvolution = 2 << 20;

// Whether the node multiplies operand i, as it does a weight. A third operand is a bias.
bool IsFactor(const Node& node, size_t i) {
  const Product product = OpOf(node).product;
  return i < 2 && (product == Product::kMatrix || product == Product::kConvolution ||
                   product == Product::kTransposedConvolution);
}

// Whether operand i is a table of which the node takes rows.
bool IsTable(const Node& node, size_t i) { return i == 0 && OpOf(node).movement == Movement::kGather; }

// What an embedding looks up is the start of all that follows, and no product averages its error: in a small GPT, two
// tables in 4 bits did more to the gradient than 24 weights (docs/measurements/frozen_weights.md). So they have 8.
Codec OfTable(const Codec& codec) {
  if (codec.IsCast() || codec.bits >= 8) return codec;
  return Codec::Uniform(8, kDefaultGroupSize, Rounding::kNearest);
}

// A model may say that what does not train is a buffer.
bool IsWeight(const Value& value) {
  return value.kind == ValueKind::kParameter || value.kind == ValueKind::kBuffer;
}

class Coder {
 public:
  Coder(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), root_(AliasRoots(graph)), from_inputs_(graph), coded_(graph) {
    for (const ValueId v : graph.inputs) from_inputs_[v] = true;
    for (const Node& node : graph.nodes) {
      const bool any = FollowsFromInputs(node);
      for (const ValueId v : node.outputs) from_inputs_[v] = any;
    }
  }

  void Run() {
    for (const auto& [v, codec] : context_.training ? CodesOfTraining() : CodesOfReaders()) {
      Value& value = graph_.value(v);
      value.coded = std::make_shared<CodedParameter>(CodedParameter{codec, value.type});
      value.type = *value.coded->ArenaType();
      coded_[v] = true;
    }
    const std::vector<Node> nodes = std::exchange(graph_.nodes, {});
    for (const Node& node : nodes) Rewrite(node);
  }

 private:
  using Codes = std::vector<std::pair<ValueId, Codec>>;

  ValueId Root(ValueId v) const { return root_[static_cast<size_t>(v)]; }
  bool IsCoded(ValueId v) const { return v != kNoValue && coded_[Root(v)]; }
  bool FollowsFromInputs(const Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [this](ValueId v) { return from_inputs_[v]; });
  }

  // Both steps read the same parameters, so evaluation takes what training chose.
  Codes CodesOfTraining() const {
    Codes codes;
    for (const Value& value : context_.training->values)
      for (ValueId v = 0; value.coded && v < static_cast<ValueId>(graph_.values.size()); ++v)
        if (IsWeight(graph_.value(v)) && graph_.value(v).name == value.name)
          codes.emplace_back(v, value.coded->codec);
    return codes;
  }

  Codes CodesOfReaders() const {
    ValueMap<bool> multiplied(graph_), looked_up(graph_), kept(graph_);
    for (const ValueId v : graph_.outputs) kept[Root(v)] = true;
    for (const Node& node : graph_.nodes) {
      for (const int32_t at : node.mutates) kept[Root(node.inputs[static_cast<size_t>(at)])] = true;
      for (size_t i = 0; i < node.inputs.size() && !IsAlias(node); ++i) {
        const ValueId v = node.inputs[i];
        if (v == kNoValue) continue;
        if (IsFactor(node, i)) multiplied[Root(v)] = true;
        if (IsTable(node, i) && Root(v) == v) looked_up[Root(v)] = true;
      }
    }
    Codes codes;
    for (ValueId v = 0; v < static_cast<ValueId>(graph_.values.size()); ++v) {
      const Value& value = graph_.value(v);
      if (!IsWeight(value) || value.type.dtype != DType::kFloat32 || context_.marks[v].trained >= 0 ||
          kept[v] || !(multiplied[v] || looked_up[v]) || value.type.Elements().fixed < kLeastElements)
        continue;
      codes.emplace_back(v, looked_up[v] ? OfTable(*context_.frozen_weights) : *context_.frozen_weights);
    }
    return codes;
  }

  // Whether the node decodes operand i itself.
  bool Decodes(const Node& node, size_t i) const {
    if (Root(node.inputs[i]) != node.inputs[i] || !DecodesOperand(graph_, node, i)) return false;
    if (IsTable(node, i)) return true;
    const TensorType& type = OperandType(graph_, node, i);
    const int64_t elements = type.Elements().fixed;
    if (OpOf(node).product != Product::kMatrix)
      return node.attrs.Int("group", 1) == 1 && WindowTaps(type) > 1 &&
             elements >= kLeastElementsOfConvolution;
    const bool has_bias = node.inputs.size() > 2 && node.inputs[2] != kNoValue;
    return !has_bias && elements >= kLeastElementsOfPieces;
  }

  // Appends the node, with what decodes its operands before it.
  void Rewrite(Node node) {
    if (IsAlias(node)) {  // of a code it would be nonsense; each reader gets its own
      if (!IsCoded(node.inputs[0])) graph_.nodes.push_back(std::move(node));
      return;
    }
    std::vector<Node> after;
    const Node old = node;
    if (OpOf(node).product != Product::kNone &&
        !std::any_of(node.inputs.begin(), node.inputs.end(),
                     [this](ValueId v) { return IsCoded(v) && Root(v) == last_parameter_; }))
      last_parameter_ = kNoValue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!IsCoded(node.inputs[i])) continue;
      if (Decodes(node, i)) continue;
      const ValueId parameter = Root(node.inputs[i]);
      const bool is_bfloat16 = graph_.value(parameter).coded->codec.IsCast();
      if (is_bfloat16 && IsTable(old, i) && node.inputs[i] == parameter) {
        const Value rows = graph_.value(node.outputs[0]);
        node.outputs[0] = AddValue(rows.name, DType::kBFloat16, rows.type.dims);
        after.push_back(Loop(node.outputs[0], old.outputs[0], Codec(), node));
        continue;
      }
      // A matrix product reads bfloat16 as it lies in memory. A product of parameters alone is float32.
      const bool as_it_is = is_bfloat16 && context_.compute == Compute::kBFloat16 && IsFactor(old, i) &&
                            BFloat16Letter(LettersOf(old).operands, i) != '-' && FollowsFromInputs(old);
      const ValueId numbers = as_it_is           ? parameter
                              : IsFactor(old, i) ? DecodedFactor(parameter, old)
                                                 : Decoded(parameter, old);
      node.inputs[i] = InShapeOf(node.inputs[i], numbers, old);
    }
    graph_.nodes.push_back(std::move(node));
    std::move(after.begin(), after.end(), std::back_inserter(graph_.nodes));
  }

  // Where samples run in tiles, both products of a large last layer may be in one loop, before which its weight is
  // decoded. They then share a copy: no other product is between them. Under --compute=bf16 that copy is bfloat16, so
  // what is no product does not share it.
  ValueId DecodedFactor(ValueId parameter, const Node& reader) {
    if (parameter != last_parameter_ || !context_.policy.tiles_samples) {
      last_parameter_ = parameter;
      last_copy_ = Decoded(parameter, reader);
    }
    return last_copy_;
  }

  ValueId Decoded(ValueId parameter, const Node& reader) {
    const CodedParameter& coded = *graph_.value(parameter).coded;
    const ValueId copy =
        AddValue(graph_.value(parameter).name + ".decoded", DType::kFloat32, Dims(coded.type.dims));
    graph_.nodes.push_back(Loop(parameter, copy, coded.codec.IsCast() ? Codec() : coded.codec, reader));
    return copy;
  }

  // A shape of `numbers` where `read` was a shape of the parameter.
  ValueId InShapeOf(ValueId read, ValueId numbers, const Node& reader) {
    if (read == Root(read)) return numbers;
    Node shape;
    shape.op = kReshape;
    shape.name = reader.name;
    shape.phase = reader.phase;
    shape.inputs = {numbers};
    shape.outputs = {AddValue("", graph_.value(numbers).type.dtype, Dims(graph_.value(read).type.dims))};
    graph_.nodes.push_back(shape);
    return shape.outputs[0];
  }

  // to = from in the type of `to`, for the node `reader`.
  Node Loop(ValueId from, ValueId to, const Codec& codec, const Node& reader) const {
    Node loop;
    loop.op = kFused;
    loop.name = (IsWeight(graph_.value(from)) ? graph_.value(from).name : reader.name) + ".decode";
    loop.phase = reader.phase;
    loop.inputs = {from};
    loop.outputs = {to};
    ExprBuilder b;
    b.Output(OutputKind::kStore, b.Input({.codec = codec}));
    loop.program = b.Finish(graph_.value(to).type.dims);
    return loop;
  }

  ValueId AddValue(const std::string& name, DType dtype, Dims dims) {
    Value value;
    value.name = name;
    value.type = {dtype, std::move(dims)};
    graph_.values.push_back(std::move(value));
    return static_cast<ValueId>(graph_.values.size()) - 1;
  }

  Graph& graph_;
  PassContext& context_;
  const std::vector<ValueId> root_;
  ValueMap<bool> from_inputs_;  // follows from the samples
  ValueMap<bool> coded_;        // parameters
  // What was decoded last, if no product has read anything else since.
  ValueId last_parameter_ = kNoValue, last_copy_ = kNoValue;
};

}  // namespace

llvm::Error CodeFrozen(Graph& graph, PassContext& context) {
  Coder(graph, context).Run();
  return llvm::Error::success();
}

}  // namespace act
