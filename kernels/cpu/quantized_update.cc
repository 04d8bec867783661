// Updates whose optimizer state lives in bfloat16 or in 8 bits (kernels/math/moment_update.h), a block of 256 elements at
// a time: plain loops that vectors take, but for the search of a code, which begins at a guess. This file is compiled
// without contraction (CMakeLists.txt), so that its bits are the reference's on every processor.
#include "kernels/cpu/quantized_update.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/cpu/code_tile.h"
#include "kernels/cpu/special.h"
#include "kernels/cpu/vector_clones.h"
#include "kernels/math/convert.h"
#include "kernels/math/moment_update.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "runtime/codec/dynamic_map.h"

namespace act {
namespace {

constexpr uint32_t kSign = 0x80000000u, kInfinityBits = 0x7f800000u;

// MomentCode of a map, without its search: the upper bits of a number name an interval, whose lower end has a known code.
// At most kSteps of the map's numbers lie within an interval.
class MapSearch {
 public:
  explicit MapSearch(const DynamicMap& map) : size_(map.size()) {
    std::copy(map.values().begin(), map.values().end(), numbers_.begin());
    ends_ = numbers_;
    ends_[static_cast<size_t>(size_) - 1] =
        std::numeric_limits<float>::infinity();  // nothing begins with the last
    for (uint32_t i = 0; i < 2 * kIntervals; ++i) {
      // Of negative numbers, the lower end is the one with the larger magnitude.
      const bool negative = i >= kIntervals;
      const uint32_t interval = kFirst + i % kIntervals;
      const float end = FloatOf(negative ? (interval + 1) << kShift | kSign : interval << kShift);
      // All magnitudes below the first interval are in it.
      const float lower = !negative && interval == kFirst ? 0 : std::max(end, -1.0f);
      guesses_[i] = negative && map.zero() == 0 ? uint8_t{0} : static_cast<uint8_t>(LowOf(lower));
    }
  }

  // The code below x, which lies between the map's ends.
  int Low(float x) const {
    const uint32_t bits = BitsOf(x), interval = (bits & ~kSign) >> kShift;
    const uint32_t at = std::max(interval, kFirst) - kFirst;
    int low = guesses_[at + (bits >> 31) * kIntervals];
    for (int step = 0; step < kSteps; ++step) low += ends_[static_cast<size_t>(low) + 1] <= x;
    return low;
  }
  // As MomentCode.
  uint8_t Round(float x, uint32_t bits) const {
    const int low = Low(x);
    const float below = numbers_[static_cast<size_t>(low)],
                gap = numbers_[static_cast<size_t>(low) + 1] - below;
    const float u = (static_cast<float>(bits) + .5f) * 0x1p-16f;
    return static_cast<uint8_t>(low + ((x - below) > u * gap));
  }
  const float* numbers() const { return numbers_.data(); }

 private:
  int LowOf(float x) const {
    const auto end = numbers_.begin() + size_ - 1;  // the last number is above
    return std::max(static_cast<int>(std::upper_bound(numbers_.begin(), end, x) - numbers_.begin()) - 1, 0);
  }

  // Intervals have an exponent and 6 bits of mantissa. The first ends above 2^-25, below the least number; the last
  // begins with 1.
  static constexpr int kShift = 17, kSteps = 2;
  static constexpr uint32_t kFirst = (127 - 25) << 6, kIntervals = (25 << 6) + 1;

