// In some operators, later opsets have inputs in place of attributes, or the other way round. All
// forms of one node give the same graph.
#include <gtest/gtest.h>

#include "compiler/import/file/onnx_versions.h"
#include "compiler/import/import_onnx.h"
#include "compiler/ir/dump.h"
#include "tests/compiler/onnx_model.h"

namespace act {
namespace {

using testing::Attr;
using testing::OnnxModel;
using testing::TemporaryFolder;
using Ints = std::vector<int64_t>;

onnx::AttributeProto Floats(const std::string& name, const std::vector<float>& values) {
  onnx::AttributeProto a;
  a.set_name(name);
  a.set_type(onnx::AttributeProto::FLOATS);
  for (float v : values) a.add_floats(v);
  return a;
}

// One node "y" that reads x [N, 3, 4, 4] and then constants a, b, c, ..
struct Form {
  int64_t opset;
  std::string op;
  std::vector<onnx::AttributeProto> attrs;
  std::vector<onnx::AttributeProto> constants =
      {};  // value_int, value_ints, value_float(s); "" leaves an input out
  size_t outputs = 1;
};

std::string Graph(const Form& form) {
  const TemporaryFolder folder;
  OnnxModel m(form.opset);
  m.Input("x", {"N", 3, 4, 4}).Weight("p", {3, 1, 1});
  m.Node("Mul", {"x", "p"}, {"scaled"});
  std::vector<std::string> inputs{"scaled"};
  for (const onnx::AttributeProto& constant : form.constants) {
    inputs.push_back("");
    if (constant.name().empty()) continue;
    inputs.back() = std::string(1, static_cast<char>('a' + inputs.size()));
    m.Node("Constant", {}, {inputs.back()}, {constant});
  }
  std::vector<std::string> outputs{"y"};
  for (size_t i = 1; i < form.outputs; ++i) outputs.push_back("y" + std::to_string(i));
  m.Node(form.op, inputs, outputs, form.attrs);
  m.Node("ReduceMean", {"y"}, {"loss"}, {Attr("keepdims", int64_t{0})}).Output("loss");
  auto result = ImportOnnx(m.Write(folder), {});
  if (!result) return llvm::toString(result.takeError());
  return Dump(result->graph);
}

const onnx::AttributeProto kLeftOut;

// All forms in a row mean the same.
std::vector<std::vector<Form>> Rows() {
  const auto ints = [](Ints values) { return Attr("value_ints", std::move(values)); };
  const auto number = [](double value) { return Attr("value_float", value); };
  return {
      {{7, "Clip", {Attr("min", 0.), Attr("max", 6.)}}, {13, "Clip", {}, {number(0), number(6)}}},
      {{9, "Unsqueeze", {Attr("axes", Ints{1, 3})}}, {13, "Unsqueeze", {}, {ints({1, 3})}}},
      {{9, "ReduceSum", {Attr("axes", Ints{2, 3})}}, {13, "ReduceSum", {}, {ints({2, 3})}}},
      {{9, "ReduceMean", {Attr("axes", Ints{1})}}, {18, "ReduceMean", {}, {ints({1})}}},
      {{9, "ReduceMax", {Attr("axes", Ints{-1})}}, {18, "ReduceMax", {}, {ints({-1})}}},
      {{9, "Split", {Attr("axis", int64_t{1}), Attr("split", Ints{1, 2})}, {}, 2},
       {13, "Split", {Attr("axis", int64_t{1})}, {ints({1, 2})}, 2}},
      {{9, "Pad", {Attr("pads", Ints{0, 0, 1, 2, 0, 0, 3, 4}), Attr("value", 5.)}},
       {13, "Pad", {}, {ints({0, 0, 1, 2, 0, 0, 3, 4}), number(5)}},
       {18, "Pad", {}, {ints({1, 2, 3, 4}), number(5), ints({2, 3})}}},
      {{9, "Slice", {Attr("starts", Ints{1, 0}), Attr("ends", Ints{3, 2}), Attr("axes", Ints{2, 3})}},
       {10, "Slice", {}, {ints({1, 0}), ints({3, 2}), ints({2, 3})}},
       {13, "Slice", {}, {ints({1, 0}), ints({3, 2}), ints({2, 3}), ints({1, 1})}}},
      {{7, "Dropout", {Attr("ratio", .25)}},
       {12, "Dropout", {}, {number(.25), Attr("value_int", int64_t{1})}}},
      {{7, "Upsample", {Attr("mode", std::string("nearest")), Floats("scales", {1, 1, 2, 2})}},
       {9, "Upsample", {Attr("mode", std::string("nearest"))}, {Floats("value_floats", {1, 1, 2, 2})}},
       {10, "Resize", {Attr("mode", std::string("nearest"))}, {Floats("value_floats", {1, 1, 2, 2})}},
       {13,
        "Resize",
        {Attr("coordinate_transformation_mode", std::string("asymmetric")),
         Attr("nearest_mode", std::string("floor"))},
        {kLeftOut, Floats("value_floats", {1, 1, 2, 2})}},
       {19,
        "Resize",
        {Attr("coordinate_transformation_mode", std::string("asymmetric")),
         Attr("nearest_mode", std::string("floor")), Attr("axes", Ints{2, 3})},
        {kLeftOut, Floats("value_floats", {2, 2})}}},
      // Where an axis shrinks, opset 10 rounds up.
      {{10, "Resize", {Attr("mode", std::string("nearest"))}, {Floats("value_floats", {1, 1, .5, .75})}},
       {13,
        "Resize",
        {Attr("coordinate_transformation_mode", std::string("asymmetric")),
         Attr("nearest_mode", std::string("ceil"))},
        {kLeftOut, Floats("value_floats", {1, 1, .5, .75})}}},
      {{9, "Softmax", {Attr("axis", int64_t{3})}}, {13, "Softmax", {}}},
      {{9, "LogSoftmax", {Attr("axis", int64_t{-1})}}, {13, "LogSoftmax", {Attr("axis", int64_t{3})}}},
  };
}

TEST(Opsets, EveryFormOfAnOperatorGivesTheSameGraph) {
  for (const std::vector<Form>& row : Rows()) {
    const std::string first = Graph(row[0]);
    EXPECT_NE(first.find("ReduceMean"), std::string::npos)
        << row[0].op << "-" << row[0].opset << ": " << first;
    for (const Form& form : row) EXPECT_EQ(Graph(form), first) << form.op << "-" << form.opset;
  }
}

// Without axes nothing is added up, but absolute values, squares and logarithms remain.
TEST(Opsets, AReductionOverNoAxesStillTakesItsFunction) {
  for (const auto& [op, ops] : {std::pair{"ReduceL1", "Abs"},
                                {"ReduceSumSquare", "Square"},
                                {"ReduceLogSum", "Log"},
                                {"ReduceSum", ""}}) {
    const TemporaryFolder folder;
    OnnxModel m(18);
    m.Input("x", {"N", 3}).Node(op, {"x"}, {"y"}, {Attr("noop_with_empty_axes", int64_t{1})}).MeanLoss("y");
    auto result = ImportOnnx(m.Write(folder), {});
    ASSERT_TRUE(static_cast<bool>(result)) << op;
    std::string found;
    for (const Node& node : result->graph.nodes)
      if (node.op != "ReduceMean") found += node.op;
    EXPECT_EQ(found, ops) << op;
  }
}

TEST(Opsets, BatchNormalizationsOldAttributes) {
  const auto graph = [](int64_t opset, std::vector<onnx::AttributeProto> attrs) {
    const TemporaryFolder folder;
    OnnxModel m(opset);
    m.Input("x", {"N", 3, 4, 4});
    for (const char* name : {"s", "b", "m", "v"}) m.Weight(name, {3});
    m.Node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y"}, attrs).MeanLoss("y");
    auto result = ImportOnnx(m.Write(folder), {});
    return result ? Dump(result->graph) : llvm::toString(result.takeError());
  };
  EXPECT_EQ(graph(7, {Attr("spatial", int64_t{1})}), graph(15, {}));
  EXPECT_NE(graph(8, {Attr("spatial", int64_t{0})}).find("spatial=0"), std::string::npos);
  EXPECT_NE(graph(6, {Attr("is_test", int64_t{0})}).find("changed until opset 7"), std::string::npos);
}

TEST(Opsets, TheDefinitionThatAModelMeans) {
  EXPECT_EQ(onnx_import::OnnxVersionAt("Clip", 12), 12);
  EXPECT_EQ(onnx_import::OnnxVersionAt("Clip", 10), 6);
  EXPECT_EQ(onnx_import::OnnxVersionAt("Gelu", 19), 0);
  EXPECT_TRUE(onnx_import::OnnxVersions("Convolve").empty());
}

}  // namespace
}  // namespace act
