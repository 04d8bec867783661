// Which values of a step are bfloat16 under --compute=bf16.
#include <set>

#include "compiler/ops/op_table.h"
#include "runtime/plan/plan_check.h"
#include "runtime/plan/runtime_op.h"
#include "tests/compiler/graph_text.h"

namespace act {
namespace {

using testing_step::Take;

Plan Compiled(const std::string& text, const std::string& level = "L0",
              const std::string& optimizer = "sgd") {
  CompileOptions options = testing_step::Checked(level, optimizer);
  options.compute = Compute::kBFloat16;
  Plan plan = Take(Compile(graph_text::Parse(text), options));
  if (llvm::Error error = CheckPlan(plan)) ADD_FAILURE() << Text(std::move(error));
  return plan;
}

// The element types of the operands and results of each node of this operator, in order:
// "bf16,f32->bf16".
std::vector<std::string> TypesOf(const Graph& graph, const std::string& op) {
  std::vector<std::string> all;
  for (const Node& node : graph.nodes) {
    if (node.op != op) continue;
    std::string text;
    const auto add = [&](ValueId v) {
      if (v != kNoValue)
        text += std::string(text.empty() || text.ends_with(">") ? "" : ",") +
                std::string(ToString(graph.value(v).type.dtype));
    };
    for (const ValueId v : node.inputs) add(v);
    text += "->";
    for (const ValueId v : node.outputs) add(v);
    all.push_back(text);
  }
  return all;
}

using Types = std::vector<std::string>;

constexpr char kPerceptron[] = R"(
  x = input f32[N,4,8]
  label = input i64[N]
  w1 = parameter f32[8,8]
  b1 = parameter f32[8]
  w2 = parameter f32[8,3]
  a = MatMul(x, w1)
  b = Add(a, b1)
  c = Tanh(b)
  d = ReduceMean(c) {axes=[1], keepdims=0}
  e = MatMul(d, w2)
  loss, prob = SoftmaxCrossEntropy(e, label) {reduction=mean}
  return loss
)";

TEST(Precision, ProductsMultiplyBFloat16AndGradientsOfWeightsAreFloat32) {
  const Graph graph = Compiled(kPerceptron).train.graph;
  // Forward: the input's copy and a weight, then the mean's copy and a weight, whose result is the loss's
  // float32. Backward: a weight's gradient, the other operand's, the first weight's.
  EXPECT_EQ(TypesOf(graph, "MatMul"), (Types{"bf16,f32,f32->bf16", "bf16,f32->f32", "bf16,bf16->f32",
                                             "bf16,f32->bf16", "bf16,bf16->f32"}));
  EXPECT_EQ(TypesOf(graph, "SoftmaxCrossEntropy"), Types{"f32,i64->f32,f32"});
  EXPECT_EQ(TypesOf(graph, "SoftmaxCrossEntropyGrad"), Types{"f32,f32,i64->bf16"});
  EXPECT_EQ(TypesOf(graph, "ReduceMean"), Types{"bf16->f32"});
  for (const Value& value : graph.values) {
    if (value.kind == ValueKind::kActivation) continue;
    EXPECT_NE(value.type.dtype, DType::kBFloat16) << value.name;
  }
}

// Without an optimizer, gradients are outputs of the graph.
TEST(Precision, OutputsAreFloat32) {
  const Graph graph = Compiled(kPerceptron, "L3", "none").train.graph;
  for (const ValueId v : graph.outputs) EXPECT_EQ(graph.value(v).type.dtype, DType::kFloat32);
}

TEST(Precision, EvaluationMultipliesBFloat16Too) {
  EXPECT_EQ(TypesOf(Compiled(kPerceptron).eval.graph, "MatMul"),
            (Types{"bf16,f32,f32->bf16", "bf16,f32->f32"}));
}

// Normalizations read the residuals, so their sum and its gradient stay float32.
TEST(Precision, ResidualsThatStartInFloat32StaySo) {
  const Graph graph = Compiled(R"(
    x = input f32[N,4,8]
    scale = parameter f32[8]
    w1 = parameter f32[8,8]
    w2 = parameter f32[8,8]
    a = Mul(x, scale)
    b = Tanh(a)
    c = MatMul(b, w1)
    d = Add(c, a)
    e = Tanh(d)
    f = MatMul(e, w2)
    g = Add(f, d)
    h = Mul(g, g)
    loss = ReduceMean(h) {axes=[0,1,2], keepdims=0}
    return loss
  )")
                          .train.graph;
  std::set<std::string> types;
  for (const Node& node : graph.nodes)
    if (RunsProgram(node) && node.phase == Phase::kBackward)
      for (const ValueId v : node.outputs)
        if (!graph.value(v).type.Elements().IsFixed())
          types.insert(std::string(ToString(graph.value(v).type.dtype)));
  // The residuals' gradient, and copies of it for products.
  EXPECT_EQ(types, (std::set<std::string>{"bf16", "f32"}));
  EXPECT_EQ(TypesOf(graph, "Fused").front(), "f32,f32->f32,bf16");
  for (const std::string& product : TypesOf(graph, "MatMul"))
    EXPECT_TRUE(product.starts_with("bf16,")) << product;
}

// A value that must stay float32 and that only products read later is stored as its rounded copy.
TEST(Precision, ARoundedCopyIsStoredInPlaceOfAValueThatOnlyProductsRead) {
  const Plan plan = Compiled(R"(
    x = input f32[N,8,8,4]
    w1 = parameter f32[4,4,1,1]
    w2 = parameter f32[4,4,1,1]
    a = Conv(x, w1) {kernel_shape=[1,1], strides=[1,1], dilations=[1,1], pads=[0,0,0,0]}
    b: f32[N,16,16,4] = Resize(a) {axes=[1,2], coordinate_mode=asymmetric, mode=nearest, nearest_mode=floor, scales=[2.0,2.0]}
    c = Conv(b, w2) {kernel_shape=[1,1], strides=[1,1], dilations=[1,1], pads=[0,0,0,0]}
    loss = ReduceMean(c) {axes=[0,1,2,3], keepdims=0}
    return loss
  )");
  EXPECT_EQ(TypesOf(plan.train.graph, "Resize"), Types{"f32->f32"});
  // The copies of the resized image and of the input, which only products read too.
  ASSERT_EQ(plan.edges.size(), 2u);
  for (const SavedEdge& edge : plan.edges) EXPECT_EQ(edge.form, "bf16") << edge.name;
  EXPECT_EQ(plan.edges[1].name, "x");
  EXPECT_EQ(plan.edges[1].bytes, Dim::Batch() * Dim(8 * 8 * 4 * 2));
}

// An input whose axes are reordered: its float32 is free after the forward pass has rounded it, so a level with codes
// stores a code for the gradient of the weight, and not 16 bits.
TEST(Precision, AReorderedInputTakesACodeWhereTheLevelHasCodes) {
  const char* const images = R"(
    x = input f32[N,4,16,16]
    w = parameter f32[4,4,1,1]
    t = Transpose(x) {perm=[0,2,3,1]}
    a = Conv(t, w) {kernel_shape=[1,1], strides=[1,1], dilations=[1,1], pads=[0,0,0,0]}
    loss = ReduceMean(a) {axes=[0,1,2,3], keepdims=0}
    return loss
  )";
  for (const auto& [level, form] : {std::pair("L0", "bf16"), {"L1", "uniform4"}, {"L3", "uniform3"}}) {
    const Plan plan = Compiled(images, level);
    ASSERT_EQ(plan.edges.size(), 1u) << level;
    EXPECT_TRUE(plan.edges[0].form.starts_with(form)) << level << ": " << plan.edges[0].form;
  }
}

