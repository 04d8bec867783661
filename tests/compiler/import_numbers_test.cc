// Numbers of a model's arithmetic that are stored as initializers, as weights are.
#include <string>
#include <vector>

#include "tests/compiler/import_testing.h"

namespace act {
namespace {

using namespace import_testing;

// tf2onnx and others write the numbers of the arithmetic as initializers beside the weights.
TEST(ImportNumbers, BesideWeights) {
  const auto import = [](const std::string& producer) {
    OnnxModel m;
    m.proto.set_producer_name(producer);
    m.Input("x", {"N", 8})
        .Weight("w", {8, 1})
        .Weight("b", {1})
        .Weight("slope", {1})
        .Weight("half", {})
        .Weight("two", {1});
    m.Node("Gemm", {"x", "v", "none"}, {"x1"}).Weight("v", {8, 8}).Weight("none", {}, 0);
    m.Node("MatMul", {"x1", "w"}, {"p"}).Node("Add", {"p", "b"}, {"s"}).Node("PRelu", {"s", "slope"}, {"r"});
    m.Node("Mul", {"r", "half"}, {"h"}).Node("Add", {"h", "two"}, {"y"}).MeanLoss("y");
    return Import(m);
  };
  for (const char* producer : {"", "pytorch", "onnx-example"}) {
    const ImportResult all = import(producer);
    EXPECT_EQ(all.trainable.size(), 7u) << producer;
    EXPECT_TRUE(all.warnings.empty()) << producer;
  }
  const ImportResult r = import("tf2onnx");
  std::vector<std::string> names;
  for (const ValueId id : r.trainable) names.push_back(r.graph.value(id).name);
  EXPECT_EQ(names, (std::vector<std::string>{"w", "b", "slope", "v"}));
  EXPECT_EQ(r.warnings,
            std::vector<std::string>{"initializers of one element that no layer reads as a weight are "
                                     "constants and do not train: 'half', 'two', 'none'"});
}

// As Keras writes UpSampling2D.
TEST(ImportNumbers, ScalesThatAreInitializersAreNoWeights) {
  OnnxModel m;
  m.Input("x", {"N", 3, 4, 5}).Weight("w", {3, 1, 1}).Weight("scales", {4}, 1);
  m.Node("Mul", {"x", "w"}, {"xw"}).Node("Resize", {"xw", "", "scales"}, {"y"}).MeanLoss("y");
  EXPECT_EQ(Import(m).trainable.size(), 1u);
}

// tf2onnx computes the ends of a slice in float, and ends an axis at 10^9.
TEST(ImportNumbers, ListsOfFloatsFromWhichASliceFollows) {
  const auto model = [](const std::string& producer) {
    OnnxModel m;
    m.proto.set_producer_name(producer);
    m.Input("x", {"N", 8}).Weight("w", {8, 4}).Weight("b", {4}).Weight("far", {2}, 1e9f);
    m.Integers("begin", {0, 1}).Integers("end", {0, 3}).Integers("axes", {0, 1});
    m.Node("MatMul", {"x", "w"}, {"p"}).Node("Add", {"p", "b"}, {"s"});
    m.Node("Cast", {"end"}, {"ends"}, {Attr("to", int64_t{onnx::TensorProto::FLOAT})})
        .Node("Max", {"ends", "far"}, {"last"})
        .Node("Cast", {"last"}, {"to"}, {Attr("to", int64_t{onnx::TensorProto::INT64})});
    return m.Node("Slice", {"s", "begin", "to", "axes"}, {"y"}).MeanLoss("y");
  };
  const ImportResult r = Import(model("tf2onnx"));
  EXPECT_EQ(r.trainable.size(), 2u);
  EXPECT_EQ(ToString(r.graph.value(r.graph.nodes.back().inputs[0]).type), "f32[N,3]");
  EXPECT_NE(ErrorOf(model("")).find("node 'y' (Slice): input 2 must be known"), std::string::npos);
}

}  // namespace
}  // namespace act
