// Levels by sensitivity: the assumed error of a code, and plans whose codes change afterwards.
#include "runtime/levels/allocate_codecs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/reference/codec.h"
#include "runtime/plan/plan_check.h"
#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using small_networks::Network;
using testing_step::Take;
using testing_step::Text;

// Mean square error of a code of normal numbers. Where `rectified`, negative numbers are zeros. For
// a sign code, only numbers above 0 count.
double MeasuredError(const Codec& codec, bool rectified) {
  constexpr int64_t kElements = 64 * 1024;
  std::mt19937 engine(5);
  std::normal_distribution<float> normal;
  std::vector<float> x(kElements), decoded(kElements);
  for (float& v : x) v = rectified ? std::fmax(normal(engine), 0.0f) : normal(engine);
  std::vector<uint8_t> code(static_cast<size_t>(LayoutOf(codec, kElements).sample_bytes));
  const RandomStream random{.seed = 3, .step = 0, .stream = 1};
  EncodeSampleReference(codec, random, 0, kElements, x.data(), code.data());
  DecodeSampleReference(codec, random, 0, kElements, code.data(), decoded.data());
  double error = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(decoded[i]) - static_cast<double>(x[i]);
    if (codec.kind != CodecKind::kSign || x[i] > 0) error += d * d;
  }
  return error;
}

// The allocator asks how much larger the error of a code with fewer levels is.
TEST(RelativeError, IsThatOfTheCodes) {
  for (const Codec& base :
       {Codec::Uniform(4, 256, Rounding::kDither), Codec::Uniform(4), Codec::Zero(4), Codec::Sign(4, 4)}) {
    const bool zero = base.kind == CodecKind::kZero;
    for (const Codec& choice : LevelChoices(base)) {
      if (choice.levels < 4 || choice.levels > 64) continue;
      // 15 %: scales are rounded to 8 bits. Of a sign code, only the side above 0 is measured here.
      const double expected = RelativeError(choice, 0) / RelativeError(base, 0);
      EXPECT_NEAR(MeasuredError(choice, zero) / MeasuredError(base, zero) / expected, 1, .15)
          << ToString(choice) << " beside " << ToString(base);
    }
  }
}

// An 8-bit scale above 7.7 may be 16 times too large. A step of two levels is the range, which may be above it.
TEST(FormChoices, OnlyStepsOfNormalizedNumbersHaveEightBits) {
  for (const Codec& codec :
       {Codec::Uniform(3, 256, Rounding::kDither), Codec::Uniform(1, 256, Rounding::kDither),
        Codec::Zero(3).With(Metadata::kSingle), Codec::Sign(3, 2)}) {
    for (const Codec& choice : FormChoices(codec)) {
      EXPECT_FALSE(choice.HasLogScales()) << ToString(choice);
    }
    const std::vector<Codec> choices = FormChoices(codec, kShareBelow, true);
    EXPECT_TRUE(std::any_of(choices.begin(), choices.end(), [](const Codec& c) { return c.HasLogScales(); }));
    EXPECT_TRUE(std::none_of(choices.begin(), choices.end(), [](const Codec& c) {
      return c.kind == CodecKind::kUniform && c.levels == 2 && c.HasLogScales();
    }));
  }
}

TEST(RelativeError, IsThatOfTheForms) {
  for (const Codec& base :
       {Codec::Uniform(3, 256, Rounding::kDither), Codec::Uniform(3, 512, Rounding::kDither),
        Codec::Zero(3).With(Metadata::kSingle), Codec::Sign(3, 2).With(Metadata::kLogPair)}) {
    const bool zero = base.kind == CodecKind::kZero;
    int forms = 0;
    for (const Codec& choice : FormChoices(base, kShareBelow, true)) {
      if (choice.levels != base.levels || choice.below != base.below) continue;
      const double expected = RelativeError(choice, 0) / RelativeError(base, 0);
      // 10 %, as for the model of a code's error (error_model.h).
      EXPECT_NEAR(MeasuredError(choice, zero) / MeasuredError(base, zero) / expected, 1, .1)
          << ToString(choice) << " beside " << ToString(base);
      ++forms;
    }
    EXPECT_GE(forms, 6) << ToString(base);
  }
}

