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

// A smaller last batch must find room in the layout of the full batch.
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

// y, and y in another shape, which the gradient of the weights reads.
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
  // y is still live, although nothing after the loop reads it under that name.
  graph.loops = {{0, 2, 16, 8}};
  EXPECT_EQ(LoopOfValues(graph), (std::vector<int32_t>{-1, -1, -1, -1, -1}));
}

TEST(GoesOn, IsOfSumsThatKernelsAddTo) {
  const Products products;
  const Graph& graph = products.step.graph;
  EXPECT_FALSE(GoesOn(graph, graph.nodes[0])) << "its result has samples";
  EXPECT_TRUE(GoesOn(graph, graph.nodes[1]));
  EXPECT_FALSE(IsSumOfTiles(graph, graph.nodes[1], 3)) << "no part of a tile exists";
  Node convolution = graph.nodes[1];
  convolution.op = "ConvGradWeight";
  EXPECT_FALSE(GoesOn(graph, convolution));
  EXPECT_TRUE(IsSumOfTiles(graph, convolution, 3));
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
  EXPECT_NE(wrong([](StepGraph& s) { s.graph.values[3].type.dtype = DType::kBFloat16; }), "")
      << "a sum that is rounded once a tile";
  EXPECT_NE(wrong([](StepGraph& s) { s.storage_of[2] = s.storage_of[0]; }), "") << "a tile in a whole tensor";
  // A node of the same loop reads the sum.
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

TEST(TokenType, CutsTheFirstAxisOfASample) {
  const auto dims = [](Dims d, int64_t tokens) {
    const std::optional<TensorType> type = TokenType({DType::kFloat32, std::move(d)}, tokens);
    return type ? type->dims : Dims{};
  };
  EXPECT_EQ(dims({Dim::Batch(), 6, 4}, 6), (Dims{Dim::Batch(), 1, 4}));
  EXPECT_EQ(dims({Dim(0, 6), 4}, 6), (Dims{Dim::Batch(), 4}));
  EXPECT_EQ(dims({Dim(0, 12), 4}, 6), (Dims{Dim(0, 2), 4}));
  EXPECT_EQ(dims({6, 4}, 6), (Dims{6, 4})) << "the same for all samples";
  EXPECT_EQ(dims({Dim::Batch(), 4, 6}, 6), Dims{}) << "the tokens are another axis";
  EXPECT_EQ(dims({Dim::Batch()}, 6), Dims{});
  EXPECT_EQ(dims({Dim(0, 9), 4}, 6), Dims{});
  EXPECT_EQ(dims({Dim(6, 6), 4}, 6), Dims{});
}

TEST(TileSamples, OfTokensArePartsOfAllTokens) {
  const SampleLoop loop{0, 1, 4, 3, 10};
  EXPECT_EQ(LoopSamples(loop, 2), 20);
  EXPECT_EQ(TileSamples(loop, 2), 5);
  EXPECT_EQ(TileSamples(loop, 1), 3);
  EXPECT_TRUE(HasTiles(loop, 1));
}

// Codes and random numbers begin anew with each token of a long sample.
TEST(WhyNotTileable, TakesCodesOfTokens) {
  const auto why = [](const Dims& dims, int64_t tokens) {
    const Codec codec = Codec::Uniform(3, 256, Rounding::kDither);
    Graph graph;
    graph.values.resize(2);
    graph.values[0].type = {DType::kFloat32, dims};
    graph.values[1].type = *CodeType(codec, dims);
    Node node;
    node.op = "Fused";
    node.inputs = {0};
    node.outputs = {1};
    node.program.space = dims;
    node.program.inputs.resize(1);
    node.program.instrs = {{Opcode::kDropout, 0, -1, -1, .5f, 1}};
    node.program.outputs = {{OutputKind::kEncode, 1, codec, 2}};
    return WhyNotTileable(graph, node, tokens).value_or("");
  };
  EXPECT_EQ(why({Dim::Batch(), 2048, 512}, 2048), "");
  EXPECT_EQ(why({Dim::Batch(), 2048, 2, 256}, 2048), "");
  EXPECT_EQ(why({Dim(0, 6), 4}, 6), "") << "samples of the space are tokens";
  EXPECT_EQ(why({Dim(0, 12), 4}, 6), "") << "a token has two of them";
  EXPECT_NE(why({Dim::Batch(), 2047, 512}, 2047), "");
  EXPECT_NE(why({Dim::Batch(), 2048, 511}, 2048), "");
  EXPECT_NE(why({Dim(0, 6), 2048, 512}, 12 * 2048), "");
}

// y [N,6,5] = x [N,6,4] w, with one thing changed at a time.
TEST(WhyNotTileable, SaysWhatMixesTokens) {
  const auto why = [](const auto& change) {
    Products products;
    Graph& graph = products.step.graph;
    graph.values[0].type.dims = {Dim::Batch(), 6, 4};
    graph.values[2].type.dims = {Dim::Batch(), 6, 5};
    change(graph, graph.nodes[0]);
    EXPECT_EQ(WhyNotTileable(graph, graph.nodes[0]), std::nullopt) << "in tiles of samples";
    return WhyNotTileable(graph, graph.nodes[0], 6).value_or("");
  };
  EXPECT_EQ(why([](Graph&, Node&) {}), "");
  EXPECT_NE(why([](Graph& g, Node&) { g.values[2].type.dims = {Dim::Batch(), 7, 5}; }), "") << "other tokens";
  EXPECT_NE(why([](Graph&, Node& n) { n.attrs.Set("trans_a", int64_t{1}); }), "") << "sums over tokens";
  EXPECT_NE(why([](Graph& g, Node&) { g.values[1].type.dims = {Dim::Batch(), 4, 5}; }), "") << "own factors";
  EXPECT_NE(why([](Graph& g, Node& n) {
              g.values[3].type.dims = {6, 5};
              n.inputs.push_back(3);
            }),
            "")
      << "a bias of each token";
  EXPECT_NE(why([](Graph& g, Node& n) {
              n.op = "MaxPool";
              n.inputs = {0};
              g.values[2].type.dims = g.values[0].type.dims;
            }),
            "")
      << "windows of tokens";

  // The same of loops: space [N,6,4].
  const auto why_loop = [&](const auto& change) {
    return why([&](Graph& g, Node& n) {
      n.op = "Fused";
      n.inputs = {0};
      g.values[2].type.dims = g.values[0].type.dims;
      n.program.space = g.values[0].type.dims;
      n.program.inputs.resize(1);
      n.program.outputs = {{OutputKind::kStore, 0, {}, 0}};
      change(g, n);
    });
  };
  EXPECT_EQ(why_loop([](Graph&, Node&) {}), "");
  const auto add_operand = [](const Dims& dims) {
    return [dims](Graph& g, Node& n) {
      g.values[3].type.dims = dims;
      n.inputs.push_back(3);
      n.program.inputs.resize(2);
    };
  };
  EXPECT_EQ(why_loop(add_operand({4})), "");
  EXPECT_EQ(why_loop(add_operand({1, 4})), "");
  EXPECT_NE(why_loop(add_operand({6, 4})), "") << "positions";
  EXPECT_NE(why_loop(add_operand({Dim::Batch(), 1, 4})), "") << "the same for a sample's tokens";
  EXPECT_EQ(why_loop([](Graph&, Node& n) { n.program.row_axes = 1; }), "");
  EXPECT_NE(why_loop([](Graph&, Node& n) { n.program.row_axes = 2; }), "") << "rows of a sample";
  EXPECT_NE(why_loop([](Graph&, Node& n) {
              n.program.instrs = {{Opcode::kDropout, 0, -1, -1, .5f, 1}};
            }),
            "");
  EXPECT_NE(
      why_loop([](Graph&, Node& n) { n.program.inputs[0].codec = Codec::Uniform(2, 64, Rounding::kDither); }),
      "");
  EXPECT_NE(why_loop([](Graph& g, Node& n) {
              n.program.outputs[0] = {OutputKind::kEncode, 0, Codec::Mask(), 1};
              g.values[2].type = *CodeType(Codec::Mask(), n.program.space);
            }),
            "")
      << "a code of a sample of few tokens";
  const auto sum_to = [](const Dims& dims) {
    return [dims](Graph& g, Node& n) {
      g.values[2].type.dims = dims;
      n.program.outputs[0].kind = OutputKind::kSum;
    };
  };
  EXPECT_EQ(why_loop(sum_to({4})), "");
  EXPECT_NE(why_loop(sum_to({6, 4})), "") << "a sum for each token";
  EXPECT_EQ(why_loop([](Graph&, Node& n) { n.program.constants = {{1, Dim(0, 6)}}; }), "");
  EXPECT_NE(why_loop([](Graph&, Node& n) {
              n.program.constants = {{1, Dim(0, 1)}};
            }),
            "")
      << "counts samples";
}

// A node that reads x and makes y. What it needs to run for some samples, and for some of 6 tokens of a sample.
TEST(WhyNotTileable, SaysWhichRowsHoldSeveralSamplesOrTokens) {
  struct Answer {
    bool samples, tokens;
    bool operator==(const Answer&) const = default;
  };
  const auto may_run = [](const std::string& op, const Dims& x, const Dims& y, std::vector<int64_t> axes) {
    Products products;
    Graph& graph = products.step.graph;
    graph.values[0].type.dims = x;
    graph.values[2].type.dims = y;
    Node& node = graph.nodes[0];
    node.op = op;
    node.inputs = {0};
    if (!axes.empty()) node.attrs.Set("axes", std::move(axes));
    return Answer{!WhyNotTileable(graph, node), !WhyNotTileable(graph, node, 6)};
  };
  const Dim n = Dim::Batch();
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax"}) {
    SCOPED_TRACE(op);
    EXPECT_EQ(may_run(op, {n, 6, 4}, {n, 6, 1}, {2}), (Answer{true, true}));
    EXPECT_EQ(may_run(op, {n, 6, 4}, {n, 6}, {2}), (Answer{true, true}));
    EXPECT_EQ(may_run(op, {Dim(0, 6), 4}, {Dim(0, 6)}, {1}), (Answer{true, true}));
    EXPECT_EQ(may_run(op, {n, 6}, {n}, {1}), (Answer{true, false})) << "a row of all tokens";
    EXPECT_EQ(may_run(op, {n, 6, 6}, {n, 6}, {1}), (Answer{false, false})) << "over tokens";
    EXPECT_EQ(may_run(op, {n, 6, 4}, {6, 4}, {0}), (Answer{false, false})) << "over samples";
    EXPECT_EQ(may_run(op, {n, 6, 4}, {n}, {1, 2}), (Answer{false, false}));
    EXPECT_EQ(may_run(op, {n}, {}, {0}), (Answer{false, false}));
  }
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    SCOPED_TRACE(op);
    EXPECT_EQ(may_run(op, {n, 6, 4}, {n, 6, 4}, {}), (Answer{true, true}));
    EXPECT_EQ(may_run(op, {Dim(0, 6), 4}, {Dim(0, 6), 4}, {}), (Answer{true, true}));
    EXPECT_EQ(may_run(op, {n, 6}, {n, 6}, {}), (Answer{true, false})) << "a row of all tokens";
    EXPECT_EQ(may_run(op, {n}, {n}, {}), (Answer{false, false})) << "a row of all samples";
  }
}

}  // namespace
}  // namespace act
