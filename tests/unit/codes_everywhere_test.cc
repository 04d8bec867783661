// Codes and decoded values do not depend on threads or instruction sets: one loop that encodes its operand in
// every form, run every way, byte for byte.
#include <gtest/gtest.h>

#include "tests/unit/codec_testing.h"
#include "tests/unit/fused_case.h"

namespace act {
namespace {

std::vector<Codec> Forms() {
  const Rounding dither = Rounding::kDither;
  return {Codec::Mask(),
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
          Codec::Cast(CodecKind::kFloat16),
          Codec::Cast(CodecKind::kFloat8E4M3)};
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
    std::memcpy(c.input_views[i].data, encoded.output_views[i].data,
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

}  // namespace
}  // namespace act
