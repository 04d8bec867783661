// Codes of the CUDA backend, on the fake card: encoded byte for byte as the reference does, decoded to the
// same bits.
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "kernels/cuda/fused_text.h"
#include "kernels/reference/codec.h"
#include "tests/unit/card_compiler.h"
#include "tests/unit/cuda_fused_case.h"
#include "tests/unit/row_codecs.h"

namespace act {
namespace {

Codec WithLevels(CodecKind kind, int levels, int group, Rounding rounding, Metadata metadata,
                 Spacing spacing) {
  Codec codec = Codec::Uniform(1, group, rounding).OfLevels(levels).With(metadata).With(spacing);
  codec.kind = kind;
  if (kind == CodecKind::kSign) codec.below = 2 + levels / 5;
  return codec;
}

// Every kind with every rounding, metadata and spacing that are allowed together. Numbers of levels, packed
// in planes or several to a number, and sizes of groups take turns.
std::vector<Codec> CodecsWithLevels() {
  const int levels[] = {4, 5, 6, 8, 9, 11, 16, 13, 3, 27, 64, 150, 256, 2, 7};
  const int groups[] = {256, 64, 256, 128, 512, 256, 1024};
  std::vector<Codec> codecs;
  size_t turn = 0;
  const auto add = [&](CodecKind kind, Rounding rounding, Metadata metadata, Spacing spacing) {
    for (size_t tries = 0; tries < std::size(levels); ++tries, ++turn) {
      const Codec codec = WithLevels(kind, levels[turn % std::size(levels)], groups[turn % std::size(groups)],
                                     rounding, metadata, spacing);
      if (CheckCodec(codec)) continue;
      codecs.push_back(codec);
      ++turn;
      return;
    }
  };
  std::vector<Spacing> spacings = AllFittedSpacings();
  spacings.push_back(Spacing::kEven);
  for (const CodecKind kind : {CodecKind::kUniform, CodecKind::kSign, CodecKind::kZero})
    for (int metadata = 0; metadata <= static_cast<int>(kLastMetadata); ++metadata)
      for (int rounding = 0; rounding <= static_cast<int>(kLastRounding); ++rounding)
        for (const Spacing spacing : spacings)
          add(kind, static_cast<Rounding>(rounding), static_cast<Metadata>(metadata), spacing);
  return codecs;
}

// Those that plans have by default.
std::vector<Codec> CommonCodecs() {
  std::vector<Codec> codecs = AllCasts();
  for (const int bits : {1, 3, 8}) codecs.push_back(Codec::Index(bits));
  codecs.push_back(Codec::Mask());
  for (const int bits : {1, 2, 3, 4, 8}) codecs.push_back(Codec::Uniform(bits));
  codecs.push_back(Codec::Sign(3, 2).With(Metadata::kSides));
  codecs.push_back(Codec::Sign(3, 2).With(Metadata::kLogPair).Fitted());
  codecs.push_back(Codec::Zero(3).With(Metadata::kLogPair).Fitted());
  return codecs;
}

// Elements of a sample: pieces of the loop that are full, full groups in one that is not, and a short group.
int64_t ElementsOf(const Codec& codec) { return 2 * std::max(256, codec.group_size) + codec.group_size + 77; }

// Groups of all kinds: normal numbers, few of them, one number, denormals, no positive one, very large ones,
// infinities and NaNs.
std::vector<float> Elements(const Codec& codec, int64_t samples, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> x(static_cast<size_t>(samples * ElementsOf(codec)));
  const auto pick = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  for (size_t first = 0; first < x.size(); first += 64) {
    const uint32_t form = pick(16);
    const float scale = std::ldexp(1.0f, static_cast<int>(pick(40)) - 20);
    for (size_t i = first; i < std::min(first + 64, x.size()); ++i) {
      const float v = normal(random);
      x[i] = form < 7     ? scale * v
             : form == 7  ? (pick(2) != 0 ? scale * v : 0.0f)
             : form == 8  ? scale
             : form == 9  ? 1e-41f * v
             : form == 10 ? -std::fabs(v)
             : form == 11 ? (pick(2) != 0 ? 0.0f : -0.0f)
             : form == 12 ? 3e37f * v
             : form == 13 ? static_cast<float>(pick(300))
                          : v;
    }
    if (form == 14 && pick(8) == 0)
      x[first + pick(static_cast<uint32_t>(std::min<size_t>(64, x.size() - first)))] = INFINITY;
    if (form == 15 && pick(8) == 0) x[first] = NAN;
  }
  return x;
}

// Encodes in0, and decodes in1, a code of other elements, and its mask. A kernel serves every batch.
struct CodecCase {
  CodecCase(const Codec& codec, int64_t batch, unsigned seed)
      : codec(codec), batch(batch), c(Make(codec, batch)) {
    c.state = {.seed = 0x9876543210ull + seed, .step = 3 + seed};
    const int64_t elements = ElementsOf(codec), bytes = LayoutOf(codec, elements).sample_bytes;
    std::vector<float> x = Elements(codec, batch, 2 * seed), y = Elements(codec, batch, 2 * seed + 1);
    std::copy(x.begin(), x.end(), c.In(0));
    for (int64_t s = 0; s < batch; ++s)
      EncodeSampleReference(codec, Stream(1), kFirstSample + s, elements, y.data() + s * elements,
                            c.input_views[1].as<uint8_t>() + s * bytes);
    if (codec.HoldsMask())
      std::memcpy(c.input_views[2].as<void>(), c.input_views[1].as<void>(),
                  static_cast<size_t>(c.input_views[1].bytes));
    card = std::make_unique<FusedOnCard>(c);
  }

