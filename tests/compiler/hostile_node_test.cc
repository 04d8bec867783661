// Nodes whose attributes and operands ask for the impossible: sizes that overflow, axes that do not
// exist, wrong types. Each gives one clear error.
#include <limits>

#include "tests/compiler/hostile_model.h"

namespace act {
namespace {

using testing::Attr;
using testing::Hostile;
using testing::Linear;
using testing::OnnxModel;
using testing::TemporaryFolder;

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max(),
                  kSmallest = std::numeric_limits<int64_t>::min();

// A linear layer, then one node "n" on its result, then the loss.
OnnxModel WithNode(const char* op, std::vector<std::string> extra_inputs,
                   std::vector<onnx::AttributeProto> attrs = {}) {
  OnnxModel m = Linear();
  std::vector<std::string> inputs{"logits"};
  inputs.insert(inputs.end(), extra_inputs.begin(), extra_inputs.end());
  m.Integers("huge", {int64_t{1} << 40, int64_t{1} << 40}).Integers("one", {1}).Integers("minus", {-5});
  m.Integers("largest4", {0, kLargest, 0, kLargest}).Integers("smallest4", {0, kSmallest, 0, kSmallest});
  m.Integers("minus2", {1, -5});
  m.Integers("zero_step", {0}).Integers("axis9", {9});
  m.Node(op, inputs, {"n"}, attrs).MeanLoss("n");
  return m;
}

OnnxModel WithConv(const char* attribute, int64_t value) {
  OnnxModel m;
  m.Input("x", {"N", 3, 4, 4}).Weight("w", {2, 3, 3, 3});
  m.Node("Conv", {"x", "w"}, {"n"}, {Attr(attribute, std::vector<int64_t>{value, value})}).MeanLoss("n");
  return m;
}

// A node on the shape of the input, which is known when compiling: such nodes are computed at once.
OnnxModel WithKnown(const char* op, std::vector<std::string> inputs) {
  OnnxModel m = Linear();
  m.Integers("axes", {1});
  m.Node(op, inputs, {"n"}).Node("Mul", {"logits", "n"}, {"y"});
  return m.MeanLoss("y");
}

const Hostile kHostile[] = {
    {"known_without_inputs", [] { return WithKnown("Not", {}); }, "node 'n' (Not): has 0 inputs"},
    {"known_left_out",
     [] {
       return WithKnown("Where", {"", "axes", "axes"});
     },
     "node 'n' (Where): input 0 is left out"},
    {"known_too_many",
     [] {
       return WithKnown("Neg", {"axes", "axes"});
     },
     "node 'n' (Neg): has 2 inputs"},
    {"variadic_left_out", [] { return WithNode("Max", {""}); }, "node 'n' (Max): input 1 is left out"},
    {"comparison_left_out",
     [] {
       OnnxModel m = Linear();
       m.Input("i", {"N", 8}, onnx::TensorProto::INT32).Input("k", {"N", 8}, onnx::TensorProto::INT32);
       m.Node("Equal", {"i", "k", ""}, {"n"}).Node("Where", {"n", "logits", "logits"}, {"y"});
       return m.MeanLoss("y");
     },
     "node 'n' (Equal): has 3 inputs"},
    {"integers_left_out",
     [] {
       return WithKnown("Max", {"axes", ""});
     },
     "node 'n' (Max): input 1 is left out"},
    {"expand_huge", [] { return WithNode("Expand", {"huge"}); }, "node 'n' (Expand)"},
    {"reshape_wrong", [] { return WithNode("Reshape", {"minus"}); },
     "node 'n' (Reshape): cannot reshape f32[N,4] to [-5]"},
    {"reshape_by_data",
     [] {
       OnnxModel m = Linear();
       m.Input("s", {2}, onnx::TensorProto::INT64).Node("Reshape", {"logits", "s"}, {"n"}).MeanLoss("n");
       return m;
     },
     "node 'n' (Reshape): the shape in input 1 depends on data"},
    {"axis_outside", [] { return WithNode("Concat", {"logits"}, {Attr("axis", int64_t{5})}); },
     "axis 5 is outside a tensor of rank 2"},
    {"axes_outside", [] { return WithNode("Unsqueeze", {"axis9"}); }, "axis 9 is outside"},
    {"squeeze_wide_axis", [] { return WithNode("Squeeze", {"one"}); }, "squeezes axis 1 of f32[N,4]"},
    {"slice_step_zero",
     [] {
       return WithNode("Slice", {"one", "one", "one", "zero_step"});
     },
     "node 'n' (Slice)"},
    {"slice_of_the_batch",
     [] {
       return WithNode("Slice", {"one", "axis9", "zero_step"});
     },
     "depends on the batch size"},
    {"transpose_perm",
     [] {
       return WithNode("Transpose", {}, {Attr("perm", std::vector<int64_t>{0, 7})});
     },
     "perm is not a permutation"},
    {"transpose_twice",
     [] {
       return WithNode("Transpose", {}, {Attr("perm", std::vector<int64_t>{1, -1})});
     },
     "perm is not a permutation"},
    {"table_lookup_by_floats",
     [] {
       OnnxModel m;
       m.Input("k", {"N"}).Weight("w", {5, 2}).Node("Gather", {"w", "k"}, {"n"}).MeanLoss("n");
       return m;
     },
     "node 'n' (Gather): an index is i64 or i32"},
    {"table_lookup_too_large",
     [] {
       OnnxModel m;
       m.Input("k", {int64_t{1} << 40}, onnx::TensorProto::INT64)
           .Input("x", {2, int64_t{1} << 30})
           .Node("Gather", {"x", "k"}, {"n"})
           .MeanLoss("n");
       return m;
     },
     "is too large"},
    {"cast_to_nothing", [] { return WithNode("Cast", {}, {Attr("to", int64_t{99})}); },
     "casts to element type 99"},
    {"attribute_of_wrong_type",
     [] { return WithNode("LeakyRelu", {}, {Attr("alpha", std::string("much"))}); },
     "attribute 'alpha': expected a float, found a string"},
    {"pool_without_kernel", [] { return WithNode("MaxPool", {}); }, "node 'n' (MaxPool)"},
    {"pool_stride_zero",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 1, 4, 4})
           .Node("MaxPool", {"x"}, {"n"},
                 {Attr("kernel_shape", std::vector<int64_t>{2, 2}),
                  Attr("strides", std::vector<int64_t>{0, 1})})
           .MeanLoss("n");
       return m;
     },
     "must be positive"},
    {"pool_kernel_too_large",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 1, 4, 4})
           .Node("MaxPool", {"x"}, {"n"}, {Attr("kernel_shape", std::vector<int64_t>{9, 9})})
           .MeanLoss("n");
       return m;
     },
     "node 'n' (MaxPool)"},
    {"pool_past_the_image",
     [] {
       OnnxModel m = Linear();
       m.Input("x", {"N", 1, 4, 4});
       const std::vector<int64_t> kernel{9, 9}, strides{5, 5};
       m.Node("MaxPool", {"x"}, {"n"},
              {Attr("kernel_shape", kernel), Attr("strides", strides), Attr("ceil_mode", int64_t{1})});
       return m.MeanLoss("n");
     },
     "larger than the padded input"},
    {"conv_group_zero",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 3, 4, 4})
           .Weight("w", {2, 3, 1, 1})
           .Node("Conv", {"x", "w"}, {"n"}, {Attr("group", int64_t{0})})
           .MeanLoss("n");
       return m;
     },
     "node 'n' (Conv)"},
    {"resize_by_data",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 3, 4, 4}).Input("s", {4}).Node("Resize", {"x", "", "s"}, {"n"}).MeanLoss("n");
       return m;
     },
     "scales or sizes must be known"},
    {"resize_to_nothing_that_fits",
     [] {
       OnnxModel m(19);
       m.Input("x", {"N", 3, 4, 4})
           .Integers("s", {2, kLargest})
           .Node("Resize", {"x", "", "", "s"}, {"n"}, {Attr("axes", std::vector<int64_t>{2, 3})})
           .MeanLoss("n");
       return m;
     },
     "node 'n' (Resize)"},
    {"blocks_that_overflow",
     [] {
       OnnxModel m(18);
       m.Input("x", {"N", 4, 4})
           .Integers("image", {kLargest, 2})
           .Integers("block", {2, kLargest})
           .Node("Col2Im", {"x", "image", "block"}, {"n"})
           .MeanLoss("n");
       return m;
     },
     "node 'n' (Col2Im)"},
    {"blocks_that_do_not_fit",
     [] {
       OnnxModel m(18);
       m.Input("x", {"N", 4, 4})
           .Integers("image", {2, 2})
           .Integers("block", {3, 2})
           .Node("Col2Im", {"x", "image", "block"}, {"n"})
           .MeanLoss("n");
       return m;
     },
     "is not [N, C * 6, 0]"},
    {"dropout_of_all",
     [] {
       OnnxModel m = Linear(10);
       m.Node("Dropout", {"logits"}, {"n"}, {Attr("ratio", 1.)}).MeanLoss("n");
       return m;
     },
     "the ratio must be in [0, 1)"},
    {"loss_without_labels_shape",
     [] {
       OnnxModel m = Linear();
       m.Input("y", {"N", 2}, onnx::TensorProto::INT64)
           .Node("SoftmaxCrossEntropyLoss", {"logits", "y"}, {"loss"})
           .Output("loss");
       return m;
     },
     "node 'loss' (SoftmaxCrossEntropyLoss): labels are i64[N,2]"},
    {"loss_ignores_a_huge_label",
     [] {
       OnnxModel m = Linear();
       m.Input("y", {"N"}, onnx::TensorProto::INT64)
           .Node("SoftmaxCrossEntropyLoss", {"logits", "y"}, {"loss"}, {Attr("ignore_index", kSmallest)})
           .Output("loss");
       return m;
     },
     "node 'loss' (SoftmaxCrossEntropyLoss): attribute 'ignore_index' is too large"},
    {"topk_by_data", [] { return WithNode("TopK", {"logits"}); }, "input 1 must be known when compiling"},
    {"tile_huge", [] { return WithNode("Tile", {"huge"}); }, "node 'n' (Tile): result"},
    {"tile_negative", [] { return WithNode("Tile", {"minus2"}); }, "repeats an axis -5 times"},
    {"pad_huge", [] { return WithNode("Pad", {"largest4"}); }, "node 'n' (Pad): result"},
    {"pad_crops_all", [] { return WithNode("Pad", {"smallest4"}); }, "crops more than there is"},
    {"pad_wraps_often", [] { return WithNode("Pad", {"largest4"}, {Attr("mode", std::string("wrap"))}); },
     "repeats an axis more than 1000 times"},
    {"pad_wraps_nothing", [] { return WithNode("Pad", {"smallest4"}, {Attr("mode", std::string("wrap"))}); },
     "crops more than there is"},
    {"constant_of_huge_shape",
     [] {
       OnnxModel m = Linear();
       m.Integers("huge", {int64_t{1} << 40, int64_t{1} << 40})
           .Node("ConstantOfShape", {"huge"}, {"c"})
           .Node("ReduceMax", {"c"}, {"top"}, {Attr("keepdims", int64_t{0})})
           .Node("Mul", {"logits", "top"}, {"n"})
           .MeanLoss("n");
       return m;
     },
     "node 'c' (ConstantOfShape): the result is too large"},
    {"split_sizes_that_overflow",
     [] {
       OnnxModel m = Linear();
       m.Integers("parts", {kLargest, kLargest, 6})
           .Node("Split", {"logits", "parts"}, {"n", "o", "p"}, {Attr("axis", int64_t{1})})
           .MeanLoss("n");
       return m;
     },
     "node 'n' (Split): cannot split axis 1"},
    {"top_of_more_than_there_is",
     [] {
       OnnxModel m = Linear();
       m.Integers("k", {kLargest}).Node("TopK", {"logits", "k"}, {"n", "i"}).MeanLoss("n");
       return m;
     },
     "asks for 9223372036854775807 of 4 elements"},
    {"block_size_whose_square_overflows",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 4, 4, 4})
           .Node("DepthToSpace", {"x"}, {"n"}, {Attr("blocksize", int64_t{1} << 32)})
           .MeanLoss("n");
       return m;
     },
     "node 'n' (DepthToSpace)"},
    {"axis_of_the_smallest_integer", [] { return WithNode("Softmax", {}, {Attr("axis", kSmallest)}); },
     "axis -9223372036854775808 is outside"},
    {"conv_dilations_that_overflow", [] { return WithConv("dilations", kLargest); }, "must be positive"},
    {"conv_strides_that_overflow", [] { return WithConv("strides", kLargest); }, "must be positive"},
    {"conv_group_that_overflows",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 3, 4, 4})
           .Weight("w", {2, 3, 1, 1})
           .Node("Conv", {"x", "w"}, {"n"}, {Attr("group", kLargest)})
           .MeanLoss("n");
       return m;
     },
     "does not fit weight"},
    {"outer_product_of_the_batch",
     [] {
       OnnxModel m = Linear();
       m.Integers("flat", {-1})
           .Node("Reshape", {"logits", "flat"}, {"v"})
           .Node("Einsum", {"v", "v", "v"}, {"n"}, {Attr("equation", std::string("i,j,k->ijk"))})
           .MeanLoss("n");
       return m;
     },
     "node 'n' (Einsum)"},
    {"seventeen_axes",
     [] {
       OnnxModel m = Linear();
       m.Integers("shape", {-1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4})
           .Node("Reshape", {"logits", "shape"}, {"n"})
           .MeanLoss("n");
       return m;
     },
     "has more than 16 axes"},
    {"product_of_integers",
     [] {
       OnnxModel m = Linear();
       m.Input("k", {4, 2}, onnx::TensorProto::INT64).Node("MatMul", {"logits", "k"}, {"n"}).MeanLoss("n");
       return m;
     },
     "node 'n' (MatMul): computes in f32, operand 1 is i64[4,2]"},
    {"convolution_of_integers",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 3, 4, 4}, onnx::TensorProto::INT64)
           .Weight("w", {2, 3, 1, 1})
           .Node("Conv", {"x", "w"}, {"n"})
           .MeanLoss("n");
       return m;
     },
     "node 'n' (Conv): computes in f32"},
    {"pool_of_integers",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 3, 4, 4}, onnx::TensorProto::INT64)
           .Node("AveragePool", {"x"}, {"n"}, {Attr("kernel_shape", std::vector<int64_t>{2, 2})})
           .MeanLoss("n");
       return m;
     },
     "node 'n' (AveragePool): computes in f32"},
    {"batch_norm_of_integers",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 3, 4, 4}, onnx::TensorProto::INT64);
       for (const char* name : {"g", "b", "mean", "var"}) m.Weight(name, {3});
       m.Node("BatchNormalization", {"x", "g", "b", "mean", "var"}, {"n"}).MeanLoss("n");
       return m;
     },
     "node 'n' (BatchNormalization): computes in f32"},
    {"condition_that_is_a_number",
     [] {
       return WithNode("Where", {"logits", "logits"});
     },
     "the condition must be bool, it is f32[N,4]"},
    {"shift_of_floats",
     [] { return WithNode("BitShift", {"one"}, {Attr("direction", std::string("LEFT"))}); },
     "node 'n' (BitShift)"},
    // Known operands are folded before the inputs are counted.
    {"where_of_a_known_condition_alone",
     [] {
       OnnxModel m = Linear();
       m.Integers("known", {1, 2}).Node("Where", {"known"}, {"n"});
       return m.MeanLoss("n");
     },
     "node 'n' (Where): has 1 inputs"},
    {"cast_like_nothing",
     [] {
       OnnxModel m = Linear();
       m.Integers("known", {1, 2}).Node("CastLike", {"known"}, {"n"});
       return m.MeanLoss("n");
     },
     "node 'n' (CastLike): has 1 inputs"},
    {"integers_of_two_types",
     [] {
       OnnxModel m = Linear();
       m.Input("i", {"N", 4}, onnx::TensorProto::INT64)
           .Input("j", {"N", 4}, onnx::TensorProto::INT32)
           .Node("Add", {"i", "j"}, {"k"})
           .Node("Cast", {"k"}, {"f"}, {Attr("to", int64_t{1})})
           .Node("Mul", {"f", "logits"}, {"n"})
           .MeanLoss("n");
       return m;
     },
     "node 'k' (Add): takes integers of one type, operand 1 is i32[N,4]"},
};

