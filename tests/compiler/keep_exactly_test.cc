// --exact=PART: which values are stored exactly, and what that does to the gradient.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "compiler/policy/policy.h"
#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using small_networks::Network;
using testing_step::Take;

constexpr int64_t kBatch = 16;

CompileOptions Keeping(const std::string& level, double exact_part) {
  CompileOptions options = testing_step::Checked(level, "none");
  options.group_size = 64;
  options.bits = level == "L0" ? 0 : 2;
  options.exact_part = exact_part;
  return options;
}

std::multiset<std::string> NamesInCodes(const Plan& plan) {
  std::multiset<std::string> names;
  for (const SavedEdge& edge : plan.edges)
    if (edge.least_bits > 0) names.insert(edge.name);  // a code with levels
  return names;
}

double SquaredDistance(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < a[i].size(); ++k) sum += std::pow(static_cast<double>(a[i][k]) - b[i][k], 2);
  return sum;
}

class KeepExactly : public ::testing::TestWithParam<unsigned> {};

// What is kept with a smaller part is kept with a larger one, too. Each step runs in its planned memory, and with no
// codes left computes the exact gradient.
TEST_P(KeepExactly, MoreIsKeptTheLargerThePart) {
  Network network(GetParam());
  const ImportResult model = network.Build();
  const Plan exact_plan = Take(Compile(model, Keeping("L0", 0)));
  const testing_step::StepInputs inputs = network.Inputs(exact_plan.train.graph, kBatch);
  const auto run = [&](const Plan& plan) {
    return Take(testing_step::RunStep(plan, testing_step::CpuKernels(), inputs,
                                      {.batch = kBatch, .check_memory = true}));
  };
  const auto exact = run(exact_plan);
  for (const char* level : {"L1", "L2", "L3", "L4", "L5"}) {
    std::multiset<std::string> coded = NamesInCodes(Take(Compile(model, Keeping(level, 0))));
    const size_t all = coded.size();
    for (const double part : {.125, .375, .625, .875, .999999}) {
      SCOPED_TRACE(std::string(level) + ", " + std::to_string(part));
      const Plan plan = Take(Compile(model, Keeping(level, part)));
      const std::multiset<std::string> fewer = NamesInCodes(plan);
      if (std::string("L3") >= level) {  // L4 and L5 may choose other re-runs, and other codes
        EXPECT_TRUE(std::includes(coded.begin(), coded.end(), fewer.begin(), fewer.end()));
      }
      coded = fewer;
      const auto outputs = run(plan);
      for (const auto& output : outputs)
        for (const float v : output) ASSERT_TRUE(std::isfinite(v));
      // Float32 sums in another order are off by some 1e-7 of their terms.
      if (fewer.empty()) {
        EXPECT_LE(SquaredDistance(outputs, exact), 1e-8);
      }
    }
    EXPECT_TRUE(coded.size() < all || all < 2) << "nothing was kept";
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, KeepExactly, ::testing::Range(0u, 8u));

TEST(KeepExactly, IsRefusedWhereThereIsNoChoice) {
  const auto refusal = [](const char* level, double part) {
    llvm::Expected<Policy> policy = MakePolicy(level, 0, kDefaultGroupSize, part);
    return policy ? "" : testing_step::Text(policy.takeError());
  };
  for (const double part : {-.1, 1., 2., double{NAN}, double{INFINITY}})
    EXPECT_NE(refusal("L3", part).find("--exact: must be at least 0"), std::string::npos) << part;
  for (const char* level : {"L0", "blpa"})
    EXPECT_NE(refusal(level, .5).find("--exact"), std::string::npos) << level;
  for (const char* level : {"L0", "L1", "L2", "L3", "L4"}) EXPECT_EQ(refusal(level, 0), "") << level;
}

}  // namespace
}  // namespace act
