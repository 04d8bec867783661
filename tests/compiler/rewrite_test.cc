// Passes that rewrite arithmetic change no number. Each test runs a graph before and after the
// pass.
#include <cmath>

#include "compiler/ir/dump.h"
#include "compiler/ir/verify.h"
#include "passes/pass_table.h"
#include "passes/planning/assign_storage.h"
#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using small_networks::Network;
using testing_step::Take;
using testing_step::Text;
using Outputs = std::vector<std::vector<float>>;

// Runs a graph of operators that a plan may run.
Outputs RunGraph(Graph graph, const testing_step::StepInputs& inputs, int64_t batch) {
  EXPECT_EQ(Text(Verify(graph, Stage::kFused)), "") << Dump(graph);
  Plan plan;
  plan.train = AssignStorage(std::move(graph), 0);
  return Take(testing_step::RunStep(plan, testing_step::CpuKernels(), inputs,
                                    {.batch = batch, .check_memory = true}));
}

// The largest difference, divided by the largest magnitude in all results.
double Difference(const Outputs& a, const Outputs& b) {
  double scale = 1e-6, worst = 0;
  EXPECT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].size(), b[i].size()) << "output " << i;
    for (size_t k = 0; k < std::min(a[i].size(), b[i].size()); ++k) {
      scale = std::fmax(scale, std::fabs(a[i][k]));
      worst = std::fmax(worst, std::fabs(static_cast<double>(a[i][k]) - b[i][k]));
      if (std::isnan(a[i][k]) != std::isnan(b[i][k])) return INFINITY;
    }
  }
  return worst / scale;
}

// Makes each elementwise node a loop of its own. Fusion must not change its results.
Graph FuseNothing(const Graph& graph) {
  Graph alone = graph;
  alone.nodes.clear();
  PassContext context;
  for (const Node& node : graph.nodes) {
    Graph one = graph;
    one.nodes = {node};
    one.outputs = node.outputs;
    EXPECT_EQ(Text(FuseLoops(one, context)), "");
    EXPECT_EQ(one.nodes.size(), 1u);
    alone.nodes.push_back(one.nodes[0]);
  }
  return alone;
}

int64_t CountOps(const Graph& graph, const std::string& op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [&op](const Node& n) { return n.op == op; });
}

class Rewrite : public ::testing::TestWithParam<unsigned> {};

// The training graph of a random network at this level, before fusion.
Graph TrainingGraph(ImportResult model, const std::string& level) {
  PassContext context;
  MarkTrained(context.marks, model.trainable);
  context.updates.optimizer = "none";
  context.policy = Take(MakePolicy(level, 0, 64));
  for (PassFunction pass :
       {CancelTransposes, LowerForTraining, EliminateCommonSubexpressions, EliminateDeadCode, AddGradients,
        EliminateCommonSubexpressions, EliminateDeadCode, Compress, EliminateDeadCode})
    EXPECT_EQ(Text(pass(model.graph, context)), "");
  return model.graph;
}

TEST_P(Rewrite, FusionChangesNoGradient) {
  constexpr int64_t kBatch = 3;
  Network network(GetParam());
  const Graph graph = TrainingGraph(network.Build(), "L0");
  const auto inputs = network.Inputs(graph, kBatch);
  Graph fused = graph;
  PassContext context;
  ASSERT_EQ(Text(RepeatCheapNodes(fused, context)), "");
  ASSERT_EQ(Text(FuseLoops(fused, context)), "");
  EXPECT_LT(fused.nodes.size(), graph.nodes.size());
  // The bits may differ. In one loop a product and a sum round once (multiply-add), in two loops
  // twice. Sums are also split in other places. Batch normalization over few elements magnifies
  // both differences.
  EXPECT_LE(Difference(RunGraph(FuseNothing(graph), inputs, kBatch), RunGraph(fused, inputs, kBatch)), 1e-3);
}

