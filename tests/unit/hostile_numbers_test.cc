// Codes of numbers that no network should make: constants, denormals, NaN, infinities, and groups
// of one element or none. Every form is defined for them, and gives the same on every thread and
// instruction set.
#include "runtime/codec/not_finite.h"
#include "tests/unit/codec_testing.h"
#include "tests/unit/fused_case.h"
#include "tests/unit/row_codecs.h"

namespace act {
namespace {

constexpr RandomStream kRandom{7, 3, 5};
constexpr float kLeastNormal = std::numeric_limits<float>::min();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

// Every kind, metadata and spacing, with few levels, with a number of levels that is not a power of
// two, and with many.
std::vector<Codec> CodecsWithNumbers() {
  std::vector<Codec> codecs;
  for (const int levels : {4, 5, 8, 200}) {
    for (const Rounding rounding : {Rounding::kStochastic, Rounding::kDither}) {
      for (const Metadata metadata :
           {Metadata::kPair, Metadata::kLogPair, Metadata::kSingle, Metadata::kLogSingle, Metadata::kSides}) {
        std::vector<Spacing> spacings = AllFittedSpacings();
        spacings.push_back(Spacing::kEven);
        for (const Spacing spacing : spacings) {
          for (Codec codec : {Codec::Uniform(2, 64, rounding), Codec::Sign(2, 2, 64, rounding),
                              Codec::Zero(2, 64, rounding)}) {
            codec = codec.OfLevels(levels).With(metadata).With(spacing);
            if (!CheckCodec(codec)) codecs.push_back(codec);
          }
        }
      }
    }
  }
  for (const Codec& codec : CastsAndGroups()) codecs.push_back(codec);
  return codecs;
}

std::vector<float> Mask(const Codec& codec, const std::vector<float>& x) {
  std::vector<float> mask(x.size());
  DecodeMaskReference(codec, static_cast<int64_t>(x.size()), Encode(codec, x, kRandom).data(), mask.data());
  return mask;
}

// The widest step that exists: two sides with two levels each, and a scale of 8 bits far from 1 (16
// times the scale that is needed).
float WidestError(float magnitude) { return 33 * magnitude + 0x1p-94f; }

void ExpectDefined(const Codec& codec, const std::vector<float>& x) {
  const std::vector<float> y = RoundTrip(codec, x, kRandom);
  const auto group = static_cast<size_t>(codec.group_size);
  float largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (i % group == 0) largest = 0;
    for (size_t k = i; i % group == 0 && k < std::min(i + group, x.size()); ++k)
      largest = std::max(largest, std::fabs(x[k]));
    ASSERT_TRUE(std::isfinite(y[i])) << ToString(codec) << " of " << x[i];
    if (codec.IsCast()) continue;  // has its type's smallest and largest number
    ASSERT_LE(std::fabs(y[i] - x[i]), WidestError(largest)) << ToString(codec) << " of " << x[i];
  }
  if (!codec.HoldsMask()) return;
  const std::vector<float> mask = Mask(codec, x);
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(mask[i] != 0, codec.kind == CodecKind::kSign ? x[i] > 0 : x[i] != 0)
        << ToString(codec) << " of " << x[i];
}

TEST(HostileNumbers, ConstantTensorsAreDefinedAndTheirMasksExact) {
  for (const Codec& codec : CodecsWithNumbers())
    for (const float value : {0.f, -0.f, 1.f, -1.f, .1f, -3e-5f, 1e-30f, -1e-30f, 1e30f, kLeastNormal,
                              -kLeastNormal, kDenormal, -kDenormal})
      ExpectDefined(codec, std::vector<float>(130, value));
}

TEST(HostileNumbers, DenormalsAreDefinedAndTheirMasksExact) {
  std::vector<float> x(300);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<int>(i * i % 17) - 8) * 37 * kDenormal;
  for (const Codec& codec : CodecsWithNumbers()) {
    ExpectDefined(codec, x);
    ExpectSameCode(codec, x, 1);
  }
}

