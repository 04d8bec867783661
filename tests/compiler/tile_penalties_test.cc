// Penalties that read a language model's scores beside its loss, as PyTorch exports them: z-loss and label smoothing;
// and a loss that the model itself divides by its number of labels. The step runs in tiles, as it does without them.
#include <cmath>
#include <limits>

#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "passes/planning/assign_storage.h"
#include "passes/storage/recipes.h"
#include "runtime/plan/plan_check.h"
#include "runtime/plan/sample_loops.h"
#include "tests/compiler/compiled_step.h"
#include "tests/compiler/import_testing.h"

namespace act {
namespace {

using import_testing::Attr;
using import_testing::OnnxModel;
using testing_step::Distance;
using testing_step::Gradients;
using testing_step::Take;

constexpr int64_t kWidth = 8;

struct Scores {
  int64_t tokens, classes;  // of a sample
};

void AddFloats(OnnxModel& model, const std::string& name, const std::vector<int64_t>& dims,
               const std::vector<float>& numbers) {
  onnx::TensorProto& t = *model.graph().add_initializer();
  t.set_name(name);
  t.set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t d : dims) t.add_dims(d);
  t.set_raw_data(numbers.data(), numbers.size() * sizeof(float));
}

enum class Penalty : uint8_t { kNone, kLogSumExp, kLogSumExpOfLabels, kSmoothing, kPerLabel, kOfWeights };
constexpr Penalty kPenalties[] = {Penalty::kLogSumExp, Penalty::kLogSumExpOfLabels, Penalty::kSmoothing,
                                  Penalty::kPerLabel, Penalty::kOfWeights};

// "valid": 1 for each label that is not ignored.
void AddValid(OnnxModel& model) {
  model.Integers("ignored", {-100}, /*scalar=*/true)
      .Node("Equal", {"labels", "ignored"}, {"is_ignored"})
      .Node("Not", {"is_ignored"}, {"counts"})
      .Node("Cast", {"counts"}, {"valid"}, {Attr("to", int64_t{onnx::TensorProto::FLOAT})});
}

// Cross entropy of [N T, classes] scores; some labels are ignored.
ImportResult LanguageModel(const Scores& s, Penalty penalty, const std::string& reduction = "mean") {
  const auto scalar = Attr("keepdims", int64_t{0});
  OnnxModel model;
  model.Input("tokens", {"N", s.tokens, kWidth})
      .Input("label", {"N", s.tokens}, onnx::TensorProto::INT64)
      .Integers("rows", {-1, s.classes})
      .Integers("all", {-1});
  std::vector<float> weight(static_cast<size_t>(kWidth * s.classes));
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = std::sin(static_cast<float>(i));
  AddFloats(model, "weight", {kWidth, s.classes}, weight);
  model.Node("MatMul", {"tokens", "weight"}, {"product"})
      .Node("Reshape", {"product", "rows"}, {"scores"})
      .Node("Reshape", {"label", "all"}, {"labels"})
      .Node("SoftmaxCrossEntropyLoss", {"scores", "labels"}, {"loss"},
            {Attr("ignore_index", int64_t{-100}), Attr("reduction", reduction)});
  if (penalty == Penalty::kLogSumExp) {
    // loss + .01 (torch.logsumexp(scores, -1) ** 2).mean()
    model.Node("Constant", {}, {"two"}, {Attr("value_float", 2.)})
        .Node("Constant", {}, {"factor"}, {Attr("value_float", .01)})
        .Node("ReduceLogSumExp", {"scores"}, {"log_sum"}, {Attr("axes", std::vector<int64_t>{-1}), scalar})
        .Node("Pow", {"log_sum", "two"}, {"square"})
        .Node("ReduceMean", {"square"}, {"mean"}, {scalar})
        .Node("Mul", {"mean", "factor"}, {"penalty"})
        .Node("Add", {"loss", "penalty"}, {"total"})
        .Output("total");
  } else if (penalty == Penalty::kLogSumExpOfLabels) {
    // loss + .01 (torch.logsumexp(scores, -1) ** 2 * valid).sum() / valid.sum()
    AddValid(model);
    model.Node("Constant", {}, {"factor"}, {Attr("value_float", .01)})
        .Node("ReduceLogSumExp", {"scores"}, {"log_sum"}, {Attr("axes", std::vector<int64_t>{-1}), scalar})
        .Node("Mul", {"log_sum", "log_sum"}, {"square"})
        .Node("Mul", {"square", "valid"}, {"square_valid"})
        .Node("ReduceSum", {"square_valid"}, {"sum"}, {scalar})
        .Node("ReduceSum", {"valid"}, {"count"}, {scalar})
        .Node("Mul", {"sum", "factor"}, {"weighted"})
        .Node("Div", {"weighted", "count"}, {"penalty"})
        .Node("Add", {"loss", "penalty"}, {"total"})
        .Output("total");
  } else if (penalty == Penalty::kPerLabel) {
    AddValid(model);
    model.Node("Constant", {}, {"one"}, {Attr("value_float", 1.)})
        .Node("ReduceSum", {"valid"}, {"count"}, {scalar})
        .Node("Max", {"count", "one"}, {"at_least_one"})
        .Node("Div", {"loss", "at_least_one"}, {"total"})
        .Output("total");
  } else if (penalty == Penalty::kSmoothing) {
    // As tests/data/losses/ce_smooth_ignore.onnx.
    constexpr double kSmoothed = .1;
    AddValid(model);
    model.Integers("classes", {1})
        .Node("ReduceSum", {"valid"}, {"count"}, {scalar})
        .Node("Constant", {}, {"sharp"}, {Attr("value_float", 1 - kSmoothed)})
        .Node("Constant", {}, {"flat"}, {Attr("value_float", kSmoothed / static_cast<double>(s.classes))})
        .Node("LogSoftmax", {"scores"}, {"log_p"}, {Attr("axis", int64_t{1})})
        .Node("ReduceSum", {"log_p", "classes"}, {"sum_log_p"}, {scalar})
        .Node("Mul", {"loss", "sharp"}, {"of_labels"})
        .Node("Neg", {"sum_log_p"}, {"uniform"})
        .Node("Mul", {"uniform", "valid"}, {"uniform_valid"})
        .Node("ReduceSum", {"uniform_valid"}, {"uniform_sum"}, {scalar})
        .Node("Mul", {"uniform_sum", "flat"}, {"weighted"})
        .Node("Div", {"weighted", "count"}, {"of_classes"})
        .Node("Add", {"of_labels", "of_classes"}, {"total"})
        .Output("total");
  } else if (penalty == Penalty::kOfWeights) {
    // Reads no scores. The cross entropy is a part of the loss.
    model.Node("Mul", {"weight", "weight"}, {"square"})
        .Node("ReduceMean", {"square"}, {"mean"}, {scalar})
        .Node("Add", {"loss", "mean"}, {"total"})
        .Output("total");
  } else {
    model.Output("loss");
  }
  return import_testing::Import(model);
}

Gradients RunOn(const Scores& s, int64_t samples, const Plan& plan, const KernelRegistry& kernels) {
  std::vector<float> tokens(static_cast<size_t>(samples * s.tokens * kWidth));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = std::cos(static_cast<float>(3 * i));
  std::vector<int64_t> labels(static_cast<size_t>(samples * s.tokens));
  for (size_t i = 0; i < labels.size(); ++i)
    labels[i] = i % 7 < 2 ? -100 : static_cast<int64_t>(i * 50) % s.classes;
  testing_step::StepOptions options;
  options.batch = samples;
  options.check_memory = true;
  return Take(testing_step::RunStep(
      plan, kernels, {{"tokens", testing_step::BytesOf(tokens)}, {"label", testing_step::BytesOf(labels)}},
      options));
}

// The only loop, with which no tensor as large as the scores exists whole.
SampleLoop& LoopAroundTheScores(const Scores& s, Plan& plan) {
  Graph& graph = plan.train.graph;
  EXPECT_EQ(graph.loops.size(), 1u);
  const std::vector<int32_t> loop_of = LoopOfValues(graph);
  for (size_t v = 0; v < loop_of.size(); ++v)
    EXPECT_TRUE(loop_of[v] == 0 || graph.values[v].type.Elements().per_batch < s.tokens * s.classes)
        << graph.values[v].name << " exists whole";
  return graph.loops.at(0);
}

TEST(TilePenalties, TheStepIsThatOfTheWholeBatch) {
  constexpr int64_t kSamples = 2;
  const Scores scores{320, 8192};
  const auto run = [&](const Plan& plan, const KernelRegistry& kernels = testing_step::CpuKernels()) {
    return RunOn(scores, kSamples, plan, kernels);
  };
  const auto compile = [&](Penalty penalty, const char* reduction, const char* level) {
    return Take(Compile(LanguageModel(scores, penalty, reduction), testing_step::Checked(level, "none")));
  };
  for (const char* reduction : {"mean", "sum"}) {
    const Gradients plain = run(compile(Penalty::kNone, reduction, "L0"));
    for (const Penalty penalty : kPenalties) {
      SCOPED_TRACE(std::to_string(static_cast<int>(penalty)) + " " + reduction);
      Plan tiled = compile(penalty, reduction, "L3");
      SampleLoop& loop = LoopAroundTheScores(scores, tiled);
      loop.tiles = kSamples, loop.least_samples = 1;
      ASSERT_EQ(testing_step::Text(CheckPlan(tiled)), "");
      const Plan exact = compile(penalty, reduction, "L0");
      EXPECT_TRUE(exact.train.graph.loops.empty());
      const Gradients whole = run(exact);
      // Nothing is stored with an error; sums over samples are added in another order.
      EXPECT_LE(Distance(run(tiled), whole), 1e-11);
      EXPECT_LE(Distance(run(tiled, testing_step::ReferenceKernels()), whole), 1e-11);
      EXPECT_GT(Distance(whole, plain), 1e-9) << "there is no penalty";
      // Tiles of 50 tokens: one is of two samples, and the last is shorter.
      loop.tokens = scores.tokens;
      loop.tiles = scores.tokens * kSamples;
      loop.least_samples = 50;
      for (int64_t i = loop.first; i < loop.last; ++i)
        AssignWorkspace(tiled.train.graph, tiled.train.graph.nodes[static_cast<size_t>(i)], loop.tokens, 0);
      ASSERT_EQ(testing_step::Text(CheckPlan(tiled)), "");
      EXPECT_LE(Distance(run(tiled), whole), 1e-11) << "tiles of tokens";
    }
  }
}

// A sample of 8,192 tokens has 512 MiB of scores, so a tile is less than a sample.
TEST(TilePenalties, ALargeSampleIsCutBetweenItsTokens) {
  const Scores scores{8192, 16384};
  for (const Penalty penalty : kPenalties) {
    SCOPED_TRACE(static_cast<int>(penalty));
    Plan plan = Take(Compile(LanguageModel(scores, penalty), testing_step::Checked("L3", "none")));
    EXPECT_EQ(LoopAroundTheScores(scores, plan).tokens, scores.tokens);
  }
}

// [N T, classes] scores of a normalized value, which could be made again from its code.
ImportResult Normalized() {
  OnnxModel model;
  model.Input("tokens", {"N", 512, 64})
      .Input("label", {"N", 512}, onnx::TensorProto::INT64)
      .Integers("rows", {-1, 1024})
      .Integers("all", {-1});
  AddFloats(model, "gain", {64}, std::vector<float>(64, 1));
  AddFloats(model, "inner", {64, 64}, std::vector<float>(64 * 64, .1F));
  AddFloats(model, "weight", {64, 1024}, std::vector<float>(64 * 1024, .1F));
  model.Node("MatMul", {"tokens", "inner"}, {"hidden"})
      .Node("LayerNormalization", {"hidden", "gain"}, {"normalized"})
      .Node("MatMul", {"normalized", "weight"}, {"product"})
      .Node("Reshape", {"product", "rows"}, {"scores"})
      .Node("Reshape", {"label", "all"}, {"labels"})
      .Node("SoftmaxCrossEntropyLoss", {"scores", "labels"}, {"loss"})
      .Output("loss");
  return import_testing::Import(model);
}

// To make them again would take their product once more, and no less memory, since they exist in tiles alone. Where the
// bytes of what is saved are limited, they count among these.
TEST(TilePenalties, ScoresAreMadeOnce) {
  CompileOptions options = testing_step::Checked("L4", "none");
  for (const int64_t saved_limit : {int64_t{0}, int64_t{1} << 30}) {
    int made_again = 0;
    options.after_pass = [&](const std::string& pass, const Graph& graph) {
      if (pass != "place-derived") return;  // where the search for re-runs starts
      PassContext context;
      context.policy = Take(MakePolicy("L4", 0, 64));
      context.policy.saved_limit = saved_limit;
      context.rerun_elements = std::numeric_limits<int64_t>::max();
      const SavedValues saved(graph, context);
      Recipes recipes(graph, context, saved);
      recipes.Choose();
      for (const auto& [v, recipe] : recipes.Rebuilt())
        made_again += graph.value(v).type.Elements().per_batch == 512 * 1024;
    };
    Take(Compile(Normalized(), options));
    EXPECT_EQ(made_again > 0, saved_limit > 0);
  }
}

// The loss has no class weights, and no other node's result in their place.
TEST(TilePenalties, AnAbsentOperandStaysAbsentWhereProductsAreMadeTwice) {
  Take(Compile(Normalized(), testing_step::Checked("L5", "none")));
}

}  // namespace
}  // namespace act