TEST_P(Rewrite, TheOrderOfNodesChangesNoBit) {
  constexpr int64_t kBatch = 3;
  for (const char* level : {"L0", "L3"}) {  // codes draw random numbers by stream, not by order
    Network network(GetParam());
    Graph before = TrainingGraph(network.Build(), level);
    const auto inputs = network.Inputs(before, kBatch);
    PassContext context;
    ASSERT_EQ(Text(FuseLoops(before, context)), "");
    Graph after = before;
    ASSERT_EQ(Text(ScheduleNodes(after, context)), "");
    EXPECT_EQ(after.nodes.size(), before.nodes.size());
    EXPECT_EQ(RunGraph(before, inputs, kBatch), RunGraph(after, inputs, kBatch)) << level;
  }
}

// A random forward graph on x [2, 3, 4, 5] with transposes and with every operator past which
// cancel-transposes moves them.
class AxisShuffle {
 public:
  explicit AxisShuffle(unsigned seed) : engine_(seed) {}

  Graph Build() {
    values_.push_back(Parameter({2, 3, 4, 5}));
    values_.push_back(Parameter({2, 3, 4, 5}));
    for (int i = 0; i < 14; ++i) values_.push_back(AddNode(values_[values_.size() - 1 - Draw(0, 1)]));
    graph_.outputs = {values_.back(), values_[values_.size() - 3]};
    return graph_;
  }

 private:
  size_t Draw(size_t low, size_t high) { return std::uniform_int_distribution<size_t>(low, high)(engine_); }
  ValueId Parameter(const Dims& dims) {
    const TensorType type{DType::kFloat32, dims};
    std::vector<float> data(static_cast<size_t>(type.Elements().fixed));
    for (float& v : data) v = std::uniform_real_distribution<float>(-1, 1)(engine_);
    return b_.Input("p" + std::to_string(graph_.values.size()), type, ValueKind::kParameter,
                    testing_step::HostFloats(data));
  }
  std::vector<int64_t> Perm(size_t rank) {
    std::vector<int64_t> perm(rank);
    for (size_t i = 0; i < rank; ++i) perm[i] = static_cast<int64_t>(i);
    std::shuffle(perm.begin(), perm.end(), engine_);
    return perm;
  }

  ValueId AddNode(ValueId x) {
    const Dims dims = b_.type(x).dims;
    const size_t rank = dims.size();
    if (rank < 2) return Take(b_.Add1("Mul", {x, Parameter({3, 1, 1})}));
    const size_t axis = Draw(0, rank - 1);
    Attributes attrs;
    switch (Draw(0, 14)) {
      case 0:
      case 1:
      case 2:
        return Take(b_.Transpose(x, Perm(rank)));
      case 3:
        return Take(b_.Add1("Tanh", {x}));
      case 4: {  // an operand that broadcasts: some extents are 1, some leading axes are missing
        Dims other(dims.begin() + static_cast<std::ptrdiff_t>(Draw(0, rank - 1)), dims.end());
        for (Dim& d : other)
          if (Draw(0, 1)) d = 1;
        return Take(b_.Add1("Sub", {Parameter(other), x}));
      }
      case 5: {  // another value of the same dims, whose axes may have been moved
        for (ValueId v : values_)
          if (v != x && b_.type(v).dims == dims) return Take(b_.Add1("Add", {x, v}));
        return Take(b_.Add1("Neg", {x}));
      }
      case 6:
        if (b_.type(x).Elements().fixed > 2000) return Take(b_.Add1("Relu", {x}));
        attrs.Set("axis", static_cast<int64_t>(axis));
        return Take(b_.Add1("Concat", {x, Parameter(dims), x}, attrs));
      case 7: {
        std::vector<int64_t> pads(2 * rank, 0);
        pads[axis] = 1;
        pads[axis + rank] = 2;
        attrs.Set("pads", pads);
        attrs.Set("value", .5);
        return Take(b_.Add1("Pad", {x}, attrs));
      }
      case 8: {
        std::vector<int64_t> starts(rank, 0), steps(rank, 1);
        Dims extents = dims;
        if (dims[axis].fixed > 1) {
          starts[axis] = dims[axis].fixed - 1;
          steps[axis] = -1;
          extents[axis] = dims[axis].fixed - 1;
        }
        return Take(b_.Slice(x, starts, extents, steps));
      }
      case 9:
      case 10: {  // two axes become one
        if (rank < 3) return Take(b_.Add1("Abs", {x}));
        Dims merged = dims;
        const size_t first = Draw(0, rank - 2);
        merged[first] = dims[first] * dims[first + 1];
        merged.erase(merged.begin() + static_cast<std::ptrdiff_t>(first + 1));
        return Take(b_.Reshape(x, merged));
      }
      case 11:
      case 12: {  // one axis becomes two
        Dims split = dims;
        for (int64_t factor : {2, 3, 5}) {
          if (dims[axis].fixed % factor != 0) continue;
          const bool in_front = Draw(0, 1) == 1;
          split[axis] = in_front ? dims[axis].fixed / factor : factor;
          split.insert(split.begin() + static_cast<std::ptrdiff_t>(axis),
                       in_front ? factor : dims[axis].fixed / factor);
          break;
        }
        return Take(b_.Reshape(x, split));
      }
      case 13:
        return Take(b_.Add1("MatMul", {x, Parameter({dims.back(), 3})}));
      default: {
        const char* ops[] = {"ReduceSum", "ReduceMean", "ReduceMax"};
        attrs.Set("axes", std::vector<int64_t>{static_cast<int64_t>(axis)});
        attrs.Set("keepdims", static_cast<int64_t>(Draw(0, 1)));
        return Take(b_.Add1(ops[Draw(0, 2)], {x}, attrs));
      }
    }
  }

