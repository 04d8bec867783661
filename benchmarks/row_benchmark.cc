// Times the loops that a transformer runs between its products, as the compiler writes them: layer
// norm, GELU and their gradients. The arguments are the number of rows and the elements of a row.
// The shapes are those of ViT-B and of the first stage of ConvNeXt-T, both at batch 8.
//
// bytes_per_second counts each float32 tensor that is read or written once.
#include <benchmark/benchmark.h>
#include <omp.h>

#include "kernels/site/dereference.h"
#include "tests/unit/fused_case.h"

namespace act {
namespace {

const int kThreads = omp_get_max_threads();  // OMP_NUM_THREADS

struct Loop {
  Program program;
  std::vector<TensorType> inputs, outputs;
  Dims full, row, column;

  explicit Loop(const benchmark::State& state)
      : full{state.range(0), state.range(1)}, row{state.range(0), 1}, column{state.range(1)} {
    program.space = full;
    program.row_axes = 1;
  }
  int32_t In(const Dims& dims) {
    program.inputs.push_back({});
    inputs.push_back({DType::kFloat32, dims});
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
  int32_t Mul(int32_t a, int32_t b) { return Op(Opcode::kMul, a, b); }
  void Out(OutputKind kind, int32_t reg, const Dims& dims) {
    program.outputs.push_back({kind, reg, {}, 0});
    outputs.push_back({DType::kFloat32, dims});
  }

  void Measure(benchmark::State& state) {
    FusedCase c(program, inputs, outputs, 1);
    for (TensorView& view : c.input_views)
      for (int64_t i = 0; i < view.elements; ++i)
        view.as<float>()[i] = static_cast<float>((i * 2654435761u) % 1000) * 6e-3f - 3;
    c.Prepare("fused", kThreads);
    for (auto _ : state) c.Repeat();
    int64_t bytes = 0;
    for (const auto* views : {&c.input_views, &c.output_views})
      for (const TensorView& view : *views) bytes += view.bytes;
    state.SetBytesProcessed(state.iterations() * bytes);
  }
};

void LayerNorm(benchmark::State& state) {
  Loop l(state);
  const int32_t x = l.In(l.full), gamma = l.In(l.column), beta = l.In(l.column);
  const int32_t count = l.Constant(static_cast<float>(state.range(1))), epsilon = l.Constant(1e-6f),
                one = l.Constant(1);
  const int32_t mean = l.Op(Opcode::kDiv, l.Op(Opcode::kRowSum, x), count);
  const int32_t d = l.Op(Opcode::kSub, x, mean);
  const int32_t variance = l.Op(Opcode::kDiv, l.Op(Opcode::kRowSum, l.Mul(d, d)), count);
  const int32_t rstd = l.Op(Opcode::kDiv, one, l.Op(Opcode::kSqrt, l.Op(Opcode::kAdd, variance, epsilon)));
  l.Out(OutputKind::kRowStore, mean, l.row);
  l.Out(OutputKind::kRowStore, rstd, l.row);
  l.Out(OutputKind::kStore, l.Op(Opcode::kFma, l.Mul(d, rstd), gamma, beta), l.full);
  l.Measure(state);
}

void LayerNormGrad(benchmark::State& state) {
  Loop l(state);
  const int32_t dy = l.In(l.full), x = l.In(l.full), mean = l.In(l.row), rstd = l.In(l.row),
                gamma = l.In(l.column);
  const int32_t count = l.Constant(static_cast<float>(state.range(1)));
  const int32_t xhat = l.Mul(l.Op(Opcode::kSub, x, mean), rstd), g = l.Mul(dy, gamma);
  const int32_t mean_gx = l.Op(Opcode::kDiv, l.Op(Opcode::kRowSum, l.Mul(g, xhat)), count);
  const int32_t mean_g = l.Op(Opcode::kDiv, l.Op(Opcode::kRowSum, g), count),
                scale = l.Op(Opcode::kNeg, rstd);
  const int32_t rest = l.Op(Opcode::kFma, xhat, l.Mul(scale, mean_gx), l.Mul(scale, mean_g));
  l.Out(OutputKind::kSum, dy, l.column);
  l.Out(OutputKind::kSum, l.Mul(dy, xhat), l.column);
  l.Out(OutputKind::kStore, l.Op(Opcode::kFma, g, rstd, rest), l.full);
  l.Measure(state);
}

void Gelu(benchmark::State& state) {
  Loop l(state);
  const int32_t x = l.In(l.full), slope = l.Constant(.70710678f), half_x = l.Mul(l.Constant(.5f), x);
  l.Out(OutputKind::kStore, l.Op(Opcode::kFma, half_x, l.Op(Opcode::kErf, l.Mul(x, slope)), half_x), l.full);
  l.Measure(state);
}

void GeluGrad(benchmark::State& state) {
  Loop l(state);
  const int32_t x = l.In(l.full), dy = l.In(l.full), slope = l.Constant(.70710678f), half = l.Constant(.5f),
                zero = l.Constant(0), density = l.Constant(.39894228f);
  const int32_t z = l.Mul(x, slope), cdf = l.Op(Opcode::kFma, l.Op(Opcode::kErf, z), half, half);
  const int32_t bell = l.Op(Opcode::kExp, l.Op(Opcode::kSub, zero, l.Mul(z, z)));
  l.Out(OutputKind::kStore, l.Mul(dy, l.Op(Opcode::kFma, l.Mul(x, density), bell, cdf)), l.full);
  l.Measure(state);
}

template <Opcode kOp>
void Function(benchmark::State& state) {
  Loop l(state);
  l.Out(OutputKind::kStore, l.Op(kOp, l.In(l.full)), l.full);
  l.Measure(state);
}

void Copy(benchmark::State& state) {
  Loop l(state);
  l.Out(OutputKind::kStore, l.In(l.full), l.full);
  l.Measure(state);
}

#define ACT_ROW_BENCHMARK(...) BENCHMARK(__VA_ARGS__)->Unit(benchmark::kMicrosecond)->UseRealTime()
ACT_ROW_BENCHMARK(Copy)->Args({8 * 197, 768})->Args({8 * 56 * 56, 96});
ACT_ROW_BENCHMARK(LayerNorm)->Args({8 * 197, 768})->Args({8 * 56 * 56, 96});
ACT_ROW_BENCHMARK(LayerNormGrad)->Args({8 * 197, 768})->Args({8 * 56 * 56, 96});
ACT_ROW_BENCHMARK(Gelu)->Args({8 * 197, 3072});
ACT_ROW_BENCHMARK(GeluGrad)->Args({8 * 197, 3072});
ACT_ROW_BENCHMARK(Function<Opcode::kErf>)->Args({8 * 197, 3072});
ACT_ROW_BENCHMARK(Function<Opcode::kExp>)->Args({8 * 197, 3072});
ACT_ROW_BENCHMARK(Function<Opcode::kTanh>)->Args({8 * 197, 3072});
ACT_ROW_BENCHMARK(Function<Opcode::kSigmoid>)->Args({8 * 197, 3072});

}  // namespace
}  // namespace act

BENCHMARK_MAIN();
