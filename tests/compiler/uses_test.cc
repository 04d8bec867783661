// Uses: which node makes a value, and which nodes read it. ValueMap: tables by value.
#include "compiler/ir/uses.h"

#include <gtest/gtest.h>

#include "compiler/ops/graph_builder.h"
#include "tests/compiler/compiled_step.h"

namespace act {
namespace {

using testing_step::Take;

std::vector<size_t> ReadersOf(const Uses& uses, ValueId v) {
  return {uses.Readers(v).begin(), uses.Readers(v).end()};
}

// y = x + x; z = y - x; the outputs are z and y.
struct Diamond {
  Diamond() : b(graph) {
    x = b.Input("x", {DType::kFloat32, {4}}, ValueKind::kInput);
    y = Take(b.Add1("Add", {x, x}));
    z = Take(b.Add1("Sub", {y, x}));
    graph.outputs = {z, y};
  }
  Graph graph;
  GraphBuilder b;
  ValueId x, y, z;
};

TEST(Uses, NamesTheProducer) {
  const Diamond d;
  const Uses uses(d.graph);
  EXPECT_EQ(uses.Producer(d.x), -1) << "an input";
  EXPECT_EQ(uses.ProducerNode(d.x), nullptr);
  EXPECT_EQ(uses.Producer(d.z), 1);
  EXPECT_EQ(uses.ProducerNode(d.y), &d.graph.nodes[0]);
}

TEST(Uses, ListsAReaderOnceForEachOperandInOrder) {
  const Diamond d;
  const Uses uses(d.graph);
  EXPECT_EQ(ReadersOf(uses, d.x), (std::vector<size_t>{0, 0, 1}));
  EXPECT_EQ(ReadersOf(uses, d.y), (std::vector<size_t>{1}));
  EXPECT_EQ(ReadersOf(uses, d.z), (std::vector<size_t>{}));
}

TEST(Uses, CountsReadsOfTheGraphItself) {
  const Diamond d;
  const Uses uses(d.graph);
  EXPECT_FALSE(uses.IsOutput(d.x));
  EXPECT_TRUE(uses.IsOutput(d.y));
  EXPECT_EQ(uses.Reads(d.x), 3u);
  EXPECT_EQ(uses.Reads(d.y), 2u) << "a node and an output";
  EXPECT_EQ(uses.Reads(d.z), 1u);
}

TEST(Uses, TheOnlyReaderMayReadTwice) {
  Diamond d;
  EXPECT_EQ(Uses(d.graph).OnlyReader(d.y), -1) << "an output too";
  EXPECT_EQ(Uses(d.graph).OnlyReader(d.x), -1) << "two nodes";
  d.graph.outputs = {d.y};
  d.graph.nodes.pop_back();
  EXPECT_EQ(Uses(d.graph).OnlyReader(d.x), 0) << "under both operands";
  EXPECT_EQ(Uses(d.graph).OnlyReader(d.z), -1) << "nothing reads it";
}

TEST(Uses, DoesNotKnowWhatCameLater) {
  Diamond d;
  const Uses uses(d.graph);
  const ValueId later = Take(d.b.Add1("Neg", {d.y}));
  for (const ValueId v : {later, kNoValue}) {
    EXPECT_EQ(uses.Producer(v), -1);
    EXPECT_TRUE(uses.Readers(v).empty());
    EXPECT_FALSE(uses.IsOutput(v));
    EXPECT_EQ(uses.Reads(v), 0u);
  }
  EXPECT_EQ(ReadersOf(uses, d.y), (std::vector<size_t>{1}));
}

TEST(Uses, IndexesNodesThatAreKeptOutsideTheGraph) {
  Diamond d;
  const std::vector<Node> nodes = std::exchange(d.graph.nodes, {});
  const Uses uses(d.graph, nodes);
  EXPECT_EQ(uses.ProducerNode(d.z), &nodes[1]);
  EXPECT_EQ(ReadersOf(uses, d.y), (std::vector<size_t>{1}));
}

TEST(ValueMap, ReadsAsMissingWhatWasNeverWritten) {
  const Diamond d;
  ValueMap<int64_t> map(d.graph, 7);
  map[d.y] = 1;
  const ValueMap<int64_t>& read = map;
  EXPECT_EQ(read[d.x], 7);
  EXPECT_EQ(read[d.y], 1);
  EXPECT_EQ(read[kNoValue], 7);
  EXPECT_EQ(read[100], 7);
}

TEST(ValueMap, AnAbsentOperandChangesNoEntry) {
  const Diamond d;
  ValueMap<int64_t> map(d.graph, 7);
  map[d.y] = 1;
  EXPECT_EQ(map[kNoValue], 7);
  map[kNoValue] = 2;
  EXPECT_EQ(map[kNoValue], 7);
  EXPECT_EQ(map[d.y], 1);
}

TEST(ValueMap, GrowsWithTheGraph) {
  const Diamond d;
  ValueMap<bool> map(d.graph, true);
  map[d.z + 3] = false;
  const ValueMap<bool>& read = map;
  EXPECT_TRUE(read[d.z + 2]);
  EXPECT_FALSE(read[d.z + 3]);
  EXPECT_TRUE(read[d.z + 4]);
}

TEST(ValueMap, FollowsNewNumbers) {
  const Diamond d;
  ValueMap<int64_t> map(d.graph, 7);
  ValueMap<ValueId> number(d.graph, kNoValue);
  map[d.x] = 1;
  map[d.z] = 3;
  number[d.z] = 0;
  number[d.x] = 4;
  map.Renumber(number);
  const ValueMap<int64_t>& after = map;
  EXPECT_EQ(after[0], 3);
  EXPECT_EQ(after[4], 1);
  for (const ValueId v : {1, 2, 3, 5}) EXPECT_EQ(after[v], 7) << v;
}

}  // namespace
}  // namespace act
