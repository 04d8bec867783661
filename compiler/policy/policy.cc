#include "compiler/policy/policy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "compiler/policy/compared_batches.h"
#include "compiler/policy/presets.h"
#include "runtime/base/error.h"
#include "runtime/codec/plugin.h"

namespace act {
namespace {

// Of attention's queries and keys. Scores of a deviation of 1 need kUnitScoreBits. Training sharpens attention: their
// deviation is near 0 at first, and soon 10. So queries and keys have kScoreBits unless an average is asked for.
constexpr int kScoreBits = 5, kUnitScoreBits = 4;
constexpr int kRecomputedBits = 4;  // the fewest of an anchor
constexpr int64_t kLeastGroupSize = 64;
constexpr int64_t kRerunSpacing = 9;
constexpr int kCarefulBits = 8;  // of the loss's probabilities, and of small values
constexpr int kAnchorBits = 2;   // of an anchor, in addition to the level's own
constexpr int kKeptBits = 1;     // of what could be re-run and is not: mostly it then adds no more noise
constexpr int64_t kLeastElements = 32;  // of a sample: fewer take a few bytes and are kept

// A code must save at least half of the tensor. Otherwise it is not worth its time and error.
bool SavesHalf(const Codec& codec, const TensorType& type) {
  const std::optional<TensorType> code = CodeType(codec, type.dims);
  return code && 2 * code->Bytes().At(kComparedBatch) <= type.Bytes().At(kComparedBatch);
}

const char* DescribeRounding(Rounding rounding) {
  switch (rounding) {
    case Rounding::kDither:
      return "rounded with subtractive dither (unbiased)";
    case Rounding::kStochastic:
      return "rounded stochastically (unbiased)";
    default:
      return "rounded to nearest (biased)";
  }
}

// Does the tensor belong to samples? Means, deviations and values made only from parameters do not:
// they are common to all samples.
bool IsOfSamples(const EdgeFacts& facts, int64_t group_size) {
  constexpr int64_t kGroups = 16;  // statistics are smaller
  if (HasBatchAxis(facts.type)) return true;
  return facts.fixed_batch && facts.type.rank() > 1 && facts.type.Elements().fixed >= kGroups * group_size;
}

// The fewest bits of attention's queries and keys, by what the graph tells of scores. A score's error e multiplies its
// probability by exp(e), however large the score is. So queries and keys of scores that are twice as large need one bit
// more.
int KnownScoreBits(const EdgeFacts& facts) {
  return std::min(kUnitScoreBits + facts.score_bits, kCarefulBits);
}
int ScoreBits(const EdgeFacts& facts) { return std::max(KnownScoreBits(facts), kScoreBits); }

// Does a sample have less than a group of elements?
bool IsSmall(const EdgeFacts& facts, int64_t group_size) {
  return SamplesOf(facts.type.dims).elements.At(1) < group_size;
}

}  // namespace

int Policy::BoundedBits(const EdgeFacts& facts) const {
  double n = 1;  // elements of a channel
  for (size_t i = 0; i + 1 < facts.type.dims.size(); ++i)
    n *= static_cast<double>(facts.type.dims[i].At(batch));
  // The largest square of n normal numbers, relative to their mean square. A ReLU
  // halves the latter.
  const double largest = 2 * std::log(std::max(n, 3.));
  const double range = (facts.often_zero ? 2 : 1) * largest;
  // The squared range, relative to the squared error that the bound allows.
  const double ratio =
      facts.normalized ? range * largest * range / 4 / rules.error_bound : 2 * n * range / rules.error_bound;
  return std::max(2, static_cast<int>(std::log2(ratio) / 2));
}

int Policy::BitsOf(const EdgeFacts& facts) const {
  if (rules.error_bound > 0) return BoundedBits(facts);
  if (rules.same_bits) return bits;
  if (facts.of_loss || IsSmall(facts, group_size)) return std::max(bits, kCarefulBits);
  if (facts.score_bits > 0) return std::max({bits, AnchorBits(), ScoreBits(facts)});
  const int own = facts.kept_finely ? std::min(bits + kKeptBits, kCarefulBits) : bits;
  if (facts.for_statistics && shares_codes) return std::max(own - (mixes_levels ? 2 : 1), 1);
  if (facts.anchor) return AnchorBits();
  return facts.for_scores ? std::max(own, kScoreBits) : own;
}

int Policy::AnchorBits() const {
  return Reruns() ? std::min(bits + kAnchorBits, kCarefulBits) : std::max(bits, kRecomputedBits);
}

// Unless all bytes that are saved have a limit: this value counts among them, tiles or not.
bool Policy::KeepsInTiles(const EdgeFacts& facts) const {
  return facts.large_loss && tiles_samples && saved_limit == 0;
}

bool Policy::AnchorsAreFine() const { return AnchorBits() >= kRecomputedBits; }

// If a part is no multiple of the group size, some groups contain numbers of two parts and have
// the range of both. If parts are small, that is almost every group: in a model of width 64 the
// variance was five times as large. If a part has 16 groups or more, the group across a boundary
// does not matter.
int64_t Policy::GroupOf(const EdgeFacts& facts) const {
  int64_t group = group_size;
  if (rules.same_bits) return group;
  while (group > kLeastGroupSize && facts.part < 16 * group && facts.part % group != 0) group /= 2;
  return group;
}

// A sign code has a quarter of its levels below 0. Only the normalization's gradient reads the
// numbers there.
Codec Policy::CodecOf(const EdgeFacts& facts) const {
  const int b = BitsOf(facts);
  if (b > 8) return Codec::Cast(kFloat16);
  if (facts.sign_is_read && facts.often_zero)
    return Codec::Zero(std::max(b, 2), group_size).With(Metadata::kSingle);
  if (facts.sign_is_read) {
    const Codec sign = Codec::Sign(std::max(b, 3), 1 << (std::max(b, 3) - 2), group_size);
    return sign.With(facts.sided ? Metadata::kSides : Metadata::kLogPair);
  }
  if (plugin) {
    llvm::Expected<Codec> codec = MakePluginCodec(*plugin, b, GroupOf(facts));
    if (codec) return *codec;
    // The plugin has no form with this many bits: use the level's own.
    llvm::consumeError(codec.takeError());
  }
  // A product with a zero that is decoded as one is 0, however large the other operand is.
  if (facts.often_zero && IsLevel())
    return Codec::Zero(std::max(b, 2), GroupOf(facts)).With(Metadata::kSingle);
  return Codec::Uniform(b, GroupOf(facts), rules.rounding);
}

// Two kinds of values are not coded, because in a trained network they are small compared with a
// step of an 8-bit code: what a loss saves, and the rows from which a normalization's gradient is
// computed. An anchor is coded all the same, because other values need not be stored then.
bool Policy::CodesSmall(const EdgeFacts& facts) const {
  if (!codes_small || facts.of_loss || SamplesOf(facts.type.dims).elements.At(1) < kLeastElements)
    return false;
  return !facts.by_rows || facts.anchor;
}

bool Policy::Swaps(const Codec& codec) const {
  if (codec.kind == CodecKind::kMask) return rules.swaps_masks;
  return rules.swaps && !codec.IsExact();
}

namespace {

// Does an index fit a code of its bits that takes fewer bits than its type?
bool IsShortIndex(const Policy& policy, const EdgeFacts& facts) {
  return facts.index_bits > 0 && facts.index_bits <= 8 && !policy.rules.bytes_for_indices &&
         facts.index_bits < 8 * ByteSize(facts.type.dtype) && facts.type.dtype == DType::kUint8 &&
         CodeType(Codec::Index(static_cast<int>(facts.index_bits)), facts.type.dims);
}

Decision InMask(const Policy&, const EdgeFacts&) {
  return {Codec::Mask(), "only its sign is read: exact, one bit an element"};
}

Decision InFixedRange(const Policy& policy, const EdgeFacts& facts) {
  const std::string reason = policy.level + " stores the nearest of " +
                             std::to_string(1 << policy.range_bits) +
                             " levels over six deviations, without random rounding (biased)";
  return facts.index_bits < 8 ? Decision{Codec::Index(static_cast<int>(facts.index_bits)), reason}
                              : Decision{{}, reason};
}

Decision InIndexBits(const Policy&, const EdgeFacts& facts) {
  return {Codec::Index(static_cast<int>(facts.index_bits)),
          "positions in a pooling window: exact, in the fewest bits that hold them"};
}

Decision InHalves(const Policy& policy, const EdgeFacts&) {
  return {Codec::Cast(kBFloat16),
          policy.level + " keeps an image's averages over blocks of pixels in 16 bits"};
}

Decision InBFloat16(const Policy& policy, const EdgeFacts&) {
  return {Codec::Cast(kBFloat16),
          policy.level +
              " keeps quotients in 16 bits: one near a zero may be larger than the rest "
              "of a group by any factor, and a code's step follows the largest"};
}

// Why a lossy code has more bits than the level's; empty if it does not.
const char* WhyMoreBits(const Policy& policy, const EdgeFacts& facts) {
  if (policy.rules.same_bits) return "";
  if (facts.of_loss) return "; more bits than others, since every gradient depends on it";
  if (facts.score_bits > 0)
    return "; more bits than others, since a softmax of large scores is computed from it";
  if (facts.for_scores && policy.bits < kScoreBits)
    return "; more bits than others, since a softmax is computed from it";
  if (facts.kept_finely) return "; one bit more than the level's own, since it could be re-run and is not";
  return IsSmall(facts, policy.group_size) ? "; more bits than others, since it is small" : "";
}

// The gradient begins with the values that a loss saves. In a trained network p - 1 is small
// compared with a step of p's code, so few levels would make v arbitrarily large. With --bits=AVG
// the average also limits these least bits, because every code may be that of an anchor.
int LeastBits(const Policy& policy, const EdgeFacts& facts) {
  if (policy.rules.same_bits) return 1;
  const int average = policy.average_bits > 0 ? static_cast<int>(policy.average_bits) : kCarefulBits;
  if (facts.for_scores || facts.score_bits > 0)
    return std::clamp(average, KnownScoreBits(facts), ScoreBits(facts));
  const int least = facts.of_loss ? kCarefulBits : facts.anchor ? kRecomputedBits : 1;
  return std::clamp(average, 1, least);
}

Decision InLevels(const Policy& policy, const EdgeFacts& facts) {
  const Codec codec = policy.CodecOf(facts);
  return {codec,
          "level " + policy.level + " stores it in " + std::to_string(codec.bits) + " bits, " +
              DescribeRounding(policy.rules.rounding) +
              (facts.sign_is_read ? "; its code also holds the ReLU's mask, exactly" : "") +
              WhyMoreBits(policy, facts),
          LeastBits(policy, facts)};
}

// One way to store a value. `how` makes its code. Where that is null the value is kept, and `kept`
// is the reason. If `of_level` is set, the reason starts with the level's name.
struct Form {
  bool (*applies)(const Policy&, const EdgeFacts&);
  Decision (*how)(const Policy&, const EdgeFacts&);
  const char* kept = "";
  bool of_level = false;
};

using P = const Policy&;
using F = const EdgeFacts&;

// The first form that applies is chosen. The last, a lossy code, always applies.
constexpr Form kForms[] = {
    {[](P, F f) { return !f.activation; }, nullptr,
     "no node of the step makes it, so it is in memory in any case"},
    {[](P, F f) { return f.exact_bits && SavesHalf(Codec::Mask(), f.type); }, InMask},
    {[](P, F f) { return f.fixed_range; }, InFixedRange},
    {IsShortIndex, InIndexBits},
    {[](P, F f) { return f.low_frequency; }, InHalves},
    {[](P p, F) { return p.rules.fixed_range; }, nullptr, "keeps values that no batch normalization makes",
     true},
    {[](P p, F) { return !p.Lossy(); }, nullptr,
     "level L0 is exact: the numbers themselves are read, so it is kept as it is"},
    {[](P, F f) { return f.type.dtype != DType::kFloat32; },
     [](P, F f) {
       return Decision{{}, "its " + std::string(ToString(f.type.dtype)) + " numbers are read exactly"};
     }},
    {[](P p, F f) { return f.of_loss && p.rules.keeps_loss; }, nullptr,
     "keeps the values that the loss saves", true},
    {[](P p, F f) { return p.KeepsInTiles(f); }, nullptr,
     "its gradient follows at once, and both run for some samples at a time: kept exactly"},
    {[](P p, F f) { return f.read_exactly && p.rules.fuses_attention; }, nullptr,
     "its reader is not linear in it, or it is a mask with infinities: kept exactly"},
    {[](P p, F f) { return f.statistic || !IsOfSamples(f, p.group_size); }, nullptr,
     "a statistic or scalar: small, kept exactly"},
    {[](P p, F f) { return p.products_only && !f.feeds_product; },
     [](P p, F) {
       return Decision{
           {}, "level " + p.level + " compresses only values that convolutions and matrix products read"};
     }},
    // Masks and indices too small for a code of their own are too small for this one.
    {[](P p, F f) {
       const bool small = IsSmall(f, p.group_size) && !p.CodesSmall(f);
       return small || f.exact_bits || f.index_bits > 0 || !SavesHalf(p.CodecOf(f), f.type);
     },
     nullptr, "less than one group of elements a sample: too little to gain"},
    {[](P, F f) { return f.kept_exactly; }, nullptr,
     "made in the part of the forward pass that --exact keeps"},
    {[](P p, F f) { return f.of_steep_loss && p.IsLevel(); }, nullptr,
     "the loss has quotients, roots or logarithms, which may enlarge an error by any factor: kept exactly"},
    {[](P p, F f) { return f.unbounded && p.IsLevel(); }, InBFloat16},
    {[](P, F) { return true; }, InLevels},
};

const Form& FormOf(const Policy& policy, const EdgeFacts& facts) {
  return *std::find_if(std::begin(kForms), std::end(kForms),
                       [&](const Form& form) { return form.applies(policy, facts); });
}

}  // namespace

bool Policy::CodesLossily(const EdgeFacts& facts) const { return FormOf(*this, facts).how == InLevels; }

Decision Policy::Decide(const EdgeFacts& facts) const {
  const Form& form = FormOf(*this, facts);
  if (form.how) return form.how(*this, facts);
  return {{}, (form.of_level ? level + " " : "") + form.kept};
}

llvm::Expected<Policy> MakePolicy(const std::string& level, double bits_override, int64_t group_size,
                                  double exact_part) {
  Policy policy;
  policy.level = level;
  policy.group_size = group_size;
  if (level == "L1" || level == "L2") {
    policy.bits = 4;
  } else if (level == "L3") {
    policy.bits = 3;
    policy.rebuilds = policy.shares_codes = policy.tiles_samples = policy.codes_small = true;
  } else if (level == "L4" || level == "L5") {
    policy.bits = 3;
    policy.rebuilds = policy.shares_codes = policy.tiles_samples = policy.codes_small = true;
    policy.rerun_spacing = kRerunSpacing;
    policy.least_peak = level == "L5";
  } else if (const Preset* preset = FindPreset(level)) {
    policy.bits = preset->bits;
    policy.rules = preset->rules;
    policy.products_only = preset->products_only;
    if (policy.rules.error_bound > 0 && bits_override != 0)
      return MakeError("--bits", level + " derives bits from a bound of the error", "leave --bits out");
    if (policy.rules.fixed_range && bits_override != std::floor(bits_override))
      return MakeError("--bits", level + " has the same whole number of bits everywhere");
  } else if (level != "L0") {
    return MakeError("-O " + level, "no such level",
                     "levels are L0, L1, L2, L3, L4 and L5; presets of other systems " + PresetNames());
  }
  policy.products_only |= level == "L1";
  // The systems that presets reproduce multiply in float32.
  policy.rounds_products = policy.Lossy() && !FindPreset(level);
  policy.mixes_levels = policy.shares_codes && bits_override == 0;
  if (bits_override != 0) {
    if (!(bits_override >= 1 && bits_override <= 8))
      return MakeError("--bits", "must be 1 to 8 bits per element");
    if (level == "L0")
      return MakeError("--bits", "L0 is exact and has no lossy codes", "use -O L1, L2, L3, L4 or L5");
    // Levels and forms of codes reach the average. The choice of coded values, and the kind of
    // their codes, remain the level's own.
    const int most = static_cast<int>(std::ceil(bits_override));
    if (most != bits_override) policy.average_bits = bits_override;
    policy.bits = most != bits_override ? std::max(policy.bits, most) : most;
  }
  if (!(exact_part >= 0 && exact_part < 1))
    return MakeError("--exact", "must be at least 0 and less than 1", "-O L0 stores everything exactly");
  if (exact_part > 0 && (!policy.Lossy() || FindPreset(level)))
    return MakeError("--exact", level + " does not choose between codes and exact storage",
                     "use -O L1, L2, L3, L4 or L5");
  policy.exact_part = exact_part;
  if (policy.rules.fixed_range) policy.range_bits = std::exchange(policy.bits, 0);
  // A codec holds it in 32 bits, in which 2^32 + 256 would be 256.
  if (group_size < 0 || group_size > std::numeric_limits<int32_t>::max())
    return MakeError("--group-size", std::to_string(group_size) + " is not a number of elements");
  if (const auto wrong = CheckCodec(Codec::Uniform(std::max(policy.bits, 1), group_size)))
    return MakeError("--group-size", *wrong);
  return policy;
}

}  // namespace act
