// What loops of ONNX carry beside tensors, and which loops are refused.
#include <gtest/gtest.h>

#include <limits>

#include "tests/compiler/loop_testing.h"

namespace act {
namespace {

using namespace loop_testing;

// A list that a loop fills, as TorchScript writes it, and one whose end it takes.
TEST(ImportLoopLimits, ASequenceMayBeCarried) {
  OnnxModel body = LoopBody(), m = Data();
  body.Input("list", {});
  body.Node("SequenceInsert", {"list", "next"}, {"longer"});
  body.Output("go_on", {}, TensorProto::BOOL).Output("next", {"N", kUnits}).Output("longer");
  CellWeights(m);
  m.Integers("M", {kSteps}, true)
      .Integers("back", {-1}, true)
      .Node("SequenceEmpty", {}, {"empty"})
      .Node("Loop", {"M", "", "h0", "empty"}, {"final", "list"}, {Inner(body)})
      .Node("SequenceAt", {"list", "back"}, {"last"})
      .Node("ConcatFromSequence", {"list"}, {"ys"}, {Attr("axis", int64_t{0}), Attr("new_axis", int64_t{1})});
  Weighted(m, "ys", 0, kSteps);
  ExpectSame(Loss(m, {"last", "ys.weighted"}), WrittenOut({0, 1, 2, 3, 4}));
}

// z, x and y in a sequence `again`; z is x w.
OnnxModel ListOfThree() {
  OnnxModel m;
  m.Input("x", {"N", 2}).Input("y", {"N", 2}).Weight("w", {1});
  m.Integers("zero", {0}, true).Integers("two", {2}, true).Integers("three", {3}, true);
  m.Node("Mul", {"x", "w"}, {"z"})
      .Node("SequenceConstruct", {"x", "y"}, {"xy"})
      .Node("SequenceInsert", {"xy", "z", "zero"}, {"zxy"})
      .Node("SequenceErase", {"zxy", "two"}, {"zx"})
      .Node("SequenceInsert", {"zx", "y", "two"}, {"again"})
      .Node("SequenceLength", {"again"}, {"length"})
      .Node("Equal", {"length", "three"}, {"is_three"});
  return m;
}

TEST(ImportLoopLimits, SequencesGrowAndShrinkAnywhere) {
  OnnxModel joined, other, m = ListOfThree();
  joined.Node("ConcatFromSequence", {"again"}, {"r"}, {Attr("axis", int64_t{-1})}).Output("r");
  other.Node("Neg", {"z"}, {"r"}).Output("r");
  m.Node("If", {"is_three"}, {"all"}, {Inner(joined, "then_branch"), Inner(other, "else_branch")});
  const ImportResult r = Import(m.MeanLoss("all"));
  EXPECT_EQ(Ops(r.graph), "Mul Concat ReduceMean");
  const Node& concat = *Find(r.graph, "Concat");
  Names parts;
  for (const ValueId v : concat.inputs) parts.push_back(r.graph.value(v).name);
  EXPECT_EQ(parts, (Names{"z", "x", "y"}));
  OnnxModel outside = ListOfThree();
  outside.Integers("far", {4}, true).Node("SequenceAt", {"again", "far"}, {"none"}).MeanLoss("none");
  EXPECT_NE(ErrorOf(outside).find("node 'none' (SequenceAt): position 4 is outside the sequence"),
            std::string::npos);
}

// tf2onnx reverses the steps of a layer that goes backwards so, with the length of all samples.
TEST(ImportLoopLimits, AReversalOfAllStepsIsASlice) {
  OnnxModel m;
  m.Input("x", {"N", kSteps, kFeatures}).Weight("w", {kFeatures});
  m.Integers("steps", {kSteps}, true)
      .Integers("first", {0})
      .Node("Shape", {"x"}, {"shape"})
      .Node("Gather", {"shape", "first"}, {"batch"})
      .Node("Expand", {"steps", "batch"}, {"lengths"})
      .Node("ReverseSequence", {"x", "lengths"}, {"y"},
            {Attr("time_axis", int64_t{1}), Attr("batch_axis", int64_t{0})})
      .Node("Mul", {"y", "w"}, {"z"})
      .MeanLoss("z");
  const ImportResult r = Import(m);
  EXPECT_EQ(Ops(r.graph), "Slice Mul ReduceMean");
  EXPECT_EQ(r.graph.nodes[0].attrs.Ints("steps"), (Ints{1, -1, 1}));
}

struct Refused {
  const char* what;
  OnnxModel model;
  const char* error;
};

OnnxModel WithInputs(const Names& inputs, const std::string& condition) {
  OnnxModel body = LoopBody(), m = Data();
  body.Node("ReduceSum", {"next"}, {"sum"}, {Attr("keepdims", int64_t{0})})
      .Weight("zero", {1}, 0)
      .Node("Less", {"sum", "zero"}, {"by_data"});
  Outputs(body, condition);
  CellWeights(m);
  Flag(m, "always", true);
  m.Input("count", {}, TensorProto::INT64)
      .Integers("first", {0}, true)
      .Integers("two", {2}, true)
      .Integers("most", {std::numeric_limits<int64_t>::max()}, true)
      .Node("Shape", {"x"}, {"shape"})
      .Node("Gather", {"shape", "first"}, {"batch"})
      .Node("Loop", inputs, {"last", "ys"}, {Inner(body)});
  return Loss(m, {"last"});
}

TEST(ImportLoopLimits, WhatIsNotKnownIsNamed) {
  const Refused cases[] = {
      {"trip count", WithInputs({"count", "", "h0"}, "go_on"),
       "node 'last' (Loop): the number of iterations depends on data\nhint: a loop is unrolled"},
      {"batch", WithInputs({"batch", "", "h0"}, "go_on"),
       "node 'last' (Loop): the number of iterations depends on the batch size"},
      {"condition", WithInputs({"", "always", "h0"}, "by_data"),
       "node 'last' (Loop): whether iteration 1 runs depends on data\nhint: a loop is unrolled"},
      {"steps that are not there", WithInputs({"most", "always", "h0"}, "go_on"),
       "node 'last' (Loop): node 'last/body/5/x_i' (Gather): index 5 is outside an axis of 5"},
      {"no body", WithInputs({"two", "always"}, "go_on"), "has no body that fits its inputs and outputs"},
  };
  for (const Refused& c : cases)
    EXPECT_NE(ErrorOf(c.model).find(c.error), std::string::npos) << c.what << ": " << ErrorOf(c.model);
}

TEST(ImportLoopLimits, FoldingInIterationsHasALimit) {
  OnnxModel body, m = Data();
  body.Input("i", {}, TensorProto::INT64).Input("c", {}, TensorProto::BOOL);
  body.Input("v", {"N", kUnits}).Input("list", {int64_t{1} << 20}, TensorProto::INT64);
  body.Node("Tanh", {"v"}, {"w"}).Output("c").Output("w");
  body.Node("Sub", {"i", "list"}, {"folded"}).Output("folded");
  m.Integers("most", {std::numeric_limits<int64_t>::max()}, true)
      .Integers("start", {0}, true)
      .Integers("one", {1}, true)
      .Integers("end", {int64_t{1} << 20}, true)
      .Node("Range", {"start", "end", "one"}, {"list"})
      .Node("Loop", {"most", "", "h0", "list"}, {"last", "lists"}, {Inner(body)});
  const std::string error = ErrorOf(Loss(m, {"last"}));
  EXPECT_NE(error.find("node 'last' (Loop): its iterations fold more than 33554432 numbers"),
            std::string::npos)
      << error;
}

// A loop without end that fills a list: each iteration makes a longer list, so their lengths grow as the square.
TEST(ImportLoopLimits, SequencesTogetherHaveALimit) {
  OnnxModel body, m = Data();
  body.Input("i", {}, TensorProto::INT64).Input("c", {}, TensorProto::BOOL).Input("list", {});
  body.Node("SequenceInsert", {"list", "h0"}, {"longer"}).Output("c").Output("longer");
  m.Integers("most", {std::numeric_limits<int64_t>::max()}, true)
      .Node("SequenceEmpty", {}, {"empty"})
      .Node("Loop", {"most", "", "empty"}, {"list"}, {Inner(body)})
      .Node("ConcatFromSequence", {"list"}, {"all"}, {Attr("axis", int64_t{0})});
  const std::string error = ErrorOf(Loss(m, {"all"}));
  EXPECT_NE(error.find("sequences have together more than 16777216 tensors"), std::string::npos) << error;
}

TEST(ImportLoopLimits, IterationsTogetherHaveALimit) {
  OnnxModel inner, outer, m = Data();
  for (OnnxModel* body : {&inner, &outer})
    body->Input("i", {}, TensorProto::INT64).Input("c", {}, TensorProto::BOOL).Input("v", {"N", kUnits});
  inner.Node("Tanh", {"v"}, {"w"}).Output("c").Output("w");
  outer.Node("Loop", {"thousand", "", "v"}, {"z"}, {Inner(inner)}).Output("c").Output("z");
  m.Integers("thousand", {1000}, true).Node("Loop", {"thousand", "", "h0"}, {"last"}, {Inner(outer)});
  const std::string error = ErrorOf(Loss(m, {"last"}));
  EXPECT_NE(error.find("becomes more than 131072 nodes"), std::string::npos) << error;
  EXPECT_NE(error.find("node 'last' (Loop): node 'last/body/65/z' (Loop): "), std::string::npos) << error;
}

}  // namespace
}  // namespace act
