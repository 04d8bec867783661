// --bits=AVG: levels before anything was measured.
#include <cmath>

#include "compiler/policy/allocate_codecs.h"
#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using small_networks::Network;
using testing_step::Take;

constexpr int64_t kBatch = 16;

CompileOptions Averaging(const std::string& level, double bits) {
  CompileOptions options = testing_step::Checked(level, "none");
  options.group_size = 64;
  options.bits = bits;
  return options;
}

class MixLevels : public ::testing::TestWithParam<unsigned> {};

TEST_P(MixLevels, KeepTheAverageAndRunInTheirPlannedMemory) {
  for (const char* level : {"L1", "L2", "L3"}) {
    for (const double bits : {2.8, 4.5}) {
      SCOPED_TRACE(std::string(level) + ", " + std::to_string(bits) + " bits");
      Network network(GetParam());
      const Plan plan = Take(Compile(network.Build(), Averaging(level, bits)));
      int64_t bytes = 0;
      const std::vector<PlanCode> codes = CodesWithLevels(plan);
      for (const PlanCode& code : codes) bytes += plan.edges[code.edge].bytes.At(kBatch);
      EXPECT_LE(bytes, BudgetOf(codes, bits, kBatch) + 1);
      const auto outputs = Take(testing_step::RunStep(plan, testing_step::CpuKernels(),
                                                      network.Inputs(plan.train.graph, kBatch),
                                                      {.batch = kBatch, .check_memory = true}));
      for (const auto& output : outputs)
        for (const float v : output) ASSERT_TRUE(std::isfinite(v));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, MixLevels, ::testing::Range(0u, 8u));

// Of the two tensors that L2 codes here, the convolution's input matters more than what BatchNorm reads.
TEST(MixLevels, WhatOnlyANormalizationReadsGetsFewerLevels) {
  int more = 0;
  for (unsigned seed = 0; seed < 24; ++seed) {
    const Plan plan = Take(Compile(Network(seed).Build(), Averaging("L2", 3.6)));
    int32_t normalized = 0, product = 256;
    for (const PlanCode& code : CodesWithLevels(plan)) {
      const SavedEdge& edge = plan.edges[code.edge];
      const bool by_conv = edge.consumers.size() == 1 && edge.consumers[0].ends_with("(ConvGradWeight)");
      if (by_conv) product = std::min(product, code.coded.codec.levels);
      if (edge.name.ends_with("(Normalize)")) normalized = std::max(normalized, code.coded.codec.levels);
    }
    if (normalized == 0 || product == 256) continue;
    EXPECT_LE(normalized, 2 * product)
        << "seed " << seed << ": it may be smaller, but not much more important";
    more += product > normalized;
  }
  EXPECT_GE(more, 2);
}

TEST(MixLevels, ABudgetThatNoCodeCanKeepIsRefused) {
  auto plan = Compile(Network(1).Build(), Averaging("L2", 1.1));
  ASSERT_FALSE(static_cast<bool>(plan));
  const std::string error = testing_step::Text(plan.takeError());
  EXPECT_NE(error.find("the least possible is"), std::string::npos) << error;
}

}  // namespace
}  // namespace act
