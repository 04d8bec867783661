// Loop and Scan from ONNX to a step: they compute what the same network does with its iterations written out.
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>

#include "tests/compiler/loop_testing.h"

namespace act {
namespace {

using namespace loop_testing;

TEST(ImportLoops, ALoopIsItsIterationsWrittenOut) {
  OnnxModel m = Looped(kSteps);
  Weighted(m, "ys", 0, kSteps);
  ExpectSame(Loss(m, {"last", "ys.weighted"}), WrittenOut({0, 1, 2, 3, 4}));
}

TEST(ImportLoops, NothingRemainsOfTheIterationsNumber) {
  OnnxModel m = Looped(kSteps);
  const ImportResult r = Import(Loss(m, {"last", "ys"}));
  std::set<std::string> ops;
  for (const Node& node : r.graph.nodes) ops.insert(node.op);
  EXPECT_EQ(ops, (std::set<std::string>{"Slice", "Reshape", "MatMul", "Add", "Tanh", "Concat", "Mul",
                                        "ReduceMean"}));
}

// Keras takes the last state from the stack of all of them.
TEST(ImportLoops, OnePartOfAStackIsReadWithoutTheStack) {
  OnnxModel m = Looped(kSteps);
  m.Integers("from", {-1})
      .Integers("to", {std::numeric_limits<int64_t>::max()})
      .Integers("first", {0})
      .Node("Slice", {"ys", "from", "to", "first"}, {"one"})
      .Node("Squeeze", {"one", "first"}, {"y"});
  EXPECT_EQ(Ops(Import(Loss(m, {"y"})).graph).find("Concat"), std::string::npos);
  OnnxModel direct = Looped(kSteps);
  ExpectSame(m, Loss(direct.Node("Identity", {"last"}, {"y"}), {"y"}));
}

// As tf2onnx writes a loop of TensorFlow: counters are compared in float, with stored numbers.
TEST(ImportLoops, AConditionOfACounterEndsALoop) {
  for (const bool bounded : {false, true}) {
    OnnxModel body = LoopBody(), m = Data();
    body.Input("time", {}, TensorProto::INT32);
    TensorProto& one = *body.graph().add_initializer();
    one.set_name("one");
    one.set_data_type(TensorProto::INT32);
    one.add_int32_data(1);
    body.Weight("length", {}, 3)
        .Node("Add", {"time", "one"}, {"next_time"})
        .Node("Cast", {"next_time"}, {"counted"}, {Attr("to", int64_t{TensorProto::FLOAT})})
        .Node("Less", {"counted", "length"}, {"unfinished"});
    body.Output("unfinished", {}, TensorProto::BOOL)
        .Output("next", {"N", kUnits})
        .Output("next_time", {}, TensorProto::INT32)
        .Output("next", {"N", kUnits});
    CellWeights(m);
    TensorProto& zero = *m.graph().add_initializer();
    zero.set_name("zero");
    zero.set_data_type(TensorProto::INT32);
    zero.add_int32_data(0);
    m.Weight("start", {}, 0)
        .Weight("end", {}, 3)
        .Integers("M", {std::numeric_limits<int64_t>::max()}, true)
        .Node("Less", {"start", "end"}, {"begins"})
        .Node("Loop", {bounded ? "M" : "", "begins", "h0", "zero"}, {"last", "time", "ys"}, {Inner(body)});
    Weighted(m, "ys", 0, 3);
    ExpectSame(Loss(m, {"last", "ys.weighted"}), WrittenOut({0, 1, 2}));
  }
}

// What onnxruntime and ONNX's reference do, though ONNX's text lets a loop without a first condition ignore
// the body's.
TEST(ImportLoops, TheBodysConditionCountsWithoutAFirstOne) {
  OnnxModel body = LoopBody(), m = Data();
  body.Integers("two", {2}, true).Node("Less", {"i", "two"}, {"unfinished"});
  Outputs(body, "unfinished");
  CellWeights(m);
  m.Integers("M", {kSteps}, true).Node("Loop", {"M", "", "h0"}, {"last", "ys"}, {Inner(body)});
  Weighted(m, "ys", 0, 3);
  ExpectSame(Loss(m, {"last", "ys.weighted"}), WrittenOut({0, 1, 2}));
}

TEST(ImportLoops, ALoopWithoutIterationsReturnsItsFirstValues) {
  for (const bool by_condition : {false, true}) {
    OnnxModel body = LoopBody(), m = Data();
    body.Node("Identity", {"b"}, {"part"});
    body.Output("go_on", {}, TensorProto::BOOL).Output("next", {"N", kUnits}).Output("part", {kUnits});
    CellWeights(m);
    Flag(m, "never", false);
    m.Integers("M", {by_condition ? kSteps : 0}, true)
        .Node("Loop", {"M", by_condition ? "never" : "", "h0"}, {"last", "parts"}, {Inner(body)})
        .Node("Concat", {"parts", "R"}, {"rows"}, {Attr("axis", int64_t{0})})
        .Node("MatMul", {"last", "rows"}, {"y"});
    OnnxModel direct = Data();
    RandomWeight(direct, "R", {kUnits, kUnits}, 2);
    direct.Node("MatMul", {"h0", "R"}, {"y"});
    ExpectSame(Loss(m, {"y"}), Loss(direct, {"y"}));
  }
}

TEST(ImportLoops, AnEmptyStackMayHaveTheBatch) {
  OnnxModel m = Looped(0);
  m.Node("ReduceSum", {"ys"}, {"nothing"}, {Attr("keepdims", int64_t{0})})
      .Node("MatMul", {"last", "R"}, {"product"})
      .Node("Add", {"product", "nothing"}, {"y"});
  OnnxModel direct = Data();
  RandomWeight(direct, "R", {kUnits, kUnits}, 2);
  ExpectSame(Loss(m, {"y"}), Loss(direct.Node("MatMul", {"h0", "R"}, {"y"}), {"y"}));
}

TEST(ImportLoops, AnEmptyStackNeedsADeclaredShape) {
  OnnxModel m = Looped(0);
  auto& body = *m.graph().mutable_node(0)->mutable_attribute(0)->mutable_g();
  body.mutable_output(2)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_param("M");
  EXPECT_NE(
      ErrorOf(Loss(m, {"last", "ys"}))
          .find("node 'last' (Loop): runs no iteration, and its body does not declare the shape of 'next'"),
      std::string::npos);
}

// A Scan over axis 1 of x, with these directions; states are stacked along `out_axis`.
OnnxModel Scanned(bool in_reverse, bool out_reverse, int64_t out_axis, int64_t opset = 17) {
  OnnxModel body, m = Data(opset);
  body.Input("h", {"N", kUnits}).Input("x_t", {"N", kFeatures});
  Cell(body, "x_t", "h", "next");
  body.Output("next", {"N", kUnits}).Output("next", {"N", kUnits});
  CellWeights(m);
  m.Node("Scan", {"h0", "x"}, {"last", "ys"},
         {Inner(body), Attr("num_scan_inputs", int64_t{1}), Attr("scan_input_axes", Ints{-2}),
          Attr("scan_input_directions", Ints{in_reverse}), Attr("scan_output_axes", Ints{out_axis}),
          Attr("scan_output_directions", Ints{out_reverse})});
  Weighted(m, "ys", out_axis < 0 ? out_axis + 3 : out_axis, kSteps);
  return Loss(m, {"last", "ys.weighted"});
}

TEST(ImportLoops, AScanIsItsIterationsWrittenOut) {
  ExpectSame(Scanned(false, false, 0), WrittenOut({0, 1, 2, 3, 4}));
  ExpectSame(Scanned(false, false, -2), WrittenOut({0, 1, 2, 3, 4}, 1));
  ExpectSame(Scanned(true, false, 0), WrittenOut({4, 3, 2, 1, 0}));
  ExpectSame(Scanned(false, true, 0), WrittenOut({0, 1, 2, 3, 4}, 0, true));
  ExpectSame(Scanned(true, true, 1), WrittenOut({4, 3, 2, 1, 0}, 1, true));
}

TEST(ImportLoops, AScanWithABatchAxisIsRefused) {
  EXPECT_NE(ErrorOf(Scanned(false, false, 0, 8)).find("node 'last' (Scan): has before opset 9 a batch axis"),
            std::string::npos)
      << ErrorOf(Scanned(false, false, 0, 8));
}

// Two loops, whose bodies store their weights under the same names.
TEST(ImportLoops, AWeightInABodyIsOneParameter) {
  OnnxModel body = LoopBody(), m = Data();
  CellWeights(body);
  Outputs(body, "go_on");
  m.Integers("M", {2}, true)
      .Node("Loop", {"M", "", "h0"}, {"middle", "zs"}, {Inner(body)})
      .Node("Loop", {"M", "", "middle"}, {"last", "ys"}, {Inner(body)});
  Loss(m, {"last"});
  OnnxModel same = Data();
  for (const char* loop : {"middle/", "last/"}) {
    RandomWeight(same, std::string(loop) + "W", {kFeatures, kUnits}, 1);
    RandomWeight(same, std::string(loop) + "R", {kUnits, kUnits}, 2);
    RandomWeight(same, std::string(loop) + "b", {kUnits}, 3);
  }
  std::string h = "h0";
  for (int i = 0; i < 4; ++i) {
    OnnxModel cell;
    const std::string n = std::to_string(i), loop = i < 2 ? "middle/" : "last/";
    Cell(cell, "x" + n, h, "s" + n);
    for (onnx::NodeProto node : cell.proto.graph().node()) {
      for (std::string& name : *node.mutable_input())
        if (name == "W" || name == "R" || name == "b") name = loop + name;
      if (node.name() == "s" + n + ".x") {
        same.Integers("at" + n, {i % 2}, true)
            .Node("Gather", {"x", "at" + n}, {"x" + n}, {Attr("axis", int64_t{1})});
      }
      *same.graph().add_node() = node;
    }
    h = "s" + n;
  }
  same.Node("Identity", {h}, {"last"});
  ExpectSame(m, Loss(same, {"last"}));
  const ImportResult r = Import(m);
  EXPECT_EQ(r.trainable.size(), 6u);
  // The model that training is exported to has them, too.
  onnx::ModelProto skeleton;
  ASSERT_TRUE(skeleton.ParseFromArray(r.skeleton.data, static_cast<int>(r.skeleton.bytes)));
  std::set<std::string> stored;
  for (const auto& tensor : skeleton.graph().initializer()) stored.insert(tensor.name());
  for (const ValueId v : r.trainable) EXPECT_TRUE(stored.count(r.graph.value(v).name));
}

// The model that training is exported to has both branches, and so the weights of both.
TEST(ImportLoops, WeightsOfABranchThatIsNotTakenStayInTheModel) {
  OnnxModel taken, left, m = Data();
  RandomWeight(taken, "V", {kUnits, kUnits}, 5);
  RandomWeight(left, "V", {kUnits, kUnits}, 6);
  for (OnnxModel* branch : {&taken, &left}) branch->Node("MatMul", {"h0", "V"}, {"r"}).Output("r");
  const std::string stored = left.graph().initializer(0).raw_data();
  Flag(m, "always", true);
  m.Node("If", {"always"}, {"y"}, {Inner(taken, "then_branch"), Inner(left, "else_branch")});
  const ImportResult r = Import(Loss(m, {"y"}));
  ASSERT_EQ(r.trainable.size(), 1u);
  onnx::ModelProto skeleton;
  ASSERT_TRUE(skeleton.ParseFromArray(r.skeleton.data, static_cast<int>(r.skeleton.bytes)));
  std::map<std::string, std::string> data;
  for (const auto& tensor : skeleton.graph().initializer()) data[tensor.name()] = tensor.raw_data();
  const std::string trained = r.graph.value(r.trainable[0]).name;
  EXPECT_EQ(data.count(trained), 1u);
  EXPECT_EQ(data[trained], "");
  data.erase(trained);
  data.erase("always");
  ASSERT_EQ(data.size(), 1u);
  EXPECT_EQ(data.begin()->second, stored);
}

// An If in a loop in a loop: even steps of the inner one, in each of the outer one's.
TEST(ImportLoops, ControlFlowNests) {
  OnnxModel taken, left, inner, outer, m = Data();
  taken.Node("Tanh", {"v"}, {"r"}).Output("r");
  left.Node("Identity", {"v"}, {"r"}).Output("r");
  inner.Input("k", {}, TensorProto::INT64).Input("c", {}, TensorProto::BOOL).Input("v", {"N", kUnits});
  inner.Integers("two", {2}, true)
      .Node("Mod", {"k", "two"}, {"odd"})
      .Node("Cast", {"odd"}, {"is_odd"}, {Attr("to", int64_t{TensorProto::BOOL})})
      .Node("If", {"is_odd"}, {"w"}, {Inner(left, "then_branch"), Inner(taken, "else_branch")})
      .Output("c")
      .Output("w");
  outer.Input("i", {}, TensorProto::INT64).Input("c", {}, TensorProto::BOOL).Input("u", {"N", kUnits});
  outer.Node("MatMul", {"u", "R"}, {"ur"})
      .Node("Loop", {"i", "", "ur"}, {"z"}, {Inner(inner)})
      .Output("c")
      .Output("z");
  RandomWeight(m, "R", {kUnits, kUnits}, 2);
  m.Integers("M", {3}, true).Node("Loop", {"M", "", "h0"}, {"last"}, {Inner(outer)});
  EXPECT_EQ(Ops(Import(Loss(m, {"last"})).graph), "MatMul MatMul Tanh MatMul Tanh Mul ReduceMean");
}

}  // namespace
}  // namespace act
