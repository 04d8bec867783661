// Where a function has a kink or a tie, or draws random numbers, finite differences cannot check
// its gradient. These tests write the convention down. It is PyTorch's.
#include <cmath>

#include "tests/compiler/compiled_step.h"
#include "tests/compiler/op_cases_imported.h"

namespace act {
namespace {

using gradient_case::Imported;
using testing_step::Take;
using Floats = std::vector<float>;
using Build = std::function<ValueId(GraphBuilder&, const std::vector<ValueId>&)>;

struct Step {
  std::vector<float> result;
  std::vector<Floats> gradients;  // by operand
};

// The gradients of sum(result) with respect to the operands, which both have these dims.
Step StepOf(const Dims& dims, const std::vector<Floats>& operands, const Build& build,
            const KernelRegistry& kernels, uint64_t seed = 7) {
  Graph graph;
  GraphBuilder b(graph);
  std::vector<ValueId> values;
  for (size_t i = 0; i < operands.size(); ++i)
    values.push_back(b.Input("p" + std::to_string(i), {DType::kFloat32, dims}, ValueKind::kParameter,
                             testing_step::HostFloats(operands[i])));
  const ValueId y = build(b, values);
  Attributes all;
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < b.type(y).rank(); ++i) axes.push_back(i);
  all.Set("axes", axes);
  all.Set("keepdims", int64_t{0});
  graph.outputs = {Take(b.Add1("ReduceSum", {y}, all)), y};
  const Plan plan = Take(Compile(testing_step::ModelOf(graph), testing_step::Checked("L0", "none")));
  testing_step::StepOptions options;
  options.state.seed = seed;
  const auto outputs = Take(testing_step::RunStep(plan, kernels, {}, options));
  Step step{outputs[1], std::vector<Floats>(operands.size())};
  for (size_t o = 2; o < outputs.size(); ++o) {
    const std::string& name = plan.train.graph.value(plan.train.graph.outputs[o]).name;
    step.gradients[static_cast<size_t>(std::stoi(name.substr(sizeof("grad.p") - 1)))] = outputs[o];
  }
  return step;
}

Build One(const std::string& op, std::initializer_list<std::pair<const char*, Attribute>> list = {}) {
  Attributes attrs;
  for (const auto& [name, value] : list) attrs.Set(name, value);
  return [op, attrs](GraphBuilder& b, const std::vector<ValueId>& v) { return Take(b.Add1(op, v, attrs)); };
}

// sqrt(op(x)): the root's slope is infinite where op is 0.
Build RootOf(const Build& build) {
  return
      [build](GraphBuilder& b, const std::vector<ValueId>& v) { return Take(b.Add1("Sqrt", {build(b, v)})); };
}

ValueId MaxWithZero(GraphBuilder& b, const std::vector<ValueId>& v) {
  return Take(b.Add1("Max", {v[0], b.Scalar(0)}));
}

struct Row {
  const char* what;
  Dims dims;
  std::vector<Floats> operands;
  Build build;
  std::vector<Floats> gradients;
};

TEST(GradientConventions, AtKinksAndTies) {
  const Row rows[] = {
      {"StopGradient is a constant to its reader",
       {3},
       {{-1, 2, 5}},
       [](GraphBuilder& b, const std::vector<ValueId>& v) {
         return Take(b.Add1("Mul", {v[0], Take(b.Add1("StopGradient", {v[0]}))}));
       },
       {{-1, 2, 5}}},
      {"Relu passes nothing at 0", {3}, {{-1, 0, 1}}, One("Relu"), {{0, 0, 1}}},
      {"LeakyRelu has the lower slope at 0",
       {3},
       {{-1, 0, 1}},
       One("LeakyRelu", {{"alpha", .25}}),
       {{.25f, .25f, 1}}},
      {"LeakyRelu may have a negative slope below 0",
       {3},
       {{-2, 0, 3}},
       One("LeakyRelu", {{"alpha", -.5}}),
       {{-.5f, -.5f, 1}}},
      {"Pow of 0 passes what the limit does, and nothing where the exponent is 0",
       {4},
       {{0, 0, 0, 1}, {0, 1, 2, 3}},
       One("Pow"),
       {{0, 1, 0, 3}, {0, 0, 0, 0}}},
      {"fmod counts whole divisors, also where the quotient rounds to the next",
       {3},
       {{1999.903076171875f, -1999.903076171875f, 7}, {3.048632860183716f, 3.048632860183716f, 2}},
       [](GraphBuilder& b, const std::vector<ValueId>& v) {
         return Take(Imported("Mod", {testing::Attr("fmod", int64_t{1})})(b, v));
       },
       {{1, 1, 1}, {-655, 655, -3}}},
      {"The root of squares passes nothing at 0, in whatever shape and size",
       {2},
       {{0, 0}},
       [](GraphBuilder& b, const std::vector<ValueId>& v) {
         const ValueId squares = Take(b.Add1("Mul", {v[0], v[0]}));
         const ValueId mean = Take(b.Add1("Div", {Take(b.Expand(squares, {3, 2})), b.Scalar(3)}));
         return Take(b.Add1("Sqrt", {mean}));
       },
       {{0, 0}}},
      {"Abs passes nothing at 0", {3}, {{-2, 0, 2}}, One("Abs"), {{-1, 0, 1}}},
      {"ReLU6 passes nothing at its bounds",
       {5},
       {{-1, 0, 3, 6, 7}},
       One("Clip", {{"min", 0.}, {"max", 6.}}),
       {{0, 0, 1, 0, 0}}},
      {"Max shares between equals", {3}, {{1, 2, 2}, {2, 1, 2}}, One("Max"), {{0, 1, .5f}, {1, 0, .5f}}},
      {"Min shares between equals", {3}, {{1, 2, 2}, {2, 1, 2}}, One("Min"), {{1, 0, .5f}, {0, 1, .5f}}},
      {"ReduceMax shares among equals",
       {4},
       {{3, 1, 3, 2}},
       One("ReduceMax", {{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{1}}}),
       {{.5f, 0, .5f, 0}}},
      {"MaxPool takes the first of equals",
       {1, 4, 1},
       {{5, 5, 2, 5}},
       [](GraphBuilder& b, const std::vector<ValueId>& v) {
         Attributes attrs;
         attrs.Set("kernel_shape", std::vector<int64_t>{2});
         attrs.Set("strides", std::vector<int64_t>{1});
         attrs.Set("dilations", std::vector<int64_t>{1});
         attrs.Set("pads", std::vector<int64_t>{0, 0});
         return Take(b.Add("MaxPool", v, attrs, "pool", 2))[0];
       },
       {{1, 1, 0, 1}}},
      {"a lookup's row for padding does not train",
       {3},
       {{10, 20, 30}},
       [](GraphBuilder& b, const std::vector<ValueId>& v) {
         const std::vector<int64_t> indices{1, 0, 1, 2, 2};
         const ValueId index = b.Constant("", {DType::kInt64, {5}}, HostTensor::Copy(indices.data(), 40));
         Attributes attrs;
         attrs.Set("axis", int64_t{0});
         attrs.Set("padding_index", int64_t{1});
         return Take(b.AddTyped("Gather", {v[0], index}, {DType::kFloat32, {5}}, attrs));
       },
       {{1, 0, 2}}},
      {"the gradient of a norm of zeros is 0",
       {2, 4},
       {{0, 0, 0, 0, 2, -2, 2, 2}},
       [](GraphBuilder& b, const std::vector<ValueId>& v) {
         return Take(gradient_case::Imported("ReduceL2", {}, {{1}})(b, v));
       },
       {{0, 0, 0, 0, .5f, -.5f, .5f, .5f}}},
      {"Sqrt has an infinite slope at 0", {2}, {{0, 4}}, One("Sqrt"), {{INFINITY, .25f}}},
      {"Relu passes no infinite gradient where it is 0",
       {3},
       {{-1, 0, 4}},
       RootOf(One("Relu")),
       {{0, 0, .25f}}},
      {"Clip passes none at its bounds",
       {3},
       {{-1, 4, 9}},
       RootOf(One("Clip", {{"min", 0.}, {"max", 6.}})),
       {{0, .25f, 0}}},
      {"ThresholdedRelu passes none below its bound",
       {2},
       {{-1, 4}},
       RootOf(One("ThresholdedRelu")),
       {{0, .25f}}},
      {"HardSigmoid passes none where it is 0",
       {2},
       {{-9, -1}},
       RootOf(One("HardSigmoid", {{"alpha", .25}, {"beta", .5}})),
       {{0, .25f}}},
      {"HardSwish passes none where it is 0", {2}, {{-9, 4}}, RootOf(One("HardSwish")), {{0, .25f}}},
      {"Max passes none to the loser", {2}, {{-1, 4}}, RootOf(MaxWithZero), {{0, .25f}}},
      {"operands of a sum have a gradient each",
       {2},
       {{1, 2}, {3, 4}, {5, 6}},
       [](GraphBuilder& b, const std::vector<ValueId>& v) {
         return Take(b.Add1("Add", {Take(b.Add1("Add", {v[0], v[1]})), v[2]}));
       },
       {{1, 1}, {1, 1}, {1, 1}}},
  };
  for (const Row& row : rows)
    for (const KernelRegistry* kernels : {&testing_step::CpuKernels(), &testing_step::ReferenceKernels()})
      EXPECT_EQ(StepOf(row.dims, row.operands, row.build, *kernels).gradients, row.gradients) << row.what;
}

TEST(Dropout, KeepsTheSameElementsForwardAndBackward) {
  constexpr size_t kElements = 4000;
  const Floats ones(kElements, 1);
  const Build drop = One("Dropout", {{"probability", .25}});
  const Step step = StepOf({kElements}, {ones}, drop, testing_step::CpuKernels());
  EXPECT_EQ(step.result, step.gradients[0]) << "of ones, both are mask / (1 - p)";
  int64_t kept = 0;
  for (float y : step.result) {
    EXPECT_TRUE(y == 0 || std::fabs(y - 4.f / 3) < 1e-6f) << y;
    kept += y != 0;
  }
  // 3000 are expected. The tolerance is five standard deviations of a binomial distribution,
  // sqrt(4000 * .25 * .75) = 27.4.
  EXPECT_NEAR(static_cast<double>(kept), 3000, 137);
  EXPECT_EQ(step.result, StepOf({kElements}, {ones}, drop, testing_step::ReferenceKernels()).result);
  EXPECT_NE(step.result, StepOf({kElements}, {ones}, drop, testing_step::CpuKernels(), 8).result)
      << "another seed";
}

TEST(Dropout, TwoOfThemDropDifferentElements) {
  const Floats ones(1000, 1);
  const Step step = StepOf(
      {1000}, {ones},
      [](GraphBuilder& b, const std::vector<ValueId>& v) {
        Attributes attrs;
        attrs.Set("probability", .5);
        const ValueId x = Take(b.Add1("Dropout", {v[0]}, attrs)), y = Take(b.Add1("Dropout", {v[0]}, attrs));
        return Take(b.Add1("Sub", {x, y}));
      },
      testing_step::CpuKernels());
  EXPECT_GT(std::count_if(step.result.begin(), step.result.end(), [](float v) { return v != 0; }), 400);
}

}  // namespace
}  // namespace act
