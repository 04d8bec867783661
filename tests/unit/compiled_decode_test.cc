// Compiled runs that read bit planes have the bits of the decode step.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/compiled_run.h"
#include "tests/unit/decode_program.h"

namespace act {
namespace {

// Tests run for each instruction set that the processor has.
class CompiledDecode : public ::testing::TestWithParam<RunIsa> {
 protected:
  void SetUp() override {
    if (BestRunIsa() < GetParam()) GTEST_SKIP() << "the processor has not its instructions";
  }
};
INSTANTIATE_TEST_SUITE_P(Isas, CompiledDecode,
                         ::testing::Values(RunIsa::kAvx2, RunIsa::kAvx512, RunIsa::kAvx512Bytes));

// The bits, with one of all NaNs.
uint32_t Bits(float x) { return std::isnan(x) ? 0x7FC00000u : std::bit_cast<uint32_t>(x); }

// Every kind of value at every number of planes, with levels to spare and
// without, for each rounding.
std::vector<Codec> PlaneCodecs(int64_t group) {
  std::vector<Codec> codecs = {Codec::Mask()};
  for (int bits = 1; bits <= 8; ++bits) {
    codecs.push_back(Codec::Index(bits));
    for (const Rounding rounding : {Rounding::kDither, Rounding::kStochastic, Rounding::kNearest})
      for (const int levels : {1 << bits, (1 << bits) - 1, (3 << bits) / 4}) {
        const Codec uniform = Codec::Uniform(bits, group, rounding).OfLevels(levels);
        const Codec sign = Codec::Sign(bits, 2, group, rounding).OfLevels(levels),
                    most = Codec::Sign(bits, levels - 2, group, rounding).OfLevels(levels),
                    zero = Codec::Zero(bits, group, rounding).OfLevels(levels);
        for (const Codec& codec : {uniform, uniform.With(Metadata::kSingle), sign, most,
                                   sign.With(Metadata::kLogPair), sign.With(Metadata::kSides),
                                   most.With(Metadata::kSides), zero, zero.With(Metadata::kLogSingle)})
          codecs.push_back(codec);
      }
  }
  std::erase_if(codecs, [](const Codec& codec) { return CheckCodec(codec).has_value(); });
  for (Codec& codec : codecs) codec.group_size = static_cast<int32_t>(group);
  return codecs;
}

// The codes of samples, with a number that is no number in one group, and one
// of zeros alone.
struct Coded {
  const Codec codec;
  const CodeLayout layout;
  std::vector<std::vector<uint8_t>> samples;

  Coded(const Codec& c, int64_t elements, unsigned seed) : codec(c), layout(LayoutOf(c, elements)) {
    RandomNumbers random(seed);
    std::normal_distribution<float> normal(0.25f, 2);
    for (int64_t s = 0; s < 2; ++s) {
      std::vector<float> x(static_cast<size_t>(elements));
      for (float& v : x) v = Pick(random, 0, 4) ? normal(random) : 0;
      if (elements > 700) x[650] = std::numeric_limits<float>::quiet_NaN();
      for (size_t i = 1100; i < std::min<size_t>(x.size(), 1400); ++i) x[i] = 0;
      if (codec.kind == CodecKind::kIndex)
        for (float& v : x) v = static_cast<float>(Pick(random, 0, (1 << codec.bits) - 1));
      samples.emplace_back(static_cast<size_t>(layout.sample_bytes));
      EncodeSampleReference(codec, kStream, s, elements, x.data(), samples.back().data());
    }
  }
  static constexpr RandomStream kStream = {1, 2, 3};

