// Codes that can be switched off. With all on, a step is that of the plan itself; with all off, it
// is the exact step.
#include "runtime/measure/switchable_codes.h"

#include <cmath>

#include "runtime/plan/plan_check.h"
#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using small_networks::Network;
using testing_step::Take;

constexpr unsigned kNetworks = 12;
constexpr int64_t kBatch = 5;

using testing_step::Distance;
using testing_step::Gradients;

class SwitchableCodes : public ::testing::TestWithParam<unsigned> {
 protected:
  Plan CompileAt(const std::string& level) const {
    CompileOptions options = testing_step::Checked(level, "none");
    options.group_size = 64;  // so that tensors of this size have codes
    return Take(Compile(Network(GetParam()).Build(), options));
  }
  Gradients Run(const Plan& plan, std::vector<size_t> disabled = {}) const {
    Network network(GetParam());
    network.Build();
    testing_step::StepOptions options;
    options.batch = kBatch;
    options.check_memory = true;
    options.disabled = std::move(disabled);
    return Take(testing_step::RunStep(plan, testing_step::CpuKernels(),
                                      network.Inputs(plan.train.graph, kBatch), options));
  }
};

TEST_P(SwitchableCodes, OnTheyAreThePlanAndOffTheExactStep) {
  const Gradients exact = Run(CompileAt("L0"));
  for (const char* level : {"L1", "L2", "L3", "L4", "actnn-L4"}) {
    SCOPED_TRACE(level);
    const Plan plan = CompileAt(level);
    const SwitchablePlan switchable = Take(MakeCodesSwitchable(plan));
    EXPECT_EQ(testing_step::Text(CheckStepGraph(switchable.plan.train)), "");
    // The codes and the values that they decode to are the same bits. The arithmetic after them may
    // contract a decode's multiplication with the next operation, so the last bits of float32
    // differ (6e-8, squared, times a condition number of up to 1e3).
    EXPECT_LE(Distance(Run(switchable.plan), Run(plan)), 1e-11);
    std::vector<size_t> nodes;
    for (const SwitchableCode& code : switchable.codes) nodes.push_back(code.node);
    // Levels compute the same gradient in another order, in float32 through normalizations
    // of a few elements.
    EXPECT_LE(Distance(Run(switchable.plan, nodes), exact), 1e-9);
  }
}

TEST_P(SwitchableCodes, EachHasAnErrorOfItsOwn) {
  const SwitchablePlan switchable = Take(MakeCodesSwitchable(CompileAt("L2")));
  std::vector<size_t> all;
  for (const SwitchableCode& code : switchable.codes) all.push_back(code.node);
  const Gradients exact = Run(switchable.plan, all);
  for (size_t c = 0; c < all.size(); ++c) {
    std::vector<size_t> others = all;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(c));
    const double alone = Distance(Run(switchable.plan, others), exact);
    EXPECT_GT(alone, 1e-12) << switchable.plan.edges[switchable.codes[c].edge].name;
    EXPECT_LT(alone, .5) << switchable.plan.edges[switchable.codes[c].edge].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SwitchableCodes, ::testing::Range(0u, kNetworks));

TEST(Rounding, ChangesNeitherLossNorDropout) {
  Graph graph;
  GraphBuilder b(graph);
  const ValueId x = b.Input("x", {DType::kFloat32, {Dim::Batch(), 64}}, ValueKind::kInput);
  std::vector<float> numbers(64 * 64);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<float>(i));
  const ValueId w =
      b.Input("w", {DType::kFloat32, {64, 64}}, ValueKind::kParameter, testing_step::HostFloats(numbers));
  Attributes half, all;
  half.Set("probability", .5);
  all.Set("axes", std::vector<int64_t>{0, 1});
  all.Set("keepdims", int64_t{0});
  const ValueId hidden = Take(b.Add1("Tanh", {Take(b.Add1("MatMul", {x, w}, {}, "first"))}, {}, "tanh"));
  const ValueId dropped = Take(b.Add1("Dropout", {hidden}, half, "drop"));
  const ValueId y = Take(b.Add1("MatMul", {dropped, w}, {}, "second"));
  graph.outputs = {Take(b.Add1("ReduceMean", {y}, all, "loss"))};

  const auto run = [&](const char* level, uint64_t rounding, const KernelRegistry& kernels) {
    CompileOptions options = testing_step::Checked(level, "none");
    options.group_size = 64;
    const Plan plan = Take(Compile(testing_step::ModelOf(graph), options));
    testing_step::StepOptions step;
    step.batch = 4;
    step.state.rounding = rounding;
    return Take(testing_step::RunStep(
        plan, kernels,
        {{"x", testing_step::BytesOf(std::vector<float>(numbers.begin(), numbers.begin() + 256))}}, step));
  };
  for (const KernelRegistry* kernels : {&testing_step::CpuKernels(), &testing_step::ReferenceKernels()}) {
    EXPECT_EQ(run("L0", 0, *kernels), run("L0", 1, *kernels)) << "nothing is rounded here";
    const Gradients first = run("L2", 0, *kernels), second = run("L2", 1, *kernels);
    EXPECT_EQ(first[0], second[0]) << "the loss is that of the same forward pass";
    EXPECT_NE(first[1], second[1]) << "the codes are others";
  }
}

}  // namespace
}  // namespace act
