// What the importer takes for the loss, and what it makes of losses.
#include <string>

#include "tests/compiler/import_testing.h"

namespace act {
namespace {

using import_testing::Attr;
using import_testing::ErrorOf;
using import_testing::FindValue;
using import_testing::Import;
using import_testing::Linear;
using import_testing::OnnxModel;
using import_testing::Ops;

TEST(ImportLosses, LikelihoodBehindALogSoftmaxIsACrossEntropy) {
  OnnxModel m = Linear();
  m.Input("label", {"N"}, onnx::TensorProto::INT64)
      .Node("LogSoftmax", {"logits"}, {"p"}, {Attr("axis", int64_t{1})});
  m.Node("NegativeLogLikelihoodLoss", {"p", "label"}, {"loss"}).Output("loss");
  const ImportResult r = Import(m);
  EXPECT_EQ(Ops(r.graph), "MatMul Add SoftmaxCrossEntropy");
  EXPECT_NE(r.logits, kNoValue);
}

TEST(ImportLosses, LabelsOf32BitsAreWidened) {
  OnnxModel m = Linear();
  m.Input("label", {"N"}, onnx::TensorProto::INT32);
  m.Node("SoftmaxCrossEntropyLoss", {"logits", "label"}, {"loss"}).Output("loss");
  const ImportResult r = Import(m);
  const Node* const loss = import_testing::Find(r.graph, "SoftmaxCrossEntropy");
  ASSERT_NE(loss, nullptr);
  EXPECT_EQ(ToString(r.graph.value(loss->inputs[1]).type), "i64[N]");
}

// Stored weights of classes are a buffer in PyTorch, of which TorchScript's files do not tell.
TEST(ImportLosses, StoredWeightsOfClassesDoNotTrain) {
  for (const char* reduction : {"mean", "none"}) {
    OnnxModel m = Linear();
    m.Input("label", {"N"}, onnx::TensorProto::INT64).Weight("of_classes", {4});
    m.Node("SoftmaxCrossEntropyLoss", {"logits", "label", "of_classes"}, {"losses"},
           {Attr("reduction", std::string(reduction))});
    const ImportResult r = Import(m.MeanLoss("losses"));
    EXPECT_EQ(r.trainable.size(), 2u) << reduction;
  }
}

// The fused operator has no gradient for them.
TEST(ImportLosses, WeightsOfClassesThatFollowFromParametersHaveAGradient) {
  OnnxModel m = Linear();
  m.Input("label", {"N"}, onnx::TensorProto::INT64).Weight("log_weight", {4});
  m.Node("Exp", {"log_weight"}, {"weight"});
  m.Node("SoftmaxCrossEntropyLoss", {"logits", "label", "weight"}, {"loss"}).Output("loss");
  const ImportResult r = Import(m);
  EXPECT_EQ(r.trainable.size(), 3u);
  EXPECT_EQ(import_testing::Find(r.graph, "SoftmaxCrossEntropy"), nullptr);
}

TEST(ImportLosses, TheLossIsTheOnlyScalarFloatOutput) {
  OnnxModel m = Linear();
  m.MeanLoss("logits").Output("logits", {"N", 4});
  const ImportResult r = Import(m);
  EXPECT_EQ(ToString(r.graph.value(r.loss).type), "f32[]");
  EXPECT_EQ(r.graph.outputs, std::vector<ValueId>{r.loss});

  OnnxModel two = Linear();
  two.MeanLoss("logits")
      .Node("ReduceMax", {"logits"}, {"largest"}, {Attr("keepdims", int64_t{0})})
      .Output("largest");
  EXPECT_NE(ErrorOf(two).find(
                "several outputs may be the loss: loss, largest\nhint: name it with --loss-output=NAME"),
            std::string::npos)
      << ErrorOf(two);
  ImportOptions options;
  options.loss_output = "largest";
  EXPECT_EQ(Ops(Import(two, options).graph), "MatMul Add ReduceMax");
  options.loss_output = "nothing";
  EXPECT_NE(ErrorOf(two, options).find("its outputs are: loss, largest"), std::string::npos);

  OnnxModel none = Linear();
  none.Output("logits", {"N", 4});
  EXPECT_NE(
      ErrorOf(none).find("no output is a loss (a scalar float); the outputs are: logits f32[N,4]\n"
                         "hint: --loss=cross-entropy adds a loss after 'logits'; it may also be mse, l1"),
      std::string::npos)
      << ErrorOf(none);
}

// The flags of the hint, by what the model ends in.
TEST(ImportLosses, AMissingLossHasItsFlags) {
  const auto hint = [](const std::vector<testing::Extent>& dims, bool two = false) {
    OnnxModel m;
    m.Input("x", dims).Node("Relu", {"x"}, {"y"}).Output("y");
    if (two) m.Node("Neg", {"y"}, {"z"}).Output("z");
    const std::string error = ErrorOf(m);
    return error.substr(error.find("hint: "));
  };
  EXPECT_EQ(hint({"N", 5}),
            "hint: --loss=cross-entropy adds a loss after 'y'; it may also be mse, l1, smooth-l1 or "
            "bce-with-logits");
  const std::string numbers = "it may also be l1, smooth-l1 or bce-with-logits";
  EXPECT_EQ(hint({"N"}), "hint: --loss=mse adds a loss after 'y'; " + numbers);
  EXPECT_EQ(hint({"N", 1}, true), "hint: --loss=mse with --loss-output=y adds a loss after 'y'; " + numbers);
  EXPECT_NE(hint({"N", 7, 5}).find("--loss=token-cross-entropy (classes last) or --loss=cross-entropy"),
            std::string::npos);
  OnnxModel whole;
  whole.Input("x", {"N"}, onnx::TensorProto::INT64).Node("Identity", {"x"}, {"y"});
  whole.Output("y", {}, onnx::TensorProto::INT64);
  EXPECT_NE(ErrorOf(whole).find("hint: a loss is computed from a float output"), std::string::npos)
      << ErrorOf(whole);
}

TEST(ImportLosses, LossesThatAreAdded) {
  const auto import = [](const char* loss) {
    OnnxModel m = Linear();
    m.Output("logits", {"N", 4});
    ImportOptions options;
    options.loss = loss;
    return Import(m, options);
  };
  const ImportResult ce = import("cross-entropy");
  EXPECT_EQ(Ops(ce.graph), "MatMul Add SoftmaxCrossEntropy");
  EXPECT_EQ(ToString(FindValue(ce.graph, "label")->type), "i64[N]");
  EXPECT_NE(ce.logits, kNoValue);
  EXPECT_EQ(Ops(import("mse").graph), "MatMul Add Sub Square ReduceMean");
  EXPECT_EQ(Ops(import("l1").graph), "MatMul Add Sub Abs ReduceMean");
  EXPECT_EQ(Ops(import("smooth-l1").graph), "MatMul Add Sub Abs Clip Mul Sub Mul ReduceMean");
  EXPECT_EQ(Ops(import("bce-with-logits").graph), "MatMul Add Softplus Mul Sub ReduceMean");
  EXPECT_EQ(ToString(FindValue(import("mse").graph, "label")->type), "f32[N,4]");
}

// x [N, 3, 4] -> `nodes` -> y, of a weight, with a loss after y.
ImportResult WithLoss(const char* loss, const std::function<void(OnnxModel&)>& nodes) {
  OnnxModel m;
  m.Input("x", {"N", 3, 4}).Weight("scale", {4}).Node("Mul", {"x", "scale"}, {"scores"});
  nodes(m);
  m.Output("y");
  ImportOptions options;
  options.loss = loss;
  return Import(m, options);
}

TEST(ImportLosses, TakeTheOperandOfTheFunctionThatTheyContain) {
  const auto softmax = [](int64_t axis) {
    return [axis](OnnxModel& m) { m.Node("Softmax", {"scores"}, {"y"}, {testing::Attr("axis", axis)}); };
  };
  const ImportResult last = WithLoss("token-cross-entropy", softmax(-1));
  EXPECT_EQ(Ops(last.graph), "Mul SoftmaxCrossEntropy");
  EXPECT_EQ(last.warnings,
            std::vector<std::string>{"--loss=token-cross-entropy contains a Softmax, and so does output 'y': "
                                     "the loss takes the operand of that Softmax"});
  EXPECT_EQ(Ops(WithLoss("cross-entropy", softmax(1)).graph).find("Softmax "), std::string::npos);
  // Over another axis than the classes it is part of the model.
  for (const auto& [loss, axis] :
       {std::pair{"cross-entropy", -1}, std::pair{"token-cross-entropy", 1}, std::pair{"mse", -1}}) {
    const ImportResult kept = WithLoss(loss, softmax(axis));
    EXPECT_NE(Ops(kept.graph).find("Softmax "), std::string::npos) << loss;
    EXPECT_TRUE(kept.warnings.empty()) << loss;
  }
  const auto moved = [](OnnxModel& m) {
    m.Node("Softmax", {"scores"}, {"p"}, {testing::Attr("axis", int64_t{-1})})
        .Node("Transpose", {"p"}, {"t"}, {testing::Attr("perm", std::vector<int64_t>{0, 2, 1})})
        .Node("Concat", {"t", "t"}, {"y"}, {testing::Attr("axis", int64_t{2})});
  };
  EXPECT_EQ(Ops(WithLoss("cross-entropy", moved).graph).find("Softmax "), std::string::npos);
  EXPECT_NE(Ops(WithLoss("token-cross-entropy", moved).graph).find("Softmax "), std::string::npos);
  const auto sigmoid = [](OnnxModel& m) {
    m.Node("Sigmoid", {"scores"}, {"p"}).Integers("rows", {-1, 12}).Node("Reshape", {"p", "rows"}, {"y"});
  };
  EXPECT_EQ(Ops(WithLoss("bce-with-logits", sigmoid).graph), "Mul Reshape Softplus Mul Sub ReduceMean");
  EXPECT_NE(Ops(WithLoss("l1", sigmoid).graph).find("Sigmoid"), std::string::npos);
}

// Each Concat joins the former one with itself: the paths to the sigmoid double with each.
// Following each of them would not end.
TEST(ImportLosses, AFunctionIsFoundOnceOnManyPaths) {
  constexpr int kJoins = 40;
  const auto joined = [](OnnxModel& m) {
    m.Node("Sigmoid", {"scores"}, {"y0"});
    for (int i = 0; i < kJoins; ++i) {
      const std::string before = "y" + std::to_string(i);
      m.Node("Concat", {before, before}, {i + 1 == kJoins ? "y" : "y" + std::to_string(i + 1)},
             {testing::Attr("axis", int64_t{2})});
    }
  };
  EXPECT_EQ(Ops(WithLoss("bce-with-logits", joined).graph).find("Sigmoid"), std::string::npos);
}

TEST(ImportLosses, CrossEntropyHasClassesSecondOrLast) {
  const auto import = [](const char* loss) {
    OnnxModel m;
    m.Input("x", {"N", 3, 4})
        .Node("Mul", {"x", "scale"}, {"logits"})
        .Weight("scale", {4})
        .Output("logits", {"N", 3, 4});
    ImportOptions options;
    options.loss = loss;
    return Import(m, options);
  };
  const ImportResult second = import("cross-entropy"), last = import("token-cross-entropy");
  EXPECT_EQ(Ops(second.graph), "Mul Transpose SoftmaxCrossEntropy");
  EXPECT_EQ(ToString(FindValue(second.graph, "label")->type), "i64[N,4]");
  EXPECT_EQ(Ops(last.graph), "Mul SoftmaxCrossEntropy");
  EXPECT_EQ(ToString(FindValue(last.graph, "label")->type), "i64[N,3]");
  EXPECT_NE(last.logits, kNoValue);
}

}  // namespace
}  // namespace act
