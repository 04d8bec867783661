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

// A mask draws numbers of its own, so it cannot stand beside the numbers.
TEST(ImportRandom, NumbersAndAMaskOfThem) {
  for (const bool numbers_first : {true, false}) {
    OnnxModel m = WithDraw();
    Threshold(m, "p", .75);
    if (numbers_first) m.Node("Mul", {"logits", "u"}, {"a"});
    m.Node("Less", {"u", "p"}, {"keep"}).Node("Cast", {"keep"}, {"mask"}, {Attr("to", int64_t{1})});
    if (!numbers_first) m.Node("Mul", {"logits", "u"}, {"a"});
    m.Node("Mul", {"a", "mask"}, {"y"}).MeanLoss("y");
    if (numbers_first) {
      const ImportResult r = Import(m);
      EXPECT_EQ(Count(r.graph, "Random"), 1);
      EXPECT_EQ(Count(r.graph, "Dropout"), 0);
    } else {
      EXPECT_NE(ErrorOf(m).find("are read once more"), std::string::npos) << ErrorOf(m);
    }
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
