// Recurrent layers. Inside, each direction is batch-major. Transposes around it give ONNX's
// time-major layout, and cancel against those that exporters of batch-major models write. The cells
// that frameworks train are one operator of ours, which runs the time loop. All variants (other
// activations, clipping, peepholes, lengths by sample) are written out step by step.
#include <algorithm>

#include "compiler/import/ops/recurrent_layer.h"

namespace act::onnx_import {
namespace {

// Inputs of the three operators.
enum Input : size_t { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kPeepholes };

// How many of alpha and beta an activation takes, and their defaults.
struct ActivationKind {
  const char* name;
  int parameters;
  double alpha, beta;
};
constexpr ActivationKind kActivations[] = {
    {"Tanh", 0, 0, 0},          {"Sigmoid", 0, 0, 0},     {"Relu", 0, 0, 0},   {"Softsign", 0, 0, 0},
    {"Softplus", 0, 0, 0},      {"LeakyRelu", 1, .01, 0}, {"Elu", 1, 1, 0},    {"ThresholdedRelu", 1, 1, 0},
    {"HardSigmoid", 2, .2, .5}, {"ScaledTanh", 2, 1, 1},  {"Affine", 2, 1, 0},
};

llvm::Expected<std::vector<Activation>> ReadActivations(const NodeContext& c,
                                                        std::vector<std::string> defaults,
                                                        size_t directions) {
  std::vector<std::string> names = c.attrs.Strings("activations");
  if (names.empty())
    for (size_t d = 0; d < directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  if (names.size() != defaults.size() * directions)
    return c.Fail("names " + std::to_string(names.size()) + " activations, needs " +
                  std::to_string(defaults.size() * directions));
  // The activations that take an alpha (a beta) consume that list in order.
  const std::vector<double> alphas = c.attrs.Floats("activation_alpha"),
                            betas = c.attrs.Floats("activation_beta");
  size_t alpha = 0, beta = 0;
  std::vector<Activation> activations;
  for (const std::string& name : names) {
    const auto* kind = std::find_if(std::begin(kActivations), std::end(kActivations),
                                    [&](const ActivationKind& k) { return name == k.name; });
    if (kind == std::end(kActivations)) return c.Fail("activation '" + name + "' is not supported");
    Activation a{name, kind->alpha, kind->beta};
    if (kind->parameters > 0 && alpha < alphas.size()) a.alpha = alphas[alpha++];
    if (kind->parameters > 1 && beta < betas.size()) a.beta = betas[beta++];
    activations.push_back(a);
  }
  return activations;
}

llvm::Error CheckDims(const NodeContext& c, size_t input, const char* what, const Dims& want) {
  if (!c.Has(input) || c.Type(input) == TensorType{DType::kFloat32, want}) return llvm::Error::success();
  return c.Fail(std::string(what) + " is " + ToString(c.Type(input)) + ", must be " +
                ToString(TensorType{DType::kFloat32, want}));
}

llvm::Expected<RecurrentLayer> ReadLayer(const NodeContext& c, bool batch_major) {
  RecurrentLayer layer;
  layer.op = c.node.op_type().substr(0, c.node.op_type().find("Training"));
  const bool lstm = layer.op == "LSTM", gru = layer.op == "GRU";
  layer.gates = lstm ? 4 : gru ? 3 : 1;
  const std::string direction = c.attrs.String("direction", "forward");
  if (direction == "forward" || direction == "reverse") layer.reverse = {direction == "reverse"};
  if (direction == "bidirectional") layer.reverse = {false, true};
  if (layer.reverse.empty()) return c.Fail("has no direction '" + direction + "'");
  const Dims &x = c.DimsOf(kX), &r = c.DimsOf(kR);
  if (x.size() != 3 || r.size() != 3 || !r[2].IsFixed() || r[2].fixed < 1)
    return c.Fail("input " + ToString(c.Type(kX)) + " and recurrent weights " + ToString(c.Type(kR)) +
                  " must have 3 axes");
  const Dim steps = x[batch_major ? 1 : 0];
  if (!steps.IsFixed() || steps.fixed < 1)
    return c.Fail("the sequence has " + ToString(steps) + " steps",
                  "the number of steps must be known: --dim=NAME=EXTENT");
  layer.batch = x[batch_major ? 0 : 1];
  layer.steps = steps.fixed;
  layer.units = r[2].fixed;
  const Dim directions(static_cast<int64_t>(layer.Directions())), units(layer.units),
      rows = units * Dim(layer.gates);
  if (c.attrs.Has("hidden_size") && c.attrs.Int("hidden_size") != layer.units)
    return c.Fail("hidden_size is " + std::to_string(c.attrs.Int("hidden_size")) +
                  ", the recurrent weights are " + ToString(c.Type(kR)));
  const Dims state =
      batch_major ? Dims{layer.batch, directions, units} : Dims{directions, layer.batch, units};
  ACT_CHECK_OK(CheckDims(c, kX, "the input", x));
  ACT_CHECK_OK(CheckDims(c, kW, "the weight tensor W", {directions, rows, x[2]}));
  ACT_CHECK_OK(CheckDims(c, kR, "the recurrent weight tensor R", {directions, rows, units}));
  ACT_CHECK_OK(CheckDims(c, kB, "the bias B", {directions, rows + rows}));
  ACT_CHECK_OK(CheckDims(c, kInitialH, "initial_h", state));
  ACT_CHECK_OK(CheckDims(c, kInitialC, "initial_c", state));
  ACT_CHECK_OK(CheckDims(c, kPeepholes, "the peephole weights P", {directions, units * Dim(3)}));
  if (c.Has(kLengths) && c.DimsOf(kLengths) != Dims{layer.batch})
    return c.Fail("sequence_lens is " + ToString(c.Type(kLengths)) + ", must be one number a sample");
  std::vector<std::string> defaults{"Tanh"};
  if (gru) defaults = {"Sigmoid", "Tanh"};
  if (lstm) defaults = {"Sigmoid", "Tanh", "Tanh"};
  ACT_TRY(layer.activations, ReadActivations(c, defaults, layer.Directions()));
  if (c.attrs.Has("clip")) layer.clip = c.attrs.Float("clip");
  if (layer.clip && !(*layer.clip > 0)) return c.Fail("clip must be positive");
  layer.input_forget = lstm && c.attrs.Int("input_forget") != 0;
  layer.linear_before_reset = gru && c.attrs.Int("linear_before_reset") != 0;
  return layer;
}

// Elements start.. of axis `axis`, `extent` of them.
llvm::Expected<ValueId> Part(const NodeContext& c, ValueId x, size_t axis, int64_t start, const Dim& extent) {
  Dims dims = c.TypeOf(x).dims;
  if (dims[axis] == extent) return x;
  std::vector<int64_t> starts(dims.size(), 0);
  starts[axis] = start;
  dims[axis] = extent;
  return c.builder().Slice(x, starts, dims, std::vector<int64_t>(dims.size(), 1), c.name());
}

// Direction `d`'s part of an input with a direction axis; kNoValue where the input is left out.
llvm::Expected<ValueId> OfDirection(const NodeContext& c, size_t input, size_t d, size_t axis = 0) {
  if (!c.Has(input)) return kNoValue;
  ACT_TRY(const ValueId all, c.Value(input));
  ACT_TRY(const ValueId one, Part(c, all, axis, static_cast<int64_t>(d), 1));
  Dims dims = c.TypeOf(one).dims;
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  return c.Reshape(one, dims);
}

llvm::Expected<ValueId> InitialState(const NodeContext& c, size_t input, size_t d, bool batch_major) {
  if (c.Number(input) == 0) return kNoValue;
  return OfDirection(c, input, d, batch_major ? 1 : 0);
}

// x W^T and the biases that add to it.
llvm::Error EmitInputProduct(const NodeContext& c, const RecurrentLayer& layer, size_t direction, ValueId x,
                             RecurrentDirection& d) {
  ACT_TRY(const ValueId w, OfDirection(c, kW, direction));
  Attributes transposed;
  transposed.Set("trans_b", int64_t{1});
  ACT_TRY(d.x, c.Emit("MatMul", {x, w}, transposed));
  ACT_TRY(const ValueId biases, OfDirection(c, kB, direction));
  if (biases == kNoValue || c.Number(kB) == 0) return llvm::Error::success();
  const int64_t rows = layer.gates * layer.units;
  ACT_TRY(const ValueId input_bias, Part(c, biases, 0, 0, rows));
  ACT_TRY(ValueId bias, Part(c, biases, 0, rows, rows));
  if (layer.linear_before_reset) {
    ACT_TRY(d.candidate_bias, Part(c, bias, 0, rows - layer.units, layer.units));
    ACT_TRY(bias, Part(c, bias, 0, 0, rows - layer.units));
    Attributes pad;
    pad.Set("pads", std::vector<int64_t>{0, layer.units});
    pad.Set("mode", std::string("constant"));
    ACT_TRY(bias, c.Emit("Pad", {bias}, pad));
  }
  ACT_TRY(bias, c.Emit("Add", {input_bias, bias}));
  ACT_TRY(d.x, c.Emit("Add", {d.x, bias}));
  return llvm::Error::success();
}

// Whether one operator of ours computes the cell.
bool IsFused(const RecurrentLayer& layer, const RecurrentDirection& d) {
  const auto activation = [&d](size_t i) { return d.activations[i].name; };
  if (layer.clip || d.peepholes != kNoValue || d.lengths != kNoValue) return false;
  if (layer.op == "RNN") return activation(0) == "Tanh" || activation(0) == "Relu";
  if (activation(0) != "Sigmoid" || activation(1) != "Tanh") return false;
  return layer.op == "GRU" ? layer.linear_before_reset : activation(2) == "Tanh" && !layer.input_forget;
}

llvm::Expected<RecurrentResult> EmitCell(NodeContext& c, const RecurrentLayer& layer,
                                         const RecurrentDirection& d) {
  Attributes attrs;
  attrs.Set("reverse", int64_t{d.reverse});
  RecurrentResult result;
  if (layer.op == "LSTM") {
    ACT_TRY(const auto out, c.builder().Add("Lstm", {d.x, d.weights, d.h, d.c}, attrs, c.name(), 5));
    result.y = out[0];
    result.c = out[1];
  } else if (layer.op == "GRU") {
    ACT_TRY(const auto out,
            c.builder().Add("Gru", {d.x, d.weights, d.candidate_bias, d.h}, attrs, c.name(), 4));
    result.y = out[0];
  } else {
    attrs.Set("activation", d.activations[0].name);
    ACT_TRY(result.y, c.Emit("Rnn", {d.x, d.weights, d.h}, attrs));
  }
  ACT_TRY(const ValueId last, Part(c, result.y, 1, d.reverse ? 0 : layer.steps - 1, 1));
  ACT_TRY(result.h, c.Reshape(last, {layer.batch, Dim(layer.units)}));
  return result;
}

llvm::Expected<ValueId> Join(const NodeContext& c, std::vector<ValueId> parts, int64_t axis) {
  if (parts.size() == 1) return parts[0];
  Attributes attrs;
  attrs.Set("axis", axis);
  return c.Emit("Concat", std::move(parts), attrs);
}

// Joins y of all directions, [N,T,H] each, to ONNX's Y.
llvm::Error SetSequence(const NodeContext& c, const RecurrentLayer& layer, bool batch_major,
                        const std::vector<ValueId>& y) {
  ACT_TRY(const ValueId joined, Join(c, y, 2));
  const Dim directions(static_cast<int64_t>(layer.Directions()));
  ACT_TRY(ValueId all, c.Reshape(joined, {layer.batch, Dim(layer.steps), directions, Dim(layer.units)}));
  if (!batch_major) {
    ACT_TRY(all, c.Transpose(all, {1, 2, 0, 3}));
  }
  return c.Set(0, all);
}

// The last states [N,H] of all directions as output `i`.
llvm::Error SetState(const NodeContext& c, const RecurrentLayer& layer, bool batch_major, size_t i,
                     std::vector<ValueId> states) {
  const int64_t axis = batch_major ? 1 : 0;
  for (ValueId& state : states) {
    Dims dims{layer.batch, Dim(layer.units)};
    dims.insert(dims.begin() + axis, Dim(1));
    ACT_TRY(state, c.Reshape(state, dims));
  }
  ACT_TRY(const ValueId all, Join(c, std::move(states), axis));
  return c.Set(i, all);
}

// ONNX Runtime's LSTMTraining and GRUTraining keep states and gates of all steps for their gradient.
// Ours finds what it needs at the cell.
llvm::Error SetKept(const NodeContext& c, const RecurrentLayer& layer, ValueId y) {
  const Dim directions(static_cast<int64_t>(layer.Directions()));
  const size_t gates_at = layer.op == "LSTM" ? 4 : 2;
  const auto keep = [&](size_t i, int64_t width) {
    const TensorType type{DType::kFloat32, {Dim(layer.steps), directions, layer.batch, Dim(width)}};
    return c.WantsOutput(i) ? c.Set(i, Operand{.type = type, .kept = y}) : llvm::Error::success();
  };
  if (layer.op == "LSTM") ACT_CHECK_OK(keep(3, layer.units));
  return keep(gates_at, layer.units * layer.gates);
}

llvm::Error ImportRecurrent(NodeContext& c) {
  const bool batch_major = c.attrs.Int("layout") != 0;
  ACT_TRY(const RecurrentLayer layer, ReadLayer(c, batch_major));
  ACT_TRY(ValueId x, c.Value(kX));
  if (!batch_major) {
    ACT_TRY(x, c.Transpose(x, {1, 0, 2}));
  }
  ValueId lengths = kNoValue;
  if (c.Has(kLengths) && c.Number(kLengths) != static_cast<double>(layer.steps)) {
    ACT_TRY(lengths, c.Value(kLengths));
    ACT_TRY(lengths, c.Cast(lengths, DType::kFloat32));
    ACT_TRY(lengths, c.Reshape(lengths, {layer.batch, Dim(1)}));
  }
  std::vector<ValueId> y, last_h, last_c;
  for (size_t i = 0; i < layer.Directions(); ++i) {
    RecurrentDirection d;
    d.reverse = layer.reverse[i];
    d.activations = layer.activations.data() + i * layer.ActivationsEach();
    d.lengths = lengths;
    ACT_CHECK_OK(EmitInputProduct(c, layer, i, x, d));
    ACT_TRY(d.weights, OfDirection(c, kR, i));
    ACT_TRY(d.h, InitialState(c, kInitialH, i, batch_major));
    ACT_TRY(d.c, InitialState(c, kInitialC, i, batch_major));
    if (c.Number(kPeepholes) != 0) {
      ACT_TRY(d.peepholes, OfDirection(c, kPeepholes, i));
    }
    ACT_TRY(const RecurrentResult result, IsFused(layer, d) ? EmitCell(c, layer, d) : EmitSteps(c, layer, d));
    y.push_back(result.y);
    last_h.push_back(result.h);
    last_c.push_back(result.c);
  }
  if (c.WantsOutput(0)) ACT_CHECK_OK(SetSequence(c, layer, batch_major, y));
  if (c.WantsOutput(1)) ACT_CHECK_OK(SetState(c, layer, batch_major, 1, last_h));
  const bool training = c.node.op_type() != layer.op;
  if (training) ACT_CHECK_OK(SetKept(c, layer, y[0]));
  if (training && layer.op == "GRU") return llvm::Error::success();
  if (c.WantsOutput(2) && layer.op != "LSTM") return c.Fail("has 3 outputs");
  return c.WantsOutput(2) ? SetState(c, layer, batch_major, 2, last_c) : llvm::Error::success();
}

}  // namespace

const std::vector<ImportEntry>& RecurrentImports() {
  static const std::vector<ImportEntry> entries = {
      {"LSTM", 3, 8, ImportRecurrent},
      {"GRU", 3, 6, ImportRecurrent},
      {"RNN", 3, 6, ImportRecurrent},
      {"LSTMTraining", 3, 8, ImportRecurrent, kMicrosoft},
      {"GRUTraining", 3, 6, ImportRecurrent, kMicrosoft},
  };
  return entries;
}

}  // namespace act::onnx_import
