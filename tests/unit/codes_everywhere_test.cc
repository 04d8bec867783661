// Codes and decoded values do not depend on threads or instruction sets. One loop that encodes its
// operand in every form is run in every way, and the results are compared byte for byte.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "kernels/site/dereference.h"
#include "runtime/codec/codec_row.h"
#include "runtime/codec/not_finite.h"
#include "runtime/codec/plugin.h"
#include "tests/unit/codec_testing.h"
#include "tests/unit/fused_case.h"
#include "tests/unit/row_codecs.h"

namespace act {
namespace {

// A plugin's codec that stores the floats as they are.
int FormOfFloats(act_codec_form* form) {
  form->metadata_bytes = 0;
  form->group_bytes = 4 * form->group_size;
  return 1;
}
void EncodeFloats(const act_codec_form*, const act_codec_key*, const float* x, uint32_t count, uint8_t*,
                  uint8_t* payload) {
  std::memcpy(payload, x, count * sizeof(float));
}
void DecodeFloats(const act_codec_form*, const act_codec_key*, const uint8_t*, const uint8_t* payload,
                  uint32_t count, float* x) {
  std::memcpy(x, payload, count * sizeof(float));
}
Codec Plugin() {
  static const act_codec kFloats = {ACT_CODEC_ABI_VERSION, 1,           "floats", FormOfFloats,
                                    EncodeFloats,          DecodeFloats};
  llvm::Expected<Codec> codec = MakePluginCodec(kFloats, 8, 256);
  EXPECT_TRUE(static_cast<bool>(codec));
  return *codec;
}

// Codecs of every row.
std::vector<Codec> Forms() {
  const Rounding dither = Rounding::kDither;
  std::vector<Codec> forms = {Codec::Mask(),
                              Codec::Index(3),
                              Codec::Uniform(2),
                              Codec::Uniform(4, 64, dither),
                              Codec::Uniform(3, 1024, Rounding::kNearest),
                              Codec::Uniform(1, 256, dither).OfLevels(5),
                              Codec::Uniform(1, 512).OfLevels(6),
                              Codec::Uniform(4, 256, dither).With(Metadata::kSingle),
                              Codec::Uniform(4, 256, dither).With(Metadata::kLogPair).Fitted(),
                              Codec::Sign(3, 2),
                              Codec::Sign(3, 2).With(Metadata::kLogPair).Fitted(),
                              Codec::Sign(3, 2).With(Metadata::kSides),
                              Codec::Zero(2).OfLevels(6),
                              Plugin()};
  for (const Codec& codec : CastsAndGroups()) forms.push_back(codec);
  for (const Spacing spacing : AllFittedSpacings())
    for (const Codec& codec : {Codec::Uniform(3, 256, dither), Codec::Sign(4, 8), Codec::Zero(2)})
      for (int levels = 2; levels <= 8; ++levels)
        if (const Codec form = codec.OfLevels(levels).With(spacing); !CheckCodec(form)) forms.push_back(form);
  return forms;
}

// 5 samples of 37 x 130 elements: several tiles each, the last ones short.
const Dims kSpace = {Dim::Batch(), Dim(37), Dim(130)};
constexpr int64_t kBatch = 5;

FusedCase EncodeCase() {
  Program program;
  program.space = kSpace;
  program.inputs = {{}};
  int32_t stream = 1;
  for (const Codec& codec : Forms()) program.outputs.push_back({OutputKind::kEncode, 0, codec, stream++});
  const std::vector<TensorType> outputs(program.outputs.size());
  FusedCase c(program, {{DType::kFloat32, kSpace}}, outputs, kBatch);
  const std::vector<float> x = Normal(c.input_views[0].elements, 2);
  std::copy(x.begin(), x.end(), c.In(0));
  return c;
}

// Decodes the codes that `encoded` made.
FusedCase DecodeCase(FusedCase& encoded) {
  Program program;
  program.space = kSpace;
  int32_t stream = 1;
  for (const Codec& codec : Forms()) {
    program.outputs.push_back({OutputKind::kStore, static_cast<int32_t>(program.inputs.size()), {}, 0});
    program.inputs.push_back({codec, stream++});
  }
  const size_t count = program.inputs.size();
  FusedCase c(program, std::vector<TensorType>(count), {count, {DType::kFloat32, kSpace}}, kBatch);
  for (size_t i = 0; i < count; ++i)
    std::memcpy(c.input_views[i].as<void>(), encoded.output_views[i].as<void>(),
                static_cast<size_t>(c.input_views[i].bytes));
  return c;
}

TEST(Codes, AreTheSameForAnyThreadsAndInstructionSet) {
  FusedCase truth = EncodeCase();
  truth.Run("reference.fused");
  FusedCase decoded_truth = DecodeCase(truth);
  decoded_truth.Run("reference.fused");
  const std::vector<Codec> forms = Forms();
  ForEachTarget([&] {
    for (const int threads : {1, 2, 4}) {
      FusedCase c = EncodeCase();
      c.Run("fused", threads);
      FusedCase decoded = DecodeCase(truth);
      decoded.Run("fused", threads);
      for (size_t i = 0; i < forms.size(); ++i) {
        ASSERT_EQ(c.OutBytes(i), truth.OutBytes(i)) << ToString(forms[i]) << ", " << threads << " threads";
        ASSERT_EQ(decoded.OutBytes(i), decoded_truth.OutBytes(i))
            << ToString(forms[i]) << ", " << threads << " threads";
      }
    }
  });
}

TEST(Codes, EachRowIsAmongTheForms) {
  std::set<std::string> rows;
  for (const Codec& codec : Forms()) rows.insert(RowOf(codec).attribute);
  for (const CodecRow& row : AllCodecRows())
    EXPECT_EQ(rows.count(row.attribute), row.kind == CodecKind::kNone ? 0u : 1u) << row.attribute;
}

TEST(Codes, WhatIsInNoRowFailsTheCheck) {
  EXPECT_NE(CheckCodec(Codec::Cast({.exponent_bits = 6, .mantissa_bits = 9})), std::nullopt);
  Codec mask = Codec::Mask();
  mask.cast = kFloat16;
  EXPECT_NE(CheckCodec(mask), std::nullopt);
  EXPECT_NE(CheckCodec(CodecOf(RowOf(Plugin()), 4)), std::nullopt) << "a plugin's without the plugin";
}

TEST(Codes, EachFormHasItsSizesNameAndAttributes) {
  std::set<std::string> names;
  for (const Codec& codec : Forms()) {
    const std::string name = ToString(codec);
    EXPECT_TRUE(names.insert(name).second) << name << " twice";
    EXPECT_EQ(CheckCodec(codec), std::nullopt) << name;
    // One bit per element, or more.
    EXPECT_GE(PayloadBytes(codec, 1), 1) << name;
    EXPECT_GE(8 * PayloadBytes(codec, codec.group_size), codec.group_size) << name;
    EXPECT_NE(CodeType(codec, kSpace), std::nullopt) << name;
    EXPECT_EQ(CodecOf(AttributesOf(codec)), codec) << name;
  }
  EXPECT_EQ(CodecOf(Attributes()), Codec());
}

TEST(Codes, AttributesThatNameNothingFailTheCheck) {
  for (const char* attribute : {"rounding", "metadata", "spacing"}) {
    Codec codec = Codec::Uniform(3);
    Attributes attrs;
    RowOf(codec).write(codec, attrs);
    attrs.Set(attribute, std::string("no-such-value"));
    RowOf(codec).read(attrs, codec);
    EXPECT_NE(CheckCodec(codec), std::nullopt) << attribute;
  }
}

TEST(Codes, WhatIsNotFiniteIsCounted) {
  for (const Codec& codec : Forms()) {
    std::vector<float> x = Normal(700);
    EXPECT_EQ(CountNotFinite(codec, 700, Encode(codec, x).data()), 0) << ToString(codec);
    x[300] = kNaN;
    const bool counts = !codec.IsExact() && !codec.groups;
    EXPECT_EQ(CountNotFinite(codec, 700, Encode(codec, x).data()), counts ? 1 : 0) << ToString(codec);
  }
}

// Casts are counted a block at a time: in whole blocks, in all of a block, and in a last one that is short.
TEST(Codes, WhatIsNotFiniteIsCountedInManyBlocks) {
  constexpr int64_t kElements = 3 * 4096 + 5;
  for (const Codec& codec : Forms()) {
    if (!codec.IsCast()) continue;
    std::vector<float> x = Normal(kElements);
    for (size_t i = 4096; i < 8192; ++i) x[i] = i % 2 == 0 ? kNaN : -std::numeric_limits<float>::infinity();
    x.back() = kNaN;
    EXPECT_EQ(CountNotFinite(codec, kElements, Encode(codec, x).data()), 4097) << ToString(codec);
  }
}

}  // namespace
}  // namespace act