  int size_;
  std::array<float, 256> numbers_ = {}, ends_ = {};
  std::array<uint8_t, 2 * kIntervals> guesses_ = {};
};

// A block, with its state in float32. What lies after `count` is 0.
struct MomentRows {
  int64_t count = 0;
  const float* gradient = nullptr;
  float *parameter = nullptr, *direction = nullptr;  // direction: of LAMB
  alignas(64) float first[kMomentBlock] = {}, second[kMomentBlock] = {};
};

template <void (*kUpdate)(const MomentScalars&, MomentElement&)>
ACT_IN_CLONES void UpdateRows(const MomentScalars& given, MomentRows& rows) {
  const MomentScalars scalars = given;
  float* const to = rows.direction ? rows.direction : rows.parameter;
  for (int64_t i = 0; i < rows.count; ++i) {
    MomentElement e{.gradient = rows.gradient[i],
                    .parameter = rows.parameter[i],
                    .first = rows.first[i],
                    .second = rows.second[i]};
    kUpdate(scalars, e);
    rows.first[i] = e.first;
    rows.second[i] = e.second;
    to[i] = kUpdate == DirectionByLamb ? e.direction : e.parameter;
  }
}
ACT_VECTOR_CLONES void UpdateMomentumRows(const MomentScalars& s, MomentRows& rows) {
  UpdateRows<UpdateByMomentum>(s, rows);
}
ACT_VECTOR_CLONES void UpdateAdamRows(const MomentScalars& s, MomentRows& rows) {
  UpdateRows<UpdateByAdam>(s, rows);
}
ACT_VECTOR_CLONES void MakeLambRows(const MomentScalars& s, MomentRows& rows) {
  UpdateRows<DirectionByLamb>(s, rows);
}

ACT_VECTOR_CLONES void DecodeCodes(const uint8_t* codes, const float* numbers, float maximum, int64_t count,
                                   float* x) {
  for (int64_t i = 0; i < count; ++i) x[i] = numbers[codes[i]] * maximum;
}
ACT_VECTOR_CLONES void Widen(const BFloat16* numbers, int64_t count, float* x) {
  for (int64_t i = 0; i < count; ++i) x[i] = FloatFromBFloat16(numbers[i].bits);
}
// The largest magnitude, as bits: at least kInfinityBits if a number is not finite.
ACT_VECTOR_CLONES uint32_t LargestBits(const float* x) {
  uint32_t most = 0;
  for (int64_t i = 0; i < kMomentBlock; ++i) most = std::max(most, BitsOf(x[i]) & ~kSign);
  return most;
}
ACT_VECTOR_CLONES void Divide(const float* x, float by, float* y) {
  for (int64_t i = 0; i < kMomentBlock; ++i) y[i] = x[i] / by;
}
ACT_VECTOR_CLONES void Narrow(const float* x, const uint32_t* bits, int shift, int64_t count, BFloat16* to) {
  for (int64_t i = 0; i < count; ++i) {
    const bool finite = (BitsOf(x[i]) & ~kSign) < kInfinityBits;
    const uint16_t rounded = MomentInBFloat16(x[i], bits[i] >> shift & 0xFFFF);
    to[i].bits = finite ? rounded : FromFloat<BFloat16>(x[i]).bits;
  }
}

// raises_zeros: of second moments, whose 0 would let the first one be divided by eps alone.
void EncodeCodes(const MapSearch& search, uint8_t zero, const float* x, const uint32_t* bits, int shift,
                 bool raises_zeros, int64_t count, uint8_t* codes, float* maximum) {
  const uint32_t largest = LargestBits(x);
  // A number that is not finite makes NaN of the whole block.
  const float most = largest < kInfinityBits ? FloatOf(largest) : std::numeric_limits<float>::quiet_NaN();
  *maximum = most;
  if (!(most > 0)) {
    std::fill_n(codes, count, zero);
    return;
  }
  alignas(64) float parts[kMomentBlock];
  Divide(x, most, parts);
  for (int64_t i = 0; i < count; ++i) codes[i] = search.Round(parts[i], bits[i] >> shift & 0xFFFF);
  if (!raises_zeros) return;
  for (int64_t i = 0; i < count; ++i) codes[i] += x[i] > 0 && codes[i] == zero;
}

// Where a block's state i lives.
struct StatePlace {
  BFloat16* numbers = nullptr;  // null: 8 bits
  uint8_t* codes = nullptr;
  float* maximum = nullptr;
};

void UpdateBlock(const KernelArgs& args, const QuantizedShape& s, const MomentScalars& scalars,
                 const float* gradient, int64_t at) {
  static const MapSearch searches[2] = {MapSearch(kSignedMap), MapSearch(kUnsignedMap)};
  constexpr uint8_t kZeros[2] = {kSignedMap.zero(), kUnsignedMap.zero()};
  const QuantizedRule& rule = *s.rule;
  const int64_t begin = at * kMomentBlock;
  MomentRows rows;
  rows.count = std::min(kMomentBlock, s.elements - begin);
  rows.gradient = gradient;
  rows.parameter = args.inputs[rule.parameter()].as<float>() + begin;
  if (rule.makes_direction) rows.direction = args.outputs[0].as<float>() + begin;
  float* const states[2] = {rows.first, rows.second};
  StatePlace places[2];
  for (size_t i = 0; i < rule.states; ++i) {
    const TensorView& view = args.inputs[rule.state(i, s.coded)];
    if (s.coded) {
      places[i] = {nullptr, view.as<uint8_t>() + begin,
                   args.inputs[rule.state(i, true) + 1].as<float>() + at};
      DecodeCodes(places[i].codes, searches[i].numbers(), *places[i].maximum, rows.count, states[i]);
    } else {
      places[i].numbers = view.as<BFloat16>() + begin;
      Widen(places[i].numbers, rows.count, states[i]);
    }
  }
  (rule.kind == QuantizedRule::Kind::kMomentum ? UpdateMomentumRows
   : rule.kind == QuantizedRule::Kind::kAdam   ? UpdateAdamRows
                                               : MakeLambRows)(scalars, rows);

  // Word w of call l of a row is element 4 l + w of 64.
  constexpr int64_t kRows = kMomentBlock / kRandom32Block;
  alignas(64) uint32_t words[kMomentBlock], bits[kMomentBlock];
  RandomRows({args.state->seed, args.state->step, s.stream}, static_cast<uint64_t>(begin / 4), kRows, words);
  for (int64_t row = 0; row < kMomentBlock; row += kRandom32Block)
    for (int64_t l = 0; l < kRandomLanes; ++l)
      for (int64_t w = 0; w < 4; ++w) bits[row + 4 * l + w] = words[row + kRandomLanes * w + l];
  for (size_t i = 0; i < rule.states; ++i) {
    const int shift = i == 0 ? 0 : 16;
    if (s.coded)
      EncodeCodes(searches[i], kZeros[i], states[i], bits, shift, i == 1, rows.count, places[i].codes,
                  places[i].maximum);
    else
      Narrow(states[i], bits, shift, rows.count, places[i].numbers);
  }
}

std::unique_ptr<Kernel> Create(const QuantizedRule& rule, const KernelSite& site, std::string* why) {
  const auto shape = QuantizedUpdateShapeOf(rule.op, site, why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape, threads = site.threads](const KernelArgs& args) -> std::string {
    UpdateQuantizedBlocks(args, s, args.inputs[0].as<float>(), 0, s.blocks, threads);
    return "";
  });
}

}  // namespace

void UpdateQuantizedBlocks(const KernelArgs& args, const QuantizedShape& shape, const float* gradient,
                           int64_t first, int64_t last, int threads) {
  const MomentScalars scalars = MomentScalarsOf(args, shape);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t block = first; block < last; ++block)
    UpdateBlock(args, shape, scalars, gradient + (block - first) * kMomentBlock, block);
}

void RegisterCpuQuantizedUpdates(KernelRegistry& registry) {
  for (const QuantizedRule& rule : QuantizedRules())
    registry.Add(std::string(rule.op),
                 {"cpu." + std::string(rule.name),
                  [&rule](const KernelSite& site, std::string* why) { return Create(rule, site, why); }});
}

}  // namespace act
