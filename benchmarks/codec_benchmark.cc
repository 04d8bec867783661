// Encoding, decoding and random numbers of one tile of 1,024 elements in the first-level cache: what the
// arithmetic costs where memory costs nothing.
#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/cpu/code_tile.h"

namespace act {
namespace {

constexpr int64_t kSample = 64 * kTileElements;
const RandomStream kStream{1, 2, 3};

std::vector<float> Values() {
  std::vector<float> x(kTileElements);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 2654435761u % 1000) - 500;
  return x;
}

// Arguments: bits (0: a mask), and whether rounding is stochastic (0) or by dither (1).
Codec CodecOf(const benchmark::State& state) {
  const auto rounding = state.range(1) != 0 ? Rounding::kDither : Rounding::kStochastic;
  return state.range(0) == 0 ? Codec::Mask()
                             : Codec::Uniform(static_cast<int>(state.range(0)), kDefaultGroupSize, rounding);
}

void Encode(benchmark::State& state) {
  const Codec codec = CodecOf(state);
  const CodeLayout layout = LayoutOf(codec, kSample);
  const std::vector<float> x = Values();
  std::vector<uint8_t> code(static_cast<size_t>(layout.sample_bytes));
  for (auto _ : state) {
    EncodeTile(codec, layout, kStream, {0, kSample, 0, kTileElements}, x.data(), code.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kTileElements);
}

void Decode(benchmark::State& state) {
  const Codec codec = CodecOf(state);
  const CodeLayout layout = LayoutOf(codec, kSample);
  std::vector<float> x = Values();
  std::vector<uint8_t> code(static_cast<size_t>(layout.sample_bytes));
  EncodeTile(codec, layout, kStream, {0, kSample, 0, kTileElements}, x.data(), code.data());
  for (auto _ : state) {
    DecodeTile(codec, layout, kStream, {0, kSample, 0, kTileElements}, code.data(), false, nullptr, x.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kTileElements);
}

// The random numbers that one tile's stochastic rounding takes.
void Random(benchmark::State& state) {
  constexpr size_t kRows = kTileElements / kRandom16Block;
  std::vector<uint32_t> words(kRows * kRandom32Block);
  for (auto _ : state) {
    RandomRows(kStream, 0, kRows, words.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kTileElements);
}

BENCHMARK(Encode)->ArgsProduct({{0, 1, 2, 3, 4, 8}, {0, 1}});
BENCHMARK(Decode)->ArgsProduct({{0, 1, 2, 3, 4, 8}, {0, 1}});
BENCHMARK(Random);

}  // namespace
}  // namespace act

BENCHMARK_MAIN();