  std::mt19937 engine_;
  Graph graph_;
  GraphBuilder b_{graph_};
  std::vector<ValueId> values_;
};

TEST_P(Rewrite, CancellingTransposesChangesNoNumber) {
  for (unsigned i = 0; i < 20; ++i) {
    const Graph graph = AxisShuffle(1000 * GetParam() + i).Build();
    Graph cancelled = graph;
    PassContext context;
    ASSERT_EQ(Text(CancelTransposes(cancelled, context)), "");
    ASSERT_EQ(Text(Verify(cancelled, Stage::kImported)), "") << Dump(graph) << Dump(cancelled);
    ASSERT_EQ(Text(EliminateDeadCode(cancelled, context)), "");
    Graph before = graph;
    ASSERT_EQ(Text(EliminateDeadCode(before, context)), "");
    ASSERT_EQ(Text(FuseLoops(before, context)), "");
    Graph after = cancelled;
    ASSERT_EQ(Text(FuseLoops(after, context)), "");
    // The elements are the same in another order, so only sums round differently.
    EXPECT_LE(Difference(RunGraph(before, {}, 1), RunGraph(after, {}, 1)), 1e-5)
        << Dump(graph) << Dump(cancelled);
  }
}

TEST(CancelTransposes, LeavesOneAtTheInputOfAConvolutionalNetwork) {
  Graph graph;
  GraphBuilder b(graph);
  const std::vector<int64_t> to_last{0, 2, 3, 1}, to_first{0, 3, 1, 2};
  ValueId x = b.Input("image", {DType::kFloat32, {Dim::Batch(), 3, 8, 8}}, ValueKind::kInput);
  Attributes window;
  window.Set("strides", std::vector<int64_t>{1, 1});
  window.Set("dilations", std::vector<int64_t>{1, 1});
  window.Set("pads", std::vector<int64_t>{1, 1, 1, 1});
  const auto conv = [&](ValueId v, int64_t in, int64_t out) {  // as the importer writes it
    const ValueId w = b.Input("w" + std::to_string(graph.values.size()), {DType::kFloat32, {out, in, 3, 3}},
                              ValueKind::kParameter);
    return Take(b.Transpose(Take(b.Add1("Conv", {Take(b.Transpose(v, to_last)), w}, window)), to_first));
  };
  x = Take(b.Add1("Relu", {conv(x, 3, 8)}));
  const ValueId shortcut = x;
  x = Take(b.Add1("Add", {Take(b.Add1("Relu", {conv(x, 8, 8)})), shortcut}));
  Attributes channels;
  channels.Set("axis", int64_t{1});
  x = conv(Take(b.Add1("Concat", {x, shortcut}, channels)), 16, 4);
  Attributes pooling;
  pooling.Set("axes", std::vector<int64_t>{2, 3});
  pooling.Set("keepdims", int64_t{0});
  graph.outputs = {Take(b.Add1("ReduceMean", {x}, pooling))};
  PassContext context;
  ASSERT_EQ(Text(CancelTransposes(graph, context)), "");
  EXPECT_EQ(CountOps(graph, "Transpose"), 1) << Dump(graph);
  EXPECT_EQ(Text(Verify(graph, Stage::kImported)), "");
}

