// Runs one node by one kernel, and every kernel of an operator against its reference kernel.
#pragma once

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/registry.h"
#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "runtime/plan/workspace.h"

namespace act {

// A tensor with its own bytes.
struct TestTensor {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> dims;
  std::vector<std::byte> bytes;
  bool present = true;
  std::shared_ptr<const CodedParameter> coded = nullptr;  // of a frozen weight: dims and bytes are those of its code

  template <class T>
  T* as() {
    return reinterpret_cast<T*>(bytes.data());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(bytes.data());
  }
  int64_t elements() const { return ElementCount(dims); }
  TensorView View(bool with_data) {
    if (!present) return {};
    return {DevicePointer(with_data ? bytes.data() : nullptr), dtype, dims, elements(),
            elements() * ByteSize(dtype), coded.get()};
  }
};

inline TestTensor Empty(std::vector<int64_t> dims, DType dtype = DType::kFloat32) {
  TestTensor t{dtype, std::move(dims), {}, true};
  // NaN: what a kernel forgets to write fails every comparison.
  t.bytes.assign(static_cast<size_t>(t.elements() * ByteSize(dtype)), std::byte{0xff});
  return t;
}
inline TestTensor Absent() { return {DType::kFloat32, {}, {}, false}; }

template <class T>
TestTensor Of(std::vector<int64_t> dims, const std::vector<T>& values, DType dtype) {
  TestTensor t = Empty(std::move(dims), dtype);
  EXPECT_EQ(static_cast<size_t>(t.elements()), values.size());
  if (!values.empty()) std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
  return t;
}
inline TestTensor Floats(std::vector<int64_t> dims, const std::vector<float>& values) {
  return Of(std::move(dims), values, DType::kFloat32);
}
inline TestTensor Labels(std::vector<int64_t> dims, const std::vector<int64_t>& values) {
  return Of(std::move(dims), values, DType::kInt64);
}
inline TestTensor Random(std::vector<int64_t> dims, unsigned seed, float mean = 0) {
  TestTensor t = Empty(std::move(dims));
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(mean, 1);
  for (int64_t i = 0; i < t.elements(); ++i) t.as<float>()[i] = normal(engine);
  return t;
}

// A node and its tensors. Outputs give dtypes and dims. Inputs that the node mutates are compared
// like outputs.
struct OpCase {
  std::string op;
  Attributes attrs;
  std::vector<TestTensor> inputs, outputs;
  std::vector<int32_t> mutates;
  StepState state;
  Program program = {};  // of an operator that runs one
  // (result, operand): the result lies where the operand does. Several operands of one result are the same tensor.
  std::vector<std::pair<size_t, size_t>> in_place = {};
  int64_t first_sample = 0;                    // of a tile
  bool goes_on = false;                        // a tile after the first: outputs hold what those before made
  std::byte workspace_byte = std::byte{0xcd};  // what the workspace is full of; of 0xff, floats are NaN
};

struct OpResult {
  std::string error;  // of Run; or the reason of the refusal
  bool refused = false;
  std::vector<TestTensor> tensors;  // outputs, then mutated inputs
  int64_t workspace_bytes = 0;
};

// The bound that a plan would carry for this node.
inline int64_t PlannedWorkspace(const OpCase& c, const Target& target = CpuTarget()) {
  Graph graph;
  Node node;
  node.op = c.op;
  node.attrs = c.attrs;
  const auto add = [&graph](const TestTensor& t) {
    if (!t.present) return kNoValue;
    graph.values.push_back(
        {"", {t.dtype, Dims(t.dims.begin(), t.dims.end())}, ValueKind::kActivation, {}, t.coded});
    return static_cast<ValueId>(graph.values.size() - 1);
  };
  for (const TestTensor& t : c.inputs) node.inputs.push_back(add(t));
  for (const TestTensor& t : c.outputs) node.outputs.push_back(add(t));
  return WorkspaceBound(node, graph, target, 0).At(1);
}

// Runs the node on copies of the case's tensors. Checks the bytes after the end of the workspace.
inline OpResult RunKernel(const KernelEntry& entry, OpCase c, int threads, int64_t workspace) {
  Node node;
  node.op = c.op;
  node.attrs = c.attrs;
  node.mutates = c.mutates;
  node.program = c.program;
  for (size_t i = 0; i < c.inputs.size(); ++i)
    node.inputs.push_back(c.inputs[i].present ? static_cast<ValueId>(i) : kNoValue);
  KernelSite site{&node, {}, {}, 1, workspace, threads};
  for (TestTensor& t : c.inputs) site.inputs.push_back(t.View(false));
  for (TestTensor& t : c.outputs) site.outputs.push_back(t.View(false));
  // A program stores into what it mutates as it stores results.
  const std::vector<int32_t> stored = c.program.Empty() ? std::vector<int32_t>() : c.mutates;
  for (const int32_t i : stored) site.outputs.push_back(site.inputs[static_cast<size_t>(i)]);
  if (!c.inputs.empty() && !c.inputs[0].dims.empty()) site.batch = site.whole_batch = c.inputs[0].dims[0];
  site.goes_on = c.goes_on;
  OpResult result;
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  const auto kernel = entry.create(site, &result.error);
  if (!kernel) {
    result.refused = true;
    EXPECT_FALSE(result.error.empty()) << entry.name << " refuses without a reason";
    omp_set_num_threads(before);
    return result;
  }
  result.workspace_bytes = kernel->WorkspaceBytes();
  EXPECT_LE(result.workspace_bytes, workspace) << entry.name;
  constexpr size_t kGuard = 4096;
  const auto used = static_cast<size_t>(result.workspace_bytes);
  std::vector<std::byte> storage(used + kGuard + 64, c.workspace_byte);
  auto* scratch = storage.data() + (64 - reinterpret_cast<uintptr_t>(storage.data()) % 64) % 64;
  std::vector<TensorView> inputs, outputs;
  for (TestTensor& t : c.inputs) inputs.push_back(t.View(true));
  for (TestTensor& t : c.outputs) outputs.push_back(t.View(true));
  for (const int32_t i : stored) outputs.push_back(inputs[static_cast<size_t>(i)]);
  std::vector<size_t> place(c.outputs.size(), c.inputs.size());  // the operand where each result lies
  for (const auto& [output, input] : c.in_place) {
    if (place[output] == c.inputs.size()) place[output] = input;
    inputs[input].data = outputs[output].data = inputs[place[output]].data;
  }
  result.error = kernel->Run({.inputs = inputs,
                              .outputs = outputs,
                              .workspace = {DevicePointer(scratch), result.workspace_bytes},
                              .state = &c.state,
                              .first_sample = c.first_sample,
                              .goes_on = c.goes_on});
  for (size_t o = 0; o < place.size(); ++o)
    if (place[o] < c.inputs.size()) c.outputs[o].bytes = c.inputs[place[o]].bytes;
  for (size_t i = 0; i < kGuard; ++i)
    if (scratch[used + i] != c.workspace_byte) {
      ADD_FAILURE() << entry.name << " writes " << i << " bytes past its workspace of " << used;
      break;
    }
  omp_set_num_threads(before);
  for (TestTensor& t : c.outputs) result.tensors.push_back(std::move(t));
  for (int32_t i : c.mutates) result.tensors.push_back(std::move(c.inputs[static_cast<size_t>(i)]));
  return result;
}

inline const KernelRegistry& CpuRegistry() {
  static const KernelRegistry registry = [] {
    KernelRegistry r;
    RegisterCpuKernels(r);
    return r;
  }();
  return registry;
}

inline OpResult RunReference(const OpCase& c) { return RunKernel(CpuRegistry().For(c.op).back(), c, 1, 0); }

// The largest |a - b| / scale. scale is the largest |b| of the tensor, at least `least_scale`, or 1 if that
// is 0. If one element is NaN, the other must be NaN, too.
template <class T>
double DistanceOfElements(const TestTensor& a, const TestTensor& b, double least_scale) {
  double scale = least_scale, worst = 0;
  for (int64_t i = 0; i < b.elements(); ++i)
    if (std::isfinite(b.as<T>()[i])) scale = std::fmax(scale, std::fabs(b.as<T>()[i]));
  for (int64_t i = 0; i < b.elements(); ++i) {
    const double x = a.as<T>()[i], y = b.as<T>()[i];
    if (std::isnan(x) != std::isnan(y) || std::isinf(x) != std::isinf(y)) return 1e30;
    if (std::isfinite(x)) worst = std::fmax(worst, std::fabs(x - y));
  }
  return worst / (scale > 0 ? scale : 1);
}
inline double Distance(const TestTensor& a, const TestTensor& b, double least_scale = 0) {
  if (a.dtype == DType::kFloat32) return DistanceOfElements<float>(a, b, least_scale);
  if (a.dtype == DType::kFloat64) return DistanceOfElements<double>(a, b, least_scale);
  return a.bytes == b.bytes ? 0 : 1e30;
}

// Runs every kernel of the operator on 1, 2 and 5 threads, with the planned workspace and with
// none, and compares it with the reference. Our own kernels must give the same bits on any number
// of threads. A case whose results may cancel to next to nothing gives the `least_scale` that errors are
// relative to. Returns how many kernels other than the reference ran with the planned workspace.
inline int CompareWithReference(const OpCase& c, double tolerance, double least_scale = 0) {
  const auto& entries = CpuRegistry().For(c.op);
  EXPECT_FALSE(entries.empty()) << c.op;
  if (entries.empty()) return 0;
  const OpResult truth = RunReference(c);
  EXPECT_FALSE(truth.refused) << truth.error;
  EXPECT_EQ(truth.error, "");
  int ran = 0;
  for (size_t k = 0; k + 1 < entries.size(); ++k)
    for (const int64_t workspace : {PlannedWorkspace(c), int64_t{0}}) {
      OpResult first;
      for (const int threads : {1, 2, 5}) {
        const OpResult result = RunKernel(entries[k], c, threads, workspace);
        if (result.refused) continue;
        const std::string where = entries[k].name + ", " + std::to_string(threads) + " threads, " +
                                  std::to_string(workspace) + " bytes of workspace";
        EXPECT_EQ(result.error, "") << where;
        ran += workspace != 0 || threads == 1;
        for (size_t i = 0; i < truth.tensors.size(); ++i) {
          if (truth.tensors[i].present) {
            EXPECT_LE(Distance(result.tensors[i], truth.tensors[i], least_scale), tolerance)
                << where << ", tensor " << i;
          }
          if (!first.tensors.empty() && entries[k].name.rfind("cpu.", 0) == 0) {
            EXPECT_EQ(result.tensors[i].bytes, first.tensors[i].bytes)
                << where << ": other bits than on 1 thread";
          }
        }
        if (threads == 1) first = result;
      }
    }
  return ran;
}

// Checks a gradient operator of the reference. `grad` gets weights as its input 0. It computes the
// gradient of sum(weights * output 0 of `forward`) with respect to input `at` of `forward`. The
// check uses central differences of the float kernels. The operators in use are linear or piecewise
// linear in that input, so a large step causes no truncation error.
inline void CheckGradient(const OpCase& forward, size_t at, const OpCase& grad, float step,
                          double tolerance) {
  const OpResult gradient = RunReference(grad);
  ASSERT_EQ(gradient.error, "");
  const TestTensor& weights = grad.inputs[0];
  const auto objective = [&](int64_t i, float change) {
    OpCase moved = forward;
    moved.inputs[at].as<float>()[i] += change;
    const OpResult y = RunReference(moved);
    EXPECT_EQ(y.error, "");
    double sum = 0;
    for (int64_t j = 0; j < weights.elements(); ++j)
      sum += double{y.tensors[0].as<float>()[j]} * weights.as<float>()[j];
    return sum;
  };
  for (int64_t i = 0; i < forward.inputs[at].elements(); ++i) {
    const double expected = (objective(i, step) - objective(i, -step)) / (2 * double{step});
    EXPECT_NEAR(gradient.tensors[0].as<float>()[i], expected, tolerance) << forward.op << ", element " << i;
  }
}

}  // namespace act