// The less the side below 0 adds, the fewer levels it has.
TEST(LevelChoices, DivideTheLevelsOfASignCodeByWhatItsSidesAdd) {
  for (const auto& [share, below] : {std::pair{0., 2}, {1. / 200, 3}, {1., 8}}) {
    int found = 0;
    for (const Codec& choice : LevelChoices(Codec::Sign(4, 4), share))
      if (choice.levels == 16) found = choice.below;
    EXPECT_EQ(found, below) << "share " << share;
  }
}

TEST(LevelChoices, AreCodesOfTheSameKind) {
  for (const Codec& base : {Codec::Uniform(2), Codec::Zero(3), Codec::Sign(3, 2), Codec::Sign(8, 64)}) {
    const std::vector<Codec> choices = LevelChoices(base);
    EXPECT_GE(choices.size(), 15u);
    for (const Codec& choice : choices) {
      EXPECT_EQ(CheckCodec(choice), std::nullopt) << ToString(choice);
      EXPECT_EQ(choice.kind, base.kind);
      EXPECT_EQ(choice.rounding, base.rounding);
    }
  }
  EXPECT_TRUE(LevelChoices(Codec::Mask()).empty());
}

TEST(FormChoices, KeepWhatReadersRelyOn) {
  for (const Codec& base : {Codec::Uniform(3, 128, Rounding::kDither), Codec::Zero(3).With(Metadata::kSingle),
                            Codec::Sign(4, 4).With(Metadata::kSides), Codec::Sign(3, 2)}) {
    for (const Codec& choice : FormChoices(base)) {
      EXPECT_EQ(CheckCodec(choice), std::nullopt) << ToString(choice);
      EXPECT_EQ(choice.kind, base.kind);
      EXPECT_EQ(choice.rounding, base.rounding);
      EXPECT_LE(choice.group_size, base.group_size) << "q, k and v may be parts of it";
      EXPECT_EQ(choice.metadata == Metadata::kSides, base.metadata == Metadata::kSides);
      if (base.metadata == Metadata::kSides || base.kind == CodecKind::kUniform) {
        EXPECT_EQ(choice.spacing, Spacing::kEven) << "of what distribution is not known";
      }
    }
  }
}

TEST(FormChoices, OfOtherSystemsAreTheirOwn) {
  for (const Codec& choice : FormChoices(Codec::Uniform(2))) {
    EXPECT_EQ(choice.group_size, 256);
    EXPECT_EQ(choice.metadata, Metadata::kPair);
  }
}

std::vector<CodedEdge> ThreeEdges() {
  const Codec codec = Codec::Uniform(3, 64, Rounding::kDither);
  const Dims large{Dim::Batch(), 64, 64}, small{Dim::Batch(), 64};
  return {{.codec = codec, .dims = large, .variance = .01},
          {.codec = codec, .dims = small, .variance = .01},
          {.codec = codec, .dims = large, .variance = 1e-9, .least_bits = 4}};
}

TEST(AllocateCodecs, GivesLevelsWhereTheyCostLittle) {
  const std::vector<Codec> codecs = Take(AllocateCodecs(ThreeEdges(), 4, 4 * 64 * 66));
  EXPECT_GT(codecs[1].levels, codecs[0].levels) << "the same share, a hundredth of the bytes";
  EXPECT_EQ(codecs[2].bits, 4) << "more would be wasted, less is not allowed";
}

