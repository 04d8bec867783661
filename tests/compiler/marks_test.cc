// If a pass replaces a value, what is known of it moves on to the new value: that it is the loss,
// that it trains, that it is stored for an edge, and what storage passes note.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "compiler/ir/replace.h"
#include "compiler/ir/uses.h"
#include "compiler/ops/graph_builder.h"
#include "passes/pass_table.h"
#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using testing_step::Take;
using testing_step::Text;

// The marks as text.
std::string Describe(const ValueMarks& marks) {
  std::string text = "trained " + std::to_string(marks.trained) + ", edges";
  for (const int32_t edge : marks.edges) text += " " + std::to_string(edge);
  for (const auto& [name, set] : {std::pair{"statistic", marks.statistic},
                                  {"anchor", marks.anchor},
                                  {"kept finely", marks.kept_finely},
                                  {"rebuilt from", marks.rebuilt_from},
                                  {"low frequency", marks.low_frequency},
                                  {"range code", marks.range_code},
                                  {"from product input", marks.from_product_input}})
    if (set) text += std::string(", ") + name;
  for (const std::string& node : marks.computed) text += ", computes " + node;
  return text;
}

const ValueMarks kAll{.trained = 2,
                      .edges = {0, 3},
                      .statistic = true,
                      .anchor = true,
                      .kept_finely = true,
                      .rebuilt_from = true,
                      .low_frequency = true,
                      .range_code = true,
                      .from_product_input = true,
                      .computed = {"conv"}};

struct Model {
  Model() : b(graph) { x = b.Input("x", {DType::kFloat32, {Dim::Batch(), 8}}, ValueKind::kInput); }
  ValueId Op(const char* op, std::vector<ValueId> inputs, Attributes attrs = {}) {
    return Take(b.Add1(op, std::move(inputs), std::move(attrs)));
  }
  Graph graph;
  GraphBuilder b;
  PassContext context;
  Marks& marks = context.marks;
  ValueId x;
};

TEST(Replacements, HandOnEveryMarkAndEveryOutput) {
  Model m;
  const ValueId a = m.Op("Neg", {m.x}), c = m.Op("Exp", {m.x});
  m.marks[a] = kAll;
  m.graph.outputs = {a, m.x, a};
  Replacements(m.graph, m.marks).Replace(a, c);
  EXPECT_EQ(Describe(m.marks[c]), Describe(kAll));
  EXPECT_EQ(Describe(m.marks[a]), Describe({}));
  EXPECT_EQ(m.graph.outputs, (std::vector<ValueId>{c, m.x, c}));
}

TEST(Replacements, KeepWhatTheOtherValueIs) {
  Model m;
  const ValueId a = m.Op("Neg", {m.x}), c = m.Op("Exp", {m.x});
  m.marks[a].edges = {1};
  m.marks[c].edges = {0};
  m.marks[c].anchor = true;
  Replacements(m.graph, m.marks).Replace(a, c);
  EXPECT_EQ(Describe(m.marks[c]), "trained -1, edges 0 1, anchor");
  EXPECT_EQ(StoredValues(m.marks, 3), (std::vector<ValueId>{c, c, kNoValue}));
}

TEST(Replacements, FollowChains) {
  Model m;
  const ValueId a = m.Op("Neg", {m.x}), c = m.Op("Exp", {m.x}), d = m.Op("Abs", {m.x});
  m.marks[a].statistic = true;
  m.graph.outputs = {a};
  Replacements replacements(m.graph, m.marks);
  replacements.Replace(a, c);
  replacements.Replace(c, d);
  Node reader;
  reader.inputs = {a, kNoValue, c};
  replacements.Update(reader);
  EXPECT_EQ(reader.inputs, (std::vector<ValueId>{d, kNoValue, d}));
  EXPECT_EQ(m.graph.outputs, (std::vector<ValueId>{d}));
  EXPECT_TRUE(m.marks[d].statistic);
}

TEST(Marks, GiveTheTrainedParametersInTheirOrder) {
  Model m;
  std::vector<ValueId> parameters;
  for (const char* name : {"p", "frozen", "q"})
    parameters.push_back(m.b.Input(name, {DType::kFloat32, {8}}, ValueKind::kParameter));
  MarkTrained(m.marks, {parameters[2], parameters[0]});
  EXPECT_EQ(TrainedParameters(m.marks), (std::vector<ValueId>{parameters[2], parameters[0]}));
}

