// What the importer makes of models: types, parameters, losses, layouts.
#include "compiler/import/import_onnx.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "compiler/ir/dump.h"
#include "compiler/ir/verify.h"
#include "runtime/base/error.h"
#include "tests/compiler/onnx_model.h"

namespace act {
namespace {

using testing::Attr;
using testing::Linear;
using testing::OnnxModel;
using testing::TemporaryFolder;

const std::string kGolden = std::string(ACT_SOURCE_DIR) + "/tests/golden/";

ImportResult Import(const std::string& path, const ImportOptions& options = {}) {
  auto result = ImportOnnx(path, options);
  if (!result) {
    ADD_FAILURE() << llvm::toString(result.takeError());
    return {};
  }
  if (llvm::Error error = Verify(result->graph, Stage::kImported))
    ADD_FAILURE() << llvm::toString(std::move(error));
  return std::move(*result);
}

ImportResult Import(const OnnxModel& model, const ImportOptions& options = {}) {
  const TemporaryFolder folder;
  return Import(model.Write(folder), options);
}

std::string ErrorOf(const OnnxModel& model, const ImportOptions& options = {}) {
  const TemporaryFolder folder;
  auto result = ImportOnnx(model.Write(folder), options);
  return result ? "no error" : llvm::toString(result.takeError());
}

// "Conv Relu ..."
std::string Ops(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) text += (text.empty() ? "" : " ") + node.op;
  return text;
}

const Node* Find(const Graph& graph, const std::string& op) {
  for (const Node& node : graph.nodes)
    if (node.op == op) return &node;
  return nullptr;
}

const Value* FindValue(const Graph& graph, const std::string& name) {
  for (const Value& value : graph.values)
    if (value.name == name) return &value;
  return nullptr;
}

// The one difference between the exporters that is meant: TorchScript's traced model has one update of its
// statistics.
Attributes WithoutUpdatesDone(const Attributes& attrs) {
  Attributes rest;
  EXPECT_EQ(attrs.Int("updates_done"), 1);
  for (const auto& [name, value] : attrs.map())
    if (name != "updates_done") rest.Set(name, value);
  return rest;
}

class BothExporters : public ::testing::TestWithParam<const char*> {};

// Dynamo writes three times the nodes (shapes, zero biases); nothing of it may reach the graph.
TEST_P(BothExporters, GiveTheSameGraph) {
  const std::string folder = kGolden + GetParam();
  const ImportResult script = Import(folder + "/model.onnx"), dynamo = Import(folder + "/model_dynamo.onnx");
  ASSERT_EQ(Ops(script.graph), Ops(dynamo.graph));
  for (size_t i = 0; i < script.graph.nodes.size(); ++i) {
    const Node &a = script.graph.nodes[i], &b = dynamo.graph.nodes[i];
    Attributes expected = a.attrs;
    if (a.op == "BatchNorm") expected = WithoutUpdatesDone(a.attrs);
    EXPECT_EQ(expected, b.attrs) << a.name;
    EXPECT_EQ(script.graph.value(a.outputs[0]).type, dynamo.graph.value(b.outputs[0]).type) << a.name;
  }
  EXPECT_EQ(script.trainable.size(), dynamo.trainable.size());
  EXPECT_FALSE(script.fixed_batch);
}

INSTANTIATE_TEST_SUITE_P(Golden, BothExporters,
                         ::testing::Values("mlp", "lenet", "resnet_basic", "resnet_bottleneck", "resnext",
                                           "odd_channels", "batch_one", "vgg_bn", "densenet", "mobilenet_v2",
                                           "mse", "unet", "fcn"),
                         [](const auto& test_info) { return std::string(test_info.param); });

TEST(Import, ParametersBuffersAndTheirData) {
  const ImportResult r = Import(kGolden + "resnet_basic/model.onnx");
  EXPECT_EQ(r.trainable.size(), 26u);  // 8 convolutions, 8 x 2 of norms, 2 of the classifier
  EXPECT_EQ(std::count_if(r.graph.values.begin(), r.graph.values.end(),
                          [](const Value& v) { return v.kind == ValueKind::kBuffer; }),
            16);
  for (const Value& v : r.graph.values) {
    if (v.kind != ValueKind::kParameter && v.kind != ValueKind::kBuffer) continue;
    EXPECT_EQ(v.data.bytes, v.type.Bytes().fixed) << v.name;
  }
  EXPECT_EQ(r.model_name, "model.onnx");
  EXPECT_EQ(r.onnx_nodes, 31);
  ASSERT_NE(r.logits, kNoValue);
  EXPECT_EQ(ToString(r.graph.value(r.logits).type), "f32[N,10]");
  EXPECT_EQ(r.graph.value(r.label).name, "label");
}

// ConstantOfShape in place of a stored weight: it trains. Where nothing reads it as a weight, it is a
// constant.
TEST(Import, WeightsThatTheModelComputes) {
  onnx::AttributeProto fill;
  fill.set_name("value");
  fill.set_type(onnx::AttributeProto::TENSOR);
  fill.mutable_t()->add_dims(1);
  fill.mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
  fill.mutable_t()->add_float_data(.25f);
  OnnxModel m(9);
  m.Input("x", {"N", 3, 4, 4}).Integers("kernel", {2, 3, 1, 1}).Integers("channels", {2});
  for (const char* name : {"scale", "bias", "mean", "var", "shift"})
    m.Node("ConstantOfShape", {"channels"}, {name}, {fill});
  m.Node("ConstantOfShape", {"kernel"}, {"w"}, {fill});
  m.Node("Conv", {"x", "w"}, {"c"});
  m.Node("BatchNormalization", {"c", "scale", "bias", "mean", "var"}, {"y"});
  m.Node("Unsqueeze", {"shift"}, {"s"}, {Attr("axes", std::vector<int64_t>{1, 2})});
  m.Node("Add", {"y", "s"}, {"z"}).MeanLoss("z");
  const ImportResult r = Import(m);
  EXPECT_EQ(r.trainable.size(), 3u);  // w, scale, bias
  for (const auto& [name, kind] : std::map<std::string, ValueKind>{{"w", ValueKind::kParameter},
                                                                   {"scale", ValueKind::kParameter},
                                                                   {"mean", ValueKind::kBuffer},
                                                                   {"var", ValueKind::kBuffer}}) {
    const Value* value = FindValue(r.graph, name);
    ASSERT_TRUE(value) << name;
    EXPECT_EQ(value->kind, kind) << name;
    ASSERT_EQ(value->data.bytes, value->type.Bytes().fixed) << name;
    EXPECT_EQ(*reinterpret_cast<const float*>(value->data.data), .25f) << name;
  }
  EXPECT_EQ(FindValue(r.graph, "shift"), nullptr);

  ImportOptions he, report;
  he.init_he = true;
  report.report_only = true;
  const ImportResult seeded = Import(m, he), planned = Import(m, report);
  EXPECT_NE(*reinterpret_cast<const float*>(FindValue(seeded.graph, "w")->data.data), .25f);
  EXPECT_EQ(FindValue(planned.graph, "w")->data.data, nullptr);

  OnnxModel huge(9);
  huge.Input("x", {"N", 3, 4, 4}).Integers("kernel", {1 << 20, 1 << 20, 1, 1});
  huge.Node("ConstantOfShape", {"kernel"}, {"w"}, {fill});
  huge.Node("Conv", {"x", "w"}, {"c"}).MeanLoss("c");
  EXPECT_NE(ErrorOf(huge).find(
                "node 'w' (ConstantOfShape): the weights that the model computes have more than 2 GiB"),
            std::string::npos)
      << ErrorOf(huge);
}

TEST(Import, SpatialOperatorsAreChannelsLast) {
  OnnxModel m;
  m.Input("x", {"N", 3, 8, 6})
      .Weight("w", {5, 3, 3, 3})
      .Node("Conv", {"x", "w"}, {"y"}, {Attr("pads", std::vector<int64_t>{1, 1, 1, 1})});
  m.Node("GlobalAveragePool", {"y"}, {"z"}).MeanLoss("z");
  const ImportResult r = Import(m);
  EXPECT_EQ(Ops(r.graph), "Transpose Conv Transpose Transpose ReduceMean Transpose ReduceMean");
  EXPECT_EQ(ToString(r.graph.value(Find(r.graph, "Conv")->outputs[0]).type), "f32[N,8,6,5]");
}

TEST(Import, ZeroBiasesAndNeutralConstantsAddNothing) {
  OnnxModel m;
  m.Input("x", {"N", 4});
  m.Node("Shape", {"x"}, {"s"}).Node("ConstantOfShape", {"s"}, {"zeros"}).Node("Add", {"zeros", "x"}, {"y"});
  m.Weight("w", {4}).Node("Mul", {"y", "w"}, {"z"}).MeanLoss("z");
  EXPECT_EQ(Ops(Import(m).graph), "Mul ReduceMean");
}

TEST(Import, AConstantThatWidensItsOperandIsNotNeutral) {
  OnnxModel m;
  m.Input("x", {"N", 4}).Weight("w", {4}).Integers("shape", {3, 4});
  m.Node("ConstantOfShape", {"shape"}, {"zeros"}).Node("Add", {"w", "zeros"}, {"wide"});
  m.Node("Transpose", {"wide"}, {"t"}).Node("MatMul", {"x", "t"}, {"y"}).MeanLoss("y");
  const ImportResult r = Import(m);
  EXPECT_EQ(ToString(r.graph.value(Find(r.graph, "Add")->outputs[0]).type), "f32[3,4]");
}

TEST(Import, MomentumIsPyTorchsAndFloatsAreTheNumbersMeant) {
  const ImportResult r = Import(kGolden + "resnet_basic/model.onnx");
  const Node* norm = Find(r.graph, "BatchNorm");
  EXPECT_EQ(norm->attrs.Float("momentum"), 0.1);
  EXPECT_EQ(norm->attrs.Float("epsilon"), 1e-5);
  EXPECT_EQ(norm->attrs.Int("frozen"), 0);
}

TEST(Import, FreezeBnAndFreezeGlobs) {
  ImportOptions options;
  options.freeze_bn = true;
  options.freeze = {"net.2.*", "net.5.2.bias"};
  const ImportResult r = Import(kGolden + "resnet_basic/model.onnx", options);
  EXPECT_EQ(Find(r.graph, "BatchNorm")->attrs.Int("frozen"), 1);
  EXPECT_EQ(r.trainable.size(), 26u - 6 - 1);
  for (ValueId id : r.trainable) EXPECT_NE(r.graph.value(id).name.substr(0, 6), "net.2.");
  options.freeze = {"nothing*"};
  auto none = ImportOnnx(kGolden + "resnet_basic/model.onnx", options);
  ASSERT_FALSE(none);
  EXPECT_NE(llvm::toString(none.takeError()).find("--freeze=nothing*: matches no parameter"),
            std::string::npos);
}

TEST(Import, DropoutFollowsItsMode) {
  const auto ops = [](int64_t opset, std::vector<std::string> inputs, std::vector<onnx::AttributeProto> attrs,
                      bool training) {
    OnnxModel m = Linear(opset);
    m.Node("Constant", {}, {"ratio"}, {Attr("value_float", .25)})
        .Node("Constant", {}, {"flag"}, {Attr("value_int", int64_t{training})});
    m.Node("Dropout", inputs, {"y"}, attrs).MeanLoss("y");
    const ImportResult r = Import(m);
    const Node* dropout = Find(r.graph, "Dropout");
    return dropout ? dropout->attrs.Float("probability") : 0;
  };
  EXPECT_EQ(ops(17, {"logits", "ratio", "flag"}, {}, true), .25);
  EXPECT_EQ(ops(17, {"logits", "ratio", "flag"}, {}, false), 0);
  EXPECT_EQ(ops(17, {"logits", "ratio"}, {}, true), 0) << "training_mode is false by default";
  EXPECT_EQ(ops(17, {"logits", "", "flag"}, {}, true), .5) << "the default ratio";
  EXPECT_EQ(ops(10, {"logits"}, {Attr("ratio", .75)}, true), .75);
}

TEST(Import, StochasticDepthIsADropoutOfOnes) {
  OnnxModel m = Linear();
  m.Integers("shape_tail", {1}).Node("Shape", {"logits"}, {"s"}, {Attr("end", int64_t{1})});
  m.Node("Concat", {"s", "shape_tail"}, {"mask_shape"}, {Attr("axis", int64_t{0})});
  m.Node("ConstantOfShape", {"mask_shape"}, {"zeros"}).Node("RandomUniformLike", {"zeros"}, {"u"});
  m.Node("Constant", {}, {"p"}, {Attr("value_float", .8)}).Node("Less", {"u", "p"}, {"keep"});
  m.Node("Cast", {"keep"}, {"mask"}, {Attr("to", int64_t{1})})
      .Node("Mul", {"logits", "mask"}, {"y"})
      .MeanLoss("y");
  const ImportResult r = Import(m);
  const Node* dropout = Find(r.graph, "Dropout");
  ASSERT_NE(dropout, nullptr);
  EXPECT_NEAR(dropout->attrs.Float("probability"), .2, 1e-7);  // the threshold 0.8 is a float
  EXPECT_EQ(ToString(r.graph.value(dropout->outputs[0]).type), "f32[N,1]");
}

TEST(Import, LikelihoodBehindALogSoftmaxIsACrossEntropy) {
  OnnxModel m = Linear();
  m.Input("label", {"N"}, onnx::TensorProto::INT64)
      .Node("LogSoftmax", {"logits"}, {"p"}, {Attr("axis", int64_t{1})});
  m.Node("NegativeLogLikelihoodLoss", {"p", "label"}, {"loss"}).Output("loss");
  const ImportResult r = Import(m);
  EXPECT_EQ(Ops(r.graph), "MatMul Add SoftmaxCrossEntropy");
  EXPECT_NE(r.logits, kNoValue);
}

TEST(Import, SoftmaxNormalizesOneAxisSinceOpset13) {
  for (const int64_t opset : {12, 13}) {
    OnnxModel m(opset);
    m.Input("x", {"N", 3, 5}).Node("Softmax", {"x"}, {"y"}, {Attr("axis", int64_t{1})}).MeanLoss("y");
    const ImportResult r = Import(m);
    EXPECT_EQ(ToString(r.graph.value(Find(r.graph, "Softmax")->outputs[0]).type),
              opset < 13 ? "f32[N,15]" : "f32[N,5,3]");
  }
}

TEST(Import, AttentionOfPackedHeadsIsOneOperator) {
  OnnxModel m(23);
  m.Input("q", {"N", 5, 24})
      .Input("k", {"N", 7, 12})
      .Input("v", {"N", 7, 12})
      .Input("mask", {5, 7}, onnx::TensorProto::BOOL);
  m.Node("Attention", {"q", "k", "v", "mask"}, {"y"},
         {Attr("q_num_heads", int64_t{4}), Attr("kv_num_heads", int64_t{2}), Attr("is_causal", int64_t{1}),
          Attr("softcap", 2.0)});
  m.MeanLoss("y");
  const ImportResult r = Import(m);
  const Node& node = *Find(r.graph, "Attention");
  EXPECT_EQ(ToString(r.graph.value(node.outputs[0]).type), "f32[N,4,5,6]");
  EXPECT_EQ(node.inputs.size(), 5u) << "the mask hides, it is not added";
  EXPECT_EQ(node.inputs[3], kNoValue);
  EXPECT_NEAR(node.attrs.Float("scale"), 1 / std::sqrt(6.0), 1e-12);
  EXPECT_EQ(node.attrs.Int("causal"), 1);
  EXPECT_EQ(node.attrs.Float("softcap"), 2);
  EXPECT_EQ(node.attrs.String("empty_row"), "zero");
}

TEST(Import, AttentionWithACacheOrAnOutputOfScoresIsRefused) {
  const auto model = [](std::vector<std::string> inputs, std::vector<std::string> outputs, int64_t heads) {
    OnnxModel m(23);
    m.Input("q", {"N", 5, 24})
        .Input("k", {"N", 7, 24})
        .Input("v", {"N", 7, 24})
        .Input("past", {"N", 4, 2, 6});
    m.Node("Attention", std::move(inputs), std::move(outputs),
           {Attr("q_num_heads", heads), Attr("kv_num_heads", heads)});
    m.MeanLoss("y");
    return ErrorOf(m);
  };
  EXPECT_NE(model({"q", "k", "v", "", "past", "past"}, {"y"}, 4).find("earlier calls"), std::string::npos);
  EXPECT_NE(model({"q", "k", "v"}, {"y", "", "", "scores"}, 4).find("output of scores"), std::string::npos);
  EXPECT_NE(model({"q", "k", "v"}, {"y"}, 5).find("q_num_heads = 5 heads"), std::string::npos);
  EXPECT_NE(model({"q", "k", "v"}, {"y"}, 0).find("q_num_heads = 0 heads"), std::string::npos);
}

TEST(Import, SequencesOfPartsAreSlices) {
  OnnxModel m;
  m.Input("x", {"N", 5}).Integers("size", {2}, true).Integers("last", {-1}, true);
  m.Node("SplitToSequence", {"x", "size"}, {"parts"}, {Attr("axis", int64_t{1})})
      .Node("SequenceAt", {"parts", "last"}, {"y"});
  m.MeanLoss("y");
  const ImportResult r = Import(m);
  EXPECT_EQ(ToString(r.graph.value(Find(r.graph, "Slice")->outputs[0]).type), "f32[N,1]") << "2 + 2 + 1";
}

TEST(Import, TheBatchIsTheSymbolOnMostFirstAxes) {
  OnnxModel m;
  m.Input("queue", {"Q", 4}).Input("a", {"B", 4}).Input("b", {"B", 4}).Node("Add", {"a", "b"}, {"c"});
  m.Node("Transpose", {"queue"}, {"t"}).Node("MatMul", {"c", "t"}, {"y"}).MeanLoss("y");
  const std::string error = ErrorOf(m);
  EXPECT_NE(error.find("input 'queue': axis 0, 'Q', is not the batch"), std::string::npos) << error;
  EXPECT_NE(error.find("hint: give it with --dim=Q=EXTENT"), std::string::npos) << error;
  ImportOptions options;
  options.dims = {{"Q", 32}};
  const ImportResult r = Import(m, options);
  EXPECT_EQ(ToString(r.graph.value(Find(r.graph, "MatMul")->outputs[0]).type), "f32[N,32]");
  options.dims = {{"Q", 32}, {"B", 5}};
  const ImportResult fixed = Import(m, options);
  EXPECT_TRUE(fixed.fixed_batch);
  options.dims = {{"Q", 32}, {"X", 5}};
  EXPECT_NE(ErrorOf(m, options).find("the symbolic axes are: B, Q"), std::string::npos);
}

TEST(Import, AFixedBatchIsReported) {
  OnnxModel m;
  m.Input("x", {6, 8}).Weight("w", {8, 2}).Node("MatMul", {"x", "w"}, {"y"}).MeanLoss("y");
  const ImportResult r = Import(m);
  EXPECT_TRUE(r.fixed_batch);
  EXPECT_EQ(r.batch, 6);
}

TEST(Import, TheLossIsTheOnlyScalarFloatOutput) {
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
  EXPECT_NE(ErrorOf(none).find(
                "no output is a loss (a scalar float); the outputs are: logits f32[N,4]\nhint: --loss="),
            std::string::npos)
      << ErrorOf(none);
}

TEST(Import, LossesThatAreAdded) {
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

TEST(Import, DeadBranchesAreNotEvenLookedAt) {
  OnnxModel m = Linear();
  m.Node("Unique", {"logits"}, {"unused"}).MeanLoss("logits");
  EXPECT_EQ(Ops(Import(m).graph), "MatMul Add ReduceMean");
}

TEST(Import, EveryUnsupportedOperatorIsListed) {
  OnnxModel m = Linear();
  m.Node("Unique", {"logits"}, {"a"}).Node("Magic", {"a"}, {"b"}, {}, "com.example").MeanLoss("b");
  const std::string error = ErrorOf(m);
  EXPECT_NE(error.find("node 'a' (Unique) of domain ai.onnx, opset 17"), std::string::npos) << error;
  EXPECT_NE(error.find("node 'b' (Magic) of domain com.example"), std::string::npos) << error;
}

TEST(Import, FunctionsAreInlinedWithTheirAttributes) {
  OnnxModel m = Linear();
  onnx::FunctionProto& f = *m.proto.add_functions();
  f.set_name("Leak");
  f.set_domain("local");
  f.add_input("x");
  f.add_output("y");
  f.add_attribute("slope");
  for (int i = 0; i < 2; ++i) {
    onnx::NodeProto& n = *f.add_node();
    n.set_op_type("LeakyRelu");
    n.add_input(i == 0 ? "x" : "inner");
    n.add_output(i == 0 ? "inner" : "y");
    onnx::AttributeProto& a = *n.add_attribute();
    a.set_name("alpha");
    a.set_type(onnx::AttributeProto::FLOAT);
    a.set_ref_attr_name("slope");
  }
  m.Node("Leak", {"logits"}, {"p"}, {Attr("slope", .125)}, "local")
      .Node("Leak", {"p"}, {"q"}, {}, "local")
      .MeanLoss("q");
  const ImportResult r = Import(m);
  EXPECT_EQ(Ops(r.graph), "MatMul Add LeakyRelu LeakyRelu LeakyRelu LeakyRelu ReduceMean");
  EXPECT_EQ(r.graph.nodes[2].attrs.Float("alpha"), .125);
  EXPECT_EQ(r.graph.nodes[4].attrs.Float("alpha"), .01) << "the operator's own default";
  EXPECT_EQ(r.onnx_nodes, 6);
}

TEST(Import, FunctionsThatCallThemselvesAreRefused) {
  OnnxModel m = Linear();
  onnx::FunctionProto& f = *m.proto.add_functions();
  f.set_name("Loop");
  f.set_domain("local");
  f.add_input("x");
  f.add_output("y");
  for (int i = 0; i < 2; ++i) {  // twice: without a limit 2^depth nodes
    onnx::NodeProto& n = *f.add_node();
    n.set_op_type("Loop");
    n.set_domain("local");
    n.add_input("x");
    n.add_output(i == 0 ? "z" : "y");
  }
  m.Node("Loop", {"logits"}, {"p"}, {}, "local").MeanLoss("p");
  EXPECT_NE(ErrorOf(m).find("the function calls itself"), std::string::npos);
}

TEST(Import, HeInitialization) {
  OnnxModel m;
  m.Input("x", {"N", 64}).Weight("w.weight", {512, 64}).Weight("w.bias", {512});
  m.Node("Gemm", {"x", "w.weight", "w.bias"}, {"y"}, {Attr("transB", int64_t{1})}).MeanLoss("y");
  for (auto& t : *m.graph().mutable_initializer()) {
    t.clear_raw_data();
    t.set_data_location(onnx::TensorProto::EXTERNAL);
    auto& location = *t.add_external_data();
    location.set_key("location");
    location.set_value("absent.data");
  }
  EXPECT_NE(ErrorOf(m).find("--init=he"), std::string::npos);
  ImportOptions report;
  report.report_only = true;
  EXPECT_EQ(FindValue(Import(m, report).graph, "w.weight")->data.data, nullptr);

  ImportOptions options;
  options.init_he = true;
  const ImportResult a = Import(m, options), b = Import(m, options);
  const Value *wa = FindValue(a.graph, "w.weight"), *wb = FindValue(b.graph, "w.weight");
  ASSERT_EQ(wa->data.bytes, 512 * 64 * 4);
  EXPECT_EQ(std::memcmp(wa->data.data, wb->data.data, static_cast<size_t>(wa->data.bytes)), 0)
      << "deterministic";
  const auto* w = reinterpret_cast<const float*>(wa->data.data);
  double sum = 0, squares = 0;
  for (int i = 0; i < 512 * 64; ++i) {
    sum += w[i];
    squares += w[i] * w[i];
  }
  // 32,768 draws of N(0, 2 / 64): five standard errors of the mean and of the variance.
  const double n = 512 * 64, variance = 2. / 64;
  EXPECT_NEAR(sum / n, 0, 5 * std::sqrt(variance / n));
  EXPECT_NEAR(squares / n, variance, 5 * variance * std::sqrt(2 / n));
  EXPECT_EQ(reinterpret_cast<const float*>(FindValue(a.graph, "w.bias")->data.data)[7], 0);
  options.seed = 1;
  const ImportResult c = Import(m, options);
  EXPECT_NE(std::memcmp(wa->data.data, FindValue(c.graph, "w.weight")->data.data, 64), 0) << "another seed";
}

TEST(Import, ExternalDataIsMapped) {
  const TemporaryFolder folder;
  OnnxModel m = Linear();
  m.MeanLoss("logits");
  std::string bytes(3, 'x');  // an odd offset: the data is copied to an aligned place
  auto& w = *m.graph().mutable_initializer(0);
  bytes += w.raw_data();
  w.clear_raw_data();
  w.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] :
       {std::pair("location", "weights/w.bin"), std::pair("offset", "3"), std::pair("length", "128")}) {
    auto& entry = *w.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  std::filesystem::create_directory(folder.path() / "weights");
  testing::Overwrite(folder / "weights/w.bin", bytes);
  const ImportResult r = Import(m.Write(folder));
  const Value* value = FindValue(r.graph, "w");
  ASSERT_EQ(value->data.bytes, 128);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(value->data.data) % 4, 0u);
  EXPECT_EQ(reinterpret_cast<const float*>(value->data.data)[31], 0.5f);
}