TEST(AllocateCodecs, FindsTheBestOfAllForms) {
  std::vector<CodedEdge> edges = ThreeEdges();
  edges.resize(2);
  edges[1].codec = Codec::Zero(3, 128).With(Metadata::kSingle);
  const auto total = [&edges](const Codec& first, const Codec& second) {
    std::pair<int64_t, double> sum{0, 0};
    for (const auto& [edge, codec] : {std::pair{edges[0], first}, std::pair{edges[1], second}}) {
      sum.first += CodeType(codec, edge.dims)->Bytes().At(4);
      sum.second += edge.variance * RelativeError(codec) / RelativeError(edge.codec);
    }
    return sum;
  };
  for (const int64_t budget : {int64_t{3300}, int64_t{7000}, int64_t{11500}}) {
    for (CodedEdge& edge : edges) edge.freedom = Freedom::kForms;
    double best = std::numeric_limits<double>::infinity();
    for (const Codec& first : FormChoices(edges[0].codec))
      for (const Codec& second : FormChoices(edges[1].codec)) {
        const auto [bytes, variance] = total(first, second);
        if (bytes <= budget) best = std::min(best, variance);
      }
    std::vector<Codec> codecs = Take(AllocateCodecs(edges, 4, budget));
    EXPECT_LE(total(codecs[0], codecs[1]).first, budget);
    EXPECT_DOUBLE_EQ(total(codecs[0], codecs[1]).second, best);
    for (CodedEdge& edge : edges) edge.freedom = Freedom::kLevels;
    codecs = Take(AllocateCodecs(edges, 4, budget));
    EXPECT_GT(total(codecs[0], codecs[1]).second, best) << "more to choose from is worth something";
  }
}

TEST(AllocateCodecs, TellsTheLeastBudget) {
  const std::string error = Text(AllocateCodecs(ThreeEdges(), 4, 100).takeError());
  EXPECT_NE(error.find("the least possible is"), std::string::npos) << error;
}

class MovedLevels : public ::testing::TestWithParam<unsigned> {};

TEST_P(MovedLevels, KeepTheBudgetAndRunInTheirPlannedMemory) {
  constexpr int64_t kBatch = 5;
  for (const char* level : {"L2", "L3", "actnn-L3"}) {
    SCOPED_TRACE(level);
    Network network(GetParam());
    CompileOptions options = testing_step::Checked(level, "none");
    options.group_size = 64;
    Plan plan = Take(Compile(network.Build(), options));
    const std::vector<PlanCode> codes = CodesWithLevels(plan);
    if (codes.size() < 2) continue;
    double share = 1;
    for (const PlanCode& code : codes) plan.edges[code.edge].variance = share *= .3;
    const auto totals = [&] {
      std::pair<int64_t, double> sum{0, 0};
      for (const PlanCode& code : codes) {
        sum.first += plan.edges[code.edge].bytes.At(kBatch);
        sum.second += plan.edges[code.edge].variance;
      }
      return sum;
    };
    const auto before = totals();
    ASSERT_EQ(Text(MoveLevels(plan, kBatch, before.first, Freedom::kForms)), "");
    const auto after = totals();
    EXPECT_LE(after.first, before.first);
    // At L3 the prior has distributed the levels before. With few codes there may be
    // nothing to gain.
    EXPECT_LE(after.second, before.second);
    if (plan.level != "L3") {
      EXPECT_LT(after.second, before.second);
    }
    EXPECT_EQ(Text(CheckPlan(plan)), "");
    const auto outputs =
        Take(testing_step::RunStep(plan, testing_step::CpuKernels(), network.Inputs(plan.train.graph, kBatch),
                                   {.batch = kBatch, .check_memory = true}));
    for (const auto& output : outputs)
      for (const float v : output) ASSERT_TRUE(std::isfinite(v));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, MovedLevels, ::testing::Range(0u, 8u));

TEST(MoveLevels, NeedsCodesAndAMeasurement) {
  CompileOptions options = testing_step::Checked("L0", "none");
  Plan exact = Take(Compile(Network(1).Build(), options));
  EXPECT_NE(Text(MoveLevels(exact, 4, 1 << 20, Freedom::kForms)).find("stores nothing in levels"),
            std::string::npos);
  options = testing_step::Checked("L2", "none");
  options.group_size = 64;
  Plan unmeasured = Take(Compile(Network(1).Build(), options));
  EXPECT_NE(Text(MoveLevels(unmeasured, 4, 1 << 20, Freedom::kForms)).find("no measured variance"),
            std::string::npos);
}

}  // namespace
}  // namespace act
