// What attention becomes in a plan: every exported form is found, and near misses are not.
#include "tests/compiler/exported_attention.h"

namespace act::gradient_case {
namespace {

// A case's graph after the compiler, with gradients as outputs.
Plan PlanOf(const OpCase& c, bool at_batch = false, const char* level = "L0") {
  const CaseModel model(c, at_batch, false);
  return Take(Compile(testing_step::ModelOf(model.graph()), testing_step::Checked(level, "none")));
}

int Count(const Graph& graph, const std::string& op) {
  return static_cast<int>(
      std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return n.op == op; }));
}
const Node& Find(const Graph& graph, const std::string& op) {
  return *std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return n.op == op; });
}

TEST(RecognizeAttention, FindsEveryExportedForm) {
  const std::vector<ExportedForm> forms = ExportedForms();
  const std::vector<OpCase> cases = ExportedAttentionCases();
  for (size_t i = 0; i < cases.size(); ++i)
    for (const bool at_batch : {false, true}) {
      if (at_batch && cases[i].batched.empty()) continue;
      SCOPED_TRACE(cases[i].name + (at_batch ? ", batch N" : ""));
      const Plan plan = PlanOf(cases[i], at_batch);
      for (const Graph* graph : {&plan.train.graph, &plan.eval.graph}) {
        ASSERT_EQ(Count(*graph, "Attention"), 1);
        EXPECT_EQ(Count(*graph, "MatMul"), 0);
        EXPECT_EQ(Count(*graph, "Softmax"), 0);
        EXPECT_EQ(Count(*graph, "Transpose"), 0) << "transposes are attributes";
        EXPECT_EQ(Count(*graph, "Slice") + Count(*graph, "SliceGrad"), 0) << "slices are read where they are";
      }
      const AttentionRow& row = forms[i].row;
      const Node& node = Find(plan.train.graph, "Attention");
      EXPECT_EQ(node.attrs.Int("causal") != 0, row.causal);
      if (row.causal) {
        EXPECT_EQ(node.attrs.Int("causal_offset"), row.offset);
      }
      EXPECT_EQ(node.attrs.String("empty_row", "nan"), row.empty_row);
      EXPECT_NEAR(node.attrs.Float("scale"), row.scale, 1e-7);  // a root of it may be squared
      EXPECT_EQ(node.attrs.Int("packed", -1), row.packed);
      EXPECT_EQ(node.attrs.Float("softcap"), row.softcap);
      EXPECT_EQ(node.attrs.Int("window") != 0, row.window > 0);
      if (row.window > 0) {
        EXPECT_EQ(node.attrs.Int("window_offset"), row.offset - row.window + 1);
      }
      EXPECT_EQ(node.inputs.size(), 3 + (row.mask.empty() ? row.bias.empty() ? 0u : 1u : 2u));
      // Neither heads nor masks are repeated.
      const auto elements = [&](size_t operand) {
        return plan.train.graph.value(node.inputs[operand]).type.Elements().At(row.q[0]);
      };
      const auto product = [](const Ints& dims) {
        return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies());
      };
      if (row.packed < 0) {
        EXPECT_EQ(elements(1), product(row.k));
        EXPECT_EQ(elements(2), product(row.v));
      }
      if (!row.mask.empty()) {
        EXPECT_EQ(elements(4), product(row.mask));
      }
      // No tensor holds an element for each pair of query and key of each head.
      const Dims& q = plan.train.graph.value(node.inputs[0]).type.dims;
      const int64_t pairs = row.q.end()[-2] * row.k.end()[-2] * row.q.end()[-3] * row.q[0];
      for (const Node& n : plan.train.graph.nodes)
        for (ValueId v : n.outputs) {
          const TensorType& type = plan.train.graph.value(v).type;
          EXPECT_FALSE(type.dims.size() >= 2 && type.dims.end()[-1] == Dim(row.k.end()[-2]) &&
                       type.dims.end()[-2] == Dim(row.q.end()[-2]) && type.Elements().At(row.q[0]) >= pairs)
              << n.op << " makes " << ToString(type) << " of queries " << ToString(q);
        }
    }
}

