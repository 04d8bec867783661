// Calls each function of kernels/math in device code: a function that a device cannot call does not
// compile. tests/unit/math_headers_test.cc compiles this file, and also looks for functions that
// are missing here.
#include "kernels/math/batch_statistics.h"
#include "kernels/math/convert.h"
#include "kernels/math/grid_taps.h"
#include "kernels/math/integer.h"
#include "kernels/math/level_code.h"
#include "kernels/math/moment_update.h"
#include "kernels/math/pad_source.h"
#include "kernels/math/random.h"
#include "kernels/math/random_number.h"
#include "kernels/math/rounding.h"
#include "kernels/math/small_code.h"
#include "kernels/math/small_float.h"
#include "kernels/math/step_block.h"

namespace act {

__global__ void CallBFloat16(const float* x, float* y) {
  y[0] = FloatOf(BitsOf(x[0]));
  y[1] = FloatFromBFloat16(BFloat16Below(x[1]));
  y[2] = FloatFromBFloat16(BFloat16Above(x[2]));
}

template <class T>
__device__ float Converted(float x) {
  return ToFloat(FromFloat<T>(x));
}
__global__ void CallConvert(const float* x, float* y) {
  y[0] = Converted<float>(x[0]) + static_cast<float>(Converted<double>(x[0]));
  y[1] = Converted<int8_t>(x[0]) + Converted<int16_t>(x[0]) + Converted<int32_t>(x[0]) +
         Converted<int64_t>(x[0]);
  y[2] = Converted<uint8_t>(x[0]) + Converted<uint16_t>(x[0]) + Converted<uint32_t>(x[0]) +
         Converted<uint64_t>(x[0]);
  y[3] = Converted<Bool>(x[0]) + Converted<BFloat16>(x[0]);
}

__global__ void CallBatchStatistics(BatchMoments b, double* y) {
  y[0] = BatchVariance(b) + BatchDeviation(b, y[0]) + FurthestFromMean(b);
  y[1] = HasRunningVariance(b, y[1] > 0) * RunningVariance(b, y[1] > 0) + MovedTowards(b.low, y[2], y[3]);
  StoreMoments(y + 4, Merge(b, LoadMoments(y + 4)));
}

template <GridMode::Filter kFilter>
__device__ double AnyTaps(const GridMode& mode, int64_t extent, float g) {
  GridTaps<kFilter> to;
  FindTaps(mode, extent, g, to);
  return to.taps[0].weight;
}
__global__ void CallGridTaps(GridMode mode, int64_t extent, const float* g, double* y) {
  y[0] = AnyTaps<GridMode::Filter::kNearest>(mode, extent, g[0]) +
         AnyTaps<GridMode::Filter::kLinear>(mode, extent, g[0]) +
         AnyTaps<GridMode::Filter::kCubic>(mode, extent, g[0]);
  y[1] = ClippedPosition(y[0], extent).at + ReflectedPosition(y[0], extent, true).slope;
  y[1] += CubicTap(mode, extent, y[0], 1, 1).weight;
  y[2] = GridTapAt(InsidePosition(mode, y[1], extent).at, extent, KeysAt(y[2]).weight, 0).weight;
}

template <class T>
__device__ T AnyInteger(IntegerOpcode code, const int64_t* x, bool* divides_by_zero) {
  const T y = IntegerResult(code, static_cast<T>(x[0]), static_cast<T>(x[1]), static_cast<T>(x[2]),
                            divides_by_zero);
  return static_cast<T>(DividedBy<T>(y, x[2]) - NeutralOf<T>(code));
}
__global__ void CallInteger(IntegerOpcode code, const int64_t* x, int64_t* y, bool* divides_by_zero) {
  y[0] = static_cast<int64_t>(WrappingPower(static_cast<uint64_t>(x[0]), static_cast<uint64_t>(x[1])));
  y[1] = AnyInteger<int8_t>(code, x, divides_by_zero) + AnyInteger<int16_t>(code, x, divides_by_zero);
  y[2] = AnyInteger<int32_t>(code, x, divides_by_zero) + AnyInteger<int64_t>(code, x, divides_by_zero);
  y[3] = AnyInteger<uint8_t>(code, x, divides_by_zero) + AnyInteger<uint16_t>(code, x, divides_by_zero);
  y[4] = static_cast<int64_t>(AnyInteger<uint32_t>(code, x, divides_by_zero) +
                              AnyInteger<uint64_t>(code, x, divides_by_zero));
}

__global__ void CallRandom(RandomStream s, int64_t e, uint32_t* y, float probability) {
  const RandomWords call = RandomCall(s, FirstCall(kRandom32Block, e, 1000, e));
  y[0] = Philox(call, y[0], y[1]).word[3];
  y[1] = Random32(s, 3, 1000, e) < DropoutThreshold(probability) ? 0 : SubWord16(Random16(s, 3, 1000, e), 2);
  y[2] = DitherBits(DitherStart(call, static_cast<uint64_t>(e)), e) + WordOfStart(static_cast<uint64_t>(e));
  y[3] = static_cast<uint32_t>(DitherOffset(DitherBits(DitherStart(s, 3, 4, 1), e)));
  y[4] = static_cast<uint32_t>(ElementOfWord32(e, 2));
}

__global__ void CallRandomNumbers(const uint32_t* words, double* y) {
  y[0] = UniformNumber(words[0]) + NormalNumber(words[0], words[1]);
  y[1] = LogOfPart(words[2] | 1u) + CosineOfTurn(words[3]);
}

__global__ void CallSmallCodes(SmallFloat f, const float* x, uint32_t* y, float* z, uint8_t* codes) {
  y[0] = EncodeMask(x[0]) + EncodeIndex(x[0], 3);
  y[1] = EncodeSmallFloat(f, x[1]) + f.Infinity() + f.NaN() + f.Largest();
  y[2] =
      LargestBits(f) + LeastNormalBits(f) + DenormalMagicBits(f) + static_cast<uint32_t>(f.Bits() + f.Bias());
  PutSmallFloat(f, y[1], 5, codes);
  y[3] = SmallFloatAt(f, codes, 6);
  z[0] = IsNotFinite(f, y[1]) ? LeastDenormal(f) : DecodeSmallFloat(f, y[1]);
}

__global__ void CallScales(CodecSpec codec, GroupRange range, uint8_t* metadata, float* y) {
  using namespace level_scale;
  StoreGroupScale(codec, range, metadata);
  const GroupScale s = LoadGroupScale(codec, metadata);
  y[0] = IsFinite(s) ? s.scale : s.below;
  const uint16_t step = StepOver(y[1], codec.LevelsOverRange());
  y[1] = FloatFromBFloat16(BFloat16OfLog(LogAbove(step))) + static_cast<float>(LogMantissa(metadata[0] % 17));
  const uint8_t* from = metadata;
  uint8_t* to = StoreScale(codec.HasLogScales(), LoadScale(codec.HasOneScale(), from), metadata + 8);
  Store(Load(from), to);
}

__global__ void CallLevels(CodecSpec codec, GroupScale s, const float* x, uint32_t* codes, float* y) {
  const FittedPair fitted = FittedLevelsOf(codec);
  codes[0] = QuantizeLevel(codec, x[0], s, fitted, codes[1]);
  y[0] = DequantizeLevel(codec, codes[0], s, fitted, 3);
  codes[1] = LevelOf(PositionOf(x[1], InverseOf(s.scale)), fitted.above, codes[2]);
  y[1] = StepsOf(codes[1], fitted.below, 5, s.below);
  const FittedLevels& tables = FittedLevelsOver(codec.spacing, !codec.HoldsMask(), codec.levels);
  codes[2] = FittedPosition(codes[2], tables) + static_cast<uint32_t>(FittedValue(codes[2], tables, 1));
  codes[3] = MakeFittedLevels({{0, 26, 64}, 14}, 3).start[codes[3] % 3];
  const bool has_levels = codec.HasLevels() && !codec.IsCast();
  const CodePacking packing = has_levels ? CodePackingOf(codec) : CodePackingOf(codec.LevelsAbove());
  codes[4] = static_cast<uint32_t>(packing.codes * BitsOfLevels(codec.levels) + packing.bits);
}

__global__ void CallMomentUpdate(MomentScalars scalars, MomentElement* elements, const float* table,
                                 uint32_t* codes) {
  UpdateByMomentum(scalars, elements[0]);
  UpdateByAdam(scalars, elements[1]);
  DirectionByLamb(scalars, elements[2]);
  NextMoments(scalars, 1, elements[3]);
  codes[0] = MomentInBFloat16(elements[0].first, codes[1]);
  codes[1] = static_cast<uint32_t>(MomentCode(table, 255, elements[1].second, codes[2]));
}

__global__ void CallPadSource(int64_t* x, PadMode mode) { x[0] = PadSource(x[0], x[1], mode); }

__global__ void CallStepBlock(const StepBlock* block, uint64_t* y) { y[0] = RoundingSeed(*block, 3); }

// Tables are computed at compile time only.
__global__ void CallTables(uint32_t* y) {
  constexpr FittedTables kTables = MakeFittedTables();
  static_assert(kTables.of[0][0][0].count == 2);
  y[0] = kTables.of[0][1][1].start[1];
}

}  // namespace act
