// A plan small enough to compute by hand, and kernels for it. One step of  loss = sum(x w):
//
//   Mul x [N,4], w [4] -> a [N,4];  Reshape a -> flat [4N];
//   Sum flat -> loss [], with 64 bytes of workspace;
//   ColumnSum x -> dw [4];  Count seen -> (adds N to the buffer);  SgdUpdate w, velocity, dw
//
// The eval graph is the first two lines, and shares w by name.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/site/dereference.h"
#include "runtime/executor/kernel.h"
#include "runtime/plan/plan.h"

namespace act::toy {

inline ValueId Add(StepGraph& step, const std::string& name, ValueKind kind, Dims dims, HostTensor data = {},
                   StorageId shared = -1) {
  Value value{
      .name = name, .type = {DType::kFloat32, std::move(dims)}, .kind = kind, .data = std::move(data)};
  step.graph.values.push_back(std::move(value));
  step.storage_of.push_back(shared >= 0 ? shared : step.storages++);
  const auto id = static_cast<ValueId>(step.graph.values.size() - 1);
  if (kind == ValueKind::kInput) step.graph.inputs.push_back(id);
  return id;
}

inline Node& AddNode(StepGraph& step, const std::string& op, std::vector<ValueId> inputs,
                     std::vector<ValueId> outputs, Phase phase = Phase::kForward,
                     std::vector<int32_t> mutates = {}) {
  Node node;
  node.op = op;
  node.name = "toy/" + op;
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  node.phase = phase;
  node.mutates = std::move(mutates);
  step.graph.nodes.push_back(std::move(node));
  return step.graph.nodes.back();
}

inline StepGraph ToyStep(bool train) {
  constexpr float kWeights[] = {1, 2, 3, 4};
  constexpr float kSeen[] = {0};
  StepGraph step;
  const Dim n = Dim::Batch();
  const ValueId x = Add(step, "x", ValueKind::kInput, {n, 4});
  const ValueId w = Add(step, "w", ValueKind::kParameter, {4}, HostTensor::Copy(kWeights, sizeof kWeights));
  const ValueId a = Add(step, "a", ValueKind::kActivation, {n, 4});
  const ValueId flat = Add(step, "flat", ValueKind::kActivation, {Dim(0, 4)}, {}, step.storage_of.back());
  const ValueId loss = Add(step, "loss", ValueKind::kActivation, {});
  AddNode(step, "Mul", {x, w}, {a});
  AddNode(step, "Reshape", {a}, {flat});
  AddNode(step, "Sum", {flat}, {loss}).workspace_bytes = {64, 64};
  step.graph.outputs = {loss};
  if (!train) return step;

  const ValueId dw = Add(step, "dw", ValueKind::kActivation, {4});
  const ValueId velocity = Add(step, "w.velocity", ValueKind::kOptimizer, {4});
  const ValueId seen = Add(step, "seen", ValueKind::kBuffer, {1}, HostTensor::Copy(kSeen, sizeof kSeen));
  AddNode(step, "ColumnSum", {x}, {dw}, Phase::kBackward);
  AddNode(step, "Count", {seen}, {}, Phase::kForward, {0});
  AddNode(step, "SgdUpdate", {w, velocity, dw}, {}, Phase::kUpdate, {0, 1, 2})
      .attrs.Set("gradients", std::vector<int64_t>{0, 2});
  return step;
}

inline Plan ToyPlan() {
  Plan plan;
  plan.model_name = "toy.onnx";
  plan.level = "L0";
  plan.optimizer = "sgd";
  plan.seed = 7;
  plan.default_batch = 3;
  plan.train = ToyStep(true);
  plan.eval = ToyStep(false);
  return plan;
}

template <class F>
class FunctionKernel : public Kernel {
 public:
  explicit FunctionKernel(F run) : run_(std::move(run)) {}
  std::string Run(const KernelArgs& args) override {
    run_(args);
    return "";
  }

 private:
  F run_;
};

// A kernel that accepts every site.
template <class F>
KernelEntry Always(const std::string& name, F run) {
  return {name, [run](const KernelSite&, std::string*) { return std::make_unique<FunctionKernel<F>>(run); }};
}

inline void RegisterToyKernels(KernelRegistry& registry) {
  registry.Add("Mul", Always("toy.mul", [](const KernelArgs& k) {
                 for (int64_t i = 0; i < k.outputs[0].elements; ++i) {
                   k.outputs[0].as<float>()[i] = k.inputs[0].as<float>()[i] * k.inputs[1].as<float>()[i % 4];
                 }
               }));
  registry.Add("Sum", Always("toy.sum", [](const KernelArgs& k) {
                 float sum = 0;
                 for (int64_t i = 0; i < k.inputs[0].elements; ++i) sum += k.inputs[0].as<float>()[i];
                 *k.workspace.data.as<float>() = sum;
                 *k.outputs[0].as<float>() = sum;
               }));
  registry.Add("ColumnSum", Always("toy.column_sum", [](const KernelArgs& k) {
                 float* dw = k.outputs[0].as<float>();
                 for (int64_t c = 0; c < 4; ++c) dw[c] = 0;
                 for (int64_t i = 0; i < k.inputs[0].elements; ++i) dw[i % 4] += k.inputs[0].as<float>()[i];
               }));
  registry.Add("Count", Always("toy.count", [](const KernelArgs& k) { *k.inputs[0].as<float>() += 1; }));
  registry.Add("SgdUpdate", Always("toy.sgd", [](const KernelArgs& k) {
                 float *w = k.inputs[0].as<float>(), *v = k.inputs[1].as<float>(),
                       *g = k.inputs[2].as<float>();
                 for (int64_t i = 0; i < 4; ++i) {
                   v[i] = static_cast<float>(k.state->update.hyper.momentum) * v[i] + g[i];
                   w[i] -= static_cast<float>(k.state->update.hyper.lr) * v[i];
                   g[i] = 0;  // an update may do this: the gradient is not read again
                 }
               }));
}

}  // namespace act::toy