TEST(RecognizeAttention, WhatIsPackedIsOneCodeDecodedOnce) {
  const Ints heads_second{0, 2, 1, 3}, dims{2, 2, 16, 16};
  const OpCase c = AttentionCase({.name = "packed",
                                  .q = dims,
                                  .k = dims,
                                  .v = dims,
                                  .perm_q = heads_second,
                                  .perm_k = heads_second,
                                  .perm_v = heads_second,
                                  .batched = {0},
                                  .packed = 2});
  const Plan plan = PlanOf(c, true, "L2");
  const Node& node = Find(plan.train.graph, "AttentionGrad");
  EXPECT_EQ(node.inputs[1], node.inputs[2]);
  EXPECT_EQ(node.inputs[1], node.inputs[3]);
  EXPECT_EQ(node.outputs.size(), 1u);
  EXPECT_EQ(std::count_if(plan.edges.begin(), plan.edges.end(),
                          [](const SavedEdge& e) { return e.form.find("uniform5") != std::string::npos; }),
            1);
}

TEST(RecognizeAttention, DropoutGoesIntoTheOperator) {
  OpCase c = ExportedAttentionCases()[2];
  c.build = [](GraphBuilder& b, const Values& in) {
    const ValueId s = Node1(b, "MatMul", {in[0], in[1]}, Attrs({{"trans_b", int64_t{1}}}));
    const ValueId p = Node1(b, "Dropout", {Node1(b, "Softmax", {s})}, Attrs({{"probability", .25}}));
    return b.Add1("MatMul", {p, in[2]});
  };
  const Plan plan = PlanOf(c);
  EXPECT_EQ(Find(plan.train.graph, "Attention").attrs.Float("probability"), .25);
  EXPECT_EQ(Find(plan.train.graph, "AttentionGrad").attrs.Int("stream"),
            Find(plan.train.graph, "Attention").attrs.Int("stream"))
      << "the same mask forward and backward";
  EXPECT_EQ(Find(plan.eval.graph, "Attention").attrs.Float("probability"), 0);
}

TEST(RecognizeAttention, LeavesNearMissesAlone) {
  using Build = std::function<llvm::Expected<ValueId>(GraphBuilder&, const Values&)>;
  const std::pair<const char*, Build> misses[] = {
      {"the probabilities are read twice",
       [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
         const ValueId s = Node1(b, "MatMul", {in[0], in[1]}, Attrs({{"trans_b", int64_t{1}}}));
         const ValueId p = Node1(b, "Softmax", {s});
         const ValueId o = Node1(b, "MatMul", {p, in[2]});
         return b.Add1("Add", {o, Node1(b, "ReduceMean", {p}, Attrs({{"axes", Ints{3}}}))});
       }},
      {"the softmax is over queries",
       [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
         const ValueId s = Node1(b, "MatMul", {in[1], in[0]}, Attrs({{"trans_b", int64_t{1}}}));
         return b.Add1("MatMul", {Take(b.Transpose(Node1(b, "Softmax", {s}), {0, 1, 3, 2})), in[2]});
       }},
      {"a mask that still lets scores through",
       [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
         const ValueId s = Node1(b, "MatMul", {in[0], in[1]}, Attrs({{"trans_b", int64_t{1}}}));
         const ValueId shown = Node1(b, "Greater", {s, Number(b, 0)});
         return b.Add1("MatMul",
                       {Node1(b, "Softmax", {Node1(b, "Where", {shown, s, Number(b, -1)})}), in[2]});
       }},
      {"another number in place of NaN",
       [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
         const ValueId s = Node1(b, "MatMul", {in[0], in[1]}, Attrs({{"trans_b", int64_t{1}}}));
         const ValueId p = Node1(b, "Softmax", {s});
         return b.Add1("MatMul", {Node1(b, "Where", {Node1(b, "Equal", {p, p}), p, Number(b, 1)}), in[2]});
       }},
      {"0 in place of numbers",
       [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
         const ValueId s = Node1(b, "MatMul", {in[0], in[1]}, Attrs({{"trans_b", int64_t{1}}}));
         const ValueId p = Node1(b, "Softmax", {s});
         return b.Add1("MatMul", {Node1(b, "Where", {Node1(b, "Equal", {p, p}), Number(b, 0), p}), in[2]});
       }},
      {"what is guarded is read by another node, too",
       [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
         const ValueId s = Node1(b, "MatMul", {in[0], in[1]}, Attrs({{"trans_b", int64_t{1}}}));
         const ValueId p = Node1(b, "Softmax", {s});
         const ValueId o = Node1(b, "MatMul", {WithoutNaN(b, p), in[2]});
         return b.Add1("Add", {o, Node1(b, "ReduceMean", {p}, Attrs({{"axes", Ints{3}}}))});
       }},
      {"values of one head for all",
       [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
         const ValueId s = Node1(b, "MatMul", {in[0], in[1]}, Attrs({{"trans_b", int64_t{1}}}));
         const ValueId mean = Node1(b, "ReduceMean", {in[2]}, Attrs({{"axes", Ints{1}}}));
         return b.Add1("MatMul", {Node1(b, "Softmax", {s}), mean});
       }},
  };
  for (const auto& [why, build] : misses) {
    SCOPED_TRACE(why);
    OpCase c = ExportedAttentionCases()[2];
    c.build = build;
    const Plan plan = PlanOf(c);
    EXPECT_EQ(Count(plan.train.graph, "Attention"), 0);
    EXPECT_EQ(Count(plan.train.graph, "Softmax"), 1);
  }
}

