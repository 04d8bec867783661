// Control flow that is known when compiling: the nodes of the chosen branch replace an If, and those of all
// iterations a Loop or Scan.
#include <algorithm>
#include <optional>

#include "compiler/import/known/onnx_types.h"
#include "compiler/import/ops/inner_graph.h"
#include "compiler/import/ops/made_node.h"
#include "compiler/import/ops/stack.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;

// The one number of a known tensor; nullopt for anything else.
std::optional<int64_t> KnownNumber(const Operand& operand) {
  const auto numbers = operand.known ? AsIntegers(*operand.known) : std::nullopt;
  return numbers && numbers->size() == 1 ? std::optional((*numbers)[0]) : std::nullopt;
}

std::string WhatOn(const Operand& operand) {
  return operand.known || operand.of_batch ? "the batch size" : "data";
}

llvm::Error ImportIf(NodeContext& c) {
  const auto condition = KnownNumber(c.In(0));
  if (!condition)
    return c.Fail("the condition depends on " + WhatOn(c.In(0)),
                  "a branch can be chosen only when compiling, by shapes and constants; "
                  "--dim=NAME=EXTENT fixes the extent of an axis");
  const std::string wanted = *condition != 0 ? "then_branch" : "else_branch";
  const onnx::GraphProto* branch = c.attrs.Graph(wanted);
  if (!branch || branch->input_size() != 0 || branch->output_size() < static_cast<int>(c.outputs()))
    return c.Fail("has no " + wanted + " that makes its outputs");
  InnerGraph inner(c, *branch, wanted);
  ACT_TRY(std::vector<Operand> made, inner.Import("", {}));
  for (size_t i = 0; i < c.outputs(); ++i) ACT_CHECK_OK(c.Set(i, std::move(made[i])));
  return llvm::Error::success();
}

constexpr char kWhatUnrolls[] =
    "a loop is unrolled, so its iterations must be known by shapes and constants: give symbolic axes extents "
    "with --dim=NAME=EXTENT, or export the model with a sequence of fixed length";

// A result that stacks what the iterations made, along a new axis (which may count from the end).
struct Stack {
  int64_t axis = 0;
  bool backwards = false;
  std::vector<Operand> parts = {};
};

// Where no iteration ran, the body must declare the shape of a part, by extents or symbols of the inputs.
llvm::Expected<Operand> EmptyStack(const NodeContext& c, const Stack& stack,
                                   const onnx::ValueInfoProto& declared) {
  const std::string what =
      "runs no iteration, and its body does not declare the shape of '" + declared.name() + "'";
  const auto& tensor = declared.type().tensor_type();
  const auto dtype = FromOnnxType(tensor.elem_type());
  if (!dtype || !tensor.has_shape()) return c.Fail(what);
  TensorType type{*dtype, {}};
  for (const auto& dim : tensor.shape().dim()) {
    const auto symbol = c.importer.symbols.find(dim.dim_param());
    if (symbol != c.importer.symbols.end()) {
      type.dims.push_back(symbol->second);
    } else if (dim.value_case() == onnx::TensorShapeProto::Dimension::kDimValue && dim.dim_value() >= 0) {
      type.dims.push_back(dim.dim_value());
    } else {
      return c.Fail(what);
    }
  }
  ACT_TRY(const size_t axis, c.Axis(stack.axis, type.dims.size() + 1));
  type.dims.insert(type.dims.begin() + static_cast<std::ptrdiff_t>(axis), Dim(0));
  return KnownOperand({std::move(type), {}});
}

// Defines output i.
llvm::Error SetStack(const NodeContext& c, size_t i, Stack stack, const onnx::ValueInfoProto& declared) {
  if (!c.WantsOutput(i)) return llvm::Error::success();
  if (stack.parts.empty()) {
    ACT_TRY(Operand empty, EmptyStack(c, stack, declared));
    return c.Set(i, std::move(empty));
  }
  if (stack.backwards) std::reverse(stack.parts.begin(), stack.parts.end());
  return SetJoined(c, i, std::move(stack.parts), stack.axis, true);
}