// Transposes of either operand, with every combination of the product's own flags.
TEST(CancelTransposes, ProductsTakeMatricesEitherWayRound) {
  for (int bits = 0; bits < 16; ++bits) {
    const bool move_a = bits & 1, move_b = bits & 2, trans_a = bits & 4, trans_b = bits & 8;
    Graph graph;
    GraphBuilder b(graph);
    // The product is of [3,4] and [4,5]. An operand is stored transposed if either a Transpose or
    // the flag, but not both, transposes it.
    const auto operand = [&](bool flipped, int64_t rows, int64_t columns) {
      std::vector<float> values(static_cast<size_t>(2 * rows * columns));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(std::sin(i + 1.));
      if (flipped) std::swap(rows, columns);
      return b.Input("p" + std::to_string(graph.values.size()), {DType::kFloat32, {2, rows, columns}},
                     ValueKind::kParameter, testing_step::HostFloats(values));
    };
    ValueId x = operand(move_a != trans_a, 3, 4), y = operand(move_b != trans_b, 4, 5);
    if (move_a) x = Take(b.Transpose(x, {0, 2, 1}));
    if (move_b) y = Take(b.Transpose(y, {0, 2, 1}));
    Attributes flags;
    flags.Set("trans_a", int64_t{trans_a});
    flags.Set("trans_b", int64_t{trans_b});
    graph.outputs = {Take(b.Add1("MatMul", {x, y}, flags))};
    Graph cancelled = graph;
    PassContext context;
    ASSERT_EQ(Text(CancelTransposes(cancelled, context)), "");
    EXPECT_EQ(CountOps(cancelled, "Transpose"), 0) << Dump(cancelled);
    EXPECT_EQ(Text(Verify(cancelled, Stage::kImported)), "");
    EXPECT_LE(Difference(RunGraph(graph, {}, 1), RunGraph(cancelled, {}, 1)), 1e-6) << Dump(cancelled);
  }
}