// A mask of numbers beside keys that -infinity hides: a query that sees neither has the mean of the first ones alone.
TEST(RecognizeAttention, HiddenByNumbersAndByInfinityStaysABias) {
  const auto biased = [](const std::function<llvm::Expected<ValueId>(GraphBuilder&, const Values&)>& build) {
    OpCase c = ExportedAttentionCases()[2];
    c.build = build;
    const Plan plan = PlanOf(c);
    const Node& node = Find(plan.train.graph, "Attention");
    return node.inputs.size() == 4 && node.inputs[3] != kNoValue && node.attrs.Int("causal") != 0;
  };
  EXPECT_TRUE(biased([](GraphBuilder& b, const Values& in) {
    const ValueId mask = Node1(b, "Where", {LowerTriangle(b, 5, 7, 0), Number(b, 0), Number(b, -3e38f)});
    Attributes attrs;
    attrs.Set("causal", int64_t{1});
    return Operator(b, {in[0], in[1], in[2], mask}, attrs);
  }));
  EXPECT_TRUE(biased([](GraphBuilder& b, const Values& in) {
    const ValueId by_number = Node1(b, "Where", {LowerTriangle(b, 5, 7, 1), Number(b, 0), Number(b, -3e38f)});
    const ValueId infinite =
        Node1(b, "Where", {LowerTriangle(b, 5, 7, 0), Number(b, 0), Number(b, -INFINITY)});
    ValueId s =
        Node1(b, "Add", {Node1(b, "MatMul", {in[0], in[1]}, Attrs({{"trans_b", int64_t{1}}})), by_number});
    s = Node1(b, "Add", {s, infinite});
    return b.Add1("MatMul", {Node1(b, "Softmax", {s}), in[2]});
  }));
}

TEST(RecognizeAttention, AnEndlessChainOfSumsDoesNotExhaustTheStack) {
  OpCase c = ExportedAttentionCases()[2];
  c.build = [](GraphBuilder& b, const Values& in) {
    ValueId s = Node1(b, "MatMul", {in[0], in[1]}, Attrs({{"trans_b", int64_t{1}}}));
    for (int i = 0; i < 50000; ++i) s = Node1(b, "Identity", {s});
    return b.Add1("MatMul", {Node1(b, "Softmax", {s}), in[2]});
  };
  EXPECT_EQ(Count(PlanOf(c).train.graph, "Softmax"), 1);
}

TEST(Attention, WhatIsSavedIsQueriesKeysAndValues) {
  const OpCase c = ExportedAttentionCases()[0];
  const CaseModel model(c, true, false);
  const Plan plan = Take(Compile(testing_step::ModelOf(model.graph()), testing_step::Checked("L0", "none")));
  const Node& grad = Find(plan.train.graph, "AttentionGrad");
  EXPECT_EQ(grad.inputs.size(), 4u);  // do, q, k, v
  EXPECT_EQ(plan.edges.size(), 3u);
}

}  // namespace
}  // namespace act::gradient_case