// With a batch that is fixed, sizes do not tell samples from parameters.
TEST(Precision, AFixedBatchHasTheSameTypes) {
  std::string fixed = kPerceptron;
  for (size_t at; (at = fixed.find("[N")) != std::string::npos;) fixed.replace(at, 2, "[5");
  const Graph free = Compiled(kPerceptron).train.graph, graph = Compiled(fixed).train.graph;
  for (const char* op : {"MatMul", "SoftmaxCrossEntropyGrad", "ReduceMean"})
    EXPECT_EQ(TypesOf(graph, op), TypesOf(free, op)) << op;
}

// A product of parameters alone is part of the weights.
TEST(Precision, ProductsOfParametersStayFloat32) {
  const Graph graph = Compiled(R"(
    x = input f32[N,8]
    u = parameter f32[8,2]
    v = parameter f32[2,8]
    w = MatMul(u, v)
    y = MatMul(x, w)
    z = Mul(y, y)
    loss = ReduceMean(z) {axes=[0,1], keepdims=0}
    return loss
  )")
                          .train.graph;
  EXPECT_EQ(TypesOf(graph, "MatMul")[0], "f32,f32->f32");
  EXPECT_EQ(TypesOf(graph, "MatMul")[1], "bf16,f32->bf16");
}

// The report counts what is stored.
TEST(Precision, EdgesHaveTheBytesOfWhatIsStored) {
  const Plan plan = Compiled(kPerceptron);
  bool any = false;
  for (const SavedEdge& edge : plan.edges) {
    const TensorType& type = plan.train.graph.value(edge.stored).type;
    EXPECT_EQ(edge.bytes, type.Bytes()) << edge.name;
    EXPECT_EQ(edge.form == "bf16", type.dtype == DType::kBFloat16) << edge.name;
    if (edge.form != "bf16") continue;
    any = true;
    EXPECT_EQ(edge.bits, 16);
    EXPECT_EQ(edge.bytes_uncompressed, edge.bytes + edge.bytes);
  }
  EXPECT_TRUE(any);
}

}  // namespace
}  // namespace act