  static FusedCase Make(const Codec& codec, int64_t batch) {
    Program p;
    p.space = {Dim::Batch(), Dim(ElementsOf(codec))};
    p.inputs = {{}, {codec, 1}};
    p.outputs = {{OutputKind::kEncode, 0, codec, 2}, {OutputKind::kStore, 1, {}, 0}};
    if (codec.HoldsMask()) {
      p.inputs.push_back({codec, 1, true});
      p.outputs.push_back({OutputKind::kStore, 2, {}, 0});
    }
    const TensorType full{DType::kFloat32, p.space};
    return FusedCase(p, std::vector<TensorType>(p.inputs.size(), full),
                     std::vector<TensorType>(p.outputs.size(), full), batch);
  }

  RandomStream Stream(uint32_t number) const { return {c.state.seed, c.state.step, number}; }

  void Check() {
    SCOPED_TRACE(ToString(codec) + ", " + std::to_string(batch) + " samples");
    ASSERT_EQ(card->refusal(), "");
    card->Run(kFirstSample);
    const int64_t elements = ElementsOf(codec), bytes = LayoutOf(codec, elements).sample_bytes;
    std::vector<uint8_t> code(static_cast<size_t>(bytes));
    std::vector<float> x(static_cast<size_t>(elements));
    for (int64_t s = 0; s < batch; ++s) {
      EncodeSampleReference(codec, Stream(2), kFirstSample + s, elements, c.In(0) + s * elements,
                            code.data());
      const uint8_t* made = c.output_views[0].as<uint8_t>() + s * bytes;
      for (int64_t b = 0; b < bytes; ++b)
        ASSERT_EQ(made[b], code[static_cast<size_t>(b)])
            << "byte " << b << " of " << bytes << ", sample " << s;
      const uint8_t* given = c.input_views[1].as<uint8_t>() + s * bytes;
      DecodeSampleReference(codec, Stream(1), kFirstSample + s, elements, given, x.data());
      ExpectSame(x, c.Out(1) + s * elements, "decoded");
      if (!codec.HoldsMask()) continue;
      DecodeMaskReference(codec, elements, given, x.data());
      ExpectSame(x, c.Out(2) + s * elements, "mask");
    }
  }

  static void ExpectSame(const std::vector<float>& expected, const float* x, const char* what) {
    for (size_t i = 0; i < expected.size(); ++i) {
      if (std::isnan(expected[i]) && std::isnan(x[i])) continue;
      ASSERT_EQ(BitsOf(x[i]), BitsOf(expected[i]))
          << what << " " << i << ": " << x[i] << ", not " << expected[i];
    }
  }

  static constexpr int64_t kFirstSample = 5;
  const Codec codec;
  const int64_t batch;
  FusedCase c;
  std::unique_ptr<FusedOnCard> card;
};

// Kernels are asked for first, and compiled together. `values`: at least so many elements in all.
void CheckAll(const std::vector<Codec>& codecs, int64_t values) {
  std::deque<CodecCase> cases;
  unsigned seed = 0;
  for (const Codec& codec : codecs) {
    const int64_t each = values / static_cast<int64_t>(codecs.size());
    cases.emplace_back(codec, 1, ++seed);
    cases.emplace_back(codec, 1 + each / ElementsOf(codec), ++seed);
  }
  for (CodecCase& c : cases) ASSERT_NO_FATAL_FAILURE(c.Check());
}

TEST(CudaCodec, CommonCodecsAreTheReferences) { CheckAll(CommonCodecs(), 1'000'000); }
TEST(CudaCodec, AllRoundingsMetadataAndSpacingsAreTheReferences) { CheckAll(CodecsWithLevels(), 9'000'000); }

TEST(CudaCodec, CommonCodecsPassTheCompileGate) {
  if (!testing::HasNvidia()) GTEST_SKIP() << "libact_cuda.so was not built";
  for (const Codec& codec : CommonCodecs()) {
    const FusedCase c = CodecCase::Make(codec, 1);
    const KernelSite site = c.Site();
    const std::optional<cuda::CudaLoop> loop = cuda::MakeCudaLoop(site, nullptr);
    const cuda::KernelSource source = cuda::FusedSource(*loop, site);
    EXPECT_EQ(testing::FaultsOnCards(source, 64 * 1024 / loop->ResidentThreads()), "") << ToString(codec);
  }
}

}  // namespace
}  // namespace act
