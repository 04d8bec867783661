#include "compiler/policy/policy.h"

#include <algorithm>
#include <cmath>

#include "compiler/policy/presets.h"
#include "runtime/base/error.h"
#include "runtime/codec/plugin.h"

namespace act {
namespace {

constexpr int kScoreBits = 4;  // of attention's queries and keys
constexpr int64_t kRerunSpacing = 9;
constexpr int kCarefulBits = 8;       // of the loss's probabilities
constexpr int kAnchorBits = 2;        // of an anchor, beside the level's own
constexpr int64_t kLeastAnchor = 64;  // elements of a sample

// A code must save at least half of the tensor, or it is not worth its time and error.
bool SavesHalf(const Codec& codec, const TensorType& type) {
  const std::optional<TensorType> code = CodeType(codec, type.dims);
  return code && 2 * code->Bytes().At(16) <= type.Bytes().At(16);
}

// A tensor of samples, and not of what is common to them: means, deviations, what is made from parameters
// alone.
bool IsOfSamples(const EdgeFacts& facts, int64_t group_size) {
  constexpr int64_t kGroups = 16;  // statistics are smaller
  if (HasBatchAxis(facts.type)) return true;
  return facts.fixed_batch && facts.type.rank() > 1 && facts.type.Elements().fixed >= kGroups * group_size;
}

// Less than a group. What is computed again from a small anchor is worth its code, and a fine one costs
// little.
bool IsSmall(const EdgeFacts& facts, int64_t group_size) {
  return SamplesOf(facts.type.dims).elements.At(1) < group_size;
}

}  // namespace

int Policy::BitsOf(const EdgeFacts& facts) const {
  if (rules.same_bits) return bits;
  if (facts.of_loss) return std::max(bits, kCarefulBits);
  if (facts.for_statistics && shares_codes) return std::max(bits - 1, 1);
  if (facts.anchor) return IsSmall(facts, group_size) ? kCarefulBits : AnchorBits();
  return facts.for_scores ? std::max(bits, kScoreBits) : bits;
}

int Policy::AnchorBits() const {
  return Reruns() ? std::min(bits + kAnchorBits, kCarefulBits) : std::max(bits, kScoreBits);
}

bool Policy::AnchorsAreFine() const { return AnchorBits() >= kScoreBits; }

// An average that is asked for bounds what anchors may insist on: all codes may be anchors.
int Policy::LeastBits(const EdgeFacts& facts) const {
  if (rules.same_bits) return 1;
  if (facts.for_scores) return kScoreBits;
  if (!facts.anchor) return 1;
  return average_bits > 0 ? std::clamp(static_cast<int>(average_bits), 1, kScoreBits) : kScoreBits;
}

// The levels of a sign code: a quarter below 0, where only the gradient of the normalization reads.
Codec Policy::CodecOf(const EdgeFacts& facts) const {
  const int b = BitsOf(facts);
  if (facts.sign_is_read && facts.often_zero) return Codec::Zero(std::max(b, 2), group_size);
  if (facts.sign_is_read) {
    const Codec sign = Codec::Sign(std::max(b, 3), 1 << (std::max(b, 3) - 2), group_size);
    return facts.sided ? sign.With(Metadata::kSides) : sign;
  }
  if (plugin) {
    llvm::Expected<Codec> codec = MakePluginCodec(*plugin, b, group_size);
    if (codec) return *codec;
    llvm::consumeError(codec.takeError());  // it has no form of so many bits: the level's own
  }
  return Codec::Uniform(b, group_size, rules.rounding);
}

bool Policy::CodesLossily(const EdgeFacts& facts) const {
  return Lossy() && facts.activation && !facts.low_frequency && !facts.exact_bits &&
         (!facts.read_exactly || !rules.fuses_attention) && !(facts.of_loss && rules.keeps_loss) &&
         !facts.statistic && facts.index_bits == 0 && facts.type.dtype == DType::kFloat32 &&
         IsOfSamples(facts, group_size) && (!products_only || facts.feeds_product) &&
         (!IsSmall(facts, group_size) ||
          (facts.anchor && SamplesOf(facts.type.dims).elements.At(1) >= kLeastAnchor)) &&
         SavesHalf(CodecOf(facts), facts.type);
}

Decision Policy::Decide(const EdgeFacts& facts) const {
  if (!facts.activation) return {{}, "is not made by a node of the step: it is there in any case"};
  if (facts.exact_bits && SavesHalf(Codec::Mask(), facts.type))
    return {Codec::Mask(), "only its sign is read: one bit each, exact"};
  if (facts.index_bits > 0 && !rules.bytes_for_indices && facts.index_bits < 8 * ByteSize(facts.type.dtype)) {
    const Codec codec = Codec::Index(static_cast<int>(facts.index_bits));
    if (facts.index_bits <= 8 && facts.type.dtype == DType::kUint8 && CodeType(codec, facts.type.dims))
      return {codec, "positions in a pooling window: the fewest bits that hold them, exact"};
  }
  if (facts.low_frequency)
    return {Codec::Cast(CodecKind::kBFloat16),
            level + " keeps an image's averages over blocks of pixels in 16 bits"};
  if (CodesLossily(facts))
    return {CodecOf(facts),
            "level " + level + " stores it in " + std::to_string(CodecOf(facts).bits) +
                (rules.rounding == Rounding::kDither ? " bits, rounded with subtractive dither (unbiased)"
                                                     : " bits, rounded stochastically (unbiased)") +
                (facts.sign_is_read ? "; its code holds the ReLU's mask too, exactly" : "") +
                (rules.same_bits ? ""
                 : facts.of_loss ? "; more than others, since every gradient depends on it"
                 : facts.for_scores && bits < kScoreBits
                     ? "; more than others, since a softmax is computed from it"
                     : "")};
  if (!Lossy()) return {{}, "level L0 is exact: its numbers are read, so it is kept as it is"};
  if (facts.type.dtype != DType::kFloat32)
    return {{}, "its " + std::string(ToString(facts.type.dtype)) + " numbers are read exactly"};
  if (facts.of_loss && rules.keeps_loss) return {{}, level + " keeps what the loss saves"};
  if (facts.read_exactly) return {{}, "its reader is not linear in it, or it masks: kept exactly"};
  if (facts.statistic || !IsOfSamples(facts, group_size))
    return {{}, "a statistic or scalar: small, kept exactly"};
  if (products_only && !facts.feeds_product)
    return {{}, "level " + level + " compresses only what convolutions and matrix products read"};
  return {{}, "less than one group of elements a sample: too little to gain"};
}

llvm::Expected<Policy> MakePolicy(const std::string& level, double bits_override, int64_t group_size) {
  Policy policy;
  policy.level = level;
  policy.group_size = group_size;
  if (level == "L1" || level == "L2") {
    policy.bits = 4;
  } else if (level == "L3") {
    policy.bits = 3;
    policy.rebuilds = policy.shares_codes = true;
  } else if (level == "L4") {
    policy.bits = 3;
    policy.rebuilds = policy.shares_codes = true;
    policy.rerun_spacing = kRerunSpacing;
  } else if (const Preset* preset = FindPreset(level)) {
    if (*preset->refusal) return MakeError("-O " + level, preset->refusal, "use " + PresetNames());
    policy.bits = preset->bits;
    policy.rules = preset->rules;
    policy.products_only = preset->products_only;
  } else if (level != "L0") {
    return MakeError("-O " + level, "no such level",
                     "levels are L0, L1, L2, L3 and L4; presets of other systems " + PresetNames());
  }
  policy.products_only |= level == "L1";
  if (bits_override != 0) {
    if (!(bits_override >= 1 && bits_override <= 8))
      return MakeError("--bits", "must be 1 to 8 bits per element");
    if (level == "L0")
      return MakeError("--bits", "L0 is exact and has no lossy codes", "use -O L1, L2 or L3");
    policy.bits = static_cast<int>(std::ceil(bits_override));
    if (policy.bits != bits_override) policy.average_bits = bits_override;
  }
  if (const auto wrong = CheckCodec(Codec::Uniform(std::max(policy.bits, 1), group_size)))
    return MakeError("--group-size", *wrong);
  return policy;
}

}  // namespace act
