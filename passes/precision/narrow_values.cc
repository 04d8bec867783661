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
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "compiler/ir/uses.h"
#include "compiler/ops/expr_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
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
    wanted_.assign(class_.size(), false);
    fixed_.assign(class_.size(), false);
    for (ValueId v = 0; v < static_cast<ValueId>(graph_.values.size()); ++v) Consider(v);
    for (const ValueId v : graph_.outputs) fixed_[Class(v)] = true;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) ConsiderNode(i);
    for (const Node& node : graph_.nodes) PassOn(node);
    for (ValueId v = 0; v < static_cast<ValueId>(class_.size()); ++v)
      if (IsNarrow(v)) graph_.value(v).type.dtype = DType::kBFloat16;
    RoundFactors();
    UpdateEdges();
    return llvm::Error::success();
  }

 private:
  size_t Class(ValueId v) {
    auto c = static_cast<size_t>(v);
    while (class_[c] != c) c = class_[c] = class_[class_[c]];
    return c;
  }

  static const BFloat16s& Letters(const Node& node) { return FindRuntimeOp(node.op)->bfloat16; }

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
        join(node.inputs[i], BFloat16Letter(Letters(node).operands, i));
      for (size_t i = 0; i < node.outputs.size(); ++i)
        join(node.outputs[i], BFloat16Letter(Letters(node).results, i));
    }
  }

  void Consider(ValueId v) {
    const Value& value = graph_.value(v);
    const Precision precision = context_.marks[v].precision;
    if (value.kind != ValueKind::kActivation || value.type.dtype != DType::kFloat32 ||
        precision == Precision::kFloat32)
      fixed_[Class(v)] = true;
    if (precision == Precision::kBFloat16) wanted_[Class(v)] = true;
  }

  void ConsiderNode(size_t at) {
    const Node& node = graph_.nodes[at];
    const bool product = OpOf(node).product != Product::kNone;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (v == kNoValue) continue;
      const char letter = BFloat16Letter(Letters(node).operands, i);
      if (letter == '-' || (product && !narrowed_[at]))
        fixed_[Class(v)] = true;
      else if (product)
        wanted_[Class(v)] = true;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId v = node.outputs[i];
      const char letter = BFloat16Letter(Letters(node).results, i);
      const bool stored = !RunsProgram(node) || node.program.outputs[i].kind == OutputKind::kStore;
      // Sums over samples are float32: the gradients of weights, for example.
      const bool sum = product && has_samples_ && graph_.value(v).type.Elements().IsFixed();
      if (letter == '-' || !stored || sum || (product && !narrowed_[at]))
        fixed_[Class(v)] = true;
      else if (product)
        wanted_[Class(v)] = true;
    }
  }

  bool IsNarrow(ValueId v) { return wanted_[Class(v)] && !fixed_[Class(v)]; }

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

  // Whether operand i of a product is one of its factors, and float32.
  bool IsFactor(const Node& node, size_t i) const {
    return BFloat16Letter(Letters(node).operands, i) != '-' && node.inputs[i] != kNoValue &&
           graph_.value(node.inputs[i]).type.dtype == DType::kFloat32;
  }

  // The loop that rounds v to a new value.
  Node RoundingLoop(ValueId v, ValueId to, const Node& reader) const {
    Node loop;
    loop.op = kFused;
    loop.name = reader.name + (reader.name.empty() ? "" : ".") + "round";
    loop.phase = reader.phase;
    loop.inputs = {v};
    loop.outputs = {to};
    ExprBuilder b;
    b.Output(OutputKind::kStore, b.Input({}));
    loop.program = b.Finish(graph_.value(v).type.dims);
    return loop;
  }

  // A kernel rounds a factor of a matrix product that follows from parameters alone.
  bool KernelRounds(const Node& node, size_t i) const {
    return OpOf(node).product == Product::kMatrix && !from_inputs_[node.inputs[i]];
  }

  // Whether v is stored for the backward pass, and read there as a factor only. Then a copy is stored
  // in its place.
  bool StoresCopy(ValueId v, const Uses& uses) const {
    if (context_.marks[v].edges.empty() || uses.IsOutput(v)) return false;
    bool read = false;
    for (const size_t r : uses.Readers(v)) {
      const Node& node = graph_.nodes[r];
      if (node.phase == Phase::kForward) continue;
      read = true;
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (node.inputs[i] == v && (!narrowed_[r] || !IsFactor(node, i) || KernelRounds(node, i)))
          return false;
    }
    return read;
  }

  // Gives products a rounded copy of each factor that is float32. The forward and the backward pass
  // share a copy only if it is stored instead of the value: else it would live from one to the other.
  void RoundFactors() {
    const Uses uses(graph_);
    std::vector<Node> nodes;
    std::map<std::pair<ValueId, bool>, ValueId> copies;  // in the forward pass or not
    ValueMap<bool> stored(graph_);
    const auto round = [&](ValueId v, const Node& beside, bool forward) {
      const auto copy = static_cast<ValueId>(graph_.values.size());
      Value value;
      value.name = graph_.value(v).name;
      value.type = {DType::kBFloat16, graph_.value(v).type.dims};
      graph_.values.push_back(std::move(value));
      nodes.push_back(RoundingLoop(v, copy, beside));
      copies[{v, forward}] = copy;
      return copy;
    };
    for (size_t at = 0; at < graph_.nodes.size(); ++at) {
      Node node = graph_.nodes[at];
      const bool forward = node.phase == Phase::kForward;
      for (size_t i = 0; i < node.inputs.size() && narrowed_[at]; ++i) {
        const ValueId v = node.inputs[i];
        if (!IsFactor(node, i) || KernelRounds(node, i)) continue;
        const auto known = copies.find({v, forward || stored[v]});
        node.inputs[i] = known != copies.end() ? known->second : round(v, node, forward);
      }
      const std::vector<ValueId> made = node.outputs;
      nodes.push_back(std::move(node));
      for (const ValueId v : made) {
        if (!StoresCopy(v, uses)) continue;
        stored[v] = true;
        const ValueId copy = round(v, graph_.nodes[at], true);
        context_.marks[copy].edges = std::exchange(context_.marks[v].edges, {});
      }
    }
    graph_.nodes = std::move(nodes);
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
  bool has_samples_ = false;          // the batch size is free
  ValueMap<bool> from_inputs_;        // follows from the samples
  std::vector<bool> narrowed_;        // by node: multiplies bfloat16
  std::vector<size_t> class_;         // union-find over values
  std::vector<bool> wanted_, fixed_;  // by class: is to be bfloat16; must stay as it is
};

}  // namespace

llvm::Error NarrowValues(Graph& graph, PassContext& context) { return Narrower(graph, context).Run(); }

}  // namespace act
