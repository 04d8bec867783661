// Axes whose length depends on data: what NonZero finds, up to where it is counted or joined. And
// branches that are chosen when compiling.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "compiler/import/import_onnx.h"
#include "compiler/ir/verify.h"
#include "tests/compiler/compiled_step.h"
#include "tests/compiler/onnx_model.h"

namespace act {
namespace {

using testing::Attr;
using testing::OnnxModel;
using testing::TemporaryFolder;
using Ints = std::vector<int64_t>;

constexpr int64_t kNodes = 5, kEdges = 9, kColumns = 3;

// The edges of a graph without its loops, as "kept" [2, K].
OnnxModel KeptEdges() {
  OnnxModel m;
  m.Input("edge", {2, kEdges}, onnx::TensorProto::INT64)
      .Input("x", {kNodes, kColumns})
      .Weight("w", {1, kColumns})
      .Integers("zero", {0}, true)
      .Integers("one", {1}, true)
      .Integers("axis_one", {1})
      .Integers("axis_zero", {0})
      .Node("Gather", {"edge", "zero"}, {"from"})
      .Node("Gather", {"edge", "one"}, {"to"})
      .Node("Equal", {"from", "to"}, {"same"})
      .Node("Not", {"same"}, {"differ"})
      .Node("NonZero", {"differ"}, {"found"})
      .Node("Transpose", {"found"}, {"column"}, {Attr("perm", Ints{-1, 0})})
      .Node("Squeeze", {"column", "axis_one"}, {"places"})
      .Node("Gather", {"edge", "places"}, {"kept"}, {Attr("axis", int64_t{1})});
  return m;
}

// Adds a loop for each node after the kept edges, and sends a message along each edge. The loss has
// the squares of each node's sum of messages, the largest message, and the sum of all squares. Only
// messages of edges that exist may count.
OnnxModel Network() {
  OnnxModel m = KeptEdges();
  m.Integers("nodes", {kNodes}, true)
      .Integers("pair", {2, 1})
      .Integers("row", {1, -1})
      .Integers("rows", {-1, 1})
      .Integers("sums", {kNodes, kColumns})
      .Node("Range", {"zero", "nodes", "one"}, {"range"})
      .Node("Reshape", {"range", "row"}, {"loop"})
      .Node("Tile", {"loop", "pair"}, {"loops"})
      .Node("Concat", {"kept", "loops"}, {"all"}, {Attr("axis", int64_t{1})})
      .Node("Gather", {"all", "zero"}, {"source"})
      .Node("Gather", {"all", "one"}, {"target"})
      .Node("Mul", {"x", "w"}, {"h"})
      .Node("Gather", {"h", "source"}, {"message"})
      .Node("Shape", {"message"}, {"shape"})
      .Node("Reshape", {"target", "rows"}, {"index"})
      .Node("Expand", {"index", "shape"}, {"expanded"})
      .Node("ConstantOfShape", {"sums"}, {"zeros"})
      .Node("ScatterElements", {"zeros", "expanded", "message"}, {"sum"},
            {Attr("reduction", std::string("add"))})
      .Node("Mul", {"sum", "sum"}, {"squares"})
      .Node("ReduceSum", {"squares"}, {"a"}, {Attr("keepdims", int64_t{0})})
      .Node("ReduceMax", {"message"}, {"b"}, {Attr("keepdims", int64_t{0})})
      .Node("ReduceSumSquare", {"message"}, {"c"}, {Attr("keepdims", int64_t{0})})
      .Node("Add", {"a", "b"}, {"ab"})
      .Node("Add", {"ab", "c"}, {"loss"})
      .Output("loss");
  return m;
}

double Loss(const std::vector<int64_t>& edge, const std::vector<float>& x, const std::vector<double>& w) {
  std::vector<std::pair<int64_t, int64_t>> edges;
  for (int64_t e = 0; e < kEdges; ++e)
    if (edge[static_cast<size_t>(e)] != edge[static_cast<size_t>(kEdges + e)])
      edges.emplace_back(edge[static_cast<size_t>(e)], edge[static_cast<size_t>(kEdges + e)]);
  for (int64_t n = 0; n < kNodes; ++n) edges.emplace_back(n, n);
  std::vector<double> sums(kNodes * kColumns, 0);
  double largest = -INFINITY, squares = 0;
  for (const auto& [from, to] : edges)
    for (int64_t k = 0; k < kColumns; ++k) {
      const double message = x[static_cast<size_t>(from * kColumns + k)] * w[static_cast<size_t>(k)];
      sums[static_cast<size_t>(to * kColumns + k)] += message;
      largest = std::max(largest, message);
      squares += message * message;
    }
  double loss = largest + squares;
  for (const double s : sums) loss += s * s;
  return loss;
}

TEST(Selection, AnyDataGivesTheNumbersOfWhatIsThere) {
  const TemporaryFolder folder;
  ImportResult model = testing_step::Take(ImportOnnx(Network().Write(folder), {}));
  const Plan plan = testing_step::Take(Compile(std::move(model), testing_step::Checked("L0", "none")));
  std::mt19937 engine(5);
  std::vector<float> x(kNodes * kColumns);
  for (float& v : x) v = std::uniform_real_distribution<float>(-2, 2)(engine);
  for (const int loops : {0, 4, 8, 9}) {
    std::vector<int64_t> edge(2 * kEdges);
    for (size_t e = 0; e < kEdges; ++e) {
      edge[e] = std::uniform_int_distribution<int64_t>(0, kNodes - 1)(engine);
      edge[e + kEdges] = static_cast<int>(e * 5 % kEdges) < loops
                             ? edge[e]
                             : (edge[e] + 1 + static_cast<int64_t>(e) % 3) % kNodes;
    }
    for (const KernelRegistry* kernels : {&testing_step::CpuKernels(), &testing_step::ReferenceKernels()}) {
      const auto got = testing_step::Take(testing_step::RunStep(
          plan, *kernels, {{"edge", testing_step::BytesOf(edge)}, {"x", testing_step::BytesOf(x)}},
          {.batch = plan.default_batch, .check_memory = true}));
      const std::vector<double> w(kColumns, .5);
      // Float32 sums of some forty terms.
      EXPECT_NEAR(got[0][0], Loss(edge, x, w), 1e-5 * Loss(edge, x, w)) << loops;
      for (size_t k = 0; k < kColumns; ++k) {
        constexpr double h = 1e-6;
        std::vector<double> above = w, below = w;
        above[k] += h;
        below[k] -= h;
        const double slope = (Loss(edge, x, above) - Loss(edge, x, below)) / (2 * h);
        EXPECT_NEAR(got[1][k], slope, 1e-5 * std::max(1., std::fabs(slope)))
            << loops << " loops, column " << k;
      }
    }
  }
}

std::string ErrorOf(OnnxModel m) {
  const TemporaryFolder folder;
  auto result = ImportOnnx(m.Write(folder), {});
  return result ? "no error" : llvm::toString(result.takeError());
}

TEST(Selection, WhatWouldCountPlacesThatAreNotThereIsRefused) {
  struct Case {
    const char* op;
    std::vector<std::string> inputs;
    std::vector<onnx::AttributeProto> attrs;
    const char* expected;
  };
  const std::vector<Case> cases = {
      {"ReduceProd",
       {"message"},
       {},
       "node 'n' (ReduceProd): reads a tensor whose length depends on data (a NonZero), and reduces it"},
      {"Hardmax", {"message"}, {}, "does not support that"},
      {"Softmax", {"message"}, {Attr("axis", int64_t{0})}, "normalizes it"},
      {"Add", {"message", "fixed"}, {}, "another of a fixed length"},
      {"Gather", {"message", "axis_zero"}, {}, "looks up places in it"},
      {"Reshape", {"message", "flat"}, {}, "joins it with another axis"},
      {"Slice", {"message", "axis_zero", "axis_one"}, {}, "cuts it"},
      {"Slice", {"message", "last", "before_first", "axis_zero", "backwards"}, {}, "cuts it"},
      {"MatMul", {"turned", "message"}, {}, "multiplies by it"},
      {"Concat", {"message", "fixed"}, {Attr("axis", int64_t{1})}, "another that does not have this length"},
      {"Mul", {"length", "message"}, {}, "a length that depends on data is used as data"},
      {"Expand", {"fixed", "shape"}, {}, "expands a fixed length to it"},
      {"ScatterElements", {"fixed", "fixed_index", "message"}, {}, "by indices that are not"},
  };
  for (const Case& c : cases) {
    OnnxModel m = KeptEdges();
    m.Weight("fixed", {kEdges, kColumns})
        .Input("fixed_index", {kEdges, kColumns}, onnx::TensorProto::INT64)
        .Integers("flat", {-1})
        .Integers("last", {-1})
        .Integers("before_first", {-100})
        .Integers("backwards", {-1})
        .Node("Gather", {"kept", "zero"}, {"source"})
        .Node("Mul", {"x", "w"}, {"h"})
        .Node("Gather", {"h", "source"}, {"message"})
        .Node("Transpose", {"message"}, {"turned"})
        .Node("Shape", {"message"}, {"shape"})
        .Node("Gather", {"shape", "zero"}, {"count"})
        .Node("Add", {"count", "one"}, {"more"})
        .Node("Cast", {"more"}, {"length"}, {Attr("to", int64_t{onnx::TensorProto::FLOAT})})
        .Node(c.op, c.inputs, {"n"}, c.attrs)
        .MeanLoss("n");
    EXPECT_NE(ErrorOf(m).find(c.expected), std::string::npos) << c.op << ": " << ErrorOf(m);
  }
}

onnx::AttributeProto Branch(const std::string& name, const std::string& op, const std::string& reads) {
  onnx::AttributeProto a;
  a.set_name(name);
  a.set_type(onnx::AttributeProto::GRAPH);
  onnx::NodeProto& node = *a.mutable_g()->add_node();
  node.set_op_type(op);
  node.add_input(reads);
  node.add_output("inner");  // both branches use the name
  a.mutable_g()->add_output()->set_name("inner");
  return a;
}

OnnxModel Branching(const std::string& condition) {
  OnnxModel m;
  m.Input("x", {"N", 4})
      .Input("flag", {}, onnx::TensorProto::BOOL)
      .Weight("w", {4, 4})
      .Integers("two", {2}, true)
      .Node("MatMul", {"x", "w"}, {"y"})
      .Node("Shape", {"y"}, {"shape"})
      .Node("Size", {"shape"}, {"rank"})
      .Node("Equal", {"rank", "two"}, {"is_matrix"})
      .Node("If", {condition}, {"z"},
            {Branch("then_branch", "Relu", "y"), Branch("else_branch", "Tanh", "y")})
      .Node("If", {condition}, {"u"}, {Branch("then_branch", "Exp", "z"), Branch("else_branch", "Tanh", "z")})
      .MeanLoss("u");
  return m;
}

TEST(If, ABranchTakesItsPlace) {
  const TemporaryFolder folder;
  const ImportResult r = testing_step::Take(ImportOnnx(Branching("is_matrix").Write(folder), {}));
  std::string ops;
  for (const Node& node : r.graph.nodes) ops += node.op + " ";
  EXPECT_EQ(ops, "MatMul Relu Exp ReduceMean ");
  EXPECT_NE(ErrorOf(Branching("flag")).find("node 'z' (If): the condition depends on data"),
            std::string::npos);
}

TEST(If, WhatABranchLacksIsToldByName) {
  OnnxModel m = Branching("is_matrix");
  onnx::NodeProto& node = *m.graph().mutable_node(4);
  onnx::GraphProto& then = *node.mutable_attribute(0)->mutable_g();
  then.mutable_node(0)->set_op_type("Magic");
  EXPECT_NE(
      ErrorOf(m).find("node 'z' (If): node 'z/then_branch/Magic' (Magic): the operator is not supported"),
      std::string::npos)
      << ErrorOf(m);
  then.mutable_node(0)->set_op_type("Relu");
  then.mutable_output(0)->set_name("nothing");
  EXPECT_NE(ErrorOf(m).find("node 'z' (If): reads 'nothing', which nothing makes"), std::string::npos)
      << ErrorOf(m);
  then.mutable_node(0)->set_input(0, "nobody");
  EXPECT_NE(ErrorOf(m).find("reads 'nobody', which nothing makes"), std::string::npos) << ErrorOf(m);
  node.clear_attribute();
  EXPECT_NE(ErrorOf(m).find("node 'z' (If): has no then_branch"), std::string::npos) << ErrorOf(m);
}

}  // namespace
}  // namespace act
