// Recurrent cells: Lstm, Gru, Rnn. One node runs the time loop of one direction of one layer.
// Tensors are batch-major: x [N,T,G H] holds the input's contribution to the G pre-activations of
// each of H units, biases included. The products with the input and its weights are therefore
// ordinary matrix products outside the loop. The backward pass works alike: the loop makes the
// gradient of x, and the gradients of all weights are products of it over all steps at once.
//
// The forward pass stores no gates. It stores the slopes with which the backward pass multiplies
// (for Lstm: those of c's gradient for the gates i, f, g). The gradient is then a sum over paths
// that read each slope at most once, so that unbiased codes of the slopes give an unbiased
// gradient. i (1 - i) of a decoded i would be biased.
#include <algorithm>
#include <cctype>
#include <map>
#include <string>

#include "compiler/ops/grad_context.h"
#include "compiler/ops/op_table.h"
#include "runtime/plan/recurrent_signature.h"

namespace act {
namespace {

using Ints = std::vector<int64_t>;

// Infers types by the operator's signature.
llvm::Error Infer(InferContext& c) {
  const RecurrentSignature& signature = *FindRecurrentSignature(c.node.op);
  const TensorType &x = c.in(0), &weights = c.in(signature.inputs.find('W'));
  if (x.rank() != 3 || weights.rank() != 2 || !x.dims[1].IsFixed() || x.dims[1].fixed < 1 ||
      !weights.dims[1].IsFixed())
    return c.Fail("pre-activations " + ToString(x) + " and recurrent weights " + ToString(weights) +
                  " are not [N,T,GH] and [GH,H] with known T >= 1 and H");
  const Dim n = x.dims[0], t = x.dims[1], h = weights.dims[1], gates = h * Dim(signature.gates);
  const auto type = [&](char letter) {
    switch (std::toupper(letter)) {
      case 'G':
        return TensorType{DType::kFloat32, {n, t, gates}};
      case 'S':
        return TensorType{DType::kFloat32, {n, t, h}};
      case 'N':
        return TensorType{DType::kFloat32, {n, h}};
      case 'H':
        return TensorType{DType::kFloat32, {h}};
      default:
        return TensorType{DType::kFloat32, {gates, h}};
    }
  };
  for (size_t i = 0; i < c.inputs.size(); ++i)
    if (c.Has(i) && c.in(i) != type(signature.inputs[i]))
      return c.Fail("operand " + std::to_string(i) + " is " + ToString(c.in(i)) + ", must be " +
                    ToString(type(signature.inputs[i])));
  if (c.outputs.size() != signature.outputs.size())
    return c.Fail("makes " + std::to_string(signature.outputs.size()) + " results, not " +
                  std::to_string(c.outputs.size()));
  for (size_t o = 0; o < c.outputs.size(); ++o) c.outputs[o] = type(signature.outputs[o]);
  return llvm::Error::success();
}

// 2 flops for each weight, sample and step.
Dim Flops(const Node& node, const Graph& graph) {
  const size_t weights = FindRecurrentSignature(node.op)->inputs.find('W');
  const Dims& x = graph.value(node.inputs[0]).type.dims;
  return x[0] * x[1] * graph.value(node.inputs[weights]).type.Elements() * Dim(2);
}

// ---- gradients

ValueId SliceAxis(GradContext& g, ValueId x, size_t axis, int64_t start, const Dim& extent) {
  if (x == kNoValue) return x;
  TensorType type = g.type(x);
  Attributes attrs;
  Ints starts(type.dims.size(), 0);
  starts[axis] = start;
  attrs.Set("starts", starts);
  attrs.Set("steps", Ints(type.dims.size(), 1));
  type.dims[axis] = extent;
  return g.EmitTyped("Slice", {x}, type, attrs);
}

ValueId Rows(GradContext& g, ValueId x) {
  if (x == kNoValue) return x;
  const Dims dims = g.type(x).dims;
  return g.ReshapeTo(x, {dims[0] * dims[1], dims[2]});
}

ValueId TransposedProduct(GradContext& g, ValueId a, ValueId b) {
  Attributes attrs;
  attrs.Set("trans_a", int64_t{1});
  return g.Emit("MatMul", {a, b}, attrs);
}

// The gradient of the recurrent weights from that of their products with the state, `dgates`
// [N,T,K]: a sum over steps of dgates_t^T h_(t-1). The states before each step are y moved by one
// step. The initial state, if it is not 0, adds a term of its own.
ValueId WeightGrad(GradContext& g, ValueId dgates, ValueId initial) {
  if (dgates == kNoValue) return kNoValue;
  const ValueId y = g.out();
  const bool reverse = g.attrs().Int("reverse") != 0;
  Attributes shift;
  shift.Set("mode", std::string("constant"));
  shift.Set("pads", reverse ? Ints{0, -1, 0, 0, 1, 0} : Ints{0, 1, 0, 0, -1, 0});
  const ValueId before = g.Derive("Pad", {g.Save(y)}, shift);
  ValueId dw = TransposedProduct(g, Rows(g, dgates), before == kNoValue ? before : g.DeriveRows(before));
  if (initial == kNoValue) return dw;
  const Dims dims = g.type(dgates).dims;
  const ValueId first = SliceAxis(g, dgates, 1, reverse ? dims[1].fixed - 1 : 0, 1);
  const ValueId term = TransposedProduct(g, g.ReshapeTo(first, {dims[0], dims[2]}), g.Save(initial));
  return g.Emit("Add", {dw, term});
}

void LstmGrad(GradContext& g) {
  const std::vector<ValueId> d = g.EmitMany(
      "LstmGrad",
      {g.Save(g.out(2)), g.Save(g.out(3)), g.Save(g.out(4)), g.Save(g.in(1)), g.dout(0), g.dout(1)}, 3,
      g.attrs());
  if (g.Wants(1)) g.SetGrad(1, WeightGrad(g, d[0], g.in(2)));
  if (g.Wants(0)) g.SetGrad(0, d[0]);
  if (g.Wants(2)) g.SetGrad(2, d[1]);
  if (g.Wants(3)) g.SetGrad(3, d[2]);
}

void GruGrad(GradContext& g) {
  const std::vector<ValueId> d =
      g.EmitMany("GruGrad", {g.Save(g.out(1)), g.Save(g.out(2)), g.Save(g.out(3)), g.Save(g.in(1)), g.dout()},
                 3, g.attrs());
  if (g.Wants(1) && d[0] != kNoValue) {
    // The state reaches the candidate through the reset gate. The gradient of that product is d[1].
    const ValueId gates = SliceAxis(g, d[0], 2, 0, g.type(d[1]).dims[2] * Dim(2));
    Attributes rows;
    rows.Set("axis", int64_t{0});
    g.SetGrad(1, g.Emit("Concat", {WeightGrad(g, gates, g.in(3)), WeightGrad(g, d[1], g.in(3))}, rows));
  }
  if (g.Wants(2)) g.SetGrad(2, d[1]);  // SetGrad sums over samples and steps
  if (g.Wants(0)) g.SetGrad(0, d[0]);
  if (g.Wants(3)) g.SetGrad(3, d[2]);
}

void RnnGrad(GradContext& g) {
  const std::string activation = g.attrs().String("activation");
  const ValueId slope = g.Derive(activation + "Derivative", {g.Save(g.out())});
  const std::vector<ValueId> d = g.EmitMany("RnnGrad", {slope, g.Save(g.in(1)), g.dout()}, 2, g.attrs());
  if (g.Wants(1)) g.SetGrad(1, WeightGrad(g, d[0], g.in(2)));
  if (g.Wants(0)) g.SetGrad(0, d[0]);
  if (g.Wants(2)) g.SetGrad(2, d[1]);
}

}  // namespace

void AddRecurrentOps(std::vector<OpDef>& ops) {
  const std::map<std::string_view, void (*)(GradContext&)> gradients = {
      {"Lstm", LstmGrad}, {"Gru", GruGrad}, {"Rnn", RnnGrad}};
  for (const RecurrentSignature& s : kRecurrentSignatures) {
    const auto grad = gradients.find(s.op);
    std::vector<std::pair<int, int>> in_place;
    for (size_t i = 0; i + 1 < s.in_place.size(); i += 2)
      in_place.push_back({s.in_place[i] - '0', s.in_place[i + 1] - '0'});
    ops.push_back({.name = std::string(s.op),
                   .infer = Infer,
                   .grad = grad == gradients.end() ? nullptr : grad->second,
                   .flops = Flops,
                   .in_place = std::move(in_place),
                   .gradient = grad == gradients.end()});
  }
}

}  // namespace act
