// Times the fused loops that a convolutional network runs between its convolutions, and a plain
// copy for comparison. Tensors are those of ResNet-50 at batch 16: 16 x 56 x 56 x 256 (51 MB) by
// default.
//
// Loops between products have a second version, whose tensors between nodes are bfloat16.
//
// bytes_per_second counts the bytes of codes and of each tensor that is read or written. It does not
// count columns.
#include <benchmark/benchmark.h>
#include <omp.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/site/dereference.h"
#include "kernels/site/element_types.h"
#include "tests/unit/fused_case.h"

namespace act {
namespace {

const Dims kSpace = {Dim::Batch(), Dim(56), Dim(56), Dim(256)};
const Dims kColumn = {Dim(256)};
constexpr int64_t kBatch = 16;
const int kThreads = omp_get_max_threads();  // OMP_NUM_THREADS

TensorType Column() { return {DType::kFloat32, kColumn}; }

// Writes programs as the compiler does: operands first, then constants.
struct ProgramBuilder {
  DType activation;  // of whole tensors
  Program program;
  std::vector<TensorType> inputs, outputs;
  std::vector<std::pair<size_t, size_t>> same;  // operands that are one tensor

  explicit ProgramBuilder(DType type = DType::kFloat32) : activation(type) { program.space = kSpace; }
  TensorType Full() const { return {activation, kSpace}; }
  int32_t In(const TensorType& type, Codec codec = {}) {
    program.inputs.push_back({std::move(codec), 0});
    inputs.push_back(type);
    return program.FirstConstant() - 1;
  }
  int32_t Constant(float value) {
    program.constants.push_back({value, Dim(0)});
    return program.FirstInstr() - 1;
  }
  int32_t Op(Opcode op, int32_t a, int32_t b = -1, int32_t c = -1) {
    program.instrs.push_back({op, a, b, c});
    return program.Registers() - 1;
  }
  void Out(OutputKind kind, int32_t reg, Codec codec = {}) {
    program.outputs.push_back({kind, reg, std::move(codec), static_cast<int32_t>(program.outputs.size())});
    outputs.push_back(kind == OutputKind::kSum ? Column() : Full());
  }
};

// Operands are normal numbers, and codes those of normal numbers.
void Fill(FusedCase& c, const Program& program) {
  std::vector<float> x;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Codec codec = program.inputs[i].codec;
    TensorView& view = c.input_views[i];
    const int64_t n =
        codec.kind == CodecKind::kNone ? view.elements : kBatch * SamplesOf(kSpace).elements.fixed;
    x.resize(static_cast<size_t>(n));
    uint32_t state = 12345;
    for (float& v : x) {
      v = 0;
      for (int k = 0; k < 4; ++k)
        v += static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-24f - 0.5f;
    }
    if (codec.kind == CodecKind::kNone) {
      WriteFromFloat(view.dtype, x.data(), n, view.as<void>());
    } else {
      ProgramBuilder encode;
      encode.Out(OutputKind::kEncode, encode.In(encode.Full()), codec);
      FusedCase e(encode.program, encode.inputs, encode.outputs, kBatch);
      std::memcpy(e.In(0), x.data(), x.size() * 4);
      e.Run("fused", kThreads);
      std::memcpy(view.as<void>(), e.output_views[0].as<void>(), static_cast<size_t>(view.bytes));
    }
  }
}

// Result i takes the memory of operand mutated[i].
void Measure(benchmark::State& state, const ProgramBuilder& b, const std::vector<size_t>& mutated = {}) {
  FusedCase c(b.program, b.inputs, b.outputs, kBatch);
  Fill(c, b.program);
  for (const auto& [operand, other] : b.same) c.SameTensor(operand, other);
  for (size_t i = 0; i < mutated.size(); ++i) c.Alias(i, mutated[i]);
  c.Prepare("fused", kThreads);
  for (auto _ : state) c.Repeat();
  int64_t bytes = 0;
  for (const auto* views : {&c.input_views, &c.output_views})
    for (const TensorView& view : *views) bytes += view.bytes;
  state.SetBytesProcessed(state.iterations() * bytes);
}

template <DType kActivation>
void Copy(benchmark::State& state) {
  ProgramBuilder b(kActivation);
  b.Out(OutputKind::kStore, b.In(b.Full()));
  Measure(state, b);
}

void Memcpy(benchmark::State& state) {
  const size_t n = static_cast<size_t>(kBatch * 56 * 56 * 256);
  std::vector<float> from(n, 1.0f), to(n, 2.0f);
  for (auto _ : state) {
#pragma omp parallel
    {
      const size_t part = n / static_cast<size_t>(kThreads),
                   start = part * static_cast<size_t>(omp_get_thread_num());
      std::memcpy(to.data() + start, from.data() + start, part * 4);
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(n) * 8);
}

// Each thread reads its share of 12.8 MB or, with argument 1, what another thread has just written.
// The latter takes the same time if the cores share their last-level cache, and 1.5 times as long
// if they do not.
void ReadWritten(benchmark::State& state) {
  constexpr size_t kFloats = 3'211'264;
  std::vector<float> x(kFloats);
  const auto share = [&x](int thread) {
    const auto part = static_cast<size_t>(thread % kThreads), parts = static_cast<size_t>(kThreads);
    return std::pair(x.data() + kFloats * part / parts, x.data() + kFloats * (part + 1) / parts);
  };
  std::vector<float> sums(static_cast<size_t>(kThreads) * 16);
  for (auto _ : state) {
    state.PauseTiming();
#pragma omp parallel num_threads(kThreads)
    {
      const auto [from, to] = share(omp_get_thread_num());
      std::fill(from, to, 1.0f);
    }
    state.ResumeTiming();
#pragma omp parallel num_threads(kThreads)
    {
      const int thread = omp_get_thread_num();
      const auto [from, to] = share(thread + static_cast<int>(state.range(0)));
      uint32_t any = 0;
      for (const float* v = from; v < to; ++v) any |= std::bit_cast<uint32_t>(*v);
      sums[static_cast<size_t>(thread) * 16] = std::bit_cast<float>(any);
    }
    benchmark::DoNotOptimize(sums.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kFloats * sizeof(float)));
}

template <DType kActivation>
void ReadOnly(benchmark::State& state) {
  ProgramBuilder b(kActivation);
  b.Out(OutputKind::kSum, b.In(b.Full()));
  Measure(state, b);
}

template <DType kActivation>
void WriteOnly(benchmark::State& state) {
  ProgramBuilder b(kActivation);
  b.Out(OutputKind::kStore, b.In(Column()));
  Measure(state, b);
}

template <DType kActivation>
void AddRelu(benchmark::State& state) {
  ProgramBuilder b(kActivation);
  const int32_t x = b.In(b.Full()), y = b.In(b.Full()), zero = b.Constant(0);
  b.Out(OutputKind::kStore, b.Op(Opcode::kMax, b.Op(Opcode::kAdd, x, y), zero));
  Measure(state, b);
}

// The xhat and y = relu(xhat gamma + beta) of a BatchNorm: x, mean, rstd, gamma, beta.
struct BatchNorm {
  int32_t xhat, y;
  explicit BatchNorm(ProgramBuilder& b) {
    const int32_t x = b.In(b.Full()), mean = b.In(Column()), rstd = b.In(Column()), gamma = b.In(Column()),
                  beta = b.In(Column()), zero = b.Constant(0);
    xhat = b.Op(Opcode::kMul, b.Op(Opcode::kSub, x, mean), rstd);
    y = b.Op(Opcode::kMax, b.Op(Opcode::kAdd, b.Op(Opcode::kMul, xhat, gamma), beta), zero);
  }
};

template <DType kActivation>
void BatchNormRelu(benchmark::State& state) {
  ProgramBuilder b(kActivation);
  const BatchNorm bn(b);
  b.Out(OutputKind::kStore, bn.y);
  Measure(state, b);
}

// As above, with scale and shift computed in advance: one multiply-add.
template <DType kActivation>
void ScaleShiftRelu(benchmark::State& state) {
  ProgramBuilder b(kActivation);
  const int32_t x = b.In(b.Full()), scale = b.In(Column()), shift = b.In(Column()), zero = b.Constant(0);
  b.Out(OutputKind::kStore, b.Op(Opcode::kMax, b.Op(Opcode::kFma, x, scale, shift), zero));
  Measure(state, b);
}

template <DType kActivation>
void BatchNormReluEncode(benchmark::State& state) {
  ProgramBuilder b(kActivation);
  const BatchNorm bn(b);
  b.Out(OutputKind::kStore, bn.y);
  b.Out(OutputKind::kEncode, bn.xhat, Codec::Uniform(static_cast<int>(state.range(0))));
  b.Out(OutputKind::kEncode, bn.y, Codec::Mask());
  Measure(state, b);
}

// relu(gamma rstd x + shift + skip), in place, and the code of x's distance from the least, with
// the mask.
template <DType kActivation>
void ResidualEncode(benchmark::State& state) {
  ProgramBuilder b(kActivation);
  const int32_t x = b.In(b.Full()), skip = b.In(b.Full()), scale = b.In(Column()), shift = b.In(Column()),
                rstd = b.In(Column()), offset = b.In(Column()), zero = b.Constant(0),
                least = b.Constant(1e-30f);
  const int32_t y = b.Op(Opcode::kMax, b.Op(Opcode::kAdd, b.Op(Opcode::kFma, x, scale, shift), skip), zero);
  const int32_t distance = b.Op(Opcode::kMax, b.Op(Opcode::kFma, x, rstd, offset), least);
  b.Out(OutputKind::kStore, y);
  b.Out(OutputKind::kEncode,
        b.Op(Opcode::kSelect, b.Op(Opcode::kGreater, y, zero), distance, b.Op(Opcode::kNeg, distance)),
        Codec::Sign(3, 2).With(Metadata::kSides));
  Measure(state, b, {static_cast<size_t>(x)});
}

template <DType kActivation>
void Encode(benchmark::State& state) {
  ProgramBuilder b(kActivation);
  b.Out(OutputKind::kEncode, b.In(b.Full()), Codec::Uniform(static_cast<int>(state.range(0))));
  Measure(state, b);
}

template <DType kActivation>
void EncodeMask(benchmark::State& state) {
  ProgramBuilder b(kActivation);
  b.Out(OutputKind::kEncode, b.In(b.Full()), Codec::Mask());
  Measure(state, b);
}

template <DType kActivation>
void Decode(benchmark::State& state) {
  ProgramBuilder b(kActivation);
  b.Out(OutputKind::kStore, b.In(b.Full(), Codec::Uniform(static_cast<int>(state.range(0)))));
  Measure(state, b);
}

// The input of a convolution, computed from the code that it shares with the BatchNorm and the ReLU
// before it. At L3 this is mask * (gamma (v - shift) + beta).
template <DType kActivation>
void Rebuild(benchmark::State& state) {
  const Codec code = Codec::Sign(3, 2).With(Metadata::kLogPair);
  ProgramBuilder b(kActivation);
  const int32_t v = b.In(b.Full(), code), scale = b.In(Column()), shift = b.In(Column()),
                gamma = b.In(Column()), beta = b.In(Column()), mask = b.In(b.Full(), code);
  b.program.inputs[static_cast<size_t>(mask)].mask = true;
  b.same = {{static_cast<size_t>(v), static_cast<size_t>(mask)}};
  const int32_t xhat = b.Op(Opcode::kFma, v, scale, shift);
  const int32_t y = b.Op(Opcode::kAdd, b.Op(Opcode::kMul, xhat, gamma), beta);
  b.Out(OutputKind::kStore, b.Op(Opcode::kMul, y, mask));
  Measure(state, b);
}

// sum(dy mask), sum(dy mask xhat)
template <DType kActivation>
void BatchNormGradReduce(benchmark::State& state) {
  ProgramBuilder b(kActivation);
  const int32_t dy = b.In(b.Full()), mask = b.In(b.Full(), Codec::Mask()),
                xhat = b.In(b.Full(), Codec::Uniform(static_cast<int>(state.range(0))));
  const int32_t d = b.Op(Opcode::kMul, dy, mask);
  b.Out(OutputKind::kSum, d);
  b.Out(OutputKind::kSum, b.Op(Opcode::kMul, d, xhat));
  Measure(state, b);
}

// dx = gamma rstd (dy mask - mean(dbeta) - xhat mean(dgamma))
template <DType kActivation>
void BatchNormGradApply(benchmark::State& state) {
  ProgramBuilder b(kActivation);
  const int32_t dy = b.In(b.Full()), mask = b.In(b.Full(), Codec::Mask()),
                xhat = b.In(b.Full(), Codec::Uniform(static_cast<int>(state.range(0)))),
                scale = b.In(Column()), dbeta = b.In(Column()), dgamma = b.In(Column());
  const int32_t d = b.Op(Opcode::kSub, b.Op(Opcode::kMul, dy, mask), dbeta);
  b.Out(OutputKind::kStore,
        b.Op(Opcode::kMul, scale, b.Op(Opcode::kSub, d, b.Op(Opcode::kMul, xhat, dgamma))));
  Measure(state, b);
}

template <DType kActivation>
void Gelu(benchmark::State& state) {
  ProgramBuilder b(kActivation);
  const int32_t x = b.In(b.Full()), root = b.Constant(std::sqrt(0.5f)), half = b.Constant(0.5f),
                one = b.Constant(1);
  const int32_t erf = b.Op(Opcode::kErf, b.Op(Opcode::kMul, x, root));
  b.Out(OutputKind::kStore, b.Op(Opcode::kMul, b.Op(Opcode::kMul, x, half), b.Op(Opcode::kAdd, erf, one)));
  Measure(state, b);
}

template <DType kActivation>
void Dropout(benchmark::State& state) {
  ProgramBuilder b(kActivation);
  const int32_t y = b.Op(Opcode::kDropout, b.In(b.Full()));
  b.program.instrs.back().parameter = 0.1f;
  b.Out(OutputKind::kStore, y);
  Measure(state, b);
}

// Updates in place, as compiler/ops/update.cc has them: SGD with momentum, and Adam.
void SgdUpdate(benchmark::State& state) {
  ProgramBuilder b;
  const int32_t p = b.In(b.Full()), g = b.In(b.Full()), velocity = b.In(b.Full());
  const TensorType scalar{DType::kFloat32, {}};
  const int32_t lr = b.In(scalar), momentum = b.In(scalar), decay = b.In(scalar),
                velocity_part = b.In(scalar), gradient_part = b.In(scalar);
  const int32_t d = b.Op(Opcode::kFma, decay, p, g), v = b.Op(Opcode::kFma, momentum, velocity, d);
  const int32_t step = b.Op(Opcode::kFma, velocity_part, v, b.Op(Opcode::kMul, gradient_part, d));
  b.Out(OutputKind::kStore, b.Op(Opcode::kSub, p, b.Op(Opcode::kMul, lr, step)));
  b.Out(OutputKind::kStore, v);
  Measure(state, b, {0, 2});
}

void AdamUpdate(benchmark::State& state) {
  ProgramBuilder b;
  const int32_t p = b.In(b.Full()), g = b.In(b.Full()), m = b.In(b.Full()), v = b.In(b.Full());
  const TensorType scalar{DType::kFloat32, {}};
  const int32_t lr = b.In(scalar), rest1 = b.In(scalar), beta2 = b.In(scalar), rest2 = b.In(scalar),
                root = b.In(scalar), eps = b.In(scalar), decay = b.In(scalar);
  const int32_t d = b.Op(Opcode::kFma, decay, p, g);
  const int32_t first = b.Op(Opcode::kFma, rest1, b.Op(Opcode::kSub, d, m), m);
  const int32_t second = b.Op(Opcode::kFma, beta2, v, b.Op(Opcode::kMul, rest2, b.Op(Opcode::kMul, d, d)));
  const int32_t divisor = b.Op(Opcode::kFma, root, b.Op(Opcode::kSqrt, second), eps);
  b.Out(OutputKind::kStore,
        b.Op(Opcode::kSub, p, b.Op(Opcode::kDiv, b.Op(Opcode::kMul, lr, first), divisor)));
  b.Out(OutputKind::kStore, first);
  b.Out(OutputKind::kStore, second);
  Measure(state, b, {0, 2, 3});
}

#define ACT_FUSED_BENCHMARK(name) BENCHMARK(name)->Unit(benchmark::kMicrosecond)->UseRealTime()
// In float32 and in bfloat16, with such arguments (->Arg(2)).
#define ACT_BOTH_TYPES(name, ...)                         \
  ACT_FUSED_BENCHMARK(name<DType::kFloat32>) __VA_ARGS__; \
  ACT_FUSED_BENCHMARK(name<DType::kBFloat16>) __VA_ARGS__
ACT_FUSED_BENCHMARK(Memcpy);
ACT_FUSED_BENCHMARK(ReadWritten)->Arg(0)->Arg(1);
ACT_BOTH_TYPES(Copy);
ACT_BOTH_TYPES(ReadOnly);
ACT_BOTH_TYPES(WriteOnly);
ACT_BOTH_TYPES(AddRelu);
ACT_BOTH_TYPES(ScaleShiftRelu);
ACT_BOTH_TYPES(BatchNormRelu);
ACT_BOTH_TYPES(BatchNormReluEncode, ->Arg(2)->Arg(4));
ACT_BOTH_TYPES(ResidualEncode);
ACT_BOTH_TYPES(Encode, ->Arg(2)->Arg(3)->Arg(4)->Arg(8));
ACT_BOTH_TYPES(EncodeMask);
ACT_BOTH_TYPES(Decode, ->Arg(2)->Arg(3)->Arg(4)->Arg(8));
ACT_BOTH_TYPES(Rebuild);
ACT_BOTH_TYPES(BatchNormGradReduce, ->Arg(2)->Arg(4));
ACT_BOTH_TYPES(BatchNormGradApply, ->Arg(2)->Arg(4));
ACT_BOTH_TYPES(Gelu);
ACT_BOTH_TYPES(Dropout);
ACT_FUSED_BENCHMARK(SgdUpdate);
ACT_FUSED_BENCHMARK(AdamUpdate);

}  // namespace
}  // namespace act

BENCHMARK_MAIN();
