// The loss is the sum of (p + q) x, so that both parameters share the gradient x. Updates of them, compared with
// formulas in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "kernels/site/dereference.h"
#include "runtime/plan/optimizer.h"
#include "tests/compiler/compiled_step.h"
#include "tests/unit/test_device.h"

namespace act::update_case {

using testing_step::Take;
using testing_step::Text;
using Doubles = std::vector<double>;

inline std::vector<float> Random(size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(count);
  for (float& v : values) v = normal(engine);
  return values;
}

inline ImportResult SumOfProducts(const Dims& dims) {
  Graph graph;
  GraphBuilder b(graph);
  const TensorType type{DType::kFloat32, dims};
  const auto count = static_cast<size_t>(type.Elements().fixed);
  const ValueId x = b.Input("x", type, ValueKind::kInput);
  const ValueId p = b.Input("p", type, ValueKind::kParameter, testing_step::HostFloats(Random(count, 1)));
  const ValueId q = b.Input("q", type, ValueKind::kParameter, testing_step::HostFloats(Random(count, 2)));
  const ValueId sum = Take(b.Add1("Add", {p, q}, {}, "sum"));
  ValueId loss = Take(b.Add1("Mul", {sum, x}, {}, "product"));
  if (!dims.empty()) {
    Attributes attrs;
    std::vector<int64_t> axes(dims.size());
    std::iota(axes.begin(), axes.end(), int64_t{0});
    attrs.Set("axes", axes);
    attrs.Set("keepdims", int64_t{0});
    loss = Take(b.Add1("ReduceSum", {loss}, attrs, "loss"));
  }
  graph.outputs = {loss};
  return testing_step::ModelOf(std::move(graph));
}

inline double NormOf(const Doubles& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
}

// One parameter in double. The formulas come from PyTorch's documentation, LAMB's paper and
// ONNX's operators.
struct Truth {
  Doubles p, m, v;  // m: first moment or velocity; v: second moment or sum of squares
  Truth(const std::vector<float>& start, const Hyperparameters& h)
      : p(start.begin(), start.end()), m(p.size(), 0), v(p.size(), h.initial_accumulator_value) {}

