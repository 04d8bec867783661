// Which gradients of slices become one Concat. op_gradient_test checks numbers, on a tensor that is read half by half.
#include <algorithm>
#include <string>
#include <vector>

#include "compiler/ir/verify.h"
#include "compiler/ops/graph_builder.h"
#include "passes/pass_table.h"
#include "tests/compiler/compiled_step.h"

namespace act {
namespace {

using testing_step::Take;
using testing_step::Text;
using Ints = std::vector<int64_t>;

const TensorType kWhole{DType::kFloat32, {Dim::Batch(), 8, 6}};

// Sums of gradients of slices of one tensor.
struct Sums {
  Sums() { b.SetPhase(Phase::kBackward); }
  ValueId Input(const Dims& dims) { return b.Input("", {DType::kFloat32, dims}, ValueKind::kInput); }
  ValueId Place(const Dims& part, Ints starts, Ints steps = {1, 1, 1}) {
    Attributes attrs;
    attrs.Set("starts", std::move(starts));
    attrs.Set("steps", std::move(steps));
    return Take(b.AddTyped("SliceGrad", {Input(part)}, kWhole, attrs, "place"));
  }
  ValueId Rows(int64_t first, int64_t count) { return Place({Dim::Batch(), count, 6}, {0, first, 0}); }
  ValueId Add(ValueId x, ValueId y) { return Take(b.Add1("Add", {x, y}, {}, "sum")); }

  // The operators after the pass.
  std::string Joined(std::vector<ValueId> outputs) {
    graph.outputs = std::move(outputs);
    PassContext context;
    EXPECT_EQ(Text(JoinSlices(graph, context)), "");
    EXPECT_EQ(Text(Verify(graph, Stage::kImported)), "");
    std::string ops;
    for (const Node& node : graph.nodes) ops += (ops.empty() ? "" : " ") + node.op;
    return ops;
  }
  Ints OperandsOf(const std::string& op) const {
    const auto node =
        std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return n.op == op; });
    return node == graph.nodes.end() ? Ints{} : Ints(node->inputs.begin(), node->inputs.end());
  }

  Graph graph;
  GraphBuilder b{graph};
};

TEST(JoinSlices, PartsThatAreTheWholeBecomeOneConcat) {
  Sums s;
  const ValueId last = s.Rows(5, 3), first = s.Rows(0, 2), middle = s.Rows(2, 3);
  const ValueId sum = s.Add(s.Add(last, first), middle);
  const Ints parts{s.graph.nodes[1].inputs[0], s.graph.nodes[2].inputs[0], s.graph.nodes[0].inputs[0]};
  EXPECT_EQ(s.Joined({sum}), "Concat");
  EXPECT_EQ(s.OperandsOf("Concat"), parts) << "in the order of their places";
  EXPECT_EQ(s.graph.nodes[0].attrs.Int("axis"), 1);
  EXPECT_EQ(s.graph.nodes[0].outputs, std::vector{sum});
}

TEST(JoinSlices, OtherSummandsAreAddedToIt) {
  Sums s;
  const ValueId x = s.Input(kWhole.dims), y = s.Input(kWhole.dims);
  const ValueId sum = s.Add(s.Add(x, s.Rows(0, 4)), s.Add(y, s.Rows(4, 4)));
  EXPECT_EQ(s.Joined({sum}), "Concat Add Add");
  EXPECT_EQ(s.OperandsOf("Add")[0], x) << "in their order";
}

TEST(JoinSlices, TwoTensorsOfOneSumAreJoinedEach) {
  Sums s;
  const ValueId columns =
      s.Add(s.Place({Dim::Batch(), 8, 2}, {0, 0, 0}), s.Place({Dim::Batch(), 8, 4}, {0, 0, 2}));
  EXPECT_EQ(s.Joined({s.Add(columns, s.Add(s.Rows(0, 4), s.Rows(4, 4)))}), "Concat Concat Add");
}

TEST(JoinSlices, WhatIsLeftOverStaysASummand) {
  Sums s;
  EXPECT_EQ(s.Joined({s.Add(s.Add(s.Rows(0, 4), s.Rows(2, 4)), s.Rows(4, 4))}), "SliceGrad Concat Add");
}

TEST(JoinSlices, OthersStayAsTheyAre) {
  const Dim n = Dim::Batch();
  const auto unchanged = [](const char* what, auto build) {
    Sums s;
    const std::vector<ValueId> outputs = build(s);
    std::string ops;
    for (const Node& node : s.graph.nodes) ops += (ops.empty() ? "" : " ") + node.op;
    EXPECT_EQ(s.Joined(outputs), ops) << what;
  };
  using Values = std::vector<ValueId>;
  unchanged("a gap", [](Sums& s) { return Values{s.Add(s.Rows(0, 4), s.Rows(5, 3))}; });
  unchanged("an overlap", [](Sums& s) { return Values{s.Add(s.Rows(0, 5), s.Rows(4, 4))}; });
  unchanged("nothing at the end", [](Sums& s) { return Values{s.Add(s.Rows(0, 4), s.Rows(4, 3))}; });
  unchanged("every second row", [n](Sums& s) {
    return Values{s.Add(s.Place({n, 4, 6}, {0, 0, 0}, {1, 2, 1}), s.Place({n, 4, 6}, {0, 4, 0}, {1, 1, 1}))};
  });
  unchanged("two axes", [n](Sums& s) {
    return Values{s.Add(s.Place({n, 4, 3}, {0, 0, 0}), s.Place({n, 4, 3}, {0, 4, 0}))};
  });
  unchanged("halves of different axes", [n](Sums& s) {
    return Values{s.Add(s.Rows(0, 4), s.Place({n, 8, 3}, {0, 0, 3}))};
  });
  unchanged("no rows", [](Sums& s) { return Values{s.Add(s.Rows(0, 0), s.Rows(0, 4))}; });
  unchanged("another reader", [](Sums& s) {
    const ValueId first = s.Rows(0, 4);
    return Values{s.Add(first, s.Rows(4, 4)), first};
  });
  unchanged("the same twice", [](Sums& s) {
    const ValueId first = s.Rows(0, 4);
    return Values{s.Add(first, first)};
  });
}

}  // namespace
}  // namespace act