class HostileNode : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileNode, IsOneClearError) { testing::ExpectOneClearError(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, HostileNode, ::testing::ValuesIn(kHostile),
                         [](const auto& test_info) { return std::string(test_info.param.name); });

TEST(HostileNode, ManySmallNodesCannotAskForMuchMemory) {
  OnnxModel m = Linear();
  m.Integers("shape", {1 << 16})
      .Integers("step", {1}, true)
      .Integers("zero", {0}, true)
      .Integers("limit", {1 << 16}, true);
  for (int i = 0; i < 1000; ++i) m.Node("Range", {"zero", "limit", "step"}, {"r" + std::to_string(i)});
  std::vector<std::string> all;
  for (int i = 0; i < 1000; ++i) all.push_back("r" + std::to_string(i));
  m.Node("Concat", all, {"c"}, {Attr("axis", int64_t{0})})
      .Node("Cast", {"c"}, {"f"}, {Attr("to", int64_t{1})});
  m.Node("ReduceMax", {"f"}, {"top"}).Node("Mul", {"logits", "top"}, {"n"}).MeanLoss("n");
  const TemporaryFolder folder;
  auto result = ImportOnnx(m.Write(folder), {});
  ASSERT_FALSE(result);
  EXPECT_NE(llvm::toString(result.takeError()).find("too large to fold"), std::string::npos);
}

}  // namespace
}  // namespace act
