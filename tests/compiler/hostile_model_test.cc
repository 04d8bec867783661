// Models whose graph is wrong or hostile: each gives one clear error.
#include "tests/compiler/hostile_model.h"

#include "tests/compiler/compiled_step.h"

namespace act {
namespace {

using testing::Attr;
using testing::Hostile;
using testing::Linear;
using testing::OnnxModel;
using testing::TemporaryFolder;

const Hostile kHostile[] = {
    {"opset_too_old",
     [] {
       OnnxModel m = Linear(6);
       m.MeanLoss("logits");
       return m;
     },
     "node 'logits' (Gemm): has at opset 6 a form that changed until opset 7"},
    {"opset_too_new",
     [] {
       OnnxModel m = Linear(99);
       m.MeanLoss("logits");
       return m;
     },
     "is opset 99"},
    {"no_opset",
     [] {
       OnnxModel m = Linear();
       m.proto.clear_opset_import();
       m.MeanLoss("logits");
       return m;
     },
     "opset_import"},
    {"ir_version",
     [] {
       OnnxModel m = Linear();
       m.proto.set_ir_version(1000);
       m.MeanLoss("logits");
       return m;
     },
     "IR version 1000"},
    {"no_output", [] { return Linear(); }, "the model has no output"},
    {"output_of_nothing",
     [] {
       OnnxModel m = Linear();
       m.Output("absent");
       return m;
     },
     "output 'absent': nothing makes it"},
    {"cycle",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 2}).Node("Add", {"x", "b"}, {"a"}).Node("Relu", {"a"}, {"b"}).MeanLoss("a");
       return m;
     },
     "node 'a' (Add): reads 'b', which node 'b' (Relu) makes later: a cycle"},
    {"self_cycle",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 2}).Node("Add", {"x", "a"}, {"a"}).MeanLoss("a");
       return m;
     },
     "makes later: a cycle"},
    {"missing_input",
     [] {
       OnnxModel m;
       m.Node("Relu", {"nowhere"}, {"y"}).MeanLoss("y");
       return m;
     },
     "node 'y' (Relu): reads 'nowhere', which nothing makes"},
    {"input_without_name",
     [] {
       OnnxModel m = Linear();
       m.Input("", {"N", 2});
       return m.MeanLoss("logits");
     },
     "an input of the model has no name"},
    {"duplicate_value",
     [] {
       OnnxModel m = Linear();
       m.Node("Relu", {"logits"}, {"logits"}).MeanLoss("logits");
       return m;
     },
     "made twice"},
    {"duplicate_input",
     [] {
       OnnxModel m = Linear();
       m.Input("image", {"N", 8}).MeanLoss("logits");
       return m;
     },
     "'image': is made twice"},
    {"duplicate_initializer",
     [] {
       OnnxModel m = Linear();
       m.Weight("w", {4, 8}).MeanLoss("logits");
       return m;
     },
     "'w': is made twice"},
    {"too_few_inputs",
     [] {
       OnnxModel m = Linear();
       m.Node("Conv", {"logits"}, {"y"}).MeanLoss("y");
       return m;
     },
     "node 'y' (Conv): has 1 inputs"},
    {"left_out_input",
     [] {
       OnnxModel m = Linear();
       m.Node("Add", {"logits", ""}, {"y"}).MeanLoss("y");
       return m;
     },
     "input 1 is left out"},
    {"left_out_operand_of_many",
     [] {
       OnnxModel m = Linear();
       m.Node("Max", {"logits", ""}, {"y"}).MeanLoss("y");
       return m;
     },
     "node 'y' (Max): input 1 is left out"},
    {"no_outputs_of_a_node",
     [] {
       OnnxModel m = Linear();
       m.graph().mutable_node(0)->clear_output();
       m.Output("logits");
       return m;
     },
     "nothing makes it"},
    {"shapes_do_not_fit",
     [] {
       OnnxModel m = Linear();
       m.Weight("v", {3}).Node("Add", {"logits", "v"}, {"y"}).MeanLoss("y");
       return m;
     },
     "node 'y' (Add): shapes do not broadcast: [N,4] and [3]"},
    {"integer_arithmetic",
     [] {
       OnnxModel m = Linear();
       m.Input("k", {"N", 4}, onnx::TensorProto::INT64).Node("Add", {"logits", "k"}, {"y"}).MeanLoss("y");
       return m;
     },
     "node 'y' (Add)"},
    {"double_input",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 2}, onnx::TensorProto::DOUBLE).MeanLoss("x");
       return m;
     },
     "input 'x': is f64; training computes in f32"},
    {"string_input",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 2}, onnx::TensorProto::STRING).MeanLoss("x");
       return m;
     },
     "element type 8 is not supported"},
    {"negative_extent",
     [] {
       OnnxModel m;
       m.Input("x", {"N", -3}).MeanLoss("x");
       return m;
     },
     "axis 1 has the extent -3"},
    {"huge_input",
     [] {
       OnnxModel m;
       m.Input("x", {"N", int64_t{1} << 40, int64_t{1} << 40}).MeanLoss("x");
       return m;
     },
     "input 'x': is too large"},
    {"unnamed_axis",
     [] {
       OnnxModel m;
       m.Input("x", {"N", ""}).MeanLoss("x");
       return m;
     },
     "axis 1 has neither an extent nor a name"},
    {"operators_that_nobody_knows",
     [] {
       OnnxModel m = Linear();
       m.Node("Foo", {"logits"}, {"a"}, {}, "mine").Node("Relu", {"a"}, {"b"}).Node("Bar", {"b"}, {"c"});
       m.Node("Unread", {"logits"}, {"d"});
       return m.MeanLoss("c");
     },
     "2 nodes cannot be imported:\n"
     "  node 'a' (Foo): the operator is not supported (domain mine, opset 17)\n"
     "  node 'c' (Bar): the operator is not supported (domain ai.onnx, opset 17)"},
    {"branch_by_data",
     [] {
       OnnxModel m = Linear();
       m.Node("ReduceMax", {"image"}, {"top"}, {Attr("keepdims", int64_t{0})}).Weight("zero", {}, 0);
       m.Node("Greater", {"top", "zero"}, {"condition"});
       onnx::AttributeProto branches[2];
       for (int i = 0; i < 2; ++i) {
         branches[i].set_name(i == 0 ? "then_branch" : "else_branch");
         branches[i].set_type(onnx::AttributeProto::GRAPH);
         onnx::NodeProto& node = *branches[i].mutable_g()->add_node();
         node.set_op_type(i == 0 ? "Relu" : "Neg");
         node.add_input("logits");
         node.add_output("r");
         branches[i].mutable_g()->add_output()->set_name("r");
       }
       return m.Node("If", {"condition"}, {"y"}, {branches[0], branches[1]}).MeanLoss("y");
     },
     "node 'y' (If): the condition depends on data"},
    {"loop",
     [] {
       OnnxModel m = Linear();
       onnx::AttributeProto body;
       body.set_name("body");
       body.set_type(onnx::AttributeProto::GRAPH);
       body.mutable_g()->set_name("body");
       m.Integers("three", {3}, true);
       return m.Node("Loop", {"three", "", "logits"}, {"y"}, {body}).MeanLoss("y");
     },
     "node 'y' (Loop): has no body that fits its inputs and outputs"},
    {"loop_without_end",
     [] {
       OnnxModel m = Linear();
       onnx::AttributeProto body;
       body.set_name("body");
       body.set_type(onnx::AttributeProto::GRAPH);
       for (const char* name : {"i", "c", "v"}) body.mutable_g()->add_input()->set_name(name);
       for (const char* name : {"c", "v"}) body.mutable_g()->add_output()->set_name(name);
       return m.Node("Loop", {"", "", "logits"}, {"y"}, {body}).MeanLoss("y");
     },
     "node 'y' (Loop): becomes more than 131072 nodes"},
    {"loss_of_a_gradient",
     [] {
       OnnxModel m = Linear();
       m.Node("ReduceSum", {"logits"}, {"s"}, {Attr("keepdims", int64_t{0})});
       onnx::AttributeProto xs;
       xs.set_name("xs");
       xs.set_type(onnx::AttributeProto::STRINGS);
       xs.add_strings("w");
       m.Node("Gradient", {"w"}, {"dw"}, {xs, Attr("y", std::string("s"))}, "ai.onnx.preview.training");
       return m.MeanLoss("dw");
     },
     "node 'dw' (Gradient): the loss depends on a gradient"},
    {"another_symbol",
     [] {
       OnnxModel m;
       m.Input("x", {"N", "length"}).Weight("w", {1}).Node("Mul", {"x", "w"}, {"y"});
       return m.MeanLoss("y");
     },
     "input 'x': axis 1, 'length', is not the batch and has no extent\nhint: give it with "
     "--dim=length=EXTENT"},
    {"input_of_seventeen_axes",
     [] {
       OnnxModel m;
       m.Input("x", std::vector<testing::Extent>(17, int64_t{1}));
       return m.MeanLoss("x");
     },
     "input 'x': has more than 16 axes"},
    {"weight_without_a_name",
     [] {
       OnnxModel m = Linear();
       m.Weight("", {});
       m.proto.mutable_graph()->add_output()->set_name("");
       return m;
     },
     "an initializer of the model has no name"},
    {"name_with_a_zero_byte",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 3})
           .Weight(std::string("w\0w", 3), {3})
           .Node("Mul", {"x", std::string("w\0w", 3)}, {"y"});
       return m.MeanLoss("y");
     },
     "value 'w': its name goes on after a zero byte"},
    {"statistic_that_is_a_scale",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 3}).Weight("ones", {3}).Weight("zeros", {3});
       m.Node("BatchNormalization", {"x", "ones", "zeros", "zeros", "ones"}, {"n"});
       return m.MeanLoss("n");
     },
     "node 'n': reads 'ones', which is a running variance of a BatchNormalization, too\nhint: exporters that "
     "merge equal tensors"},
    {"mean_that_is_a_variance",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 3}).Weight("g", {3}).Weight("b", {3}).Weight("s", {3});
       m.Node("BatchNormalization", {"x", "g", "b", "s", "s"}, {"n"});
       return m.MeanLoss("n");
     },
     "node 'n': reads 's', which is a running mean of a BatchNormalization, too"},
    {"statistic_that_is_a_factor",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 3}).Weight("g", {3}).Weight("b", {3}).Weight("mean", {3}).Weight("var", {3});
       m.Node("BatchNormalization", {"x", "g", "b", "mean", "var"}, {"n"});
       m.Node("Mul", {"n", "mean"}, {"y"});
       return m.MeanLoss("y");
     },
     "node 'y': reads 'mean', which is a running mean of a BatchNormalization, too"},
    {"result_under_a_weights_name",
     [] {
       OnnxModel m = Linear();
       m.Node("Relu", {"logits"}, {"w"});
       return m.MeanLoss("w");
     },
     "is made twice"},
};

