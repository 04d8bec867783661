// A small plan made by hand: one linear layer with a coded input, its loss, gradients and update.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/plan.h"

namespace act::testing {

// Appends values and nodes. Every value gets a storage of its own unless told otherwise.
class StepBuilder {
 public:
  ValueId Add(const std::string& name, ValueKind kind, DType dtype, Dims dims, StorageId storage = -1) {
    Value value;
    value.name = name;
    value.kind = kind;
    value.type = {dtype, std::move(dims)};
    const auto id = static_cast<ValueId>(step.graph.values.size());
    step.graph.values.push_back(std::move(value));
    step.storage_of.push_back(storage >= 0 ? storage : step.storages++);
    if (kind == ValueKind::kInput) step.graph.inputs.push_back(id);
    return id;
  }
  ValueId Activation(const std::string& name, Dims dims, StorageId storage = -1) {
    return Add(name, ValueKind::kActivation, DType::kFloat32, std::move(dims), storage);
  }
  Node& AddNode(const std::string& op, const std::string& name, Phase phase, std::vector<ValueId> inputs,
                std::vector<ValueId> outputs, Dim workspace = 0) {
    Node node;
    node.op = op;
    node.name = name;
    node.phase = phase;
    node.inputs = std::move(inputs);
    node.outputs = std::move(outputs);
    node.workspace_bytes = {workspace, CappedDim(workspace * Dim(3), 1 << 20)};
    step.graph.nodes.push_back(std::move(node));
    return step.graph.nodes.back();
  }
  StorageId storage(ValueId id) const { return step.storage_of[static_cast<size_t>(id)]; }

