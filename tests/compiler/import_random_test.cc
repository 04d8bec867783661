// Random numbers of a model: a value of the graph, or a dropout's mask where a comparison asks for no more.
#include "tests/compiler/import_testing.h"

namespace act {
namespace {

using namespace import_testing;

// u: uniform numbers like the logits [N, 3].
OnnxModel WithDraw() {
  OnnxModel m = Linear();
  m.Node("RandomUniformLike", {"logits"}, {"u"});
  return m;
}

void Threshold(OnnxModel& m, const std::string& name, double p) {
  m.Node("Constant", {}, {name}, {Attr("value_float", p)});
}

int Count(const Graph& graph, const std::string& op) {
  int count = 0;
  for (const Node& node : graph.nodes) count += node.op == op;
  return count;
}

TEST(ImportRandom, ReadersOfOneDrawReadTheSameNumbers) {
  OnnxModel m = WithDraw();
  m.Node("Mul", {"logits", "u"}, {"a"})
      .Node("Identity", {"u"}, {"v"})
      .Node("Add", {"a", "v"}, {"y"})
      .MeanLoss("y");
  const ImportResult r = Import(m);
  EXPECT_EQ(Count(r.graph, "Random"), 1);
  const Node* random = Find(r.graph, "Random");
  ASSERT_NE(random, nullptr);
  EXPECT_EQ(random->attrs.String("distribution"), "uniform");
  EXPECT_EQ(random->attrs.Float("offset"), 0);
  EXPECT_EQ(random->attrs.Float("scale"), 1);
  EXPECT_EQ(r.graph.value(random->outputs[0]).type.dims[0], Dim::Batch());
}

TEST(ImportRandom, AShiftIsPartOfWhatIsRead) {
  OnnxModel m = WithDraw();
  Threshold(m, "p", .25);
  m.Node("Add", {"p", "u"}, {"v"}).Node("Mul", {"logits", "v"}, {"y"}).MeanLoss("y");
  EXPECT_EQ(Ops(Import(m).graph), "MatMul Add Random Add Mul ReduceMean");
}

TEST(ImportRandom, FloorOfAShiftedDrawIsAMask) {
  OnnxModel m = WithDraw();
  Threshold(m, "p", .75);
  m.Node("Add", {"p", "u"}, {"v"})
      .Node("Floor", {"v"}, {"mask"})
      .Node("Mul", {"logits", "mask"}, {"y"})
      .MeanLoss("y");
  const ImportResult r = Import(m);
  EXPECT_EQ(Count(r.graph, "Random"), 0);
  const Node* dropout = Find(r.graph, "Dropout");
  ASSERT_NE(dropout, nullptr);
  EXPECT_EQ(dropout->attrs.Float("probability"), .25);
}

// floor(u + 1.5) is 1 or 2: no mask.
TEST(ImportRandom, FloorOfOtherNumbersIsTheirFloor) {
  OnnxModel m = WithDraw();
  Threshold(m, "p", 1.5);
  m.Node("Add", {"p", "u"}, {"v"})
      .Node("Floor", {"v"}, {"f"})
      .Node("Mul", {"logits", "f"}, {"y"})
      .MeanLoss("y");
  EXPECT_EQ(Ops(Import(m).graph), "MatMul Add Random Add Floor Mul ReduceMean");
}

// A mask draws numbers of its own, so it cannot stand beside the numbers, nor beside another mask of them.
TEST(ImportRandom, NumbersThatAreReadTwiceAreDrawn) {
  for (const char* other : {"Mul before", "Mul after", "Less"}) {
    OnnxModel m = WithDraw();
    Threshold(m, "p", .75);
    const auto product = [&] { m.Node("Mul", {"logits", "u"}, {"a"}); };
    if (other == std::string("Mul before")) product();
    m.Node("Less", {"u", "p"}, {"keep"}).Node("Cast", {"keep"}, {"mask"}, {Attr("to", int64_t{1})});
    if (other == std::string("Mul after")) product();
    if (other == std::string("Less"))
      m.Node("Less", {"u", "p"}, {"flag"}).Node("Cast", {"flag"}, {"a"}, {Attr("to", int64_t{1})});
    m.Node("Mul", {"a", "mask"}, {"both"}).Node("Mul", {"logits", "both"}, {"y"}).MeanLoss("y");
    const ImportResult r = Import(m);
    EXPECT_EQ(Count(r.graph, "Random"), 1) << other;
    EXPECT_EQ(Count(r.graph, "Dropout"), 0) << other;
  }
}

// Every comparison with a constant, in both orders: what part of the mask is ones.
TEST(ImportRandom, ComparisonsThatAreMasks) {
  const struct {
    const char* op;
    bool draw_first;
    double ones;
  } cases[] = {{"Less", true, .25},           {"LessOrEqual", true, .25},    {"Greater", true, .75},
               {"GreaterOrEqual", true, .75}, {"Less", false, .75},          {"LessOrEqual", false, .75},
               {"Greater", false, .25},       {"GreaterOrEqual", false, .25}};
  for (const auto& c : cases) {
    OnnxModel m = WithDraw();
    Threshold(m, "p", .25);
    m.Node(c.op, c.draw_first ? std::vector<std::string>{"u", "p"} : std::vector<std::string>{"p", "u"},
           {"flag"})
        .Node("Cast", {"flag"}, {"mask"}, {Attr("to", int64_t{1})})
        .Node("Mul", {"logits", "mask"}, {"y"})
        .MeanLoss("y");
    const ImportResult r = Import(m);
    EXPECT_EQ(Count(r.graph, "Random"), 0) << c.op;
    const Node* dropout = Find(r.graph, "Dropout");
    ASSERT_NE(dropout, nullptr) << c.op;
    EXPECT_EQ(dropout->attrs.Float("probability"), 1 - c.ones) << c.op << c.draw_first;
  }
}

// What chooses by a flag reads a flag, not the mean that a mask is in evaluation.
TEST(ImportRandom, FlagsOfDrawsChoose) {
  const auto graph_of = [](const std::function<void(OnnxModel&)>& choose) {
    OnnxModel m = WithDraw();
    Threshold(m, "p", .75);
    m.Node("Less", {"u", "p"}, {"flag"});
    choose(m);
    return Ops(Import(m.MeanLoss("y")).graph);
  };
  EXPECT_EQ(graph_of([](OnnxModel& m) {
              m.Node("Where", {"flag", "logits", "p"}, {"y"});
            }),
            "MatMul Add Random Less Where ReduceMean");
  EXPECT_EQ(
      graph_of([](OnnxModel& m) {
        m.Node("Not", {"flag"}, {"dropped"}).Node("Cast", {"dropped"}, {"mask"}, {Attr("to", int64_t{1})});
        m.Node("Mul", {"logits", "mask"}, {"y"});
      }),
      "MatMul Add Random Less Equal Cast Mul ReduceMean");
  // One reader of a flag, another of a number, in this order: the number is that of the same flag.
  EXPECT_EQ(
      graph_of([](OnnxModel& m) {
        m.Node("Cast", {"flag"}, {"mask"}, {Attr("to", int64_t{1})}).Node("Mul", {"logits", "mask"}, {"z"});
        m.Node("Where", {"flag", "z", "p"}, {"y"});
      }),
      "MatMul Add Random Less Cast Mul Where ReduceMean");
}

TEST(ImportRandom, MasksMayBeViewedBeforeTheyAreNumbers) {
  OnnxModel m = WithDraw();
  Threshold(m, "p", .75);
  m.Node("Less", {"u", "p"}, {"flag"})
      .Node("Identity", {"flag"}, {"view"})
      .Node("Cast", {"view"}, {"mask"}, {Attr("to", int64_t{1})})
      .Node("Mul", {"logits", "mask"}, {"y"})
      .MeanLoss("y");
  EXPECT_EQ(Count(Import(m).graph, "Dropout"), 1);
}

// As the dynamo exporter writes bernoulli_: the threshold is cast to the type of the numbers.
TEST(ImportRandom, WhatAsksForTheTypeReadsNoNumbers) {
  OnnxModel m = WithDraw();
  Threshold(m, "p", .75);
  m.Node("CastLike", {"p", "u"}, {"threshold"}).Node("Less", {"u", "threshold"}, {"flag"});
  m.Node("CastLike", {"flag", "logits"}, {"mask"}).Node("Mul", {"logits", "mask"}, {"y"}).MeanLoss("y");
  EXPECT_EQ(Count(Import(m).graph, "Dropout"), 1);
}

// A threshold that no number is below makes zeros, whose mean nothing could divide by.
TEST(ImportRandom, NoMaskIsAlwaysZero) {
  OnnxModel m = WithDraw();
  Threshold(m, "p", 0);
  m.Node("Less", {"u", "p"}, {"flag"}).Node("Cast", {"flag"}, {"mask"}, {Attr("to", int64_t{1})});
  m.Node("Mul", {"logits", "mask"}, {"y"}).MeanLoss("y");
  EXPECT_EQ(Ops(Import(m).graph), "MatMul Add Random Less Cast Mul ReduceMean");
}

TEST(ImportRandom, BernoulliOfData) {
  OnnxModel m = Linear();
  m.Node("Sigmoid", {"logits"}, {"share"})
      .Node("Bernoulli", {"share"}, {"chosen"})
      .Node("Mul", {"logits", "chosen"}, {"y"})
      .MeanLoss("y");
  EXPECT_EQ(Ops(Import(m).graph), "MatMul Add Sigmoid Random Less Cast Mul ReduceMean");
}

// The share of ones is known: as a factor it is a mask, and flags are drawn as flags.
TEST(ImportRandom, BernoulliOfAConstant) {
  for (const bool factor : {true, false}) {
    OnnxModel m = Linear();
    m.Weight("zero", {1});
    Threshold(m, "p", .75);
    m.Node("Shape", {"logits"}, {"extents"}).Node("Expand", {"p", "extents"}, {"share"});
    m.Node("Bernoulli", {"share"}, {"chosen"});
    if (factor) {
      m.Node("Mul", {"logits", "chosen"}, {"y"});
    } else {
      m.Node("Cast", {"chosen"}, {"flag"}, {Attr("to", int64_t{onnx::TensorProto::BOOL})});
      m.Node("Where", {"flag", "logits", "p"}, {"y"});
    }
    const ImportResult r = Import(m.MeanLoss("y"));
    EXPECT_EQ(Count(r.graph, "Dropout"), factor ? 1 : 0);
    EXPECT_EQ(Count(r.graph, "Random"), factor ? 0 : 1);
  }
}

TEST(ImportRandom, NormalNumbersOfAShape) {
  OnnxModel m = Linear();
  m.Node("RandomNormal", {}, {"z"},
         {Attr("shape", std::vector<int64_t>{1, 4}), Attr("mean", 2.0), Attr("scale", .5)});
  m.Node("Add", {"logits", "z"}, {"y"}).MeanLoss("y");
  const ImportResult r = Import(m);
  const Node* random = Find(r.graph, "Random");
  ASSERT_NE(random, nullptr);
  EXPECT_EQ(ToString(r.graph.value(random->outputs[0]).type), "f32[1,4]");
  EXPECT_EQ(random->attrs.String("distribution"), "normal");
  EXPECT_EQ(random->attrs.Float("offset"), 2);
  EXPECT_EQ(random->attrs.Float("scale"), .5);
}

TEST(ImportRandom, Refusals) {
  OnnxModel integers = Linear();
  integers.Node("RandomUniformLike", {"logits"}, {"u"}, {Attr("dtype", int64_t{onnx::TensorProto::INT64})});
  integers.Node("Add", {"logits", "u"}, {"y"}).MeanLoss("y");
  EXPECT_NE(ErrorOf(integers).find("draws numbers that are not floats"), std::string::npos)
      << ErrorOf(integers);
  OnnxModel empty = Linear();
  empty.Node("RandomUniformLike", {"logits"}, {"u"}, {Attr("low", 1.0), Attr("high", 1.0)});
  empty.Node("Add", {"logits", "u"}, {"y"}).MeanLoss("y");
  EXPECT_NE(ErrorOf(empty).find("low must be below high"), std::string::npos) << ErrorOf(empty);
}

}  // namespace
}  // namespace act