class HostileModel : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileModel, IsOneClearError) { testing::ExpectOneClearError(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, HostileModel, ::testing::ValuesIn(kHostile),
                         [](const auto& test_info) { return std::string(test_info.param.name); });

TEST(HostileModel, ZeroExtentsAreTensorsLikeOthers) {
  OnnxModel m;
  m.Input("x", {"N", 0}).Weight("w", {0, 3}).Node("MatMul", {"x", "w"}, {"y"}).MeanLoss("y");
  const TemporaryFolder folder;
  auto result = ImportOnnx(m.Write(folder), {});
  ASSERT_TRUE(static_cast<bool>(result)) << llvm::toString(result.takeError());
}

// Models that the importer accepts and that cannot be trained.
// A model of fixed extents runs at the first extent of its first input, which may be 0. Its batch is one sample then.
TEST(HostileModel, AFixedBatchIsAtLeastOneSample) {
  OnnxModel m;
  m.Input("none", {0}, onnx::TensorProto::INT64).Input("x", {3, 4}).Weight("w", {4, 2});
  m.Node("MatMul", {"x", "w"}, {"y"}).MeanLoss("y");
  const TemporaryFolder folder;
  auto model = ImportOnnx(m.Write(folder), {});
  ASSERT_TRUE(bool(model)) << llvm::toString(model.takeError());
  EXPECT_TRUE(model->fixed_batch);
  EXPECT_EQ(model->batch, 1);
}

TEST(HostileModel, WithoutAPathFromAParameterToTheLossIsRefused) {
  const auto refuse = [](const OnnxModel& m, const std::vector<std::string>& freeze) {
    const TemporaryFolder folder;
    ImportOptions options;
    options.freeze = freeze;
    auto model = ImportOnnx(m.Write(folder), options);
    if (!model) return llvm::toString(model.takeError());
    return llvm::toString(Compile(std::move(*model), testing_step::Checked("L0", "sgd")).takeError());
  };
  OnnxModel comparison = Linear();
  comparison.Weight("zero", {}, 0).Node("Greater", {"logits", "zero"}, {"above"});
  comparison.Node("Cast", {"above"}, {"n"}, {Attr("to", int64_t{1})}).MeanLoss("n");
  EXPECT_NE(refuse(comparison, {}).find("no trainable parameter has a path to the loss\nhint: "),
            std::string::npos);
  OnnxModel frozen = Linear();
  frozen.MeanLoss("logits");
  EXPECT_NE(refuse(frozen, {"*"}).find("no trainable parameter has a path to the loss"), std::string::npos);
  OnnxModel without;
  without.Input("x", {"N", 2}).MeanLoss("x");
  EXPECT_NE(refuse(without, {}).find("no trainable parameter has a path to the loss"), std::string::npos);
}

}  // namespace
}  // namespace act