// The body takes the number of the iteration, the condition and the carried values. It makes the next
// condition, the next carried values and parts of the stacked results.
llvm::Error ImportLoop(NodeContext& c) {
  const onnx::GraphProto* body = c.attrs.Graph("body");
  const size_t carried = c.inputs() > 2 ? c.inputs() - 2 : 0;
  if (!body || body->input_size() != static_cast<int>(carried) + 2 ||
      body->output_size() < static_cast<int>(carried) + 1 ||
      static_cast<int>(c.outputs()) > body->output_size() - 1)
    return c.Fail("has no body that fits its inputs and outputs");
  std::optional<int64_t> trips;
  if (c.Has(0) && !(trips = KnownNumber(c.In(0))))
    return c.Fail("the number of iterations depends on " + WhatOn(c.In(0)), kWhatUnrolls);
  std::vector<Operand> state;
  for (size_t i = 2; i < c.inputs(); ++i) {
    if (!c.Has(i)) return c.Fail("input " + std::to_string(i) + " is left out");
    state.push_back(c.In(i));
  }
  // Without a first condition, runtimes still end by the body's, which ONNX's text ignores then.
  Operand condition = c.Has(1) ? c.In(1) : KnownOperand({{DType::kBool, {}}, {{Dim(1)}}});
  // Bodies may declare the number of the iteration as a list of one.
  const bool as_list = body->input(0).type().tensor_type().shape().dim_size() == 1;
  std::vector<Stack> stacks(static_cast<size_t>(body->output_size()) - 1 - carried);
  InnerGraph inner(c, *body, "body");
  for (int64_t i = 0; !trips || i < *trips; ++i) {
    const auto runs = KnownNumber(condition);
    if (!runs)
      return c.Fail("whether iteration " + std::to_string(i) + " runs depends on " + WhatOn(condition),
                    kWhatUnrolls);
    if (*runs == 0) break;
    std::vector<Operand> inputs = {KnownOperand(as_list ? IntegerVector({Dim(i)}) : IntegerScalar(Dim(i))),
                                   condition};
    for (Operand& value : state) inputs.push_back(std::move(value));
    ACT_TRY(std::vector<Operand> made, inner.Import(std::to_string(i) + "/", std::move(inputs)));
    condition = std::move(made[0]);
    for (size_t k = 0; k < carried; ++k) state[k] = std::move(made[1 + k]);
    for (size_t k = 0; k < stacks.size(); ++k) stacks[k].parts.push_back(std::move(made[1 + carried + k]));
  }
  for (size_t k = 0; k < carried; ++k) ACT_CHECK_OK(c.Set(k, std::move(state[k])));
  for (size_t k = 0; k < stacks.size(); ++k)
    ACT_CHECK_OK(
        SetStack(c, carried + k, std::move(stacks[k]), body->output(static_cast<int>(1 + carried + k))));
  return llvm::Error::success();
}

// `count` axes or directions of a Scan; all 0 where there is no such attribute.
llvm::Expected<std::vector<int64_t>> OfEach(const NodeContext& c, const char* name, size_t count) {
  std::vector<int64_t> values = c.attrs.Ints(name, std::vector<int64_t>(count, 0));
  if (values.size() != count)
    return c.Fail(std::string(name) + " has " + std::to_string(values.size()) + " numbers, must have " +
                  std::to_string(count));
  return values;
}

// x[.., at, ..] without the axis.
llvm::Expected<Operand> Step(const NodeContext& c, const std::string& x, int64_t axis, int64_t at) {
  const std::string name = c.name() + "/step";
  ACT_CHECK_OK(
      c.importer.ImportNode(MadeNode(c, "Slice", {x}, name + "/slice",
                                     {{"starts", Ints{at}}, {"ends", Ints{at + 1}}, {"axes", Ints{axis}}})));
  ACT_CHECK_OK(
      c.importer.ImportNode(MadeNode(c, "Squeeze", {name + "/slice"}, name, {{"axes", Ints{axis}}})));
  c.importer.Erase(name + "/slice");
  Operand step = *c.importer.Find(name);
  c.importer.Erase(name);
  return step;
}

