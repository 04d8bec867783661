// Under --compute=bf16: makes activations and their gradients bfloat16, by the types of values
// alone. What a product multiplies and makes is bfloat16, and so is what ChoosePrecision marked.
// Loops read and store such values and compute in float32. Statistics, sums, losses, gradients of
// parameters and what is kept between steps stay float32: the rows of runtime operators say where
// bfloat16 may stand (BFloat16s). If a product multiplies a value that cannot be bfloat16, a loop
// rounds a copy. A parameter needs none: the product's kernel rounds it in its scratch space.
//
// Values that must have one type (those that an operator marks 's', or shapes of the same bytes)
// are decided together.
#include <algorithm>
#include <numeric>
#include <vector>

#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "passes/precision/round_factors.h"
#include "passes/precision/round_inputs.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

class Narrower {
 public:
  Narrower(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), from_inputs_(graph), class_(graph.values.size()) {
    std::iota(class_.begin(), class_.end(), 0);
    for (const ValueId v : graph.inputs) {
      from_inputs_[v] = true;
      has_samples_ |= !graph.value(v).type.Elements().IsFixed();
    }
  }

  llvm::Error Run() {
    FindProducts();
    JoinClasses();
    for (std::vector<bool>* facts : {&wanted_, &fixed_, &precise_, &computed_with_})
      facts->assign(class_.size(), false);
    for (ValueId v = 0; v < static_cast<ValueId>(graph_.values.size()); ++v) Consider(v);
    for (const ValueId v : graph_.outputs) fixed_[Class(v)] = true;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) ConsiderNode(i);
    for (const Node& node : graph_.nodes) PassOn(node);
    for (ValueId v = 0; v < static_cast<ValueId>(class_.size()); ++v)
      if (IsNarrow(v)) graph_.value(v).type.dtype = DType::kBFloat16;
    RoundFactors(graph_, context_.marks, narrowed_, from_inputs_);
    UpdateEdges();
    return llvm::Error::success();
  }

 private:
  size_t Class(ValueId v) {
    auto c = static_cast<size_t>(v);
    while (class_[c] != c) c = class_[c] = class_[class_[c]];
    return c;
  }

  // Whether the node multiplies what follows from the samples. A product of parameters alone stays
  // float32.
  void FindProducts() {
    for (const Node& node : graph_.nodes) {
      const bool any =
          std::any_of(node.inputs.begin(), node.inputs.end(), [this](ValueId v) { return from_inputs_[v]; });
      for (const ValueId v : node.outputs) from_inputs_[v] = any;
      narrowed_.push_back(any && OpOf(node).product != Product::kNone);
    }
  }

  void JoinClasses() {
    for (const Node& node : graph_.nodes) {
      if (OpOf(node).product != Product::kNone) continue;
      ValueId first = kNoValue;
      const auto join = [&](ValueId v, char letter) {
        if (v == kNoValue || letter != 's') return;
        if (first == kNoValue) first = v;
        class_[Class(v)] = Class(first);
      };
      for (size_t i = 0; i < node.inputs.size(); ++i)
        join(node.inputs[i], BFloat16Letter(LettersOf(node).operands, i));
      for (size_t i = 0; i < node.outputs.size(); ++i)
        join(node.outputs[i], BFloat16Letter(LettersOf(node).results, i));
    }
  }

  void Consider(ValueId v) {
    const Value& value = graph_.value(v);
    const Precision precision = context_.marks[v].precision;
    if (value.kind != ValueKind::kActivation || value.type.dtype != DType::kFloat32) fixed_[Class(v)] = true;
    if (precision == Precision::kFloat32) precise_[Class(v)] = true;
    if (precision == Precision::kBFloat16) wanted_[Class(v)] = true;
  }

  void ConsiderNode(size_t at) {
    const Node& node = graph_.nodes[at];
    const bool product = OpOf(node).product != Product::kNone;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (v == kNoValue) continue;
      const char letter = BFloat16Letter(LettersOf(node).operands, i);
      if (letter == '-' || (product && !narrowed_[at]))
        fixed_[Class(v)] = true;
      else if (product)
        wanted_[Class(v)] = true;
      else if (!IsAlias(node))
        computed_with_[Class(v)] = true;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId v = node.outputs[i];
      const char letter = BFloat16Letter(LettersOf(node).results, i);
      const bool stored = !RunsProgram(node) || node.program.outputs[i].kind == OutputKind::kStore;
      // Sums over samples are float32: the gradients of weights, for example.
      const bool sum = product && has_samples_ && graph_.value(v).type.Elements().IsFixed();
      if (letter == '-' || !stored || sum || (product && !narrowed_[at]))
        fixed_[Class(v)] = true;
      else if (product)
        wanted_[Class(v)] = true;
    }
  }

  bool IsNarrow(ValueId v) {
    const size_t c = Class(v);
    return wanted_[c] && !fixed_[c] && !(precise_[c] && computed_with_[c]);
  }

  // What a loop of the backward pass computes from bfloat16 alone is bfloat16, unless it is marked:
  // the gradients that no forward value has, and functions of forward values that are computed again.
  void PassOn(const Node& node) {
    if (!RunsProgram(node) || node.phase == Phase::kForward || node.phase == Phase::kUpdate) return;
    bool any = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value& value = graph_.value(node.inputs[i]);
      if (node.program.inputs[i].codec.kind != CodecKind::kNone || value.type.dims != node.program.space)
        continue;
      if (!IsNarrow(node.inputs[i])) return;
      any = true;
    }
    if (!any) return;
    for (const ValueId v : node.outputs) wanted_[Class(v)] = true;
  }

  void UpdateEdges() {
    const std::vector<ValueId> stored = StoredValues(context_.marks, context_.edges.size());
    for (size_t e = 0; e < stored.size(); ++e) {
      if (stored[e] == kNoValue || graph_.value(stored[e]).type.dtype != DType::kBFloat16) continue;
      SavedEdge& edge = context_.edges[e];
      edge.form = "bf16";
      edge.bits = 8 * static_cast<double>(ByteSize(DType::kBFloat16));
      edge.bytes = graph_.value(stored[e]).type.Bytes();
    }
  }

  Graph& graph_;
  PassContext& context_;
  bool has_samples_ = false;    // the batch size is free
  ValueMap<bool> from_inputs_;  // follows from the samples
  std::vector<bool> narrowed_;  // by node: multiplies bfloat16
  std::vector<size_t> class_;   // union-find over values
  // By class: is to be bfloat16; must stay as it is; is float32 by its marks; is read by other nodes
  // than products.
  std::vector<bool> wanted_, fixed_, precise_, computed_with_;
};

}  // namespace

llvm::Error NarrowValues(Graph& graph, PassContext& context) {
  RoundInputs(graph, context.marks, context.edges);
  return Narrower(graph, context).Run();
}

}  // namespace act