  void Update(const std::string& optimizer, const Hyperparameters& h, int t, Doubles g) {
    const double bias1 = 1 - std::pow(h.beta1, t), bias2 = 1 - std::pow(h.beta2, t);
    const double count = t - 1 + h.updates_done;  // ONNX's T
    Doubles direction(p.size());
    for (size_t i = 0; i < p.size(); ++i) {
      if (optimizer == "adamw") p[i] -= h.lr * h.weight_decay * p[i];
      const bool decoupled = optimizer == "adamw" || optimizer == "ort-adamw" || optimizer == "lamb";
      if (!decoupled) g[i] += h.weight_decay * p[i];
      if (optimizer == "plain-sgd") {
        direction[i] = g[i];
      } else if (optimizer == "sgd") {
        m[i] = h.momentum * m[i] + g[i];
        direction[i] = h.nesterov != 0 ? g[i] + h.momentum * m[i] : m[i];
      } else if (optimizer == "onnx-momentum") {
        m[i] = h.momentum * m[i] + (count > 0 ? h.gradient_weight : 1) * g[i];
        direction[i] = h.nesterov != 0 ? g[i] + h.momentum * m[i] : m[i];
      } else if (optimizer == "adagrad") {
        v[i] += g[i] * g[i];
        direction[i] = g[i] / (std::sqrt(v[i]) + h.eps) / (1 + count * h.lr_decay);
      } else {
        m[i] = h.beta1 * m[i] + (1 - h.beta1) * g[i];
        v[i] = h.beta2 * v[i] + (1 - h.beta2) * g[i] * g[i];
        direction[i] = m[i] / bias1 / (std::sqrt(v[i] / bias2) + h.eps);
        if (optimizer == "ort-adamw")
          direction[i] = std::sqrt(bias2) / bias1 * m[i] / (std::sqrt(v[i]) + h.eps);
        if (optimizer == "onnx-adam") {
          const double rate =
              count > 0 ? std::sqrt(1 - std::pow(h.beta2, count)) / (1 - std::pow(h.beta1, count)) : 1;
          direction[i] = rate * m[i] / (std::sqrt(v[i]) + h.eps);
        }
        if (optimizer == "lamb") direction[i] += h.weight_decay * p[i];
      }
    }
    const double length = NormOf(p), step = NormOf(direction);
    const double ratio = optimizer == "lamb" && length > 0 && step > 0 ? length / step : 1;
    for (size_t i = 0; i < p.size(); ++i) p[i] -= h.lr * ratio * direction[i];
    if (optimizer == "ort-adamw")
      for (double& e : p) e -= h.lr * h.weight_decay * e;
    for (double& e : p) e *= 1 - h.post_decay;
  }
};

// A plan of SumOfProducts that is being run.
struct PlanRun {
  PlanRun(const Dims& dims, const CompileOptions& options, const KernelRegistry& kernels)
      : PlanRun(SumOfProducts(dims), options, kernels) {}
  PlanRun(ImportResult model, const CompileOptions& options, const KernelRegistry& kernels)
      : plan(Take(Compile(std::move(model), options))) {
    executor = Take(Executor::Create(plan, Take(LayOut(plan, 1)), TestDevice(), kernels,
                                     {.threads = 2, .check_memory = true}));
  }
  llvm::Error Pass(const std::vector<float>& x, const StepState& state) {
    BoundGraph* const graph = Take(executor->Train(1));
    llvm::cantFail(executor->BeginStep());
    const TensorView& view = graph->view(plan.train.graph.inputs[0]);
    if (!x.empty()) std::memcpy(view.as<float>(), x.data(), x.size() * sizeof(float));
    return executor->Run(*graph, state);
  }
  const TensorView& Tensor(const std::string& name) const {
    for (const PersistentTensor& tensor : executor->persistents())
      if (tensor.name == name) return tensor.view;
    ADD_FAILURE() << name << " is missing";
    std::abort();
  }
  void ExpectEqual(const std::string& name, const Doubles& expected, const std::string& where) const {
    const TensorView& view = Tensor(name);
    ASSERT_EQ(static_cast<size_t>(view.elements), expected.size());
    double scale = 1e-3;  // scale of the tensor, whose elements are sums of terms of this size
    for (double e : expected) scale = std::max(scale, std::fabs(e));
    // Three updates, each with about ten float32 roundings of 6e-8.
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(static_cast<double>(view.as<float>()[i]), expected[i], 2e-6 * scale)
          << name << "[" << i << "], " << where;
  }

  Plan plan;
  std::unique_ptr<Executor> executor;
};

struct Case {
  std::string optimizer;
  Hyperparameters hyper;
};

inline std::vector<Case> Cases() {
  return {{"sgd", {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1}},
          {"sgd", {.lr = 0.1, .momentum = 0.7, .nesterov = 1, .weight_decay = 0.1}},
          {"plain-sgd", {.lr = 0.1, .weight_decay = 0.1}},
          {"adam", {.lr = 0.1, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3}},
          {"adamw", {.lr = 0.1, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3}},
          {"ort-adamw", {.lr = 0.1, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3}},
          {"onnx-momentum", {.lr = 0.1, .momentum = 0.7, .weight_decay = 0.1, .gradient_weight = 0.4}},
          {"onnx-momentum",
           {.lr = 0.1, .momentum = 0.7, .nesterov = 1, .gradient_weight = 0.4, .updates_done = 1}},
          {"onnx-adam",
           {.lr = 0.1, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3, .post_decay = 0.05}},
          {"onnx-adam", {.lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3, .updates_done = 1}},
          {"adagrad",
           {.lr = 0.1, .weight_decay = 0.1, .eps = 1e-3, .lr_decay = 0.5, .initial_accumulator_value = 0.1}},
          {"lamb", {.lr = 0.1, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3}}};
}

}  // namespace act::update_case
