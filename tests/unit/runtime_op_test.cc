// The table of operators that a plan may contain, compared with the kernels that are registered.
#include "runtime/plan/runtime_op.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/cpu/registry.h"
#include "kernels/reference/registry.h"

namespace act {
namespace {

KernelRegistry Kernels(void (*add)(KernelRegistry&)) {
  KernelRegistry registry;
  add(registry);
  return registry;
}

TEST(RuntimeOps, EachHasAReferenceKernelUnlessNothingRuns) {
  const KernelRegistry reference = Kernels(RegisterReferenceKernels);
  for (const RuntimeOp& op : RuntimeOps())
    EXPECT_EQ(reference.For(std::string(op.name)).empty(), op.runs == Runs::kAlias) << op.name;
}

TEST(RuntimeOps, EachKernelRunsAnOperatorOfTheTable) {
  const KernelRegistry cpu = Kernels(RegisterCpuKernels);  // includes the reference kernels
  for (const auto& [op, entries] : cpu.all())
    for (const KernelEntry& entry : entries)
      EXPECT_TRUE(FindRuntimeOp(op)) << entry.name << " runs " << op << ", which no plan may contain";
}

TEST(RuntimeOps, EachNameStandsOnce) {
  std::set<std::string_view> names;
  for (const RuntimeOp& op : RuntimeOps()) {
    EXPECT_TRUE(names.insert(op.name).second) << op.name;
    EXPECT_EQ(FindRuntimeOp(op.name), &op) << op.name;
  }
  EXPECT_EQ(FindRuntimeOp("Embedding"), nullptr);
}

// Labels and indices are operand 1. A node that moves numbers reads nothing else.
TEST(RuntimeOps, ColumnsFitTheNumberOfOperands) {
  for (const RuntimeOp& op : RuntimeOps()) {
    for (const RuntimeOp::Count& count : {op.operands, op.results})
      EXPECT_TRUE(count.most == RuntimeOp::Count::kAny || count.least <= count.most) << op.name;
    if (op.positions != PositionsOn::kNothing) {
      EXPECT_GE(op.operands.least, 2) << op.name;
      EXPECT_FALSE(op.moves_numbers) << op.name;
    }
    if (op.runs == Runs::kAlias) {
      EXPECT_EQ(op.operands.most, 1) << op.name;
      EXPECT_EQ(op.results.most, 1) << op.name;
    }
  }
}

// Each bound of every row: one operand or result fewer or more than allowed is refused.
TEST(WrongCounts, HoldsEachOperatorToItsRow) {
  const auto node_of = [](const RuntimeOp& op, int operands, int results) {
    Node node;
    node.op = op.name;
    node.inputs.assign(static_cast<size_t>(operands), 0);
    node.outputs.assign(static_cast<size_t>(results), 0);
    return node;
  };
  for (const RuntimeOp& op : RuntimeOps()) {
    const int least = op.operands.least, most = std::max(least, op.operands.most), results = op.results.least;
    EXPECT_EQ(WrongCounts(node_of(op, least, results)), std::nullopt) << op.name;
    EXPECT_EQ(WrongCounts(node_of(op, most, results)), std::nullopt) << op.name;
    EXPECT_EQ(WrongCounts(node_of(op, most + 1, results)).has_value(),
              op.operands.most != RuntimeOp::Count::kAny)
        << op.name;
    EXPECT_EQ(WrongCounts(node_of(op, least, std::max(results, op.results.most) + 1)).has_value(),
              op.results.most != RuntimeOp::Count::kAny)
        << op.name;
    if (results > 0) {
      EXPECT_TRUE(WrongCounts(node_of(op, least, results - 1))) << op.name;
    }
    if (least == 0) continue;
    EXPECT_TRUE(WrongCounts(node_of(op, least - 1, results))) << op.name;
    Node node = node_of(op, most, results);
    node.inputs[static_cast<size_t>(least - 1)] = kNoValue;
    EXPECT_TRUE(WrongCounts(node)) << op.name;
    node = node_of(op, most, results);
    if (most > least) node.inputs.back() = kNoValue;  // optional
    EXPECT_EQ(WrongCounts(node), std::nullopt) << op.name;
  }
}

TEST(WrongCounts, SaysWhatIsThereAndWhatMustBe) {
  Node node;
  node.op = "Conv";
  node.outputs = {2};
  node.inputs = {0};
  EXPECT_EQ(WrongCounts(node), "has 1 operand, not 2 to 3");
  node.inputs = {0, kNoValue, 1};
  EXPECT_EQ(WrongCounts(node), "lacks operand 1");
  node.inputs = {0, 1, kNoValue};
  EXPECT_EQ(WrongCounts(node), std::nullopt);
  node.outputs = {2, 3};
  EXPECT_EQ(WrongCounts(node), "has 2 results, not 1");
  node.op = "Concat";
  node.inputs = {};
  EXPECT_EQ(WrongCounts(node), "has 0 operands, not 1 or more");
  node.op = "an operator of no table";
  EXPECT_EQ(WrongCounts(node), std::nullopt);
}

// Places of bfloat16: each operand and result alone, and all together.
TEST(WrongBFloat16, HoldsEachOperatorToItsLetters) {
  const auto types_of = [](std::string_view operands, std::string_view results) {
    Graph graph;
    for (const char c : std::string(operands) + std::string(results)) {
      Value value;
      value.type = {c == 'b' ? DType::kBFloat16 : DType::kFloat32, {Dim::Batch(), 4}};
      graph.values.push_back(value);
    }
    return graph;
  };
  const auto wrong = [&](const char* op, std::string_view operands, std::string_view results) {
    Node node;
    node.op = op;
    ValueId v = 0;
    for (size_t i = 0; i < operands.size(); ++i) node.inputs.push_back(v++);
    for (size_t i = 0; i < results.size(); ++i) node.outputs.push_back(v++);
    return WrongBFloat16(types_of(operands, results), node);
  };
  EXPECT_EQ(wrong("Conv", "bff", "b"), std::nullopt);
  EXPECT_EQ(wrong("Conv", "bff", "f"), std::nullopt);
  EXPECT_EQ(wrong("Conv", "fff", "f"), std::nullopt);
  EXPECT_EQ(wrong("Conv", "fff", "b"), "cannot make bf16 as result 0");
  EXPECT_EQ(wrong("Conv", "bbf", "b"), "cannot read bf16 as operand 1");
  EXPECT_EQ(wrong("Conv", "bfb", "b"), "cannot read bf16 as operand 2");
  EXPECT_EQ(wrong("ConvGradWeight", "bb", "f"), std::nullopt);
  EXPECT_EQ(wrong("ConvGradWeight", "bf", "f"), "cannot read f32 as operand 1");
  EXPECT_EQ(wrong("ConvGradWeight", "bb", "b"), "cannot make bf16 as result 0");
  EXPECT_EQ(wrong("MatMul", "fb", "b"), std::nullopt);
  EXPECT_EQ(wrong("Attention", "bbb", "f"), std::nullopt);
  EXPECT_EQ(wrong("Attention", "bbf", "f"), "cannot read f32 as operand 2");
  EXPECT_EQ(wrong("BatchNormStats", "bff", "ff"), std::nullopt);
  EXPECT_EQ(wrong("BatchNormStats", "bff", "bf"), "cannot make bf16 as result 0");
  EXPECT_EQ(wrong("Transpose", "b", "b"), std::nullopt);
  EXPECT_EQ(wrong("Transpose", "b", "f"), "cannot make f32 as result 0");
  EXPECT_EQ(wrong("Concat", "bbbb", "b"), std::nullopt);
  EXPECT_EQ(wrong("Concat", "bbbf", "b"), "cannot read f32 as operand 3");
  EXPECT_EQ(wrong("Softmax", "b", "f"), "cannot read bf16 as operand 0");
  EXPECT_EQ(wrong("SoftmaxCrossEntropyGrad", "fff", "b"), std::nullopt);
}

}  // namespace
}  // namespace act