// A Slice of (x W + b), of every second row from the first or from the second on, of samples or of columns.
TEST(SliceOperands, AProductMakesOnlyTheRowsThatAreRead) {
  enum class Case : uint8_t {
    kRows,
    kLaterRows,
    kTransposedWeight,
    kNarrow,
    kColumns,
    kReadElsewhere,
    kBatchOfWeights
  };
  for (const Case which : {Case::kRows, Case::kLaterRows, Case::kTransposedWeight, Case::kNarrow,
                           Case::kColumns, Case::kReadElsewhere, Case::kBatchOfWeights}) {
    SCOPED_TRACE(static_cast<int>(which));
    const bool moves = which <= Case::kTransposedWeight;
    const int64_t columns = which == Case::kNarrow ? 4 : 8;
    Graph graph;
    GraphBuilder b(graph);
    const auto operand = [&](Dims dims) {
      std::vector<float> values(512);
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(std::sin(3. * i + 1));
      values.resize(static_cast<size_t>(TensorType{DType::kFloat32, dims}.Elements().fixed));
      return b.Input("p" + std::to_string(graph.values.size()), {DType::kFloat32, std::move(dims)},
                     ValueKind::kParameter, testing_step::HostFloats(values));
    };
    const ValueId x = operand({3, 7, 5});
    const bool transposed = which == Case::kTransposedWeight;
    const ValueId w = operand(which == Case::kBatchOfWeights ? Dims{3, 5, columns}
                              : transposed                   ? Dims{columns, 5}
                                                             : Dims{5, columns});
    Attributes flags;
    flags.Set("trans_b", int64_t{transposed});
    const ValueId product = Take(b.Add1("MatMul", {x, w}, flags));
    const ValueId sum = Take(b.Add1("Add", {operand({columns}), product}));
    const bool of_columns = which == Case::kColumns;
    const ValueId slice = Take(b.Slice(sum, {0, which == Case::kLaterRows ? 1 : 0, of_columns ? 1 : 0},
                                       {3, 3, of_columns ? columns - 1 : columns}, {1, 2, 1}, "slice"));
    graph.outputs = {slice};
    if (which == Case::kReadElsewhere) graph.outputs.push_back(product);
    Graph sliced = graph;
    PassContext context;
    ASSERT_EQ(Text(SliceOperands(sliced, context)), "");
    EXPECT_EQ(Text(Verify(sliced, Stage::kImported)), "");
    EXPECT_EQ(sliced.nodes.front().op == "Slice", moves) << Dump(sliced);
    EXPECT_EQ(sliced.nodes.size(), graph.nodes.size());
    for (Graph* made : {&graph, &sliced}) ASSERT_EQ(Text(FuseLoops(*made, context)), "");
    EXPECT_LE(Difference(RunGraph(graph, {}, 1), RunGraph(sliced, {}, 1)), 1e-6) << Dump(sliced);
  }
}

TEST(FoldBias, TakesWhatEveryRowIsGivenIntoTheProductThatNothingElseReads) {
  struct Row {
    const char* name;
    Dims bias;
    bool read_twice;
    int sums;  // that remain
  };
  for (const auto& [name, bias, read_twice, sums] :
       {Row{"columns", {5}, false, 0}, Row{"columns, of more axes", {1, 1, 5}, false, 0},
        Row{"rows", {3, 1}, false, 1}, Row{"one number", {1}, false, 1}, Row{"all", {2, 3, 5}, false, 1},
        Row{"read twice", {5}, true, 1}}) {
    SCOPED_TRACE(name);
    Graph graph;
    GraphBuilder b(graph);
    const auto operand = [&](const Dims& dims) {
      const TensorType type{DType::kFloat32, dims};
      std::vector<float> values(static_cast<size_t>(type.Elements().fixed));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(std::sin(i + 1.));
      return b.Input("p" + std::to_string(graph.values.size()), type, ValueKind::kParameter,
                     testing_step::HostFloats(values));
    };
    const ValueId product = Take(b.Add1("MatMul", {operand({2, 3, 4}), operand({4, 5})}));
    graph.outputs = {Take(b.Add1("Add", {operand(bias), product}))};
    if (read_twice) graph.outputs.push_back(product);
    Graph folded = graph;
    PassContext context;
    ASSERT_EQ(Text(FoldBias(folded, context)), "");
    ASSERT_EQ(Text(EliminateDeadCode(folded, context)), "");
    EXPECT_EQ(CountOps(folded, "Add"), sums) << Dump(folded);
    EXPECT_EQ(CountOps(folded, "MatMul"), 1) << Dump(folded);
    EXPECT_EQ(Text(Verify(folded, Stage::kImported)), "");
    for (Graph* g : {&graph, &folded}) ASSERT_EQ(Text(FuseLoops(*g, context)), "");
    EXPECT_LE(Difference(RunGraph(graph, {}, 1), RunGraph(folded, {}, 1)), 1e-6) << Dump(folded);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Rewrite, ::testing::Range(0u, 8u));

}  // namespace
}  // namespace act