// ---- Passes that replace a value by another

TEST(Marks, FollowTheFirstOfTwoEqualNodes) {
  Model m;
  const ValueId first = m.Op("Tanh", {m.x}), second = m.Op("Tanh", {m.x});
  m.marks[second].statistic = true;
  m.marks[second].edges = {0};
  m.graph.outputs = {second};
  ASSERT_EQ(Text(EliminateCommonSubexpressions(m.graph, m.context)), "");
  EXPECT_EQ(m.graph.outputs, (std::vector<ValueId>{first}));
  EXPECT_EQ(Describe(m.marks[first]), "trained -1, edges 0, statistic");
}

TEST(Marks, FollowALoweredNormalization) {
  Model m;
  Attributes rows;
  rows.Set("axes", std::vector<int64_t>{1});
  const ValueId norm = m.Op("LayerNorm", {m.x}, rows);
  m.marks[norm].anchor = true;
  m.graph.outputs = {norm};
  ASSERT_EQ(Text(LowerLayerNorm(m.graph, m.context)), "");
  const Node& apply = m.graph.nodes.back();
  ASSERT_EQ(apply.op, "LayerNormApply");
  EXPECT_EQ(m.graph.outputs, apply.outputs);
  EXPECT_TRUE(m.marks[apply.outputs[0]].anchor);
}

TEST(Marks, FollowWhatTwoLoopsMadeTwice) {
  Model m;
  const ValueId a = m.Op("Neg", {m.x}), c = m.Op("Neg", {m.x});
  const ValueId sum = m.Op("Add", {a, c});
  Attributes transposed;
  transposed.Set("trans_a", int64_t{1});
  const ValueId product = m.Op("MatMul", {sum, sum}, transposed), other = m.Op("MatMul", {a, c}, transposed);
  m.graph.outputs = {product, other};
  m.marks[a].edges = {0};
  m.marks[c].edges = {1};
  ASSERT_EQ(Text(FuseLoops(m.graph, m.context)), "");
  const std::vector<ValueId> stored = StoredValues(m.marks, 2);
  EXPECT_EQ(stored[0], stored[1]) << "one loop makes the same tensor once";
  EXPECT_EQ(m.graph.nodes.back().inputs, stored);
}

TEST(Marks, FollowTheNewNumbersOfValues) {
  Model m;
  m.b.Input("unused", {DType::kFloat32, {8}}, ValueKind::kParameter);
  const ValueId p = m.b.Input("p", {DType::kFloat32, {8}}, ValueKind::kParameter);
  const ValueId y = m.Op("Add", {m.x, p});
  MarkTrained(m.marks, {p});
  m.marks[y].edges = {0};
  m.graph.outputs = {y};
  StepGraph step;
  step.graph = m.graph;
  ASSERT_EQ(Text(AssignStorage(step, m.context)), "");
  const std::vector<ValueId> trained = TrainedParameters(m.marks);
  ASSERT_EQ(trained.size(), 1u);
  EXPECT_NE(trained[0], p) << "nothing was renumbered";
  EXPECT_EQ(step.graph.value(trained[0]).name, "p");
  EXPECT_EQ(StoredValues(m.marks, 1), step.graph.outputs);
}

// ---- The pipeline

// Compiles whole networks and verifies them after each pass. Each edge of the plan is a value of
// its own, of the edge's size.
TEST(Marks, FollowThroughAllPasses) {
  for (const char* level : {"L0", "L3", "L4", "division", "blpa"})
    for (const unsigned seed : {1U, 2U, 3U}) {
      small_networks::Network network(seed);
      const Plan plan = Take(Compile(network.Build(), testing_step::Checked(level, "sgd")));
      const Graph& graph = plan.train.graph;
      const Uses uses(graph);
      std::set<ValueId> stored;
      for (const SavedEdge& edge : plan.edges) {
        EXPECT_TRUE(stored.insert(edge.stored).second) << edge.name;
        const Node* maker = uses.ProducerNode(edge.stored);
        ASSERT_TRUE(maker) << edge.name;
        EXPECT_EQ(maker->phase, Phase::kForward) << edge.name;
        EXPECT_EQ(graph.value(edge.stored).type.Bytes(), edge.bytes) << edge.name;
      }
      EXPECT_FALSE(stored.empty());
    }
}

}  // namespace
}  // namespace act
