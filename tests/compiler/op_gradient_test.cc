// Every operator that a model can contain: values and gradients of the compiled step are compared
// with an independent evaluation.
#include <algorithm>
#include <set>

#include "compiler/ops/op_table.h"
#include "tests/compiler/op_cases.h"

namespace act::gradient_case {
namespace {

using testing_step::CpuKernels;
using testing_step::ReferenceKernels;
using testing_step::RunStep;

// Compiles and runs the case with these kernels, and compares the results.
void Check(const CaseModel& model, bool show_result, const KernelRegistry& kernels, const Tensor& result,
           const std::vector<Tensor>& gradients) {
  const Plan plan = Take(Compile(testing_step::ModelOf(model.graph()), testing_step::Checked("L0", "none")));
  const auto got =
      Take(RunStep(plan, kernels, model.inputs(), {.batch = model.batch(), .check_memory = true}));
  ASSERT_EQ(got.size(), (show_result ? 2 : 1) + gradients.size());
  Tensor loss;
  loss.data = {model.Loss(result)};
  // Relative to the terms of the sum, since the sum itself may cancel.
  double terms = 1;
  for (double y : result.data) terms += std::fabs(y);
  EXPECT_LE(std::fabs(got[0][0] - loss.data[0]) / terms, kTolerance)
      << "loss " << got[0][0] << ", not " << loss.data[0];
  if (show_result) {
    ASSERT_EQ(got[1].size(), result.data.size());
    EXPECT_LE(Distance(got[1], result), kTolerance) << "result";
  }
  for (size_t i = 0; i < gradients.size(); ++i) {
    const std::string name = "grad." + model.Parameters()[i].name;
    const std::vector<ValueId>& outputs = plan.train.graph.outputs;
    const auto named = std::find_if(outputs.begin(), outputs.end(),
                                    [&](ValueId v) { return plan.train.graph.value(v).name == name; });
    ASSERT_NE(named, outputs.end()) << name << " is no output";
    const std::vector<float>& gradient = got[static_cast<size_t>(named - outputs.begin())];
    ASSERT_EQ(gradient.size(), gradients[i].data.size()) << name;
    EXPECT_LE(Distance(gradient, gradients[i]), kTolerance)
        << name << ": " << ::testing::PrintToString(gradient) << ", not "
        << ::testing::PrintToString(gradients[i].data);
  }
}

class Operators : public ::testing::TestWithParam<size_t> {};

TEST_P(Operators, MatchAnEvaluationInDouble) {
  const OpCase& c = AllCases()[GetParam()];
  for (const bool at_batch : {false, true}) {
    if (at_batch && !c.RunsAtBatch()) continue;
    const CaseModel model(c, at_batch, true), without_result(c, at_batch, false);
    const Tensor result = model.Result();
    std::vector<Tensor> gradients;
    for (const CaseModel::Parameter& p : model.Parameters()) gradients.push_back(model.Gradient(p));
    SCOPED_TRACE(c.name + (at_batch ? ", leading axis N" : ", fixed shapes"));
    {
      SCOPED_TRACE("reference kernels");
      Check(model, true, ReferenceKernels(), result, gradients);
    }
    {
      SCOPED_TRACE("CPU kernels");
      Check(model, true, CpuKernels(), result, gradients);
    }
    SCOPED_TRACE("CPU kernels, result not kept");
    Check(without_result, false, CpuKernels(), result, gradients);
  }
}

std::string CaseName(const ::testing::TestParamInfo<size_t>& info) {
  std::string name = AllCases()[info.param].name;
  for (char& ch : name)
    if (!std::isalnum(static_cast<unsigned char>(ch))) ch = '_';
  return name + "_" + std::to_string(info.param);
}

INSTANTIATE_TEST_SUITE_P(Table, Operators, ::testing::Range(size_t{0}, AllCases().size()), CaseName);

// An operator that models can contain and that no row builds is an untested operator.
TEST(OperatorTable, EachOperatorOfModelsHasARow) {
  std::set<std::string> built;
  for (const OpCase& c : AllCases()) {
    const CaseModel model(c, false, false);
    for (const Node& node : model.graph().nodes) built.insert(node.op);
  }
  // Operators that only passes and gradient rules make.
  const std::set<std::string> internal = {"ConvGradWeight",
                                          "MaxPoolGrad",
                                          "AveragePoolGrad",
                                          "ResizeGrad",
                                          "GridSampleGradInput",
                                          "GridSampleGradGrid",
                                          "RoiAlignGrad",
                                          "DetGrad",
                                          "SoftmaxCrossEntropyGrad",
                                          "BatchNormStats",
                                          "BatchNormMoments",
                                          "BatchNormFromMoments",
                                          "BatchNormApply",
                                          "Normalize",
                                          "BatchNormGradInput",
                                          "InverseDeviation",
                                          "WinnerShare",
                                          "EqualShare",
                                          "CountCorrect",
                                          "LossDenominator",
                                          "StepScalar",
                                          "Compress",
                                          "Decompress",
                                          "Fused",
                                          "UpdateRows",
                                          "DivideByExtent",
                                          "SliceGrad",
                                          "AttentionGrad",
                                          "SoftmaxGrad",
                                          "LayerNormApply",
                                          "Standardize",
                                          "LayerNormGradInput",
                                          "LstmGrad",
                                          "GruGrad",
                                          "RnnGrad",
                                          "SignedDistance",
                                          "FromDistance",
                                          "ReluThreshold",
                                          "ReluSide",
                                          "SidedDistance",
                                          "FromSided",
                                          "SwapOut",
                                          "SwapIn"};
  for (const OpDef& op : AllOps()) {
    // tests/compiler/update_test.cc tests the updates.
    const bool writes_in_place = !op.mutates.empty() || op.exprs;
    if (internal.count(op.name) || writes_in_place || op.name.ends_with("Derivative") || op.random) continue;
    EXPECT_TRUE(built.count(op.name))
        << op.name << " has no row in tests/compiler/op_cases_*.h, and is not in the list above";
  }
}

}  // namespace
}  // namespace act::gradient_case
