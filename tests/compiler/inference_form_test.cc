// The form of inference that --export-onnx writes: no loss, no labels, no draws.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/compiler/exported_model.h"

namespace act {
namespace {

using namespace exported_model;

using List = std::vector<std::string>;

// y = x w, and with `loss` the mean of (y - label)^2 after it.
testing::OnnxModel PredictsAndLoses() {
  testing::OnnxModel m;
  m.Input("x", {"N", 3}).Input("label", {"N", 2}).Weight("w", {3, 2}).Weight("scale", {2});
  m.Node("MatMul", {"x", "w"}, {"y"}).Node("Mul", {"label", "scale"}, {"scaled"});
  m.Node("Sub", {"y", "scaled"}, {"d"}).Node("Mul", {"d", "d"}, {"square"});
  m.Node("ReduceMean", {"square"}, {"loss"}, {testing::Attr("keepdims", int64_t{0})});
  return m;
}

TEST(InferenceForm, PredictionsNeedNoLabel) {
  const TemporaryFolder folder;
  testing::OnnxModel m = PredictsAndLoses();
  const onnx::ModelProto both = Exported(m.Output("loss").Output("y", {"N", 2}).Write(folder), folder);
  EXPECT_EQ(Names(both.graph().output()), List{"y"});
  EXPECT_EQ(Names(both.graph().input()), List{"x"});
  EXPECT_EQ(Names(both.graph().initializer()), List{"w"});
  EXPECT_EQ(Operators(both), List{"MatMul"});
}

// The dynamo exporter asks labels for the batch size, where it is needed for the predictions.
TEST(InferenceForm, ALabelIsNotAskedForTheBatch) {
  const TemporaryFolder folder;
  testing::OnnxModel m;
  m.Input("label", {"N", 3}).Input("x", {"N", 3}).Weight("w", {3});
  m.Node("Shape", {"label"}, {"batch"},
         {testing::Attr("start", int64_t{0}), testing::Attr("end", int64_t{1})});
  m.Integers("one", {1}).Node("Concat", {"batch", "one"}, {"dims"}, {testing::Attr("axis", int64_t{0})});
  m.Node("ConstantOfShape", {"dims"}, {"zeros"}).Node("Mul", {"x", "w"}, {"xw"});
  m.Node("Add", {"xw", "zeros"}, {"y"}).Node("Sub", {"y", "label"}, {"d"});
  m.Node("ReduceMean", {"d"}, {"loss"}, {testing::Attr("keepdims", int64_t{0})});
  m.Output("loss").Output("y", {"N", 3});
  const onnx::ModelProto exported = Exported(m.Write(folder), folder);
  EXPECT_EQ(Names(exported.graph().input()), List{"x"});
  EXPECT_EQ(exported.graph().node(0).op_type(), "Shape");
  EXPECT_EQ(exported.graph().node(0).input(0), "x");
}

TEST(InferenceForm, ALossThatIsAloneStays) {
  const TemporaryFolder folder;
  testing::OnnxModel m = PredictsAndLoses();
  const onnx::ModelProto alone = Exported(m.Output("loss").Write(folder), folder);
  EXPECT_EQ(Names(alone.graph().output()), List{"loss"});
  EXPECT_EQ(Names(alone.graph().input()), (List{"x", "label"}));
  EXPECT_EQ(alone.graph().node_size(), 5);
}

// Stochastic depth, as exporters write it: 1 with probability .75, over .75.
TEST(InferenceForm, MasksBecomeTheirMean) {
  for (const std::string form : {"Less", "Floor", "Bernoulli"}) {
    const TemporaryFolder folder;
    testing::OnnxModel m;
    m.Input("x", {"N", 3}).Weight("w", {3});
    for (const char* name : {"p", "q"}) m.Node("Constant", {}, {name}, {testing::Attr("value_float", .75)});
    m.Node("Mul", {"x", "w"}, {"y"});
    if (form != "Bernoulli") m.Node("RandomUniformLike", {"y"}, {"draw"});
    if (form == "Bernoulli") {
      m.Node("Shape", {"y"}, {"extents"}).Node("Expand", {"p", "extents"}, {"share"});
      m.Node("Bernoulli", {"share"}, {"mask"});
    } else if (form == "Less") {
      m.Node("Less", {"draw", "p"}, {"chosen"});
      m.Node("Cast", {"chosen"}, {"mask"}, {testing::Attr("to", int64_t{onnx::TensorProto::FLOAT})});
    } else {
      m.Node("Add", {"p", "draw"}, {"shifted"}).Node("Floor", {"shifted"}, {"mask"});
    }
    m.Node("Div", {"mask", "q"}, {"factor"}).Node("Mul", {"y", "factor"}, {"z"});
    const onnx::ModelProto exported = Exported(m.MeanLoss("z").Write(folder), folder);
    std::string mean;  // whose value takes the mask's place
    for (const auto& node : exported.graph().node()) {
      EXPECT_NE(node.op_type(), "RandomUniformLike") << "each inference would draw other numbers";
      EXPECT_NE(node.op_type(), "Bernoulli");
      EXPECT_NE(node.op_type(), "Less");
      EXPECT_NE(node.op_type(), "Floor");
      if (node.op_type() != "ConstantOfShape") continue;
      mean = node.output(0);
      EXPECT_EQ(node.attribute(0).t().float_data(0), .75f);
    }
    const std::string reader = form == "Less" ? "Cast" : "Div";
    for (const auto& node : exported.graph().node()) {
      if (node.op_type() != reader) continue;
      EXPECT_EQ(node.input(0), mean);
    }
  }
}

// The import has not looked at what the loss does not need.
TEST(InferenceForm, NodesThatTheLossDoesNotNeedMayBeMalformed) {
  const TemporaryFolder folder;
  testing::OnnxModel m = PredictsAndLoses();
  m.Node("Shape", {}, {"batch"}, {testing::Attr("start", int64_t{0}), testing::Attr("end", int64_t{1})});
  m.Node("ConstantOfShape", {"batch"}, {"zeros"}).Node("Add", {"y", "zeros"}, {"p"});
  const onnx::ModelProto exported = Exported(m.Output("loss").Output("p", {"N", 2}).Write(folder), folder);
  EXPECT_EQ(Operators(exported), (List{"MatMul", "Shape", "ConstantOfShape", "Add"}));
}

// z = y mask, and a node without results. The mask is floor(p + draw), and `chain` makes p, which is .75.
std::string WithMask(const TemporaryFolder& folder, const std::function<void(testing::OnnxModel&)>& chain) {
  testing::OnnxModel m;
  m.Input("x", {"N", 3}).Weight("w", {3}).Node("Mul", {"x", "w"}, {"y"}).Node("Identity", {"y"}, {});
  m.Node("RandomUniformLike", {"y"}, {"draw"});
  chain(m);
  m.Node("Add", {"p", "draw"}, {"shifted"}).Node("Floor", {"shifted"}, {"mask"});
  return m.Node("Mul", {"y", "mask"}, {"z"}).MeanLoss("z").Write(folder);
}

// The search for a mask's draw must end: what makes p is a graph of 2^50 paths, and a node that leaves out an operand
// and a result does not read what it makes.
TEST(InferenceForm, WhatLiesBeforeAMaskIsVisitedOnce) {
  const auto doubled = [](testing::OnnxModel& m) {
    constexpr int kTimes = 50;
    m.Node("Constant", {}, {"p0"}, {testing::Attr("value_float", .75 / double(int64_t{1} << kTimes))});
    for (int i = 0; i < kTimes; ++i) {
      const std::string half = "p" + std::to_string(i);
      m.Node("Add", {half, half}, {i + 1 < kTimes ? "p" + std::to_string(i + 1) : "p"});
    }
  };
  const auto left_out = [](testing::OnnxModel& m) {
    m.Node("Constant", {}, {"c"}, {testing::Attr("value_float", .75)}).Node("Dropout", {"c", ""}, {"p", ""});
  };
  for (const auto& chain : {std::function<void(testing::OnnxModel&)>(doubled), {left_out}}) {
    const TemporaryFolder folder;
    const List operators = Operators(Exported(WithMask(folder, chain), folder));
    EXPECT_EQ(std::count(operators.begin(), operators.end(), "Floor"), 0);
    EXPECT_EQ(std::count(operators.begin(), operators.end(), "ConstantOfShape"), 1);
  }
}

}  // namespace
}  // namespace act