TEST(HostileNumbers, AGroupOfOneElementIsAGroup) {
  for (const Codec& codec : CodecsWithNumbers()) {
    for (const int64_t elements :
         {int64_t{1}, int64_t{codec.group_size + 1}, int64_t{3 * codec.group_size + 1}}) {
      std::vector<float> x = Normal(elements);
      for (const float last : {.7f, -.7f, 0.f, 1e20f}) {
        x.back() = last;
        if (!codec.IsCast() || last < 100) ExpectDefined(codec, x);
        ExpectSameCode(codec, x, 1);
      }
    }
  }
}

TEST(HostileNumbers, NothingTakesNothing) {
  for (const Codec& codec : CodecsWithNumbers()) {
    EXPECT_EQ(LayoutOf(codec, 0).sample_bytes, 0) << ToString(codec);
    EXPECT_EQ(CodeType(codec, {Dim::Batch(), Dim(0)})->Bytes().At(9), 0);
    EXPECT_TRUE(RoundTrip(codec, {}).empty());
    EXPECT_EQ(CountNotFinite(codec, 0, nullptr), 0);
  }
  // In a loop without samples or without elements.
  for (const Dims& space : {Dims{Dim::Batch(), Dim(0)}, Dims{Dim(0), Dim(64)}}) {
    for (const char* kernel : {"fused", "reference.fused"}) {
      Program program;
      program.space = space;
      program.inputs.resize(1);
      program.outputs.resize(1);
      program.outputs[0].reg = 0;
      program.outputs[0].kind = OutputKind::kEncode;
      program.outputs[0].codec = Codec::Sign(3, 2);
      FusedCase loop(program, {{DType::kFloat32, space}}, {{}}, 3);
      loop.Run(kernel);
      EXPECT_TRUE(loop.OutBytes(0).empty());
    }
  }
}

TEST(HostileNumbers, CodesThatHoldNaNAreToldByTheirBytes) {
  for (const Codec& codec : CodecsWithNumbers()) {
    for (const float bad : {1.f, kNaN, -kNaN, kInf, -kInf}) {
      std::vector<float> x = Normal(300);
      x[100] = x[299] = bad;
      const std::vector<float> y = RoundTrip(codec, x, kRandom);
      int64_t expected = 0;
      if (codec.IsCast()) {
        for (const float v : y) expected += !std::isfinite(v);
      } else {
        const auto group = static_cast<size_t>(codec.group_size);
        for (size_t i = 0; i < y.size(); i += group) expected += std::isnan(y[i]);
        for (size_t i = 0; i < y.size(); ++i)
          ASSERT_EQ(std::isnan(y[i]), std::isnan(y[i / group * group])) << ToString(codec);
      }
      EXPECT_EQ(expected, std::isfinite(bad) ? 0 : 2) << ToString(codec) << ", " << bad;
      if (codec.groups) continue;
      EXPECT_EQ(CountNotFinite(codec, 300, Encode(codec, x, kRandom).data()), expected)
          << ToString(codec) << ", " << bad;
    }
  }
}

// A resumed run, or a run on another machine, depends on this promise: the same floats
// give the same codes.
TEST(Codes, AreTheSameBytesOnEveryNumberOfThreadsAndInstructionSet) {
  const Dims space{Dim::Batch(), Dim(9000)};
  const std::vector<Codec> all = CodecsWithNumbers();
  std::vector<Codec> codecs{Codec::Mask()};
  // The reference is slow.
  for (size_t c = 0; c < all.size(); c += 5) codecs.push_back(all[c]);
  for (const Codec& codec : codecs) {
    Program program;
    program.space = space;
    program.inputs.resize(1);
    program.outputs.resize(1);
    program.outputs[0].reg = 0;
    program.outputs[0].kind = OutputKind::kEncode;
    program.outputs[0].codec = codec;
    program.outputs[0].stream = 11;
    const auto run = [&](const char* kernel, int threads) {
      FusedCase loop(program, {{DType::kFloat32, space}}, {{}}, 16);
      const std::vector<float> x = Normal(16 * 9000);
      std::copy(x.begin(), x.end(), loop.In(0));
      loop.Run(kernel, threads);
      return loop.OutBytes(0);
    };
    const std::vector<std::byte> truth = run("reference.fused", 1);
    ForEachTarget([&] {
      for (const int threads : {1, 2, 4})
        ASSERT_TRUE(run("fused", threads) == truth) << ToString(codec) << ", " << threads << " threads";
    });
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace act
