// mix-levels: levels that a prior distributes, before anything was measured.
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "passes/storage/gradient_shares.h"
#include "runtime/levels/allocate_codecs.h"
#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using small_networks::Network;
using small_networks::Window;
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

// The bytes of codes with levels, without the zeros that align them. Levels are chosen by these.
int64_t PackedCodeBytes(const Plan& plan) {
  int64_t bytes = 0;
  for (const PlanCode& code : CodesWithLevels(plan))
    bytes += PackedBytes(code.coded.codec, code.coded.dims, kBatch);
  return bytes;
}

class MixLevels : public ::testing::TestWithParam<unsigned> {};

TEST_P(MixLevels, KeepTheAverageAndRunInTheirPlannedMemory) {
  for (const char* level : {"L1", "L2", "L3"}) {
    for (const double bits : {3.4, 4.5}) {
      SCOPED_TRACE(std::string(level) + ", " + std::to_string(bits) + " bits");
      Network network(GetParam());
      const Plan plan = Take(Compile(network.Build(), Averaging(level, bits)));
      EXPECT_LE(PackedCodeBytes(plan), BudgetOf(CodesWithLevels(plan), bits, kBatch) + 1);
      const auto outputs = Take(testing_step::RunStep(plan, testing_step::CpuKernels(),
                                                      network.Inputs(plan.train.graph, kBatch),
                                                      {.batch = kBatch, .check_memory = true}));
      for (const auto& output : outputs)
        for (const float v : output) ASSERT_TRUE(std::isfinite(v));
    }
  }
}

