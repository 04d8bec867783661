#include "compiler/policy/policy.h"

#include <gtest/gtest.h>

namespace act {
namespace {

TEST(Policy, GroupsEndWhereThePartsOfAValueDo) {
  const auto group_of = [](int64_t part, int64_t group_size, const std::string& level) {
    auto policy = MakePolicy(level, 0, group_size);
    EXPECT_TRUE(bool(policy));
    EdgeFacts facts;
    facts.part = part;
    return policy->GroupOf(facts);
  };
  EXPECT_EQ(group_of(0, 256, "L3"), 256);    // no parts
  EXPECT_EQ(group_of(768, 256, "L3"), 256);  // GPT-2
  EXPECT_EQ(group_of(384, 256, "L3"), 128);  // ViT-S
  EXPECT_EQ(group_of(384, 1024, "L2"), 128);
  EXPECT_EQ(group_of(64, 256, "L3"), 64);
  EXPECT_EQ(group_of(96, 256, "L3"), 64);        // as few as there are
  EXPECT_EQ(group_of(5000, 256, "L3"), 256);     // few groups have two parts
  EXPECT_EQ(group_of(64, 256, "gact-L1"), 256);  // another system's rules
}

}  // namespace
}  // namespace act
