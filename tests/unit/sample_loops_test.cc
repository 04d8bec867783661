#include "runtime/plan/sample_loops.h"

#include <gtest/gtest.h>

namespace act {
namespace {

TEST(TileSamples, IsAPartOfTheBatch) {
  const SampleLoop loop{0, 1, 16, 8};
  EXPECT_EQ(TileSamples(loop, 1), 1);
  EXPECT_EQ(TileSamples(loop, 7), 7);
  EXPECT_EQ(TileSamples(loop, 16), 8);
  EXPECT_EQ(TileSamples(loop, 128), 8);
  EXPECT_EQ(TileSamples(loop, 129), 9);
  EXPECT_EQ(TileSamples(loop, 512), 32);
}

// What one layout holds, a smaller last batch must find room in.
TEST(TileSamples, GrowsWithTheBatch) {
  for (const SampleLoop& loop : {SampleLoop{0, 1, 16, 8}, SampleLoop{0, 1, 3, 1}, SampleLoop{0, 1, 1, 1}})
    for (int64_t n = 1; n < 600; ++n) EXPECT_LE(TileSamples(loop, n), TileSamples(loop, n + 1)) << n;
}

TEST(TileRoleOf, TellsSamplesFromWhatIsTheSame) {
  const auto role = [](Dims dims) { return TileRoleOf({DType::kFloat32, std::move(dims)}); };
  EXPECT_EQ(role({Dim::Batch(), 3}), TileRole::kSlice);
  EXPECT_EQ(role({Dim(0, 12), 3}), TileRole::kSlice);
  EXPECT_EQ(role({3, 4}), TileRole::kSame);
  EXPECT_EQ(role({}), TileRole::kSame);
  EXPECT_EQ(role({3, Dim::Batch()}), TileRole::kNone);             // time first
  EXPECT_EQ(role({Dim(1, 1), 3}), TileRole::kNone);                // a class token in front
  EXPECT_EQ(role({Dim::Batch(), Dim::Batch()}), TileRole::kNone);  // similarities
  EXPECT_EQ(role({Dim(0, 0, 1)}), TileRole::kNone);
}

// x [N,4], weights [4,5] -> y [N,5], and the gradient of the weights [4,5] of x and y.
struct Products {
  Products() {
    Add({Dim::Batch(), 4});
    Add({4, 5});
    Add({Dim::Batch(), 5});
    Add({4, 5});
    step.graph.values[0].kind = ValueKind::kInput;
    step.graph.values[1].kind = ValueKind::kParameter;
    step.graph.inputs = {0};
    Node forward, gradient;
    forward.op = gradient.op = "MatMul";
    forward.name = "forward";
    gradient.name = "gradient";
    forward.inputs = {0, 1};
    forward.outputs = {2};
    gradient.inputs = {0, 2};
    gradient.outputs = {3};
    gradient.attrs.Set("trans_a", int64_t{1});
    step.graph.nodes = {forward, gradient};
    step.graph.outputs = {3};
    step.graph.loops = {{0, 2, 16, 8}};
  }
  void Add(Dims dims) {
    Value value;
    value.type = {DType::kFloat32, std::move(dims)};
    value.name = std::to_string(step.storages);
    step.graph.values.push_back(value);
    step.storage_of.push_back(step.storages++);
  }
  StepGraph step;
};

TEST(LoopOfValues, IsOfWhatNothingElseKnows) {
  Products products;
  EXPECT_EQ(LoopOfValues(products.step.graph), (std::vector<int32_t>{-1, -1, 0, -1}));
  products.step.graph.outputs = {3, 2};
  EXPECT_EQ(LoopOfValues(products.step.graph), (std::vector<int32_t>{-1, -1, -1, -1}));
  products.step.graph.outputs = {3};
  products.step.graph.loops = {{0, 1, 16, 8}, {1, 2, 16, 8}};
  EXPECT_EQ(LoopOfValues(products.step.graph), (std::vector<int32_t>{-1, -1, -1, -1}));
}

// y, and y in another shape, which is what the gradient of the weights reads.
TEST(LoopOfValues, IsThatOfAllShapesOfAValue) {
  Products products;
  Graph& graph = products.step.graph;
  products.Add({Dim::Batch(), 5});
  Node reshape;
  reshape.op = "Reshape";
  reshape.inputs = {2};
  reshape.outputs = {4};
  graph.nodes[1].inputs = {0, 4};
  graph.nodes.insert(graph.nodes.begin() + 1, reshape);
  graph.loops = {{0, 3, 16, 8}};
  EXPECT_EQ(LoopOfValues(graph), (std::vector<int32_t>{-1, -1, 0, -1, 0}));
  // Y lives on, though nothing behind the loop reads it by that name.
  graph.loops = {{0, 2, 16, 8}};
  EXPECT_EQ(LoopOfValues(graph), (std::vector<int32_t>{-1, -1, -1, -1, -1}));
}

TEST(CheckLoops, TakesWhatRunsInTiles) { EXPECT_EQ(CheckLoops(Products().step), std::nullopt); }

TEST(CheckLoops, RefusesWhatDoesNot) {
  const auto wrong = [](const auto& damage) {
    Products products;
    damage(products.step);
    return CheckLoops(products.step).value_or("");
  };
  for (const SampleLoop& loop : {SampleLoop{-1, 2, 2, 1}, SampleLoop{0, 3, 2, 1}, SampleLoop{1, 1, 2, 1}})
    EXPECT_NE(wrong([&](StepGraph& s) { s.graph.loops = {loop}; }), "") << loop.first << " " << loop.last;
  for (const SampleLoop& loop :
       {SampleLoop{0, 2, 0, 1}, SampleLoop{0, 2, kMostTiles + 1, 1}, SampleLoop{0, 2, 2, 0}})
    EXPECT_NE(wrong([&](StepGraph& s) { s.graph.loops = {loop}; }), "") << loop.tiles;
  EXPECT_NE(wrong([](StepGraph& s) { s.graph.loops = {{0, 2, 2, 1}, {1, 2, 2, 1}}; }), "") << "they overlap";
  EXPECT_NE(wrong([](StepGraph& s) { s.graph.nodes[0].mutates = {1}; }), "");
  EXPECT_NE(wrong([](StepGraph& s) { s.graph.nodes[0].op = "BatchNormStats"; }), "");
  EXPECT_NE(wrong([](StepGraph& s) { s.graph.nodes[0].inputs = {1, 1}; }), "") << "no samples";
  EXPECT_NE(wrong([](StepGraph& s) { s.graph.nodes[1].attrs.Set("trans_a", int64_t{0}); }), "") << "no sum";
  EXPECT_NE(wrong([](StepGraph& s) { s.graph.nodes[1].inputs.push_back(3); }), "") << "a bias once a tile";
  EXPECT_NE(wrong([](StepGraph& s) { s.storage_of[2] = s.storage_of[0]; }), "") << "a tile in a whole tensor";
  // The sum is read by a node of the same loop.
  EXPECT_NE(wrong([](StepGraph& s) {
              Node reader = s.graph.nodes[0];
              reader.inputs = {0, 3};
              s.graph.values.push_back(s.graph.values[2]);
              s.storage_of.push_back(s.storages++);
              reader.outputs = {4};
              s.graph.nodes.push_back(reader);
              s.graph.loops = {{0, 3, 2, 1}};
            }),
            "");
}

}  // namespace
}  // namespace act
