// Bytes as a codec: as the attributes by which a plan names one, and as the form that a plugin answers with. What a
// check accepts has sizes for every shape, and the same name and attributes when it is read again.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "compiler/policy/policy.h"
#include "runtime/codec/codec_row.h"
#include "runtime/codec/plugin.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/require.h"

namespace act::fuzz {
namespace {

// Numbers from the front of the input. Zeros follow its end.
class Numbers {
 public:
  Numbers(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  uint8_t Byte() { return at_ < size_ ? data_[at_++] : 0; }
  uint32_t Word() {
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i) word |= static_cast<uint32_t>(Byte()) << (8 * i);
    return word;
  }
  // Small numbers more often than large ones.
  int64_t Number() {
    const uint8_t kind = Byte();
    if (kind < 200) return kind % 40;
    return kind < 240 ? int64_t{1} << (kind % 64) : static_cast<int64_t>(uint64_t{Word()} << 32 | Word());
  }
  std::string Rest() {
    std::string rest(reinterpret_cast<const char*>(data_) + at_, size_ - at_);
    at_ = size_;
    return rest;
  }

 private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

void CheckSizes(const Codec& codec, Numbers& numbers) {
  Require(!ToString(codec).empty(), "a codec without a name");
  Require(std::isfinite(BitsPerElement(codec)) && BitsPerElement(codec) > 0, "a code of no bits");
  for (int64_t count : {int64_t{1}, int64_t{codec.group_size}})
    Require(PayloadBytes(codec, count) >= 0 && PayloadBytes(codec, count) <= 4 * int64_t{codec.group_size},
            "the code of a group has an impossible size");
  const Dims dims = {Dim::Batch(), Dim(std::clamp<int64_t>(numbers.Number(), 0, kTooLarge - 1)),
                     Dim(numbers.Byte())};
  if (const auto type = CodeType(codec, dims);
      type && !TensorType{DType::kFloat32, dims}.Bytes().TooLarge()) {
    const int64_t packed = PackedBytes(codec, dims, 3), stored = type->Bytes().At(3);
    Require(packed >= 0 && packed <= stored, "a code takes more bytes packed than stored");
  }
}

void RunAttributes(Numbers& numbers) {
  static constexpr const char* kKinds[] = {"mask", "uniform", "index", "sign",  "zero",
                                           "f16",  "bf16",    "e4m3",  "groups"};
  static constexpr const char* kNames[] = {"bits",           "group_size", "levels",  "below",
                                           "rounding",       "metadata",   "spacing", "version",
                                           "metadata_bytes", "group_bytes"};
  static constexpr const char* kTexts[] = {"kind", "rounding", "metadata", "spacing", "name", "plugin"};
  Attributes attrs;
  const uint8_t kind = numbers.Byte();
  if (kind < std::size(kKinds)) attrs.Set("kind", std::string(kKinds[kind]));
  if (const auto rows = AllCodecRows(); kind >= 128)
    attrs.Set("kind", std::string(rows[kind % rows.size()].attribute));
  for (uint8_t count = numbers.Byte() % 8; count > 0; --count) {
    const std::string name = kNames[numbers.Byte() % std::size(kNames)];
    attrs.Set(name, numbers.Number());
  }
  if (numbers.Byte() % 2) attrs.Set(kTexts[numbers.Byte() % std::size(kTexts)], numbers.Rest());
  const Codec codec = CodecOf(attrs);
  if (CheckCodec(codec)) return;
  CheckSizes(codec, numbers);
  if (!codec.plugin) Require(CodecOf(AttributesOf(codec)) == codec, "a codec is read as another one");
}

// The plugin of one input: its form is the input's, and its code is written as that form says.
act_codec_form the_form;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): plugins keep no state

int Form(act_codec_form* form) {
  const uint32_t bits = form->bits;
  *form = the_form;
  form->bits = bits;
  return bits != 7;
}
size_t PayloadOf(const act_codec_form* form, uint32_t count) {
  return (uint64_t{count} * form->group_bytes + form->group_size - 1) / form->group_size;
}
void Encode(const act_codec_form* form, const act_codec_key*, const float*, uint32_t count, uint8_t* metadata,
            uint8_t* payload) {
  std::memset(metadata, 1, form->metadata_bytes);
  std::memset(payload, 2, PayloadOf(form, count));
}
void Decode(const act_codec_form*, const act_codec_key*, const uint8_t*, const uint8_t*, uint32_t count,
            float* x) {
  std::fill_n(x, count, 0.0f);
}

void RunPlugin(Numbers& numbers) {
  the_form = {0, numbers.Word(), numbers.Word(), numbers.Word()};
  if (numbers.Byte() % 2) the_form.group_size = 64u << numbers.Byte() % 6;
  if (numbers.Byte() % 2) the_form.metadata_bytes %= 66;
  if (numbers.Byte() % 2) the_form.group_bytes %= 4100;
  const act_codec functions = {ACT_CODEC_ABI_VERSION, numbers.Word(), "plugin", Form, Encode, Decode};
  auto codec = MakePluginCodec(functions, 1 + numbers.Byte() % 8, 64 << numbers.Byte() % 5);
  if (!codec) return llvm::consumeError(codec.takeError());
  CheckSizes(*codec, numbers);
  Require(CodecOf(AttributesOf(*codec)) == *codec, "a plugin's codec is read as another one");
}

// "LEVEL BITS GROUP", as -O, --bits and --group-size have them.
void RunPolicy(Numbers& numbers) {
  const int64_t group = numbers.Byte() % 4 ? int64_t{64} << numbers.Byte() % 5 : numbers.Number() << 32 | 256;
  double bits = numbers.Byte() / 16.0;
  if (numbers.Byte() % 2) bits = 0;
  const std::string level = numbers.Rest();
  auto policy = MakePolicy(level, bits, group);
  if (!policy) return llvm::consumeError(policy.takeError());
  Require(policy->group_size >= 64 && policy->group_size <= 1024, "a policy with an impossible group size");
  for (int facts = 0; facts < 32; ++facts) {
    EdgeFacts edge;
    edge.type = {DType::kFloat32, {Dim::Batch(), Dim(16), Dim(16), Dim(facts & 16 ? 3 : 64)}};
    edge.activation = true;
    edge.feeds_product = facts & 1;
    edge.sign_is_read = edge.often_zero = facts & 2;
    edge.anchor = facts & 4;
    edge.for_scores = facts & 8;
    const Decision decision = policy->Decide(edge);
    Require(decision.codec.kind == CodecKind::kNone || !CheckCodec(decision.codec),
            "a policy chose no valid codec");
  }
}

}  // namespace
}  // namespace act::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  act::fuzz::Numbers numbers(data, size);
  switch (numbers.Byte() % 3) {
    case 0:
      act::fuzz::RunAttributes(numbers);
      break;
    case 1:
      act::fuzz::RunPlugin(numbers);
      break;
    default:
      act::fuzz::RunPolicy(numbers);
  }
  return 0;
}
