// Times each distinct convolution of ResNet-50, forward and backward, with its packing and scratch
// memory. In RoundedGradWeight the operands may be rounded to bfloat16.
//   convolution_benchmark [--batch=16] [google benchmark's flags]
// Counters: GFLOP/s; the workspace that was used and its bound, in KiB; count: how often the
// network has this convolution.
#include <benchmark/benchmark.h>
#include <omp.h>

#include <cstdlib>
#include <cstring>

#include "kernels/cpu/registry.h"
#include "runtime/plan/workspace.h"
#include "tests/network_shapes.h"

namespace act {
namespace {

void RunConvolution(benchmark::State& state, const ConvolutionShape& shape, std::string op, int64_t batch,
                    int count) {
  const bool rounded = op == "RoundedGradWeight";
  if (rounded) op = "ConvGradWeight";
  KernelRegistry registry;
  RegisterCpuKernels(registry);
  const ConvolutionNode n = NodeOf(shape, op, batch);
  Graph graph;
  Node node;
  node.op = op;
  node.attrs = shape.Attrs();
  if (rounded) node.attrs.Set("may_round", int64_t{1});
  std::vector<std::vector<float>> storage;
  std::vector<TensorView> views;
  for (const std::vector<int64_t>& dims : {n.inputs[0], n.inputs[1], n.output}) {
    graph.values.push_back(
        {"", {DType::kFloat32, Dims(dims.begin(), dims.end())}, ValueKind::kActivation, {}});
    storage.emplace_back(static_cast<size_t>(ElementCount(dims)), 0.5f);
    views.push_back(ViewOf(dims, storage.back().data()));
  }
  node.inputs = {0, 1};
  node.outputs = {2};
  const int64_t bound = WorkspaceBound(node, graph, CpuTarget(), 0).At(1);
  const KernelSite site{&node, {views[0], views[1]}, {views[2]}, batch, bound, omp_get_max_threads()};
  std::string why;
  std::unique_ptr<Kernel> kernel;
  for (const KernelEntry& entry : registry.For(op))
    if ((kernel = entry.create(site, &why))) break;
  if (!kernel) {
    state.SkipWithError(why.c_str());
    return;
  }
  auto* workspace =
      static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>(bound + 63) / 64 * 64));
  const KernelArgs args{
      std::span(views).first(2), std::span(views).last(1), {DevicePointer(workspace), bound}, nullptr};
  for (auto _ : state)
    if (const std::string error = kernel->Run(args); !error.empty()) state.SkipWithError(error.c_str());
  std::free(workspace);
  state.SetLabel(kernel->Describe());
  state.counters["GFLOP/s"] =
      benchmark::Counter(shape.Flops(batch) * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["used_KiB"] = static_cast<double>(kernel->WorkspaceBytes()) / 1024;
  state.counters["bound_KiB"] = static_cast<double>(bound) / 1024;
  state.counters["count"] = count;
}

}  // namespace
}  // namespace act

int main(int argc, char** argv) {
  int64_t batch = 16;
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], "--batch=", 8) == 0) {
      batch = std::atoll(argv[i] + 8);
      std::copy(argv + i + 1, argv + argc, argv + i);
      --argc;
      break;
    }
  for (const auto& [shape, count] : act::ResNet({3, 4, 6, 3}))
    for (const std::string op : {"Conv", "ConvGradInput", "ConvGradWeight", "RoundedGradWeight"}) {
      if (op == "ConvGradInput" && shape.in_channels == 3) continue;
      const std::string name = op + "/c" + std::to_string(shape.in_channels) + "/m" +
                               std::to_string(shape.out_channels) + "/s" + std::to_string(shape.size) + "/k" +
                               std::to_string(shape.kernel) + "/stride" + std::to_string(shape.stride);
      benchmark::RegisterBenchmark(name.c_str(),
                                   [shape = shape, op, batch, count = count](benchmark::State& state) {
                                     act::RunConvolution(state, shape, op, batch, count);
                                   })
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
    }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