  StepGraph step;
};

// register 0 stored as it is, or coded.
inline Program CopyProgram(Dims space, Codec from, Codec to) {
  Program program;
  program.space = std::move(space);
  program.inputs = {{from, 7}};
  ProgramOutput output;
  output.kind = to.kind == CodecKind::kNone ? OutputKind::kStore : OutputKind::kEncode;
  output.reg = 0;
  output.codec = to;
  output.stream = to.kind == CodecKind::kNone ? 0 : 7;
  program.outputs = {output};
  return program;
}

// Makes the node a loop that adds its last operand to each one that it mutates.
inline Node& MakeLoopOfUpdate(Node& node, Dims space) {
  node.op = "Fused";
  node.program = {};
  node.program.space = std::move(space);
  node.program.inputs.resize(node.inputs.size());
  for (const int32_t mutated : node.mutates) {
    const auto last = static_cast<int32_t>(node.inputs.size()) - 1;
    node.program.outputs.push_back({OutputKind::kStore, node.program.Registers(), {}, 0});
    node.program.instrs.push_back({Opcode::kAdd, mutated, last});
  }
  return node;
}

inline HostTensor Ramp(int64_t elements) {
  std::vector<float> data(static_cast<size_t>(elements));
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
  return HostTensor::Copy(data.data(), elements * 4);
}

inline Plan SmallPlan() {
  const Dim n = Dim::Batch();
  const Codec codec = Codec::Uniform(4, 256, Rounding::kDither).With(Metadata::kLogPair).Fitted();
  Plan plan;
  plan.model_name = "small.onnx";
  plan.level = "L2";
  plan.optimizer = "sgd";
  plan.seed = 11;
  plan.default_batch = 2;
  plan.workspace_limit = 4096;
  plan.onnx_model = HostTensor::Copy("onnx", 4);

  StepBuilder train;
  const ValueId x = train.Add("x", ValueKind::kInput, DType::kFloat32, {n, 64});
  const ValueId label = train.Add("label", ValueKind::kInput, DType::kInt64, {n});
  const ValueId w = train.Add("w", ValueKind::kParameter, DType::kFloat32, {64, 4});
  const ValueId velocity = train.Add("w.velocity", ValueKind::kOptimizer, DType::kFloat32, {64, 4});
  const ValueId one = train.Add("one", ValueKind::kConstant, DType::kFloat32, {});
  const ValueId y = train.Activation("y", {n, 4});
  const TensorType code_type = *CodeType(codec, {n, 64});
  const ValueId code = train.Add("x.code", ValueKind::kActivation, code_type.dtype, code_type.dims);
  const ValueId loss = train.Activation("loss", {});
  const ValueId prob = train.Activation("prob", {n, 4});
  const ValueId dy = train.Activation("dy", {n, 4});
  const ValueId decoded = train.Activation("x.decoded", {n, 64});
  const ValueId dw = train.Activation("dw", {64, 4});
  train.AddNode("MatMul", "fc", Phase::kForward, {x, w}, {y}, 1000);
  train.AddNode("Fused", "fc/encode", Phase::kForward, {x}, {code}).program = CopyProgram({n, 64}, {}, codec);
  Node& cross_entropy =
      train.AddNode("SoftmaxCrossEntropy", "loss", Phase::kForward, {y, label, kNoValue}, {loss, prob});
  cross_entropy.attrs.Set("reduction", std::string("mean"));
  cross_entropy.attrs.Set("ignore_index", int64_t{-100});
  train.AddNode("SoftmaxCrossEntropyGrad", "loss/grad", Phase::kBackward, {one, prob, label, kNoValue}, {dy});
  train.AddNode("Fused", "fc/decode", Phase::kBackward, {code}, {decoded}).program =
      CopyProgram({n, 64}, codec, {});
  train.AddNode("MatMul", "fc/grad_w", Phase::kBackward, {decoded, dy}, {dw}, Dim(64, 128))
      .attrs.Set("trans_a", int64_t{1});
  Node& update = train.AddNode("Fused", "w/update", Phase::kUpdate, {w, velocity, dw}, {});
  update.mutates = {0, 1};
  MakeLoopOfUpdate(update, {64, 4});
  update.attrs.Set("gradients", std::vector<int64_t>{0, 2});
  train.step.graph.outputs = {loss};
  train.step.graph.value(w).data = Ramp(64 * 4);
  const float kOne = 1;
  train.step.graph.value(one).data = HostTensor::Copy(&kOne, 4);

  StepBuilder eval;
  const ValueId ex = eval.Add("x", ValueKind::kInput, DType::kFloat32, {n, 64});
  const ValueId elabel = eval.Add("label", ValueKind::kInput, DType::kInt64, {n});
  const ValueId scale = eval.Add("eval.scale", ValueKind::kConstant, DType::kFloat32, {4});
  const ValueId ew = eval.Add("w", ValueKind::kParameter, DType::kFloat32, {64, 4});
  const ValueId ey = eval.Activation("y", {n, 4});
  const ValueId eloss = eval.Activation("loss", {});
  const ValueId eprob = eval.Activation("prob", {n, 4});
  eval.AddNode("MatMul", "fc", Phase::kForward, {ex, ew}, {ey}, 1000);
  eval.AddNode("SoftmaxCrossEntropy", "loss", Phase::kForward, {ey, elabel, scale}, {eloss, eprob});
  eval.step.graph.outputs = {eloss};
  eval.step.graph.value(ew).data = train.step.graph.value(w).data;
  eval.step.graph.value(scale).data = Ramp(4);

  SavedEdge edge;
  edge.name = "x";
  edge.stored = code;
  edge.consumers = {"fc/grad_w"};
  edge.form = "uniform4,g256";
  edge.reason = "the weight gradient of 'fc' multiplies by it";
  edge.bits = BitsPerElement(codec);
  edge.variance = .125;
  edge.least_bits = 3;
  edge.bytes = code_type.Bytes();
  edge.bytes_uncompressed = Dim(0, 256);

  plan.train = std::move(train.step);
  plan.eval = std::move(eval.step);
  plan.edges = {edge};
  return plan;
}

// Adds a frozen parameter whose code of 4 bits lies in the arena, in both graphs. No node reads it. Returns its place.
inline ValueId AddFrozen(Plan& plan) {
  const CodedParameter coded{Codec::Uniform(4, 64, Rounding::kNearest), {DType::kFloat32, {2, 64}}};
  Value value;
  value.name = "frozen";
  value.type = *coded.ArenaType();
  value.kind = ValueKind::kParameter;
  value.data = Ramp(128);
  value.coded = std::make_shared<CodedParameter>(coded);
  for (StepGraph* step : {&plan.eval, &plan.train}) {
    step->graph.values.push_back(value);
    step->storage_of.push_back(step->storages++);
  }
  return static_cast<ValueId>(plan.train.graph.values.size()) - 1;
}

}  // namespace act::testing
