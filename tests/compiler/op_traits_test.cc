// Traits of the op table agree with each other, and with the operands and results of operators.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>

#include "compiler/ops/expr_builder.h"
#include "compiler/ops/op_table.h"
#include "kernels/reference/fused.h"
#include "runtime/plan/operand_writes.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

// A constant is not a register: b.Add(1, x) does not compile.
static_assert(std::is_invocable_v<decltype(&ExprBuilder::Add), ExprBuilder&, Reg, Reg>);
static_assert(!std::is_invocable_v<decltype(&ExprBuilder::Add), ExprBuilder&, int, Reg>);
static_assert(!std::is_invocable_v<decltype(&ExprBuilder::Neg), ExprBuilder&, int>);

TEST(OpTraits, NeedsAreOfOperandsThatThereAre) {
  for (const OpDef& op : AllOps()) {
    if (op.operands.most == RuntimeOp::Count::kAny) continue;
    EXPECT_LE(op.needs.size(), static_cast<size_t>(op.operands.most)) << op.name;
  }
}

TEST(OpTraits, TheLastNeedIsThatOfAllOperandsAfterIt) {
  const OpDef& loss = *FindOp("SoftmaxCrossEntropyGrad");
  EXPECT_FALSE(loss.Reads(1, Need::kStatistics)) << "probabilities";
  EXPECT_TRUE(loss.Reads(2, Need::kStatistics)) << "labels";
  EXPECT_TRUE(loss.Reads(3, Need::kStatistics)) << "weights of classes";
  const OpDef& attention = *FindOp("AttentionGrad");
  EXPECT_TRUE(attention.Reads(1, Need::kScores) && attention.Reads(1, Need::kProduct));
  EXPECT_FALSE(attention.Reads(3, Need::kScores)) << "the gradient is linear in the values";
  EXPECT_FALSE(FindOp("Add")->Reads(0, Need::kExactly));
}

// The compiler puts results where CheckPlan allows them, and mutates what CheckPlan demands.
TEST(OpTraits, OperandsAreWrittenAsPlansAreChecked) {
  size_t in_place = 0, mutating = 0;
  for (const OpDef& op : AllOps()) {
    const RuntimeOp* const runs = FindRuntimeOp(op.name);
    if (!runs || runs->runs == Runs::kProgram) continue;
    Graph graph;
    graph.values.resize(8);
    Node node;
    node.op = op.name;
    for (size_t v = 0; v < 4; ++v) {
      graph.values[v].kind = ValueKind::kBuffer;
      node.inputs.push_back(static_cast<ValueId>(v));
      node.outputs.push_back(static_cast<ValueId>(v + 4));
    }
    for (size_t result = 0; result < 4; ++result)
      for (size_t operand = 0; operand < 4; ++operand) {
        const std::pair pair(static_cast<int>(result), static_cast<int>(operand));
        const bool may = std::count(op.in_place.begin(), op.in_place.end(), pair) > 0;
        EXPECT_EQ(MayOverwrite(graph, node, result, operand), may) << op.name;
        in_place += may;
      }
    node.mutates.assign(op.mutates.begin(), op.mutates.end());
    if (!op.mutates.empty())
      node.inputs.assign(static_cast<size_t>(*std::max_element(op.mutates.begin(), op.mutates.end())) + 1, 0);
    EXPECT_EQ(WrongMutates(graph, node), std::nullopt) << op.name;
    mutating += !op.mutates.empty();
  }
  EXPECT_GT(in_place, 5u);
  EXPECT_GT(mutating, 0u);
}

// A gradient that reads its operands as factors of products is the gradient of a product.
TEST(OpTraits, ProductsReadFactors) {
  for (const OpDef& op : AllOps())
    EXPECT_TRUE(!op.Reads(0, Need::kProduct) || op.product != Product::kNone) << op.name;
  EXPECT_TRUE(IsLinearProduct(*FindOp("ConvGradInput"))) << "a transposed convolution";
  EXPECT_FALSE(IsLinearProduct(*FindOp("ConvGradWeight")));
  EXPECT_FALSE(IsLinearProduct(*FindOp("Attention"))) << "of q and k it computes a softmax";
}

TEST(OpTraits, OneOperatorMakesTheSignMaskOfANumber) {
  for (const OpDef& op : AllOps()) EXPECT_EQ(IsSignMask(op), op.name == "ReluDerivative") << op.name;
}

// The prior finds the operands of a normalization's gradient at these positions.
TEST(OpTraits, MeansOfANormalizationsGradientAreAmongItsOperands) {
  for (const OpDef& op : AllOps())
    if (op.norm.role == Normalization::Role::kGradient) {
      EXPECT_GT(op.norm.first_mean, 2) << op.name;
      EXPECT_LT(op.norm.first_mean, op.operands.least) << op.name;
    }
}

TEST(OpTraits, APositionTakesTheBitsThatTellItsWindowApart) {
  Node pool;
  for (const auto& [window, bits] : {std::pair{2, 2}, {3, 4}, {4, 4}, {1, 1}, {5, 5}}) {
    pool.attrs.Set("kernel_shape", std::vector<int64_t>{window, window});
    EXPECT_EQ(FindOp("MaxPool")->index_bits(pool), bits) << window << " x " << window;
  }
}

// A function of one number, in double.
class Function {
 public:
  explicit Function(const OpDef& op) {
    ExprBuilder b;
    Node node;
    node.op = op.name;
    b.Output(OutputKind::kStore, op.expr(b, node, {b.Input({})}));
    program_ = b.Finish({Dim(1)});
  }
  double operator()(double x) const {
    std::vector<double> registers = {x};
    for (const ProgramConstant& constant : program_.constants)
      registers.push_back(static_cast<double>(constant.value));
    const auto at = [&registers](int32_t reg) { return reg < 0 ? 0 : registers[static_cast<size_t>(reg)]; };
    for (const Instr& i : program_.instrs) registers.push_back(Evaluate(i.op, at(i.a), at(i.b), at(i.c)));
    return at(program_.outputs[0].reg);
  }

 private:
  Program program_;
};

// The mean over rounding of f(decode(x)) is off f(x) by this much: mean squares over normal x, relative to f's.
double SquaredBias(const Function& f) {
  constexpr double kStep = 5.6 / 15;  // of 4 bits over the range of 256 numbers
  constexpr int kPlaces = 64;
  double error = 0, all = 0;
  for (double x = -4; x <= 4; x += 1. / 128) {
    const double density = std::exp(-x * x / 2);
    double mean = 0;
    for (int i = 0; i < kPlaces; ++i) mean += f(x + kStep * ((i + .5) / kPlaces - .5)) / kPlaces;
    error += density * (mean - f(x)) * (mean - f(x));
    all += density * f(x) * f(x);
  }
  return error / all;
}

// L3 computes functions with this trait from decoded numbers (docs/levels.md). A jump, as in a ReLU's derivative, is
// none where numbers are dense.
TEST(OpTraits, SmoothFunctionsOfDecodedNumbersHaveLittleBias) {
  int smooth = 0;
  for (const OpDef& op : AllOps())
    if (op.smooth) {
      EXPECT_LT(SquaredBias(Function(op)), 1e-3) << op.name;
      ++smooth;
    }
  EXPECT_GT(smooth, 10);
  for (const char* op : {"ReluDerivative", "ThresholdedReluDerivative", "SeluDerivative"})
    EXPECT_GT(SquaredBias(Function(*FindOp(op))), 3e-3) << op;
}

}  // namespace
}  // namespace act
