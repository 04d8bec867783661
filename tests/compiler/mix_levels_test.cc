// --bits=AVG: levels before anything was measured.
#include <cmath>
#include <map>

#include "compiler/policy/allocate_codecs.h"
#include "passes/gradient_shares.h"
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

int64_t SavedBytes(const Plan& plan) {
  int64_t bytes = 0;
  for (const SavedEdge& edge : plan.edges) bytes += edge.bytes.At(kBatch);
  return bytes;
}

class MixLevels : public ::testing::TestWithParam<unsigned> {};

TEST_P(MixLevels, KeepTheAverageAndRunInTheirPlannedMemory) {
  for (const char* level : {"L1", "L2", "L3"}) {
    for (const double bits : {3.4, 4.5}) {
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

// Of all that is stored, exact and small things too; at L4 whatever is run again.
TEST_P(MixLevels, KeepTheLimitAndRunInTheirPlannedMemory) {
  for (const char* level : {"L1", "L2", "L3", "L4"}) {
    CompileOptions options = Averaging(level, 0);
    options.batch = kBatch;
    const int64_t usual = SavedBytes(Take(Compile(Network(GetParam()).Build(), options)));
    for (const double part : {.9, 1.5}) {
      SCOPED_TRACE(std::string(level) + ", " + std::to_string(part) + " of " + std::to_string(usual));
      options.saved_limit = static_cast<int64_t>(part * static_cast<double>(usual));
      Network network(GetParam());
      auto plan = Compile(network.Build(), options);
      if (!plan) {  // its exact and small tensors alone take so much
        const std::string error = testing_step::Text(plan.takeError());
        EXPECT_NE(error.find("the least possible is"), std::string::npos) << error;
        EXPECT_LT(part, 1) << error;
        continue;
      }
      EXPECT_LE(SavedBytes(*plan), options.saved_limit);
      const auto outputs = Take(testing_step::RunStep(*plan, testing_step::CpuKernels(),
                                                      network.Inputs(plan->train.graph, kBatch),
                                                      {.batch = kBatch, .check_memory = true}));
      for (const auto& output : outputs)
        for (const float v : output) ASSERT_TRUE(std::isfinite(v));
    }
  }
}

// L3 and L4 spend what 3 bits would take, with one for what only a normalization reads, and a 32nd more.
TEST_P(MixLevels, AreHowL3SpendsItsBytes) {
  CompileOptions options = Averaging("L3", 0);
  const Plan mixed = Take(Compile(Network(GetParam()).Build(), options));
  options.bits = 3;
  const Plan uniform = Take(Compile(Network(GetParam()).Build(), options));
  int64_t bytes[2] = {};
  for (const PlanCode& code : CodesWithLevels(mixed)) bytes[0] += mixed.edges[code.edge].bytes.At(kBatch);
  for (const PlanCode& code : CodesWithLevels(uniform)) bytes[1] += uniform.edges[code.edge].bytes.At(kBatch);
  EXPECT_LE(32 * bytes[0], 33 * bytes[1]);
  EXPECT_GE(4 * bytes[0], bytes[1]) << "it is there to be used";
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

// conv (of few inputs, kernel 1) -> batch norm -> relu -> conv (of kernel 3): the second convolution meets
// nine times as many elements.
TEST(MixLevels, SharesCountWhatAConvolutionMeets) {
  const auto share_of = [](int64_t kernel) {
    Graph graph;
    GraphBuilder b(graph);
    const auto weight = [&b](const std::string& name, int64_t k) {
      return b.Input(name, {DType::kFloat32, {8, 8, k, k}}, ValueKind::kParameter,
                     testing_step::HostFloats(std::vector<float>(static_cast<size_t>(64 * k * k), .1f)));
    };
    const auto convolve = [&](ValueId x, const std::string& name, int64_t k) {
      Attributes attrs;
      attrs.Set("kernel_shape", std::vector<int64_t>{k, k});
      for (const char* ones : {"strides", "dilations"}) attrs.Set(ones, std::vector<int64_t>{1, 1});
      attrs.Set("pads", std::vector<int64_t>(4, k / 2));
      return Take(b.Add1("Conv", {x, weight(name, k)}, attrs, name));
    };
    ValueId x = b.Input("image", {DType::kFloat32, {Dim::Batch(), 8, 8, 8}}, ValueKind::kInput);
    x = Take(b.Add1("Relu", {convolve(x, "first", 1)}, {}, "relu"));
    x = convolve(x, "second", kernel);
    Attributes all;
    all.Set("axes", std::vector<int64_t>{0, 1, 2, 3});
    all.Set("keepdims", int64_t{0});
    graph.outputs = {Take(b.Add1("ReduceMean", {x}, all, "loss"))};
    CompileOptions options = Averaging("L3", 3);
    std::map<ValueId, GradientShare> shares;
    options.after_pass = [&](const std::string& pass, const Graph& compressed) {
      if (pass == "compress") shares = EstimateShares(compressed, kBatch);
    };
    EXPECT_TRUE(static_cast<bool>(Compile(testing_step::ModelOf(graph), options)));
    EXPECT_EQ(shares.size(), 1u);
    return shares.empty() ? 0 : shares.begin()->second.value;
  };
  EXPECT_NEAR(share_of(3) / share_of(1), 3, 1e-6) << "the root of nine";
  EXPECT_GT(share_of(1), 0);
}

TEST(MixLevels, ABudgetThatNoCodeCanKeepIsRefused) {
  auto plan = Compile(Network(1).Build(), Averaging("L2", 1.1));
  ASSERT_FALSE(static_cast<bool>(plan));
  const std::string error = testing_step::Text(plan.takeError());
  EXPECT_NE(error.find("the least possible is"), std::string::npos) << error;
}

}  // namespace
}  // namespace act
