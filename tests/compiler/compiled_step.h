// Compiles a graph made by hand and runs one step of it.
#pragma once

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ops/graph_builder.h"
#include "kernels/cpu/registry.h"
#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "passes/pipeline/pipeline.h"
#include "runtime/executor/executor.h"
#include "runtime/memory/layout.h"
#include "tests/take.h"
#include "tests/unit/test_device.h"

namespace act::testing_step {

using act::Take;
using act::Text;

inline const KernelRegistry& CpuKernels() {
  static const KernelRegistry registry = [] {
    KernelRegistry r;
    RegisterCpuKernels(r);
    return r;
  }();
  return registry;
}
inline const KernelRegistry& ReferenceKernels() {
  static const KernelRegistry registry = [] {
    KernelRegistry r;
    RegisterReferenceKernels(r);
    return r;
  }();
  return registry;
}

inline HostTensor HostFloats(const std::vector<float>& values) {
  return HostTensor::Copy(values.data(), static_cast<int64_t>(values.size() * sizeof(float)));
}

// What actc gets from the importer: a graph whose first output is its loss. All parameters train.
inline ImportResult ModelOf(Graph graph) {
  ImportResult model;
  model.model_name = "test";
  model.loss = graph.outputs.at(0);
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].kind == ValueKind::kParameter) model.trainable.push_back(static_cast<ValueId>(v));
  model.graph = std::move(graph);
  return model;
}

// Options with every check on; optimizer "none" makes the gradients graph outputs.
inline CompileOptions Checked(const std::string& level, const std::string& optimizer) {
  CompileOptions options;
  options.level = level;
  options.optimizer = optimizer;
  options.verify_each = true;
  return options;
}

// "edge: form" of the saved activations that grow with the batch, in order of their names.
inline std::vector<std::string> FullSizeForms(const Plan& plan) {
  std::vector<std::string> forms;
  for (const SavedEdge& edge : plan.edges)
    if (edge.bytes.per_batch > 0) forms.push_back(edge.name + ": " + edge.form);
  std::sort(forms.begin(), forms.end());
  return forms;
}

// Bytes of the graph's inputs, by name.
using StepInputs = std::map<std::string, std::vector<std::byte>>;

template <class T>
std::vector<std::byte> BytesOf(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const std::byte*>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}

struct StepOptions {
  int64_t batch = 1;
  bool check_memory = false;
  int threads = 2;
  StepState state = {.seed = 7};
  std::vector<size_t> disabled = {};  // positions of nodes that do not run
};

// Lays the plan out and runs one training step. Returns the graph's outputs in order, each as
// float32.
// Errors are the executor's. Inputs that `inputs` does not name stay zero.
inline llvm::Expected<std::vector<std::vector<float>>> RunStep(const Plan& plan,
                                                               const KernelRegistry& kernels,
                                                               const StepInputs& inputs,
                                                               const StepOptions& options) {
  omp_set_num_threads(options.threads);
  llvm::Expected<MemoryLayout> layout = LayOut(plan, options.batch);
  if (!layout) return layout.takeError();
  auto executor = Executor::Create(plan, std::move(*layout), TestDevice(), kernels,
                                   {.threads = options.threads, .check_memory = options.check_memory});
  if (!executor) return executor.takeError();
  llvm::Expected<BoundGraph*> bound = (*executor)->Train(options.batch);
  if (!bound) return bound.takeError();
  const Graph& graph = plan.train.graph;
  if (llvm::Error error = (*executor)->BeginStep()) return error;
  for (ValueId v : graph.inputs) {
    const TensorView& view = (*bound)->view(v);
    if (!view.data || view.bytes == 0) continue;
    const auto given = inputs.find(graph.value(v).name);
    if (given == inputs.end()) {
      std::memset(view.as<void>(), 0, static_cast<size_t>(view.bytes));
      continue;
    }
    EXPECT_EQ(static_cast<int64_t>(given->second.size()), view.bytes) << "input " << given->first;
    std::memcpy(view.as<void>(), given->second.data(), given->second.size());
  }
  for (const size_t node : options.disabled) (*bound)->Enable(node, false);
  if (llvm::Error error = (*executor)->Run(**bound, options.state)) return error;
  std::vector<std::vector<float>> outputs;
  for (ValueId v : graph.outputs) {
    const TensorView& view = (*bound)->view(v);
    const auto* data = view.as<float>();
    outputs.emplace_back(data, data + view.elements);
  }
  return outputs;
}

// A step's outputs, of which all but the loss are gradients where the optimizer is "none".
using Gradients = std::vector<std::vector<float>>;

// |a - b|^2 / |b|^2 over all outputs.
inline double Distance(const Gradients& a, const Gradients& b) {
  double difference = 0, square = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    for (size_t k = 0; k < b[i].size(); ++k) {
      const double d = static_cast<double>(a[i][k]) - static_cast<double>(b[i][k]);
      difference += d * d;
      square += static_cast<double>(b[i][k]) * static_cast<double>(b[i][k]);
    }
  }
  return difference / square;
}

}  // namespace act::testing_step
