// Which products may round their operands to bfloat16.
#include <set>

#include "compiler/ops/codec_ops.h"
#include "passes/pass_table.h"
#include "passes/storage/gradient_values.h"
#include "runtime/measure/switchable_codes.h"
#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using small_networks::Window;
using testing_step::Take;

// Two convolutions with ReLUs, a matrix product, a Tanh and a mean.
Graph Chain() {
  Graph graph;
  GraphBuilder b(graph);
  const auto weight = [&](const char* name, const Dims& dims) {
    std::vector<float> values(static_cast<size_t>(TensorType{DType::kFloat32, dims}.Elements().fixed), .1f);
    return b.Input(name, {DType::kFloat32, dims}, ValueKind::kParameter, testing_step::HostFloats(values));
  };
  ValueId x = b.Input("image", {DType::kFloat32, {Dim::Batch(), 8, 8, 16}}, ValueKind::kInput);
  for (const char* name : {"first", "second"}) {
    x = Take(b.Add1("Conv", {x, weight(name, {16, 16, 3, 3})}, Window(3, 1, 1), name));
    x = Take(b.Add1("Relu", {x}, {}, "relu"));
  }
  x = Take(b.Add1("MatMul", {x, weight("third", {16, 24})}, {}, "third"));
  x = Take(b.Add1("Tanh", {x}, {}, "tanh"));
  Attributes all;
  all.Set("axes", std::vector<int64_t>{0, 1, 2, 3});
  all.Set("keepdims", int64_t{0});
  graph.outputs = {Take(b.Add1("ReduceMean", {x}, all))};
  return graph;
}

// The names of the step's products: those that may round, and those that may not.
struct Products {
  std::set<std::string> rounded, exact;
};

Products Compiled(const CompileOptions& options) {
  const Plan plan = Take(Compile(testing_step::ModelOf(Chain()), options));
  Products products;
  for (const Node& node : plan.train.graph.nodes)
    if (node.op == "MatMul" || node.op.starts_with("Conv"))
      (node.attrs.Int("may_round") ? products.rounded : products.exact).insert(node.op + " " + node.name);
  return products;
}

CompileOptions AtLevel(const std::string& level) { return testing_step::Checked(level, "sgd"); }

TEST(RoundProducts, GradientsTimesDecodedNumbersAlone) {
  for (const char* level : {"L1", "L2", "L3"}) {
    SCOPED_TRACE(level);
    const Products products = Compiled(AtLevel(level));
    // The first convolution reads the image, which is in memory in float32.
    EXPECT_EQ(products.rounded, (std::set<std::string>{"ConvGradWeight second.grad", "MatMul third.grad"}));
    EXPECT_TRUE(products.exact.count("ConvGradWeight first.grad"));
    EXPECT_TRUE(products.exact.count("ConvGradInput second.grad"));
    EXPECT_TRUE(products.exact.count("Conv second"));
  }
}

TEST(RoundProducts, NotWhereNumbersAreExactOrFineOrFloat32IsAskedFor) {
  EXPECT_TRUE(Compiled(AtLevel("L0")).rounded.empty());
  EXPECT_TRUE(Compiled(AtLevel("actnn-L3")).rounded.empty()) << "presets multiply as their systems do";
  CompileOptions options = AtLevel("L2");
  options.bits = 6;
  EXPECT_FALSE(Compiled(options).rounded.empty());
  options.bits = 7;
  EXPECT_TRUE(Compiled(options).rounded.empty()) << "128 levels: not much coarser than bfloat16";
  options = AtLevel("L3");
  options.round_products = false;
  EXPECT_TRUE(Compiled(options).rounded.empty());
}

// A re-run product multiplies decoded numbers by weights or by one another. Its result is no
// gradient, and later nodes need not be linear in it.
TEST(RoundProducts, NotWhatIsRunAgain) {
  Graph graph;
  GraphBuilder b(graph);
  const ValueId x = b.Input("x", {DType::kFloat32, {Dim::Batch(), 256}}, ValueKind::kInput);
  const ValueId w = b.Input("w", {DType::kFloat32, {256, 256}}, ValueKind::kParameter);
  const ValueId one = b.Input("one", {DType::kFloat32, {256, 256}}, ValueKind::kConstant);
  const Attributes codec = CodecAttributes(Codec::Uniform(4, 256), 0);
  const ValueId code = Take(b.Add1("Compress", {x}, codec));
  b.SetPhase(Phase::kBackward);
  const ValueId decoded = Take(b.AddTyped("Decompress", {code}, graph.value(x).type, codec, "decode"));
  const ValueId gradient = Take(b.Add1("Neg", {one}));
  Attributes transposed;
  transposed.Set("trans_b", int64_t{1});
  Take(b.Add1("MatMul", {decoded, w}, {}, "again"));
  Take(b.Add1("MatMul", {decoded, decoded}, transposed, "scores"));
  Take(b.Add1("MatMul", {decoded, gradient}, {}, "first"));
  Take(b.Add1("MatMul", {gradient, decoded}, transposed, "second"));
  Take(b.Add1("MatMul", {gradient, w}, {}, "of the input"));
  PassContext context;
  context.policy.rounds_products = true;
  ASSERT_FALSE(static_cast<bool>(RoundProducts(graph, context)));
  std::set<std::string> rounded;
  for (const Node& node : graph.nodes)
    if (node.attrs.Int("may_round")) rounded.insert(node.name);
  EXPECT_EQ(rounded, (std::set<std::string>{"first", "second"}));
}

// The exact gradient must be exact, and only the noise of codes is measured.
TEST(RoundProducts, NotWhereVarianceIsMeasured) {
  const SwitchablePlan codes =
      Take(MakeCodesSwitchable(Take(Compile(testing_step::ModelOf(Chain()), AtLevel("L2")))));
  EXPECT_EQ(codes.rounded_products, 2U);
  for (const Node& node : codes.plan.train.graph.nodes)
    EXPECT_EQ(node.attrs.Int("may_round"), 0) << node.name;
}

TEST(RoundProducts, WhatIsMadeOfTheLossIsAGradient) {
  const Plan plan = Take(Compile(testing_step::ModelOf(Chain()), AtLevel("L2")));
  const Graph& graph = plan.train.graph;
  const ValueMap<bool> gradients = GradientValues(graph);
  for (const Node& node : graph.nodes) {
    if (node.op != "ConvGradWeight" && node.op != "ConvGradInput") continue;
    EXPECT_TRUE(gradients[node.inputs[0]]) << node.name;
    EXPECT_FALSE(gradients[node.inputs[1]]) << node.name;
    EXPECT_TRUE(gradients[node.outputs[0]]) << node.name;
  }
}

}  // namespace
}  // namespace act
