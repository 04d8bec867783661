// Times encoding, decoding and random numbers. For one tile of 1,024 elements in the first-level
// cache, only the arithmetic takes time. A tensor larger than the caches is compared with a plain
// read of it and a plain write.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "kernels/cpu/code_tile.h"
#include "kernels/cpu/read_ahead.h"

namespace act {
namespace {

constexpr int64_t kSample = 64 * kTileElements;
const RandomStream kStream{1, 2, 3};

// Tiles lie as in fused loops: vectors cross no cache line. Tiles are not a whole page apart, since a store
// would then seem to alias the next loads.
struct Tile {
  alignas(64) float x[kTileElements];
  float gap[80];
};

Tile Values() {
  Tile tile = {};
  for (size_t i = 0; i < kTileElements; ++i) tile.x[i] = static_cast<float>(i * 2654435761u % 1000) - 500;
  return tile;
}

// Arguments: bits (0: a mask), and whether rounding is stochastic (0) or by dither (1).
Codec CodecOf(const benchmark::State& state) {
  const auto rounding = state.range(1) != 0 ? Rounding::kDither : Rounding::kStochastic;
  return state.range(0) == 0 ? Codec::Mask()
                             : Codec::Uniform(static_cast<int>(state.range(0)), kDefaultGroupSize, rounding);
}

void EncodeAs(const Codec& codec, benchmark::State& state) {
  DrawnStream random(kStream);
  const CodeLayout layout = LayoutOf(codec, kSample);
  const Tile values = Values();
  std::vector<uint8_t> code(static_cast<size_t>(layout.sample_bytes));
  for (auto _ : state) {
    EncodeTile(codec, layout, random, {0, kSample, 0, kTileElements}, values.x, code.data());
    benchmark::ClobberMemory();
  }
  state.SetLabel(ToString(codec));
  state.SetItemsProcessed(state.iterations() * kTileElements);
}
void Encode(benchmark::State& state) { EncodeAs(CodecOf(state), state); }

void Decode(benchmark::State& state) {
  DrawnStream random(kStream);
  const Codec codec = CodecOf(state);
  const CodeLayout layout = LayoutOf(codec, kSample);
  Tile values = Values();
  std::vector<uint8_t> code(static_cast<size_t>(layout.sample_bytes));
  EncodeTile(codec, layout, random, {0, kSample, 0, kTileElements}, values.x, code.data());
  for (auto _ : state) {
    DecodeTile(codec, layout, random, {0, kSample, 0, kTileElements}, code.data(), {}, values.x);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kTileElements);
}

// The codes that L3 makes most of in ResNet-50, and what its loops compute while they decode.
std::vector<Codec> UsedCodecs() {
  const Codec sign = Codec::Sign(3, 2), fine = Codec::Sign(4, 2);
  return {sign.With(Metadata::kSides), sign.With(Metadata::kLogPair), fine.With(Metadata::kLogPair),
          Codec::Zero(3), Codec::Uniform(2, 256, Rounding::kDither)};
}
enum Use : int64_t { kRebuild, kValue, kMask, kUses };

void EncodeUsed(benchmark::State& state) {
  EncodeAs(UsedCodecs()[static_cast<size_t>(state.range(0))], state);
}

// kRebuild: the input of a convolution. kValue: a normalized number, scaled. kMask: a gradient, or 0 where the
// mask is 0.
void DecodeUsed(benchmark::State& state) {
  static constexpr const char* kNames[kUses] = {", rebuild", ", value", ", mask"};
  DrawnStream random(kStream);
  const Codec codec = UsedCodecs()[static_cast<size_t>(state.range(0))];
  const CodeLayout layout = LayoutOf(codec, kSample);
  const Tile values = Values(), times = Values(), plus = Values();
  Tile made = {};
  std::vector<uint8_t> code(static_cast<size_t>(layout.sample_bytes));
  EncodeTile(codec, layout, random, {0, kSample, 0, kTileElements}, values.x, code.data());
  DecodeEpilogue epilogue = {.times = {times.x}, .plus = {plus.x}};
  epilogue.mask = state.range(1) == kMask && codec.HoldsMask();
  epilogue.magnitude = !epilogue.mask && codec.metadata == Metadata::kSides;
  epilogue.keep_positive = state.range(1) == kRebuild && codec.kind == CodecKind::kSign;
  if (epilogue.mask) epilogue.plus = {};
  for (auto _ : state) {
    DecodeTile(codec, layout, random, {0, kSample, 0, kTileElements}, code.data(), epilogue, made.x);
    benchmark::ClobberMemory();
  }
  state.SetLabel(ToString(codec) + kNames[state.range(1)]);
  state.SetItemsProcessed(state.iterations() * kTileElements);
}

// The random numbers for the stochastic rounding of one tile.
void Random(benchmark::State& state) {
  constexpr size_t kRows = kTileElements / kRandom16Block;
  std::vector<uint32_t> words(kRows * kRandom32Block);
  for (auto _ : state) {
    RandomRows(kStream, 0, kRows, words.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kTileElements);
}

// ---- A tensor of 51 MB: 16 samples of 56 x 56 x 256. One thread.

constexpr int64_t kSamples = 16, kElements = 56 * 56 * 256;

std::vector<float> Tensor() {
  std::vector<float> x(static_cast<size_t>(kSamples * kElements));
  for (size_t i = 0; i < x.size(); ++i)  // sums of uniform numbers: nearly normal
    x[i] =
        static_cast<float>((i * 2654435761u % 4093) + (i * 40503u % 4091) + (i * 48271u % 4079)) / 2048 - 3;
  return x;
}

std::vector<Codec> LargeCodecs() {
  const Rounding dither = Rounding::kDither;
  return {Codec::Mask(),
          Codec::Uniform(2, 256, dither),
          Codec::Uniform(3, 256, dither),
          Codec::Uniform(4, 256, dither),
          Codec::Uniform(2),
          Codec::Uniform(4),
          Codec::Sign(2, 2),
          Codec::Sign(3, 2),
          Codec::Sign(4, 4),
          Codec::Zero(2),
          Codec::Zero(3),
          Codec::Sign(3, 2).With(Metadata::kLogPair),
          Codec::Uniform(3, 256, dither).OfLevels(5),
          Codec::Uniform(3, 256, dither).OfLevels(6),
          Codec::Sign(3, 2).Fitted(),
          Codec::Uniform(4, 256, dither).Fitted(),
          Codec::Cast(kBFloat16),
          Codec::Cast({.exponent_bits = 4, .mantissa_bits = 3, .infinities = false})};
}

// f(place) for each tile of the tensor.
template <class F>
void ForTiles(const F& f) {
  for (int64_t s = 0; s < kSamples; ++s)
    for (int64_t e = 0; e < kElements; e += kTileElements)
      f(TilePlace{s, kElements, e, std::min(kTileElements, kElements - e)});
}

void Report(benchmark::State& state, const Codec& codec) {
  state.SetLabel(ToString(codec));
  state.SetBytesProcessed(state.iterations() * kSamples * kElements * int64_t{sizeof(float)});
}

void LargeRead(benchmark::State& state) {
  const std::vector<float> x = Tensor();
  for (auto _ : state) {
    uint32_t any = 0;
    for (const float& v : x) {
      uint32_t bits;
      __builtin_memcpy(&bits, &v, sizeof bits);
      any |= bits;
    }
    benchmark::DoNotOptimize(any);
  }
  Report(state, {});
}

void LargeWrite(benchmark::State& state) {
  std::vector<float> x = Tensor();
  for (auto _ : state) {
    std::fill(x.begin(), x.end(), 1.5f);
    benchmark::ClobberMemory();
  }
  Report(state, {});
}

// Walks over tiles as fused loops do: each tile prefetches the memory of the next.
void EncodeLarge(const Codec& codec, const CodeLayout& layout, const std::vector<float>& x,
                 std::vector<uint8_t>& codes) {
  DrawnStream random(kStream);
  ForTiles([&](const TilePlace& place) {
    const float* tile = x.data() + place.sample * kElements + place.first;
    uint8_t* code = codes.data() + place.sample * layout.sample_bytes;
    AskForNextTile<false>(tile, place.count);
    AskForNextCodes<true>(codec, layout, code, place.first, place.count);
    EncodeTile(codec, layout, random, place, tile, code);
  });
}

void LargeEncode(benchmark::State& state) {
  const Codec codec = LargeCodecs()[static_cast<size_t>(state.range(0))];
  const CodeLayout layout = LayoutOf(codec, kElements);
  const std::vector<float> x = Tensor();
  std::vector<uint8_t> codes(static_cast<size_t>(kSamples * layout.sample_bytes));
  for (auto _ : state) EncodeLarge(codec, layout, x, codes);
  Report(state, codec);
}

void LargeDecode(benchmark::State& state) {
  DrawnStream random(kStream);
  const Codec codec = LargeCodecs()[static_cast<size_t>(state.range(0))];
  const CodeLayout layout = LayoutOf(codec, kElements);
  std::vector<float> x = Tensor();
  std::vector<uint8_t> codes(static_cast<size_t>(kSamples * layout.sample_bytes));
  EncodeLarge(codec, layout, x, codes);
  for (auto _ : state)
    ForTiles([&](const TilePlace& place) {
      float* tile = x.data() + place.sample * kElements + place.first;
      const uint8_t* code = codes.data() + place.sample * layout.sample_bytes;
      AskForNextTile<true>(tile, place.count);
      AskForNextCodes<false>(codec, layout, code, place.first, place.count);
      DecodeTile(codec, layout, random, place, code, {}, tile);
    });
  Report(state, codec);
}

BENCHMARK(Encode)->ArgsProduct({{0, 1, 2, 3, 4, 8}, {0, 1}});
BENCHMARK(Decode)->ArgsProduct({{0, 1, 2, 3, 4, 8}, {0, 1}});
BENCHMARK(EncodeUsed)->DenseRange(0, static_cast<int64_t>(UsedCodecs().size()) - 1);
BENCHMARK(DecodeUsed)->ArgsProduct({{0, 1, 2, 3, 4}, {kRebuild, kValue, kMask}});
BENCHMARK(Random);
BENCHMARK(LargeRead);
BENCHMARK(LargeWrite);
BENCHMARK(LargeEncode)->DenseRange(0, static_cast<int64_t>(LargeCodecs().size()) - 1);
BENCHMARK(LargeDecode)->DenseRange(0, static_cast<int64_t>(LargeCodecs().size()) - 1);

}  // namespace
}  // namespace act

BENCHMARK_MAIN();
