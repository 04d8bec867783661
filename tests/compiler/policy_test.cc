// The policy's rules, over plain facts.
#include "compiler/policy/policy.h"

#include <gtest/gtest.h>

namespace act {
namespace {

Policy Of(const std::string& level) {
  llvm::Expected<Policy> policy = MakePolicy(level, 0, kDefaultGroupSize);
  EXPECT_TRUE(static_cast<bool>(policy));
  return *policy;
}

EdgeFacts Features(int64_t elements) {
  EdgeFacts facts;
  facts.type = {DType::kFloat32, {Dim::Batch(), elements}};
  facts.activation = facts.feeds_product = true;
  return facts;
}

TEST(Policy, CodesWhatIsSmallerThanAGroupFinely) {
  for (const char* level : {"L3", "L4"}) {
    EXPECT_EQ(Of(level).Decide(Features(64)).codec, Codec::Uniform(8, 256, Rounding::kDither)) << level;
    EXPECT_EQ(Of(level).Decide(Features(256)).codec, Codec::Uniform(3, 256, Rounding::kDither)) << level;
    EXPECT_NE(Of(level).Decide(Features(32)).codec.kind, CodecKind::kNone) << level;
    EXPECT_EQ(Of(level).Decide(Features(31)).codec.kind, CodecKind::kNone) << level;  // few bytes
    EdgeFacts facts = Features(64);
    facts.of_loss = true;
    EXPECT_EQ(Of(level).Decide(facts).codec.kind, CodecKind::kNone) << level;
    facts.of_loss = false;
    facts.by_rows = true;
    EXPECT_EQ(Of(level).Decide(facts).codec.kind, CodecKind::kNone) << level;
    facts.anchor = true;
    EXPECT_NE(Of(level).Decide(facts).codec.kind, CodecKind::kNone) << level;
  }
  for (const char* level : {"L1", "L2", "actnn-L3", "gact-L1.2"})
    EXPECT_EQ(Of(level).Decide(Features(64)).codec.kind, CodecKind::kNone) << level;
}

TEST(Policy, GivesWhatIsNotReRunABitMore) {
  for (const char* level : {"L4", "L5"}) {
    EdgeFacts anchor = Features(256), kept = Features(256);
    anchor.anchor = true;
    kept.kept_finely = true;
    EXPECT_EQ(Of(level).Decide(anchor).codec, Codec::Uniform(5, 256, Rounding::kDither)) << level;
    EXPECT_EQ(Of(level).Decide(kept).codec, Codec::Uniform(4, 256, Rounding::kDither)) << level;
    kept.for_statistics = true;
    EXPECT_EQ(Of(level).Decide(kept).codec, Codec::Uniform(2, 256, Rounding::kDither)) << level;
    kept.kept_finely = false;
    EXPECT_EQ(Of(level).Decide(kept).codec, Codec::Uniform(1, 256, Rounding::kDither)) << level;
  }
}

TEST(Policy, QuotientsHaveTheirOwnExponentsAndZerosAreExact) {
  for (const char* level : {"L1", "L2", "L3", "L4", "L5"}) {
    EdgeFacts facts = Features(256);
    facts.unbounded = true;
    EXPECT_EQ(Of(level).Decide(facts).codec, Codec::Cast(kBFloat16)) << level;
    facts.statistic = true;
    EXPECT_EQ(Of(level).Decide(facts).codec.kind, CodecKind::kNone) << level;
    facts = Features(256);
    facts.often_zero = true;
    EXPECT_EQ(Of(level).Decide(facts).codec.kind, CodecKind::kZero) << level;
  }
  for (const char* preset : {"actnn-L3", "gact-L1.2"}) {  // as those systems have it
    EdgeFacts facts = Features(256);
    facts.unbounded = facts.often_zero = true;
    EXPECT_EQ(Of(preset).Decide(facts).codec.kind, CodecKind::kUniform) << preset;
  }
}

TEST(Policy, QueriesOfLargeScoresTakeMoreBits) {
  for (const char* level : {"L1", "L3", "L4"}) {
    EdgeFacts facts = Features(256);
    facts.for_scores = true;
    EXPECT_EQ(Of(level).Decide(facts).codec.bits, 5) << level;
    EXPECT_EQ(Of(level).Decide(facts).least_bits, 5) << level;
    facts.score_bits = 1;  // the rows are normalized: the deviation of scores is known to be 2
    EXPECT_EQ(Of(level).Decide(facts).codec.bits, 5) << level;
    facts.score_bits = 3;
    EXPECT_EQ(Of(level).Decide(facts).codec.bits, 7) << level;
    EXPECT_EQ(Of(level).Decide(facts).least_bits, 7) << level;
    facts.score_bits = 9;
    EXPECT_EQ(Of(level).Decide(facts).codec.bits, 8) << level;
    facts.for_scores = false;  // made from it
    facts.anchor = true;
    facts.score_bits = 3;
    EXPECT_EQ(Of(level).Decide(facts).codec.bits, 7) << level;
  }
}

TEST(Policy, AnAverageLeavesQueriesFourBits) {
  EdgeFacts facts = Features(256);
  facts.for_scores = true;
  Policy policy = Of("L3");
  for (const auto& [average, least] : {std::pair{2.5, 4}, {4, 4}, {5, 5}, {7, 5}}) {
    policy.average_bits = average;
    EXPECT_EQ(policy.Decide(facts).least_bits, least) << average;
  }
  facts.score_bits = 2;
  policy.average_bits = 3;
  EXPECT_EQ(policy.Decide(facts).least_bits, 6);
}

TEST(Policy, DistributesLevelsWhereNoBitsAreAskedFor) {
  for (const char* level : {"L3", "L4"}) EXPECT_TRUE(Of(level).mixes_levels) << level;
  for (const char* level : {"L1", "L2", "actnn-L3"}) EXPECT_FALSE(Of(level).mixes_levels) << level;
  EXPECT_FALSE(MakePolicy("L3", 3, kDefaultGroupSize)->mixes_levels);
}

TEST(Policy, KeepsStatisticsWhateverTheirSize) {
  EdgeFacts facts = Features(64);
  facts.statistic = true;
  EXPECT_EQ(Of("L3").Decide(facts).codec.kind, CodecKind::kNone);
  facts.type = {DType::kFloat32, {64}};
  facts.statistic = false;
  EXPECT_EQ(Of("L3").Decide(facts).codec.kind, CodecKind::kNone) << "has no samples";
}

TEST(Policy, RefusesGroupSizesBeyond32Bits) {
  for (const int64_t size : {(int64_t{1} << 32) + 256, int64_t{-256}, std::numeric_limits<int64_t>::max()}) {
    auto policy = MakePolicy("L2", 0, size);
    ASSERT_FALSE(bool(policy)) << size;
    EXPECT_EQ(llvm::toString(policy.takeError()),
              "--group-size: " + std::to_string(size) + " is not a number of elements");
  }
}

TEST(Policy, GroupsEndWhereThePartsOfAValueDo) {
  const auto group_of = [](int64_t part, int64_t group_size, const std::string& level) {
    auto policy = MakePolicy(level, 0, group_size);
    EXPECT_TRUE(bool(policy));
    EdgeFacts facts;
    facts.part = part;
    return policy->GroupOf(facts);
  };
  EXPECT_EQ(group_of(0, 256, "L3"), 256);    // the value has no parts
  EXPECT_EQ(group_of(768, 256, "L3"), 256);  // GPT-2
  EXPECT_EQ(group_of(384, 256, "L3"), 128);  // ViT-S
  EXPECT_EQ(group_of(384, 1024, "L2"), 128);
  EXPECT_EQ(group_of(64, 256, "L3"), 64);
  EXPECT_EQ(group_of(96, 256, "L3"), 64);        // the smallest group size
  EXPECT_EQ(group_of(5000, 256, "L3"), 256);     // only a few groups contain two parts
  EXPECT_EQ(group_of(64, 256, "gact-L1"), 256);  // another system's rules
}

}  // namespace
}  // namespace act
