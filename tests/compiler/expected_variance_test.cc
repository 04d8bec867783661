// What actc --compare expects of a step: the gradient's variance, and the time.
#include <gtest/gtest.h>

#include "passes/pipeline/step_time.h"
#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using testing_step::Take;

// Images large enough for codes.
CompileOptions At(const std::string& level, double bits = 0) {
  CompileOptions options;
  options.level = level;
  options.bits = bits;
  options.batch = 16;
  options.group_size = 64;
  return options;
}

std::optional<double> VarianceOf(const ImportResult& model, const CompileOptions& options) {
  std::optional<double> variance;
  Take(Compile(model, options, nullptr, &variance));
  return variance;
}

TEST(ExpectedVariance, ExactStepsHaveNone) {
  EXPECT_EQ(VarianceOf(small_networks::Network(1).Build(), At("L0")), 0.);
}

// A code of K levels has one in proportion to 1 / (K - 1)^2. Of b bits, K is 2^b, and one less beside a code for 0.
TEST(ExpectedVariance, FollowsTheStepsOfTheLevels) {
  int networks = 0;
  for (unsigned seed = 0; seed < 12; ++seed) {
    const ImportResult model = small_networks::Network(seed).Build();
    const double coarse = *VarianceOf(model, At("L2", 2)), fine = *VarianceOf(model, At("L2", 4));
    if (coarse == 0) continue;  // all tensors are smaller than a group
    ++networks;
    // The loss's tensors keep 8 bits.
    EXPECT_GT(coarse / fine, 15. * 15 / (3 * 3) - 1.5) << seed;
    EXPECT_LT(coarse / fine, 14. * 14 / (2 * 2) + 1.5) << seed;
  }
  EXPECT_GE(networks, 4);
}

// A part of the gradient's square: at 8 bits next to nothing, whatever the network.
TEST(ExpectedVariance, IsRelativeToTheGradient) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    const double variance = *VarianceOf(small_networks::Network(seed).Build(), At("L3", 8));
    EXPECT_GT(variance, 1e-7) << seed;
    EXPECT_LT(variance, 1e-2) << seed;
  }
}

TEST(ExpectedVariance, CodesWithoutLevelsAreNotKnown) {
  EXPECT_FALSE(VarianceOf(small_networks::Network(1).Build(), At("blpa")));
}

// x [N,T] -> MatMul with w [T,H] -> the mean.
ImportResult OneProduct(int64_t inputs, int64_t outputs) {
  Graph graph;
  GraphBuilder builder(graph);
  const ValueId x = builder.Input("x", {DType::kFloat32, {Dim::Batch(), Dim(inputs)}}, ValueKind::kInput);
  const std::vector<float> weights(static_cast<size_t>(inputs * outputs), 1);
  const ValueId w = builder.Input("w", {DType::kFloat32, {Dim(inputs), Dim(outputs)}}, ValueKind::kParameter,
                                  testing_step::HostFloats(weights));
  const ValueId y = Take(builder.Add1("MatMul", {x, w}, {}, "product"));
  graph.outputs = {Take(builder.Add1("ReduceMean", {y}, Over({0, 1}, false), "loss"))};
  return testing_step::ModelOf(std::move(graph));
}

TEST(ExpectedTime, IsThatOfArithmeticWhereMemoryIsFast) {
  CompileOptions options = At("L0");
  options.optimizer = "none";
  const Plan plan = Take(Compile(OneProduct(64, 128), options));
  const StepRates rates{.product_flops = 1e9, .bytes = 1e30};
  // The product and the gradient of its weights: two operations for each pair of elements. Loops over the
  // results take ten times as long for an operation, and there are few.
  const double products = 2 * 2. * 32 * 64 * 128 / 1e9, loops = 10. * 10 * 32 * 128 / 1e9;
  const double seconds = ExpectedSeconds(plan, 32, rates);
  EXPECT_GE(seconds, products);
  EXPECT_LE(seconds, products + loops);
  // Twice the samples take twice the time.
  EXPECT_NEAR(ExpectedSeconds(plan, 64, rates) / seconds, 2, .05);
}

TEST(ExpectedTime, IsThatOfBytesWhereArithmeticIsFast) {
  CompileOptions options = At("L0");
  options.optimizer = "none";
  const Plan plan = Take(Compile(OneProduct(64, 128), options));
  const StepRates rates{.product_flops = 1e30, .bytes = 1e9};
  const double x = 32 * 64, w = 64 * 128, y = 32 * 128;
  // The product, and x, dy and dw of the gradient; what the mean reads and writes, at most twice.
  const double least = 4 * (x + w + y) / 1e9, most = 4 * (2 * (x + w + y) + 4 * y) / 1e9;
  const double seconds = ExpectedSeconds(plan, 32, rates);
  EXPECT_GE(seconds, least);
  EXPECT_LE(seconds, most);
  EXPECT_DOUBLE_EQ(ExpectedSeconds(plan, 32, {.product_flops = 1e30, .bytes = 2e9}), seconds / 2);
}

TEST(ExpectedTime, OfProductsThatMayBeRoundedHasARateOfItsOwn) {
  CompileOptions options = At("L0");
  options.optimizer = "none";
  Plan plan = Take(Compile(OneProduct(64, 128), options));
  const auto seconds = [&plan](double product, double rounded) {
    return ExpectedSeconds(plan, 32, {.product_flops = product, .rounded_flops = rounded, .bytes = 1e30});
  };
  EXPECT_EQ(seconds(1e9, 1e9), seconds(1e9, 4e9));
  const double exact = seconds(1e9, 4e9), product = 2. * 32 * 64 * 128;
  int products = 0;
  for (Node& node : plan.train.graph.nodes)
    if (node.op == "MatMul" && products++ == 0) node.attrs.Set("may_round", int64_t{1});
  ASSERT_EQ(products, 2);
  EXPECT_NEAR(exact - seconds(1e9, 4e9), product / 1e9 - product / 4e9, 1e-9);
}

// Of a sparse update, the rows count and not the table.
TEST(ExpectedTime, OfASparseUpdateIsThatOfItsRows) {
  const auto seconds = [](const std::string& optimizer, int64_t rows) {
    Graph graph;
    GraphBuilder b(graph);
    const ValueId ids = b.Input("ids", {DType::kInt64, {Dim(0, 4), Dim(1)}}, ValueKind::kInput);
    const std::vector<float> weights(static_cast<size_t>(rows * 64), 1);
    const ValueId table = b.Input("table", {DType::kFloat32, {Dim(rows), Dim(64)}}, ValueKind::kParameter,
                                  testing_step::HostFloats(weights));
    Attributes attrs;
    attrs.Set("axis", int64_t{0});
    const ValueId x =
        Take(b.AddTyped("Gather", {table, ids}, {DType::kFloat32, {Dim(0, 4), Dim(64)}}, attrs));
    graph.outputs = {
        Take(b.Add1("ReduceMean", {Take(b.Add1("Mul", {x, x}, {}, "square"))}, Over({0, 1}, false), "loss"))};
    CompileOptions options = At("L0");
    options.optimizer = optimizer;
    const Plan plan = Take(Compile(testing_step::ModelOf(std::move(graph)), options));
    return ExpectedSeconds(plan, 8, {.product_flops = 1e30, .bytes = 1e9});
  };
  EXPECT_EQ(seconds("plain-sgd", 5000), seconds("plain-sgd", 50000));
  EXPECT_GT(seconds("sgd", 50000), 9 * seconds("sgd", 5000));
}

}  // namespace
}  // namespace act