// The limit is on all that is stored, exact and small tensors included, whatever L4 re-runs.
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
      if (!plan) {  // its exact and small tensors alone exceed the limit
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

// L3 and L4 take the bytes of 3 bits a number, and 1 bit where only a normalization reads it.
TEST_P(MixLevels, AreHowL3SpendsItsBytes) {
  CompileOptions options = Averaging("L3", 0);
  const Plan mixed = Take(Compile(Network(GetParam()).Build(), options));
  options.bits = 3;
  const Plan uniform = Take(Compile(Network(GetParam()).Build(), options));
  const int64_t bytes = PackedCodeBytes(mixed), most = PackedCodeBytes(uniform);
  EXPECT_LE(bytes, most);
  EXPECT_GE(4 * bytes, most) << "it is there to be used";
}

INSTANTIATE_TEST_SUITE_P(Seeds, MixLevels, ::testing::Range(0u, 8u));

// Builds layers on an image of 8 x 8 pixels and 8 channels. The loss is the mean of their result.
class Layers {
 public:
  explicit Layers(int64_t side = 8) : b_(graph_) {
    x = b_.Input("image", {DType::kFloat32, {Dim::Batch(), side, side, 8}}, ValueKind::kInput);
  }

  ValueId Conv(ValueId in, int64_t outputs, int64_t k) {
    const Dims dims = {outputs, b_.type(in).dims.back(), k, k};
    const auto elements = static_cast<size_t>(TensorType{DType::kFloat32, dims}.Elements().fixed);
    const ValueId w =
        b_.Input("w" + std::to_string(graph_.values.size()), {DType::kFloat32, dims}, ValueKind::kParameter,
                 testing_step::HostFloats(std::vector<float>(elements, .1f)));
    return Take(b_.Add1("Conv", {in, w}, Window(k, 1, k / 2), "conv"));
  }
  ValueId Relu(ValueId in) { return Take(b_.Add1("Relu", {in}, {}, "relu")); }
  ValueId AveragePool(ValueId in) {
    Attributes attrs = Window(2, 2, 0);
    attrs.Set("count_include_pad", int64_t{0});
    return Take(b_.Add1("AveragePool", {in}, attrs, "pool"));
  }
  // Over all pixels of each channel.
  ValueId Sum(ValueId in) {
    Attributes attrs;
    attrs.Set("axes", std::vector<int64_t>{1, 2});
    attrs.Set("keepdims", int64_t{1});
    return Take(b_.Add1("ReduceSum", {in}, attrs, "sum_of_pixels"));
  }
  ValueId Concat(ValueId a, ValueId b) {
    Attributes last;
    last.Set("axis", int64_t{3});
    return Take(b_.Add1("Concat", {a, b}, last, "concat"));
  }
  ValueId Add(ValueId a, ValueId b) { return Take(b_.Add1("Add", {a, b}, {}, "sum")); }

  ValueId BatchNorm(ValueId in) {
    std::vector<ValueId> operands = {in};
    for (const ValueKind kind :
         {ValueKind::kParameter, ValueKind::kParameter, ValueKind::kBuffer, ValueKind::kBuffer})
      operands.push_back(b_.Input("w" + std::to_string(graph_.values.size()),
                                  {DType::kFloat32, {b_.type(in).dims.back()}}, kind,
                                  testing_step::HostFloats(std::vector<float>(8, 1))));
    return Take(b_.Add1("BatchNorm", operands, {}, "bn"));
  }

  // One head. Each position attends to all positions.
  ValueId Attention(ValueId in) {
    const Dims dims = b_.type(in).dims;
    const ValueId rows = Take(b_.Reshape(in, {dims[0], 1, dims[1] * dims[2], dims[3]}, "rows"));
    Attributes attrs;
    attrs.Set("scale", .5);
    return Take(b_.Reshape(Take(b_.Add1("Attention", {rows, rows, rows}, attrs, "attention")), dims, "back"));
  }
  // The first position of each sample: [N, 8, 8, C] -> [N, C].
  ValueId First(ValueId in) {
    const Dim channels = b_.type(in).dims.back();
    Attributes attrs;
    attrs.Set("starts", std::vector<int64_t>(4, 0));
    attrs.Set("steps", std::vector<int64_t>(4, 1));
    const Dims dims = {Dim::Batch(), 1, 1, channels};
    const ValueId first = Take(b_.AddTyped("Slice", {in}, {DType::kFloat32, dims}, attrs, "first"));
    return Take(b_.Reshape(first, {Dim::Batch(), channels}, "flatten"));
  }
  // The positions of all samples, one after the other.
  ValueId Rows(ValueId in) {
    const Dims dims = b_.type(in).dims;
    return Take(b_.Reshape(in, {dims[0] * dims[1] * dims[2], dims[3]}, "rows"));
  }
  ValueId Image(ValueId rows, int64_t side) {
    return Take(b_.Reshape(rows, {Dim::Batch(), side, side, b_.type(rows).dims[1]}, "image"));
  }
  ValueId Product(ValueId in, int64_t outputs) {
    const int64_t inputs = b_.type(in).dims.back().fixed;
    const ValueId w =
        b_.Input("head", {DType::kFloat32, {inputs, outputs}}, ValueKind::kParameter,
                 testing_step::HostFloats(std::vector<float>(static_cast<size_t>(inputs * outputs), .1f)));
    return Take(b_.Add1("MatMul", {in, w}, {}, "head"));
  }

  Plan PlanOf(ValueId out, const CompileOptions& options) {
    std::vector<int64_t> axes(b_.type(out).dims.size());
    std::iota(axes.begin(), axes.end(), 0);
    Attributes all;
    all.Set("axes", axes);
    all.Set("keepdims", int64_t{0});
    graph_.outputs = {Take(b_.Add1("ReduceMean", {out}, all, "loss"))};
    return Take(Compile(testing_step::ModelOf(graph_), options));
  }

  // The share of the first code. The step must have `codes` codes.
  double ShareOf(ValueId out, size_t codes = 1) {
    CompileOptions options = Averaging("L3", 3);
    std::map<ValueId, GradientShare> shares;
    options.after_pass = [&](const std::string& pass, const Graph& compressed) {
      if (pass == "compress") shares = EstimateShares(compressed, kBatch);
    };
    PlanOf(out, options);
    EXPECT_EQ(shares.size(), codes);
    return shares.empty() ? 0 : shares.begin()->second.value;
  }

  ValueId x;

 private:
  Graph graph_;
  GraphBuilder b_;
};

// The second code is a convolution's input. It matters more than the first, which only a
// BatchNorm's gradient reads.
TEST(MixLevels, WhatOnlyANormalizationReadsGetsFewerLevels) {
  Layers net;
  const Plan plan =
      net.PlanOf(net.BatchNorm(net.Conv(net.BatchNorm(net.Conv(net.x, 8, 3)), 8, 3)), Averaging("L2", 3.6));
  const std::vector<PlanCode> codes = CodesWithLevels(plan);
  ASSERT_EQ(codes.size(), 3u);
  EXPECT_TRUE(plan.edges[codes[0].edge].name.ends_with("(Normalize)"));
  EXPECT_TRUE(plan.edges[codes[1].edge].name.ends_with("(BatchNormApply)"));
  EXPECT_LT(codes[0].coded.codec.levels, codes[1].coded.codec.levels);
}

// A convolution reads the ReLU's result too (RepVGG). From its code, the normalization's numbers would have an error that
// is divided by a channel's deviation.
TEST(MixLevels, ANormalizationHasItsOwnCodeBesideThatOfItsOperand) {
  for (const char* level : {"L1", "L2", "L3"}) {
    SCOPED_TRACE(level);
    Layers net;
    const ValueId relu = net.Relu(net.Conv(net.x, 8, 3));
    const Plan plan = net.PlanOf(net.Add(net.Conv(relu, 8, 3), net.BatchNorm(relu)), Averaging(level, 0));
    std::set<std::string> coded;
    for (const PlanCode& code : CodesWithLevels(plan)) coded.insert(plan.edges[code.edge].name);
    EXPECT_EQ(coded, (std::set<std::string>{"bn.grad (Normalize)", "relu (Relu)"}));
  }
}

// Convolution, ReLU, convolution. Each element of the gradient meets nine times as many elements if
// the second convolution has a 3x3 kernel and not a 1x1 kernel.
TEST(MixLevels, SharesCountWhatAConvolutionMeets) {
  const auto share_of = [](int64_t kernel) {
    Layers net;
    return net.ShareOf(net.Conv(net.Relu(net.Conv(net.x, 8, 1)), 8, kernel));
  };
  EXPECT_NEAR(share_of(3) / share_of(1), 3, 1e-6) << "the root of nine";
  EXPECT_GT(share_of(1), 0);
}

// The mean of averages is the mean, so an average in between changes no gradient.
TEST(MixLevels, SharesFollowTheGradientThroughAverages) {
  Layers plain, pooled;
  const double share = plain.ShareOf(plain.Conv(plain.Relu(plain.Conv(plain.x, 8, 1)), 8, 1));
  EXPECT_NEAR(
      pooled.ShareOf(pooled.AveragePool(pooled.Conv(pooled.Relu(pooled.Conv(pooled.x, 8, 1)), 8, 1))) / share,
      1, 1e-6);
}

// What divides by a sum is not followed, so a sum of more numbers is taken to be no larger.
TEST(MixLevels, SharesDoNotGrowWithTheLengthOfASum) {
  const auto share_of = [](int64_t side) {
    Layers net(side);
    return net.ShareOf(net.Sum(net.Conv(net.Relu(net.Conv(net.x, 8, 1)), 8, 1)));
  };
  EXPECT_GT(share_of(4), 0);
  EXPECT_NEAR(share_of(8) / share_of(4), 1, 1e-6);
}

// An attention over n positions hands between 1 and 1 / n of its gradient's square on to them. The
// prior takes the geometric mean: 1 / 8 for 64 positions, 1 / 4 for 16. The square of the loss's
// gradient is 1 / n, because the loss is a mean.
TEST(MixLevels, SharesFallWithTheNumberOfPositionsAttendedTo) {
  const auto share_of = [](int64_t side) {
    Layers net(side);
    return net.ShareOf(net.Attention(net.Conv(net.Relu(net.Conv(net.x, 8, 1)), 8, 1)), 2);
  };
  EXPECT_NEAR(share_of(4) / share_of(8), 2 * 4, 1e-6);
}

// A normalization removes the scale of its operand.
TEST(MixLevels, SharesKnowNoScaleInFrontOfANormalization) {
  Layers plain, doubled;
  const ValueId a = plain.Relu(plain.Conv(plain.x, 8, 1)), b = doubled.Relu(doubled.Conv(doubled.x, 8, 1));
  const double share = plain.ShareOf(plain.BatchNorm(plain.Conv(a, 8, 1)), 2);
  EXPECT_NEAR(doubled.ShareOf(doubled.BatchNorm(doubled.Conv(doubled.Add(b, b), 8, 1)), 2) / share, 1, 1e-6);
}

// If the results of two convolutions are joined, each gets half of the gradient. If they are added,
// each gets all of it.
TEST(MixLevels, SharesDivideTheGradientAmongTheParts) {
  Layers joined, added;
  const ValueId a = joined.Relu(joined.Conv(joined.x, 8, 1)), b = added.Relu(added.Conv(added.x, 8, 1));
  const double of_joined = joined.ShareOf(joined.Concat(joined.Conv(a, 8, 1), joined.Conv(a, 8, 1)));
  const double of_added = added.ShareOf(added.Add(added.Conv(b, 8, 1), added.Conv(b, 8, 1)));
  // The losses are means over 16 and over 8 channels, so the whole gradient of the second model is
  // twice that of the first.
  EXPECT_NEAR(of_added / of_joined, 4, 1e-6);
}

// The head reads a vector of 48 elements, the first of 64 positions. Without the rule for vectors,
// some of its bits would go to the layer of one channel.
TEST(MixLevels, VectorsKeepTheirBits) {
  for (const double average : {0., 2.5}) {
    SCOPED_TRACE(average);
    Layers net;
    ValueId x = net.x;
    for (const int64_t channels : {48, 1, 48}) x = net.Relu(net.Conv(x, channels, 3));
    const Plan plan = net.PlanOf(net.Product(net.First(x), 3), Averaging("L3", average));
    int vectors = 0;
    for (const PlanCode& code : CodesWithLevels(plan)) {
      if (code.coded.dims.size() != 2) continue;
      ++vectors;
      EXPECT_EQ(code.coded.codec.bits, 8) << plan.edges[code.edge].name;
    }
    EXPECT_EQ(vectors, 1);
  }
}

// The head reads a vector of 128 elements, two groups, which is a hundredth of the bytes. By the level alone it would have
// 3 bits.
TEST(MixLevels, WhatHeadsReadGetsMoreBits) {
  Layers net(16);
  ValueId x = net.x;
  for (const int64_t channels : {64, 64, 128}) x = net.Relu(net.Conv(x, channels, 3));
  const Plan plan = net.PlanOf(net.Product(net.First(x), 3), Averaging("L3", 0));
  int vectors = 0;
  for (const PlanCode& code : CodesWithLevels(plan)) {
    if (code.coded.dims.size() != 2) continue;
    ++vectors;
    EXPECT_EQ(code.coded.codec.levels, 256) << plan.edges[code.edge].name;
  }
  EXPECT_EQ(vectors, 1);
}

// Rows of all positions have two axes, too. They are an 80th of the elements, so as vectors they would have 7 bits.
TEST(MixLevels, RowsOfAllPositionsAreNoVectors) {
  Layers net;
  ValueId x = net.x;
  for (int i = 0; i < 10; ++i) x = net.Relu(net.Conv(x, 128, 3));
  x = net.Rows(net.AveragePool(net.AveragePool(net.Conv(x, 256, 1))));  // [4 N, 256]
  x = net.Relu(net.Conv(net.Image(net.Product(x, 8), 2), 48, 1));
  const Plan plan = net.PlanOf(net.Product(net.First(x), 3), Averaging("L3", 0));
  int rows = 0;
  for (const PlanCode& code : CodesWithLevels(plan)) {
    if (code.coded.dims[0] != Dim(0, 4)) continue;
    ++rows;
    EXPECT_LT(code.coded.codec.levels, 64) << plan.edges[code.edge].name;
  }
  EXPECT_EQ(rows, 1);
}

// The head reads averages over 64 pixels, at one of 4 places, and nothing is normalized. Without the rule, what the second
// convolution reads would get a single bit. Were the prior trusted entirely, it would get 3 levels.
TEST(MixLevels, NumbersThatAreNotNormalizedKeepTwoBits) {
  Layers net(16);
  ValueId x = net.Conv(net.Conv(net.x, 32, 1), 2, 1);
  for (int i = 0; i < 3; ++i) x = net.AveragePool(x);
  x = net.First(x);
  for (int i = 0; i < 5; ++i) x = net.Product(x, 2048);
  const Plan plan = net.PlanOf(x, Averaging("L3", 0));
  EXPECT_EQ(CodesWithLevels(plan)[0].coded.codec.levels, 4);
}

TEST(MixLevels, ABudgetThatNoCodeCanKeepIsRefused) {
  auto plan = Compile(Network(1).Build(), Averaging("L2", 1.1));
  ASSERT_FALSE(static_cast<bool>(plan));
  const std::string error = testing_step::Text(plan.takeError());
  EXPECT_NE(error.find("the least possible is"), std::string::npos) << error;
}

}  // namespace
}  // namespace act
