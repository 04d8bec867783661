// Gradients of recurrent layers. Our cell's rule gives those of its pre-activations, recurrent
// weights and initial states. What multiplies with the input is outside the cell.
#include "compiler/import/training/gradient_rules.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;

// Inputs of LSTMGrad: X, W, R, sequence_lens, h0, c0, Y, all cell states, gates, dY, dY_h, dY_c.
// Inputs of GRUGrad: X, W, R, B, sequence_lens, h0, Y, gates, dY, dY_h.
// Outputs: dX, dW, dR, dB, dh0, and of LSTMGrad dc0.
struct Layer {
  Node cell;
  bool lstm;
  size_t gates_at;  // the input that stands for what our cell keeps
  Dim batch, steps, units;
};

// The gradient of the cell's states of all steps [N,T,H], from that of Y [T,1,N,H] and that of the
// last one [1,N,H].
llvm::Expected<ValueId> StateGradient(NodeContext& c, const Layer& layer) {
  ValueId dy = kNoValue;
  if (c.Has(layer.gates_at + 1)) {
    ACT_TRY(dy, c.Value(layer.gates_at + 1));
    ACT_TRY(dy, c.Reshape(dy, {layer.steps, layer.batch, layer.units}));
    ACT_TRY(dy, c.Transpose(dy, {1, 0, 2}));
  }
  if (!c.Has(layer.gates_at + 2)) return dy;
  const int64_t others = layer.steps.fixed - 1;
  Attributes pad;
  pad.Set("mode", std::string("constant"));
  pad.Set("pads",
          layer.cell.attrs.Int("reverse") != 0 ? Ints{0, 0, 0, 0, others, 0} : Ints{0, others, 0, 0, 0, 0});
  ACT_TRY(ValueId last, c.Value(layer.gates_at + 2));
  ACT_TRY(last, c.Reshape(last, {layer.batch, Dim(1), layer.units}));
  ACT_TRY(last, c.Emit("Pad", {last}, pad));
  return dy == kNoValue ? llvm::Expected<ValueId>(last) : c.Emit("Add", {dy, last});
}

// dX = dpre W and dW = dpre^T X, of the pre-activations' gradient [N,T,G H].
llvm::Error SetInputGradients(NodeContext& c, const Layer& layer, ValueId dpre, ValueId rows) {
  const Dims& w_dims = c.DimsOf(1);
  if (c.WantsOutput(0)) {
    ACT_TRY(ValueId w, c.Value(1));
    ACT_TRY(w, c.Reshape(w, {w_dims[1], w_dims[2]}));
    ACT_TRY(const ValueId dx, c.Emit("MatMul", {dpre, w}));
    ACT_CHECK_OK(c.Return(c.Transpose(dx, {1, 0, 2})));
  }
  if (!c.WantsOutput(1)) return llvm::Error::success();
  ACT_TRY(ValueId x, c.Value(0));
  ACT_TRY(x, c.Transpose(x, {1, 0, 2}));
  ACT_TRY(x, c.Reshape(x, {layer.batch * layer.steps, w_dims[2]}));
  Attributes transposed;
  transposed.Set("trans_a", int64_t{1});
  ACT_TRY(ValueId dw, c.Emit("MatMul", {rows, x}, transposed));
  ACT_TRY(dw, c.Reshape(dw, w_dims));
  return c.Set(1, dw);
}

// dB [1, 2 G H]: of the biases beside W, and of those beside R. They differ only in the candidate
// of a GRU that resets after the product.
llvm::Error SetBiasGradient(NodeContext& c, const Layer& layer, ValueId rows, ValueId candidate) {
  const Dim width = c.TypeOf(rows).dims[1];
  ACT_TRY(const ValueId first, c.Emit("ReduceSum", {rows}, Over({0}, false)));
  ValueId second = first;
  Attributes along;
  along.Set("axis", int64_t{0});
  if (candidate != kNoValue) {
    ACT_TRY(const ValueId gates, c.builder().Slice(first, {0}, {width - layer.units}, {1}, c.name()));
    ACT_TRY(second, c.Emit("Concat", {gates, candidate}, along));
  }
  ACT_TRY(ValueId db, c.Emit("Concat", {first, second}, along));
  ACT_TRY(db, c.Reshape(db, {Dim(1), width + width}));
  return c.Set(3, db);
}

llvm::Error ImportRecurrentGrad(NodeContext& c) {
  const bool lstm = c.node.op_type() == "LSTMGrad";
  const size_t gates_at = lstm ? 8 : 7;
  if (!c.Has(gates_at)) return c.Fail("input " + std::to_string(gates_at) + " is left out");
  llvm::Expected<Node> maker = MakerOfKept(c, gates_at, lstm ? "Lstm" : "Gru");
  if (!maker) {
    llvm::consumeError(maker.takeError());
    return c.Fail("is the gradient of a layer that is written out step by step, which is not supported",
                  "one operator computes layers with the default activations, without clip and lengths, GRUs "
                  "with linear_before_reset; or compile the forward model with --loss=KIND");
  }
  const Node& cell = *maker;
  const Dims states = c.TypeOf(cell.outputs[0]).dims;
  const Layer layer{cell, lstm, gates_at, states[0], states[1], states[2]};
  ACT_TRY(const ValueId dy, StateGradient(c, layer));
  Values output_grads{dy};
  if (lstm && c.Has(gates_at + 3)) {
    ACT_TRY(const ValueId dc, c.Value(gates_at + 3));
    ACT_TRY(const ValueId last, c.Reshape(dc, {layer.batch, layer.units}));
    output_grads.push_back(last);
  }
  // Lstm takes (pre-activations, R, h0, c0), Gru (pre-activations, R, bias of the candidate, h0).
  const std::vector<size_t> output_of =
      lstm ? std::vector<size_t>{0, 2, 4, 5} : std::vector<size_t>{0, 2, 3, 4};
  std::vector<bool> wanted{true};
  for (size_t i = 1; i < output_of.size(); ++i)
    wanted.push_back(cell.inputs[i] != kNoValue && c.WantsOutput(output_of[i]));
  ACT_TRY(const Values grads, ApplyRule(c, cell, output_grads, wanted));
  ACT_TRY(const ValueId rows, c.Reshape(grads[0], {layer.batch * layer.steps, c.TypeOf(grads[0]).dims[2]}));
  ACT_CHECK_OK(SetInputGradients(c, layer, grads[0], rows));
  if (c.WantsOutput(3)) ACT_CHECK_OK(SetBiasGradient(c, layer, rows, lstm ? kNoValue : grads[2]));
  for (size_t i = 1; i < output_of.size(); ++i) {
    if (output_of[i] == 3 || !wanted[i]) continue;
    const Dims dims = i == 1 ? c.DimsOf(2) : Dims{Dim(1), layer.batch, layer.units};
    ACT_TRY(const ValueId grad, c.Reshape(grads[i], dims));
    ACT_CHECK_OK(c.Set(output_of[i], grad));
  }
  return llvm::Error::success();
}

}  // namespace

const std::vector<ImportEntry>& RecurrentGradients() {
  static const std::vector<ImportEntry> entries = {
      {"LSTMGrad", 3, 12, ImportRecurrentGrad, kMicrosoft},
      {"GRUGrad", 3, 10, ImportRecurrentGrad, kMicrosoft},
  };
  return entries;
}

}  // namespace act::onnx_import
