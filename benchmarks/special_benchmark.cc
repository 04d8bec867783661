// Times our own kernels on tensors of ResNet-50 at batch 16. They are bound by memory, so a copy of
// the same size is timed too, and each kernel again with bfloat16 where it takes that. The counter is the bytes of inputs and outputs per second.
#include <benchmark/benchmark.h>
#include <omp.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>

#include "kernels/cpu/registry.h"
#include "kernels/site/element_types.h"
#include "kernels/site/strided.h"
#include "runtime/plan/runtime_op.h"
#include "runtime/plan/workspace.h"

namespace act {
namespace {

using Ints = std::vector<int64_t>;

struct Case {
  std::string name, op;
  Attributes attrs;
  std::vector<Ints> inputs, outputs;
  std::vector<DType> input_types, output_types;  // f32 for the remaining tensors
  int64_t below = 1;                             // i64 inputs are random in 0..below - 1
};

Attributes Window(int64_t kernel, int64_t stride, int64_t pad) {
  Attributes a;
  a.Set("kernel_shape", Ints{kernel, kernel});
  a.Set("strides", Ints{stride, stride});
  a.Set("dilations", Ints{1, 1});
  a.Set("pads", Ints(4, pad));
  return a;
}
Attributes One(const std::string& name, Attribute value) {
  Attributes a;
  a.Set(name, std::move(value));
  return a;
}

std::vector<Case> Cases() {
  const DType f32 = DType::kFloat32, u8 = DType::kUint8, i64 = DType::kInt64;
  Attributes slice = One("starts", Ints{0, 0, 0, 64});
  slice.Set("steps", Ints{1, 1, 1, 1});
  Attributes pad = One("pads", Ints{0, 1, 1, 0, 0, 1, 1, 0});
  const Attributes rows = One("axis", int64_t{0});
  Attributes sum = rows;
  sum.Set("reduction", "add");
  Attributes linear = One("axes", Ints{1, 2});
  linear.Set("scales", std::vector<double>{2, 2});
  linear.Set("mode", "linear");
  Attributes nearest = linear;
  nearest.Set("mode", "nearest");
  nearest.Set("coordinate_mode", "asymmetric");
  nearest.Set("nearest_mode", "floor");
  Attributes half = linear;
  half.Set("scales", std::vector<double>{.5, .5});
  return {
      {"max_pool",
       "MaxPool",
       Window(3, 2, 1),
       {{16, 112, 112, 64}},
       {{16, 56, 56, 64}, {16, 56, 56, 64}},
       {},
       {f32, u8}},
      {"max_pool_grad",
       "MaxPoolGrad",
       Window(3, 2, 1),
       {{16, 56, 56, 64}, {16, 56, 56, 64}},
       {{16, 112, 112, 64}},
       {f32, u8},
       {}},
      {"average_pool", "AveragePool", Window(2, 2, 0), {{16, 56, 56, 256}}, {{16, 28, 28, 256}}, {}, {}},
      {"average_pool_grad",
       "AveragePoolGrad",
       Window(2, 2, 0),
       {{16, 28, 28, 256}},
       {{16, 56, 56, 256}},
       {},
       {}},
      {"global_mean", "ReduceMean", One("axes", Ints{1, 2}), {{16, 56, 56, 256}}, {{16, 256}}, {}, {}},
      {"bias_sum", "ReduceSum", One("axes", Ints{0, 1, 2}), {{16, 56, 56, 256}}, {{256}}, {}, {}},
      {"row_max", "ReduceMax", One("axes", Ints{1}), {{50176, 256}}, {{50176}}, {}, {}},
      {"images_to_channels_last",
       "Transpose",
       One("perm", Ints{0, 2, 3, 1}),
       {{16, 3, 224, 224}},
       {{16, 224, 224, 3}},
       {},
       {}},
      {"to_channels_last",
       "Transpose",
       One("perm", Ints{0, 2, 3, 1}),
       {{16, 256, 56, 56}},
       {{16, 56, 56, 256}},
       {},
       {}},
      {"attention_heads",
       "Transpose",
       One("perm", Ints{0, 2, 1, 3}),
       {{16, 128, 12, 64}},
       {{16, 12, 128, 64}},
       {},
       {}},
      {"concat",
       "Concat",
       One("axis", int64_t{3}),
       {{16, 56, 56, 224}, {16, 56, 56, 32}},
       {{16, 56, 56, 256}},
       {},
       {}},
      {"slice", "Slice", slice, {{16, 56, 56, 256}}, {{16, 56, 56, 128}}, {}, {}},
      {"slice_grad", "SliceGrad", slice, {{16, 56, 56, 128}}, {{16, 56, 56, 256}}, {}, {}},
      {"pad", "Pad", pad, {{16, 56, 56, 256}}, {{16, 58, 58, 256}}, {}, {}},
      {"resize", "Resize", linear, {{16, 28, 28, 256}}, {{16, 56, 56, 256}}, {}, {}},
      {"resize_grad", "ResizeGrad", linear, {{16, 56, 56, 256}}, {{16, 28, 28, 256}}, {}, {}},
      {"resize_nearest", "Resize", nearest, {{16, 28, 28, 256}}, {{16, 56, 56, 256}}, {}, {}},
      {"resize_nearest_grad", "ResizeGrad", nearest, {{16, 56, 56, 256}}, {{16, 28, 28, 256}}, {}, {}},
      {"resize_images", "Resize", half, {{16, 224, 224, 3}}, {{16, 112, 112, 3}}, {}, {}},
      {"resize_scores", "Resize", linear, {{16, 112, 112, 21}}, {{16, 224, 224, 21}}, {}, {}},
      {"resize_scores_grad", "ResizeGrad", linear, {{16, 224, 224, 21}}, {{16, 112, 112, 21}}, {}, {}},
      {"embedding", "Gather", rows, {{30522, 768}, {1024, 1}}, {{1024, 768}}, {f32, i64}, {}, 30522},
      {"embedding_grad", "Scatter", sum, {{1024, 768}, {1024, 1}}, {{30522, 768}}, {f32, i64}, {}, 30522},
      {"embedding_grad_of_one_row", "Scatter", sum, {{1024, 768}, {1024, 1}}, {{30522, 768}}, {f32, i64}, {}},
      {"edges_gather", "Gather", rows, {{20000, 64}, {200000, 1}}, {{200000, 64}}, {f32, i64}, {}, 20000},
      {"edges_sum", "Scatter", sum, {{200000, 64}, {200000, 1}}, {{20000, 64}}, {f32, i64}, {}, 20000},
      {"edges_sum_of_numbers", "Scatter", sum, {{200000}, {200000}}, {{20000}}, {f32, i64}, {}, 20000},
      {"cross_entropy", "SoftmaxCrossEntropy", {}, {{512, 32000}, {512}}, {{}, {512, 32000}}, {f32, i64}, {}},
      {"batch_norm_stats_64", "BatchNormStats", {}, {{16, 112, 112, 64}}, {{64}, {64}}, {}, {}},
      {"batch_norm_stats_256", "BatchNormStats", {}, {{16, 56, 56, 256}}, {{256}, {256}}, {}, {}},
      {"batch_norm_stats_2048", "BatchNormStats", {}, {{16, 7, 7, 2048}}, {{2048}, {2048}}, {}, {}},
  };
}

// The same with bfloat16 wherever the operator may have it, or nullopt if it may not.
std::optional<Case> Narrow(Case c) {
  const BFloat16s letters = FindRuntimeOp(c.op)->bfloat16;
  bool any = false;
  const auto narrow = [&any](std::string_view places, size_t count, std::vector<DType>& types) {
    types.resize(count, DType::kFloat32);
    for (size_t i = 0; i < count; ++i) {
      if (types[i] != DType::kFloat32 || BFloat16Letter(places, i) == '-') continue;
      types[i] = DType::kBFloat16;
      any = true;
    }
  };
  narrow(letters.operands, c.inputs.size(), c.input_types);
  narrow(letters.results, c.outputs.size(), c.output_types);
  c.name += "/bfloat16";
  return any ? std::optional(c) : std::nullopt;
}

void Run(benchmark::State& state, const Case& c) {
  KernelRegistry registry;
  RegisterCpuKernels(registry);
  Graph graph;
  Node node;
  node.op = c.op;
  node.attrs = c.attrs;
  std::vector<std::vector<std::byte>> storage;
  std::vector<TensorView> inputs, outputs;
  int64_t bytes = 0;
  const auto add = [&](const std::vector<Ints>& all, const std::vector<DType>& types,
                       std::vector<TensorView>& views, std::vector<ValueId>& ids) {
    for (size_t i = 0; i < all.size(); ++i) {
      const DType dtype = i < types.size() ? types[i] : DType::kFloat32;
      const int64_t size = ElementCount(all[i]) * ByteSize(dtype);
      storage.emplace_back(static_cast<size_t>(size));
      if (IsFloat(dtype)) {
        std::mt19937 engine(1);
        for (int64_t e = 0; e < ElementCount(all[i]); ++e) {
          const float x = static_cast<float>(engine() >> 8) * 0x1p-24f;
          WriteFromFloat(dtype, &x, 1, storage.back().data() + e * ByteSize(dtype));
        }
      }
      if (dtype == DType::kInt64) {
        std::mt19937 engine(2);
        auto* values = reinterpret_cast<int64_t*>(storage.back().data());
        for (int64_t e = 0; e < ElementCount(all[i]); ++e) values[e] = engine() % c.below;
      }
      views.push_back({DevicePointer(storage.back().data()), dtype, all[i], ElementCount(all[i]), size});
      graph.values.push_back({"", {dtype, Dims(all[i].begin(), all[i].end())}, ValueKind::kActivation, {}});
      ids.push_back(static_cast<ValueId>(graph.values.size() - 1));
      bytes += size;
    }
  };
  add(c.inputs, c.input_types, inputs, node.inputs);
  add(c.outputs, c.output_types, outputs, node.outputs);
  const int64_t bound = WorkspaceBound(node, graph, CpuTarget(), 0).At(1);
  std::string why;
  const auto kernel =
      registry.For(c.op).front().create({&node, inputs, outputs, 16, bound, omp_get_max_threads()}, &why);
  if (!kernel) {
    state.SkipWithError(why.c_str());
    return;
  }
  std::vector<std::byte> scratch(static_cast<size_t>(bound) + 64);
  auto* workspace = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
  const StepState step;
  for (auto _ : state)
    if (const std::string error = kernel->Run({inputs, outputs, {DevicePointer(workspace), bound}, &step});
        !error.empty())
      state.SkipWithError(error.c_str());
  state.SetBytesProcessed(state.iterations() * bytes);
}

// Reads and writes 51 MB, in parallel blocks.
void Copy(benchmark::State& state) {
  std::vector<float> from(12845056, 1.0f), to(from.size());
  constexpr int64_t kBlocks = 64;
  const auto block = static_cast<int64_t>(from.size()) / kBlocks;
  for (auto _ : state) {
#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < kBlocks; ++b)
      std::memcpy(to.data() + b * block, from.data() + b * block, static_cast<size_t>(block) * sizeof(float));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(2 * sizeof(float) * from.size()));
}

}  // namespace
}  // namespace act

int main(int argc, char** argv) {
  benchmark::RegisterBenchmark("copy", act::Copy)->UseRealTime()->Unit(benchmark::kMillisecond);
  const auto add = [](const act::Case& c) {
    benchmark::RegisterBenchmark(c.name.c_str(), [c](benchmark::State& state) { act::Run(state, c); })
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  };
  for (const act::Case& c : act::Cases()) {
    add(c);
    if (const auto narrow = act::Narrow(c)) add(*narrow);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
