// Attention of known networks, forward and backward, in float32 and bfloat16. The counter is floating-point
// operations per second, of 2 products forward and 5 backward. Causal attention counts half of
// them.
#include <benchmark/benchmark.h>
#include <omp.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "kernels/cpu/registry.h"
#include "kernels/math/convert.h"
#include "runtime/plan/workspace.h"

namespace act {
namespace {

struct Form {
  const char* name;
  int64_t samples, heads, length, depth;
  bool causal, bias;
};

const Form kForms[] = {
    {"vit", 8, 12, 197, 64, false, false},
    {"bert", 8, 12, 128, 64, false, false},
    {"gpt2", 1, 12, 1024, 64, true, false},
    {"swin", 512, 3, 49, 32, false, true},
};

struct Tensors {
  std::vector<std::vector<float>> storage;
  std::vector<TensorView> views;
  Graph graph;
  std::vector<ValueId> ids;

  void Add(const std::vector<int64_t>& dims, DType dtype) {
    const int64_t elements = ElementCount(dims);
    storage.emplace_back(static_cast<size_t>(elements));
    std::mt19937 engine(static_cast<unsigned>(storage.size()));
    std::normal_distribution<float> normal;
    for (float& x : storage.back()) x = normal(engine);
    if (dtype == DType::kBFloat16)  // in place: what is written lies before what is read
      for (size_t i = 0; i < storage.back().size(); ++i) {
        const BFloat16 rounded = FromFloat<BFloat16>(storage.back()[i]);
        std::memcpy(reinterpret_cast<char*>(storage.back().data()) + 2 * i, &rounded, 2);
      }
    views.push_back({nullptr, dtype, dims, elements, elements * ByteSize(dtype)});
  }
};

void Run(benchmark::State& state, const Form& f, bool backward, DType dtype) {
  // [N, T, H, D], in the order that projections give them
  const std::vector<int64_t> dims{f.samples, f.length, f.heads, f.depth}, bias{f.heads, f.length, f.length};
  Tensors inputs, outputs;
  for (int i = 0; i < (backward ? 4 : 3); ++i) inputs.Add(dims, dtype);
  for (int i = 0; i < (backward ? 3 : 1); ++i) outputs.Add(dims, dtype);
  if (f.bias) {
    inputs.Add(bias, DType::kFloat32);
    if (backward) outputs.Add(bias, DType::kFloat32);
  }
  Graph graph;
  Node node;
  node.op = backward ? "AttentionGrad" : "Attention";
  node.attrs.Set("scale", 1 / std::sqrt(static_cast<double>(f.depth)));
  node.attrs.Set("causal", int64_t{f.causal});
  for (const char* perm : {"perm_q", "perm_k", "perm_v", "perm_o"})
    node.attrs.Set(perm, std::vector<int64_t>{0, 2, 1, 3});
  const auto add = [&graph](const TensorView& view) {
    graph.values.push_back(
        {"", {view.dtype, Dims(view.dims.begin(), view.dims.end())}, ValueKind::kActivation, {}});
    return static_cast<ValueId>(graph.values.size() - 1);
  };
  for (const TensorView& view : inputs.views) node.inputs.push_back(add(view));
  for (const TensorView& view : outputs.views) node.outputs.push_back(add(view));
  const int64_t bound = WorkspaceBound(node, graph, CpuTarget(), 0).At(1);
  const KernelSite site{&node, inputs.views, outputs.views, f.samples, bound, omp_get_max_threads()};
  KernelRegistry registry;
  RegisterCpuKernels(registry);
  std::string why;
  const auto kernel = registry.For(node.op).front().create(site, &why);
  if (!kernel) return state.SkipWithError(why.c_str());
  for (size_t i = 0; i < inputs.views.size(); ++i)
    inputs.views[i].data = DevicePointer(inputs.storage[i].data());
  for (size_t i = 0; i < outputs.views.size(); ++i)
    outputs.views[i].data = DevicePointer(outputs.storage[i].data());
  std::vector<std::byte> workspace(static_cast<size_t>(kernel->WorkspaceBytes()) + 64);
  std::byte* aligned = workspace.data() + (64 - reinterpret_cast<uintptr_t>(workspace.data()) % 64) % 64;
  const StepState step;
  for (auto _ : state)
    kernel->Run({inputs.views,
                 outputs.views,
                 {DevicePointer(aligned), static_cast<int64_t>(workspace.size()) - 64},
                 &step});
  const double products = 2.0 * static_cast<double>(f.samples * f.heads * f.length * f.length * f.depth);
  state.counters["flops"] =
      benchmark::Counter(products * (backward ? 5 : 2) * (f.causal ? .5 : 1),
                         benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
  state.counters["workspace"] = static_cast<double>(kernel->WorkspaceBytes());
}

const int kRegistered = [] {
  for (const Form& form : kForms)
    for (const bool backward : {false, true})
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        const std::string name = std::string(form.name) + (backward ? "/backward/" : "/forward/");
        benchmark::RegisterBenchmark(
            (name + std::string(ToString(dtype))).c_str(),
            [&form, backward, dtype](benchmark::State& s) { Run(s, form, backward, dtype); })
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
      }
  return 0;
}();

}  // namespace
}  // namespace act

BENCHMARK_MAIN();
