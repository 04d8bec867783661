// What the importer makes of models: types, parameters, losses, layouts.
#include <cmath>

#include "compiler/ir/dump.h"
#include "tests/compiler/import_testing.h"

namespace act {
namespace {

using import_testing::Attr;
using import_testing::ErrorOf;
using import_testing::Find;
using import_testing::FindValue;
using import_testing::Import;
using import_testing::kGolden;
using import_testing::Linear;
using import_testing::OnnxModel;
using import_testing::Ops;

// The one intended difference between the exporters: TorchScript's traced model contains one update
// of its statistics.
Attributes WithoutUpdatesDone(const Attributes& attrs) {
  Attributes rest;
  EXPECT_EQ(attrs.Int("updates_done"), 1);
  for (const auto& [name, value] : attrs.map())
    if (name != "updates_done") rest.Set(name, value);
  return rest;
}

class BothExporters : public ::testing::TestWithParam<const char*> {};

// Dynamo writes three times the nodes (shapes, zero biases). None of these may reach the graph.
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

TEST(Import, ATensorOfTriplesOfSamplesIsRefusedByWhatItIs) {
  OnnxModel m;
  m.Input("x", {"N", 4}).Node("Transpose", {"x"}, {"t"}).Node("MatMul", {"x", "t"}, {"pairs"});
  m.Integers("last", {2}).Integers("first", {0}).Node("Unsqueeze", {"pairs", "last"}, {"a"});
  m.Node("Unsqueeze", {"pairs", "first"}, {"b"}).Node("Sub", {"a", "b"}, {"triples"}).MeanLoss("triples");
  EXPECT_NE(ErrorOf(m).find("node 'triples' (Sub): result f32[N,N,N] grows with more than the square of the "
                            "batch size"),
            std::string::npos)
      << ErrorOf(m);
}

TEST(Import, APermMayCountFromTheEnd) {  // TorchScript's exporter writes such
  OnnxModel m;
  m.Input("x", {"N", 2, 3, 4}).Weight("w", {3, 4, 1});
  m.Node("Transpose", {"x"}, {"t"}, {Attr("perm", std::vector<int64_t>{0, -2, -1, 1})});
  m.Node("Mul", {"t", "w"}, {"y"}).MeanLoss("y");
  const ImportResult r = Import(m);
  EXPECT_EQ(ToString(r.graph.value(Find(r.graph, "Mul")->outputs[0]).type), "f32[N,3,4,2]");
}

TEST(Import, MomentumIsPyTorchsAndFloatsAreTheNumbersMeant) {
  const ImportResult r = Import(kGolden + "resnet_basic/model.onnx");
  const Node* norm = Find(r.graph, "BatchNorm");
  EXPECT_EQ(norm->attrs.Float("momentum"), 0.1);
  EXPECT_EQ(norm->attrs.Float("epsilon"), 1e-5);
  EXPECT_EQ(norm->attrs.Int("frozen"), 0);
}

TEST(Import, ANoteAtRunningStatisticsKeepsThem) {
  OnnxModel m;
  m.Input("x", {"N", 3, 4, 4}).Weight("w", {3}).Weight("b", {3});
  for (const std::string which : {"a", "b"}) m.Weight(which + ".mean", {3}).Weight(which + ".var", {3});
  m.Node("BatchNormalization", {"x", "w", "b", "a.mean", "a.var"}, {"y"});
  m.Node("BatchNormalization", {"y", "w", "b", "b.mean", "b.var"}, {"z"}).MeanLoss("z");
  auto& info = *m.graph().add_value_info();
  info.set_name("b.mean");
  auto& note = *info.add_metadata_props();
  note.set_key("act.statistics");
  note.set_value("stored");
  std::vector<int64_t> frozen;
  const ImportResult r = Import(m);
  for (const Node& node : r.graph.nodes)
    if (node.op == "BatchNorm") frozen.push_back(node.attrs.Int("frozen"));
  EXPECT_EQ(frozen, (std::vector<int64_t>{0, 1}));
}

// Exporters compute the statistics of a BatchNorm that stores none.
OnnxModel ComputedStatistics(const std::string& of, int64_t training_mode) {
  OnnxModel m;
  m.Input("x", {"N", 3, 4, 4}).Input("z", {"N", 3, 4, 4}).Weight("w", {3}).Weight("b", {3});
  m.Weight("running_mean", {3}).Weight("running_var", {3});
  const std::vector<onnx::AttributeProto> over = {Attr("axes", std::vector<int64_t>{0, 2, 3})};
  const auto drop = [&](auto attrs) {
    attrs.push_back(Attr("keepdims", int64_t{0}));
    return attrs;
  };
  m.Node("ReduceMean", {of}, {"mean"}, drop(over)).Node("ReduceMean", {of}, {"kept"}, over);
  m.Node("Sub", {of, "kept"}, {"d"}).Node("Mul", {"d", "d"}, {"square"});
  m.Node("ReduceMean", {"square"}, {"var"}, drop(over));
  m.Node("Add", {"running_mean", "running_mean"}, {"doubled"});
  return m.Node("BatchNormalization", {"x", "w", "b", "mean", "var"}, {"y"},
                {Attr("training_mode", training_mode)});
}

TEST(Import, ABatchNormalizationWithoutStoredStatisticsUsesTheBatchs) {
  for (const int64_t training_mode : {0, 1}) {
    const ImportResult r = Import(ComputedStatistics("x", training_mode).MeanLoss("y"));
    EXPECT_EQ(Ops(r.graph), "Transpose BatchNorm Transpose ReduceMean") << training_mode;
    EXPECT_EQ(Find(r.graph, "BatchNorm")->inputs.size(), 3u);
    for (const Value& v : r.graph.values) EXPECT_NE(v.kind, ValueKind::kBuffer) << v.name;
  }
  EXPECT_EQ(Find(Import(ComputedStatistics("z", 0).MeanLoss("y")).graph, "BatchNorm"), nullptr)
      << "the form of inference normalizes by what it names";
}

TEST(Import, RunningStatisticsThatAreComputedFromStoredOnesAreRefused) {
  OnnxModel m = ComputedStatistics("x", 1);
  for (const int i : {3, 4}) m.graph().mutable_node(m.graph().node_size() - 1)->set_input(i, "doubled");
  EXPECT_NE(ErrorOf(m.MeanLoss("y"))
                .find("node 'y' (BatchNormalization): running statistics are computed "
                      "from stored ones"),
            std::string::npos);
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
  const auto ops = [](int64_t opset, const std::vector<std::string>& inputs,
                      const std::vector<onnx::AttributeProto>& attrs, bool training) {
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
  const auto model = [](const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                        int64_t heads) {
    OnnxModel m(23);
    m.Input("q", {"N", 5, 24})
        .Input("k", {"N", 7, 24})
        .Input("v", {"N", 7, 24})
        .Input("past", {"N", 4, 2, 6});
    m.Node("Attention", inputs, outputs, {Attr("q_num_heads", heads), Attr("kv_num_heads", heads)});
    m.MeanLoss("y");
    return ErrorOf(m);
  };
  EXPECT_NE(model({"q", "k", "v", "", "past", "past"}, {"y"}, 4).find("earlier calls"), std::string::npos);
  EXPECT_NE(model({"q", "k", "v"}, {"y", "", "", "scores"}, 4).find("output of scores"), std::string::npos);
  EXPECT_NE(model({"q", "k", "v"}, {"y"}, 5).find("q_num_heads = 5 heads"), std::string::npos);
  EXPECT_NE(model({"q", "k", "v"}, {"y"}, 0).find("q_num_heads = 0 heads"), std::string::npos);
}

// Where the least is above the most, the result is the most: so the least comes first.
TEST(Import, AKnownLeastClipsBeforeAComputedMost) {
  OnnxModel m;
  m.Input("x", {"N", 4}).Input("most", {}).Weight("w", {4, 2}).Node("MatMul", {"x", "w"}, {"y"});
  m.Node("Constant", {}, {"least"}, {Attr("value_float", 3.0f)}).Node("Clip", {"y", "least", "most"}, {"z"});
  m.MeanLoss("z");
  EXPECT_EQ(Ops(Import(m).graph), "MatMul Clip Min ReduceMean");
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
  EXPECT_NE(error.find("node 'a' (Unique): the operator is not supported (domain ai.onnx, opset 17)"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("node 'b' (Magic): the operator is not supported (domain com.example"),
            std::string::npos)
      << error;
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
  for (int i = 0; i < 2; ++i) {  // two calls: without a limit there would be 2^depth nodes
    onnx::NodeProto& n = *f.add_node();
    n.set_op_type("Loop");
    n.set_domain("local");
    n.add_input("x");
    n.add_output(i == 0 ? "z" : "y");
  }
  m.Node("Loop", {"logits"}, {"p"}, {}, "local").MeanLoss("p");
  EXPECT_NE(ErrorOf(m).find("the function calls itself"), std::string::npos);
}

}  // namespace
}  // namespace act