  const uint8_t* Of(const TilePlace& place) const {
    return samples[static_cast<size_t>(place.sample)].data();
  }
  std::vector<float> ByStep(const TilePlace& place, bool mask) const {
    DrawnStream random(kStream);
    std::vector<float> x(static_cast<size_t>(place.count));
    DecodeTile(codec, layout, random, place, Of(place), {.mask = mask}, x.data());
    return x;
  }
  void Place(const TilePlace& place, const PlaneForm& form, int64_t block, PlacedCode& to) const {
    DrawnStream random(kStream);
    PlaceCode(codec, layout, form, random, place, block, Of(place), to);
  }
};

// The tiles of the second sample and of the first, whose last one may be short.
std::vector<TilePlace> Tiles(int64_t elements) {
  std::vector<TilePlace> tiles;
  for (int64_t s = 2; s-- > 0;)
    for (int64_t first = 0; first < elements; first += kTileElements)
      tiles.push_back({s, elements, first, std::min(kTileElements, elements - first)});
  return tiles;
}

void ExpectBits(const std::vector<float>& made, const std::vector<float>& expected, float guard) {
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(Bits(made[i]), Bits(expected[i])) << i;
  ASSERT_EQ(made[expected.size()], guard);
}

TEST_P(CompiledDecode, EveryCodeHasTheBitsOfItsStep) {
  int codes = 0;
  for (const int64_t group : {64, 256, 1024})
    for (const Codec& codec : PlaneCodecs(group))
      for (const bool mask : {false, true}) {
        const auto form = PlaneFormOf(codec, mask);
        if (!form || (mask && !codec.HoldsMask())) continue;
        ++codes;
        SCOPED_TRACE(ToString(codec) + (mask ? ", its mask" : ""));
        const auto code = RunCode::Make(GetParam(),
                                        {{.op = RunOp::kDecode, .planes = *form, .to = 0, .stream = 0},
                                         {.op = RunOp::kStore, .a = 0, .stream = 1}},
                                        {StreamType::kCode, StreamType::kFloat});
        ASSERT_NE(code, nullptr);
        for (const int64_t elements : {5, 1536, 1024 + 301}) {
          const Coded coded(codec, elements, 7);
          for (const TilePlace& place : Tiles(elements)) {
            SCOPED_TRACE(std::to_string(place.first) + ", " + std::to_string(place.count));
            constexpr float kGuard = -123.5f;
            std::vector<float> made(static_cast<size_t>(place.count) + 1, kGuard);
            PlacedCode placed;
            coded.Place(place, *form, group, placed);
            const void* streams[] = {placed.blocks, made.data()};
            (*code)(streams, static_cast<size_t>(place.count));
            ExpectBits(made, coded.ByStep(place, mask), kGuard);
            if (HasFatalFailure()) return;
          }
        }
      }
  EXPECT_GT(codes, 900);
}

// Decodes all of them in one run.
void ExpectBitsOfOneRun(RunIsa isa, std::span<const Codec> codecs) {
  const size_t codes = codecs.size();
  std::vector<RunInstr> instrs;
  for (size_t c = 0; c < codes; ++c) {
    const auto number = static_cast<int32_t>(c);
    instrs.push_back(
        {.op = RunOp::kDecode, .planes = *PlaneFormOf(codecs[c], false), .to = number, .stream = number});
  }
  for (size_t c = 0; c < codes; ++c)
    instrs.push_back(
        {.op = RunOp::kStore, .a = static_cast<int32_t>(c), .stream = static_cast<int32_t>(codes + c)});
  std::vector<StreamType> types(codes, StreamType::kCode);
  types.resize(2 * codes, StreamType::kFloat);
  const auto code = RunCode::Make(isa, instrs, types);
  ASSERT_NE(code, nullptr);
  const int64_t block = BlockElements(instrs);
  for (const int64_t elements : {77, 1024, 2048 + 733, 1024 + 640}) {
    std::vector<Coded> coded;
    for (const Codec& codec : codecs) coded.emplace_back(codec, elements, 9);
    for (const TilePlace& place : Tiles(elements)) {
      std::vector<std::vector<float>> made(codes,
                                           std::vector<float>(static_cast<size_t>(place.count) + 1, 5.0f));
      std::vector<PlacedCode> placed(codes);
      std::vector<const void*> streams(2 * codes);
      for (size_t c = 0; c < codes; ++c) {
        coded[c].Place(place, instrs[c].planes, block, placed[c]);
        streams[c] = placed[c].blocks;
        streams[codes + c] = made[c].data();
      }
      (*code)(streams.data(), static_cast<size_t>(place.count));
      for (size_t c = 0; c < codes; ++c) {
        SCOPED_TRACE(ToString(codecs[c]) + ", " + std::to_string(place.first));
        ExpectBits(made[c], coded[c].ByStep(place, false), 5.0f);
      }
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// A block is a group of the one and a part of a group of the other. Of six codes there are more streams than registers
// for addresses; AVX2 has no registers for as many.
TEST_P(CompiledDecode, CodesOfOneRunMayHaveGroupsOfSeveralSizes) {
  const Codec codecs[] = {Codec::Sign(3, 2, 512).With(Metadata::kSides), Codec::Zero(5, 128),
                          Codec::Uniform(4, 1024, Rounding::kDither),    Codec::Sign(2, 2, 256),
                          Codec::Uniform(8, 128, Rounding::kDither),     Codec::Uniform(1, 256)};
  if (GetParam() != RunIsa::kAvx2) return ExpectBitsOfOneRun(GetParam(), codecs);
  for (size_t c = 0; c < std::size(codecs); c += 2)
    ExpectBitsOfOneRun(GetParam(), std::span(codecs).subspan(c, 2));
}

// Other codes stay steps.
TEST(PlaneForm, OnlyPlanesOfEvenLevelsAreRead) {
  EXPECT_EQ(PlaneFormOf(Codec::Cast(kBFloat16), false), std::nullopt);
  EXPECT_EQ(PlaneFormOf(Codec::Sign(3, 2).OfLevels(5), false),
            std::nullopt);  // three codes in 7 bits
  EXPECT_EQ(PlaneFormOf(Codec::Sign(4, 7, 64).Fitted(), false), std::nullopt);
  EXPECT_NE(PlaneFormOf(Codec::Sign(4, 7, 64).Fitted(), true), std::nullopt);
}

// Everything that may follow a decode in its step (DecodeEpilogue), and other
// steps beside it.
TEST_P(CompiledDecode, RandomChainsHaveTheBitsOfTheirSteps) {
  const std::vector<Codec> codecs = {CodeWithSides(8, 2),
                                     CodeWithSides(256, 99),
                                     Codec::Sign(3, 2).With(Metadata::kLogPair),
                                     Codec::Sign(4, 7, 64),
                                     Codec::Sign(4, 7, 64).Fitted(),
                                     Codec::Sign(3, 3).OfLevels(5),
                                     Codec::Uniform(2),
                                     Codec::Uniform(6, 1024, Rounding::kDither),
                                     Codec::Uniform(1, 128, Rounding::kDither),
                                     Codec::Zero(3, 512),
                                     Codec::Mask(),
                                     Codec::Index(4),
                                     Codec::Cast(kBFloat16)};
  int compiled = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    RandomNumbers random(seed);
    const Rebuild b = RandomChain(random, codecs);
    const bool same = Pick(random, 0, 3) != 0;
    SCOPED_TRACE("seed " + std::to_string(seed) + (same ? ", in1 = in0\n" : "\n") + ToString(b.r.program));
    FusedCase runs = b.Case(seed, same);
    FusedCase steps = b.CopyFor(runs, same);
    runs.Run(GetParam(), 2);
    steps.Run(RunIsa::kNone, 2);
    for (size_t i = 0; i < b.r.outputs.size(); ++i)
      for (int64_t e = 0; e < runs.output_views[i].elements; ++e)
        ASSERT_EQ(Bits(runs.Out(i)[e]), Bits(steps.Out(i)[e])) << "out" << i << "[" << e << "]";
    std::string why;
    const KernelSite site = runs.Site();
    FusedLoop loop = *MakeFusedLoop(site, *FusedShapeOf(site, &why), &why);
    CompileRuns(GetParam(), site, loop);
    for (const CompiledRun& run : loop.runs) compiled += !run.codes.empty();
  }
  EXPECT_GT(compiled, 500);
}

}  // namespace
}  // namespace act