TEST(Import, TypedDataOfEveryType) {
  // f(x) = x + (float)constant for a constant of each type, stored in its typed field.
  struct Case {
    int type;
    void (*fill)(onnx::TensorProto&);
  };
  const Case cases[] = {
      {onnx::TensorProto::FLOAT, [](onnx::TensorProto& t) { t.add_float_data(3); }},
      {onnx::TensorProto::DOUBLE, [](onnx::TensorProto& t) { t.add_double_data(3); }},
      {onnx::TensorProto::INT64, [](onnx::TensorProto& t) { t.add_int64_data(3); }},
      {onnx::TensorProto::INT32, [](onnx::TensorProto& t) { t.add_int32_data(3); }},
      {onnx::TensorProto::INT16, [](onnx::TensorProto& t) { t.add_int32_data(3); }},
      {onnx::TensorProto::INT8, [](onnx::TensorProto& t) { t.add_int32_data(3); }},
      {onnx::TensorProto::UINT8, [](onnx::TensorProto& t) { t.add_int32_data(3); }},
      {onnx::TensorProto::INT64,
       [](onnx::TensorProto& t) { t.set_raw_data(std::string("\3\0\0\0\0\0\0\0", 8)); }},
      {onnx::TensorProto::INT16, [](onnx::TensorProto& t) { t.set_raw_data(std::string("\3\0", 2)); }},
  };
  for (const Case& c : cases) {
    OnnxModel m = Linear();
    onnx::AttributeProto value;
    value.set_name("value");
    value.set_type(onnx::AttributeProto::TENSOR);
    value.mutable_t()->set_data_type(c.type);
    c.fill(*value.mutable_t());
    m.Node("Constant", {}, {"k"}, {value}).Node("Cast", {"k"}, {"f"}, {Attr("to", int64_t{1})});
    m.Node("Add", {"logits", "f"}, {"y"}).MeanLoss("y");
    const ImportResult r = Import(m);
    const std::string dump = Dump(r.graph);
    EXPECT_NE(dump.find(", 3)"), std::string::npos) << "type " << c.type << "\n" << dump;
  }
}

}  // namespace
}  // namespace act
