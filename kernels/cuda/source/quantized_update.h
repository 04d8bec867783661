// Updates whose optimizer state lives in bfloat16 or 8 bits, with the arithmetic of kernels/math/moment_update.h, and so
// the processor's bits. A warp has a block of 256 elements; a lane has four neighbours of each half.
#pragma once

#include "kernels/cuda/source/code_piece.h"
#include "kernels/cuda/source/floats.h"
#include "kernels/cuda/source/quantized_update_parameters.h"
#include "kernels/cuda/source/team.h"
#include "kernels/math/moment_update.h"

namespace act::cuda {

inline constexpr int kLaneMoments = kMomentBlock / 32;

// A lane's element k of the block, if the block has it.
struct MomentPlace {
  int64_t begin;
  int32_t count, lane;

  ACT_DEVICE int32_t InBlock(int k) const { return k / 4 * 128 + lane * 4 + k % 4; }
  ACT_DEVICE bool Exists(int k) const { return InBlock(k) < count; }
  ACT_DEVICE int64_t At(int k) const { return begin + InBlock(k); }
  // Four neighbours at once: those from element k on.
  ACT_DEVICE bool HasFour(int k) const { return InBlock(k) + 4 <= count; }
};

// T: float, or a code or a bfloat16 as an unsigned integer. Pack: four of them.
template <class Pack, class T>
ACT_DEVICE void LoadMoments(const T* from, const MomentPlace& place, T (&x)[kLaneMoments]) {
  static_assert(sizeof(Pack) == 4 * sizeof(T));
#pragma unroll
  for (int k = 0; k < kLaneMoments; k += 4) {
    if (place.HasFour(k)) {
      const Pack pack = Load(reinterpret_cast<const Pack*>(from + place.At(k)));
      memcpy(x + k, &pack, sizeof pack);
      continue;
    }
#pragma unroll
    for (int e = k; e < k + 4; ++e) x[e] = place.Exists(e) ? Load(from + place.At(e)) : T{};
  }
}
template <class Pack, class T>
ACT_DEVICE void StoreMoments(T* to, const MomentPlace& place, const T (&x)[kLaneMoments]) {
#pragma unroll
  for (int k = 0; k < kLaneMoments; k += 4) {
    if (place.HasFour(k)) {
      Pack pack;
      memcpy(&pack, x + k, sizeof pack);
      Store(reinterpret_cast<Pack*>(to + place.At(k)), pack);
      continue;
    }
#pragma unroll
    for (int e = k; e < k + 4; ++e)
      if (place.Exists(e)) Store(to + place.At(e), x[e]);
  }
}

// map: of the state, in shared memory.
template <bool kCoded>
ACT_DEVICE void DecodeMoments(const QuantizedState& state, const float* map, const MomentPlace& place,
                              float (&x)[kLaneMoments]) {
  if constexpr (kCoded) {
    uint8_t codes[kLaneMoments];
    LoadMoments<uint32_t>(state.codes, place, codes);
    const float maximum = place.count > 0 ? Load(state.maxima + place.begin / kMomentBlock) : 0;
#pragma unroll
    for (int k = 0; k < kLaneMoments; ++k) x[k] = map[codes[k]] * maximum;
  } else {
    uint16_t numbers[kLaneMoments];
    LoadMoments<uint2>(state.numbers, place, numbers);
#pragma unroll
    for (int k = 0; k < kLaneMoments; ++k) x[k] = FloatFromBFloat16(numbers[k]);
  }
}

ACT_DEVICE bool IsFinite(float x) { return (FloatBits(x) & 0x7f800000u) != 0x7f800000u; }

// words: 32 uniform bits of each element, of which 16 from `shift` on serve this state. kRaisesZeros: of second moments,
// whose 0 would let the first one be divided by eps alone: a number above 0 does not become 0.
template <bool kCoded, bool kRaisesZeros>
ACT_DEVICE void EncodeMoments(const QuantizedState& state, const float* map, const MomentPlace& place,
                              const uint32_t (&words)[kLaneMoments], int shift,
                              const float (&x)[kLaneMoments]) {
  const auto bits = [&](int k) { return words[k] >> shift & 0xffffu; };
  if constexpr (kCoded) {
    float most = 0;
#pragma unroll
    for (int k = 0; k < kLaneMoments; ++k) {
      // One number that is not finite makes NaN of the whole block.
      const float magnitude = IsFinite(x[k]) ? fabsf(x[k]) : FromBits(0x7fc00000u);
      if (place.Exists(k)) most = most != most || magnitude <= most ? most : magnitude;
    }
    most = OverTeam<32>(most, [](float a, float b) { return a != a || b <= a ? a : b; });
    uint8_t codes[kLaneMoments];
#pragma unroll
    for (int k = 0; k < kLaneMoments; ++k) {
      int code = most > 0 ? MomentCode(map, state.size, x[k] / most, bits(k)) : state.zero;
      if (kRaisesZeros && most > 0 && x[k] > 0 && code == state.zero) ++code;
      codes[k] = static_cast<uint8_t>(code);
    }
    StoreMoments<uint32_t>(state.codes, place, codes);
    if (place.count > 0 && place.lane == 0) Store(state.maxima + place.begin / kMomentBlock, most);
  } else {
    uint16_t numbers[kLaneMoments];
#pragma unroll
    for (int k = 0; k < kLaneMoments; ++k)
      numbers[k] = IsFinite(x[k]) ? MomentInBFloat16(x[k], bits(k)) : FromFloat<BFloat16>(x[k]).bits;
    StoreMoments<uint2>(state.numbers, place, numbers);
  }
}

struct ByMomentum {
  static constexpr int kStates = 1;
  ACT_DEVICE static void Update(const MomentScalars& s, MomentElement& e) { UpdateByMomentum(s, e); }
};
struct ByAdam {
  static constexpr int kStates = 2;
  ACT_DEVICE static void Update(const MomentScalars& s, MomentElement& e) { UpdateByAdam(s, e); }
};
struct ByLamb {
  static constexpr int kStates = 2;
  ACT_DEVICE static void Update(const MomentScalars& s, MomentElement& e) { DirectionByLamb(s, e); }
};

// A block of 256 threads.
template <class Rule, bool kCoded>
ACT_DEVICE void QuantizedUpdate(const QuantizedUpdateParameters& p) {
  ACT_SHARED(float, maps, 2 * 256);
  if constexpr (kCoded) {
#pragma unroll
    for (int i = 0; i < Rule::kStates; ++i) maps[i * 256 + threadIdx.x] = p.states[i].map[threadIdx.x];
    SyncThreads();
  }
  const int64_t block = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  const int64_t left = p.elements - block * kMomentBlock;
  const MomentPlace place = {block * kMomentBlock,
                             static_cast<int32_t>(left < 0              ? 0
                                                  : left < kMomentBlock ? left
                                                                        : kMomentBlock),
                             static_cast<int32_t>(threadIdx.x % 32)};
  MomentScalars scalars;
#pragma unroll
  for (int32_t i = 0; i < 7; ++i) scalars.of[i] = i < p.scalar_count ? Load(p.scalars[i]) : 0;
  scalars.clip = Load(p.clip);
  scalars.decoupled = p.decoupled;

  float gradient[kLaneMoments], parameter[kLaneMoments], first[kLaneMoments], second[kLaneMoments] = {};
  LoadMoments<float4>(p.gradient, place, gradient);
  LoadMoments<float4>(p.parameter, place, parameter);
  DecodeMoments<kCoded>(p.states[0], maps, place, first);
  if constexpr (Rule::kStates == 2) DecodeMoments<kCoded>(p.states[1], maps + 256, place, second);
#pragma unroll
  for (int k = 0; k < kLaneMoments; ++k) {
    MomentElement e{
        .gradient = gradient[k], .parameter = parameter[k], .first = first[k], .second = second[k]};
    Rule::Update(scalars, e);
    first[k] = e.first, second[k] = e.second;
    parameter[k] = p.direction ? e.direction : e.parameter;
  }
  StoreMoments<float4>(p.direction ? p.direction : p.parameter, place, parameter);

  const RandomStream stream = DropoutStream(LoadStep(p.step), p.stream);
  uint32_t words[kLaneMoments];
#pragma unroll
  for (int k = 0; k < kLaneMoments; k += 4) {
    const RandomWords drawn = RandomCall(stream, static_cast<uint64_t>(place.At(k) / 4));
#pragma unroll
    for (int e = 0; e < 4; ++e) words[k + e] = drawn.word[e];
  }
  EncodeMoments<kCoded, false>(p.states[0], maps, place, words, 0, first);
  if constexpr (Rule::kStates == 2)
    EncodeMoments<kCoded, true>(p.states[1], maps + 256, place, words, 16, second);
}

}  // namespace act::cuda