// The body takes the states and one step of each scanned input. It makes the next states and parts of the
// stacked results.
llvm::Error ImportScan(NodeContext& c) {
  if (c.opset() < 9)
    return c.Fail("has before opset 9 a batch axis, which is not supported",
                  "export the model again with opset_version=17");
  for (size_t i = 0; i < c.inputs(); ++i)
    if (!c.Has(i)) return c.Fail("input " + std::to_string(i) + " is left out");
  const onnx::GraphProto* body = c.attrs.Graph("body");
  const auto inputs = static_cast<int64_t>(c.inputs());
  const int64_t scanned = c.attrs.Int("num_scan_inputs");
  if (scanned < 1 || scanned > inputs)
    return c.Fail("scans " + std::to_string(scanned) + " of its " + std::to_string(inputs) + " inputs");
  const auto states = static_cast<size_t>(inputs - scanned);
  if (!body || body->input_size() != inputs || body->output_size() < static_cast<int>(states) ||
      static_cast<int>(c.outputs()) > body->output_size())
    return c.Fail("has no body that fits its inputs and outputs");
  const size_t stacked = static_cast<size_t>(body->output_size()) - states, scans = c.inputs() - states;
  ACT_TRY(const auto in_axes, OfEach(c, "scan_input_axes", scans));
  ACT_TRY(const auto in_directions, OfEach(c, "scan_input_directions", scans));
  ACT_TRY(const auto out_axes, OfEach(c, "scan_output_axes", stacked));
  ACT_TRY(const auto out_directions, OfEach(c, "scan_output_directions", stacked));
  std::optional<int64_t> steps;
  std::vector<int64_t> axes;
  for (size_t k = 0; k < scans; ++k) {
    const Dims& dims = c.DimsOf(states + k);
    ACT_TRY(const size_t axis, c.Axis(in_axes[k], dims.size()));
    if (!dims[axis].IsFixed())
      return c.Fail("the number of iterations depends on the batch size: input " +
                        std::to_string(states + k) + " has " + ToString(dims[axis]) + " steps",
                    kWhatUnrolls);
    if (steps.value_or(dims[axis].fixed) != dims[axis].fixed)
      return c.Fail("scans inputs of " + std::to_string(*steps) + " and " + ToString(dims[axis]) + " steps");
    steps = dims[axis].fixed;
    axes.push_back(static_cast<int64_t>(axis));
  }
  std::vector<Operand> state;
  for (size_t i = 0; i < states; ++i) state.push_back(c.In(i));
  std::vector<Stack> stacks;
  for (size_t k = 0; k < stacked; ++k) stacks.push_back({out_axes[k], out_directions[k] != 0});
  InnerGraph inner(c, *body, "body");
  for (int64_t i = 0; i < *steps; ++i) {
    std::vector<Operand> in = std::move(state);
    for (size_t k = 0; k < scans; ++k) {
      ACT_TRY(Operand step, Step(c, c.node.input(static_cast<int>(states + k)), axes[k],
                                 in_directions[k] != 0 ? *steps - 1 - i : i));
      in.push_back(std::move(step));
    }
    ACT_TRY(std::vector<Operand> made, inner.Import(std::to_string(i) + "/", std::move(in)));
    for (size_t k = 0; k < stacked; ++k) stacks[k].parts.push_back(std::move(made[states + k]));
    made.resize(states);
    state = std::move(made);
  }
  for (size_t k = 0; k < states; ++k) ACT_CHECK_OK(c.Set(k, std::move(state[k])));
  for (size_t k = 0; k < stacked; ++k)
    ACT_CHECK_OK(SetStack(c, states + k, std::move(stacks[k]), body->output(static_cast<int>(states + k))));
  return llvm::Error::success();
}

}  // namespace

const std::vector<ImportEntry>& ControlImports() {
  static const std::vector<ImportEntry> entries = {
      {"If", 1, 1, ImportIf}, {"Loop", 0, -1, ImportLoop}, {"Scan", 0, -1, ImportScan}};
  return entries;
}

}  // namespace act::onnx_import
