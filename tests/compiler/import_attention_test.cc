// PyTorch's scaled_dot_product_attention in files: what its exporters write around the products must not hide them,
// for any number of tokens.
#include <algorithm>
#include <cmath>

#include "tests/compiler/compiled_step.h"
#include "tests/compiler/import_testing.h"

namespace act {
namespace {

using import_testing::Import;
using testing::Attr;
using testing::OnnxModel;
using testing_step::Take;

constexpr int64_t kHeads = 2, kDepth = 8;

// is_causal=True, as the dynamo exporter writes it below opset 23. The scale is the root of the root of an extent, the
// mask a triangle of ones.
OnnxModel CausalSdpa(int64_t tokens) {
  OnnxModel m(18);
  m.Input("x", {"N", kHeads, tokens, kDepth}).Weight("w", {kDepth, kDepth});
  m.Integers("last", {-1}).Integers("matrix", {tokens, tokens}).Integers("merged", {-1, tokens, kDepth});
  m.Integers("split", {-1, kHeads, kDepth, tokens})
      .Weight("val_one", {}, 1)
      .Weight("val_zero", {}, 0)
      .Weight("val_low", {}, -3e38f);
  m.Node("MatMul", {"x", "w"}, {"k"});
  m.Node("Shape", {"x"}, {"shape"}).Node("Gather", {"shape", "last"}, {"extent"});
  m.Node("CastLike", {"extent", "x"}, {"depth"}).Node("CastLike", {"val_one", "x"}, {"unit"});
  m.Node("Sqrt", {"depth"}, {"root"})
      .Node("Div", {"unit", "root"}, {"scale"})
      .Node("Sqrt", {"scale"}, {"half"});
  m.Node("Expand", {"val_one", "matrix"}, {"ones"})
      .Node("Trilu", {"ones"}, {"triangle"}, {Attr("upper", int64_t{0})});
  m.Node("Equal", {"triangle", "val_zero"}, {"later"})
      .Node("Where", {"later", "val_low", "val_zero"}, {"mask"});
  m.Node("Reshape", {"k", "merged"}, {"k3"});
  m.Node("Transpose", {"k3"}, {"kt3"}, {Attr("perm", std::vector<int64_t>{0, 2, 1})});
  m.Node("Reshape", {"kt3", "split"}, {"kt"});
  m.Node("Mul", {"x", "half"}, {"q_half"}).Node("Mul", {"kt", "half"}, {"k_half"});
  m.Node("MatMul", {"q_half", "k_half"}, {"scores"}).Node("Add", {"scores", "mask"}, {"masked"});
  m.Node("Softmax", {"masked"}, {"p"}, {Attr("axis", int64_t{-1})});
  m.Node("MatMul", {"p", "x"}, {"y"});
  return m.MeanLoss("y");
}

TEST(ImportAttention, CausalSdpaOfAnyLengthIsOneOperator) {
  // Up to 1,448 tokens the triangle is a constant.
  for (const int64_t tokens : {5, 3000}) {
    SCOPED_TRACE(tokens);
    const ImportResult model = Import(CausalSdpa(tokens));
    const Plan plan = Take(Compile(testing_step::ModelOf(model.graph), testing_step::Checked("L0", "none")));
    const Graph& graph = plan.train.graph;
    const auto attention = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                        [](const Node& n) { return n.op == "Attention"; });
    ASSERT_NE(attention, graph.nodes.end());
    EXPECT_EQ(attention->attrs.Int("causal"), 1);
    EXPECT_EQ(attention->attrs.Int("causal_offset"), 0);
    EXPECT_EQ(attention->inputs.size(), 3u);
    EXPECT_NEAR(attention->attrs.Float("scale"), 1 / std::sqrt(kDepth), 1e-7);
    const int64_t pairs = tokens * tokens;
    for (const Value& value : graph.values)
      EXPECT_LT(value.type.Elements().At(1), std::max(pairs, kHeads * tokens * kDepth + 1))
          << ToString(value.type);
  }
}

TEST(ImportAttention, ATriangleOfALargeMatrixComparesPositions) {
  for (const int64_t upper : {0, 1}) {
    OnnxModel m;
    m.Weight("w", {2, 1600, 1500}).Node("Trilu", {"w"}, {"y"}, {Attr("upper", upper)}).MeanLoss("y");
    const Graph graph = Import(m).graph;
    EXPECT_EQ(import_testing::Ops(graph), std::string(upper ? "Greater" : "Less") + " Where ReduceMean");
    EXPECT_EQ(graph.value(import_testing::Find(graph, "Where")->outputs[0]).type.dims, (Dims{2, 1600, 1500}));
  }
}

}  // namespace
}  // namespace act
