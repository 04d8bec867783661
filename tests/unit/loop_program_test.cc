// The instructions that kernels/loops makes from a program, for any backend.
#include "kernels/loops/loop_program.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace act {
namespace {

constexpr LoopOperand kElements{OperandKind::kElements}, kCode{OperandKind::kCode}, kRow{OperandKind::kRow},
    kBroadcast{OperandKind::kBroadcast};
constexpr LoopOperand Column(int64_t period) { return {OperandKind::kColumn, period}; }

std::string NameOf(const TileInstr& instr) {
  // Those that programs do not have.
  const std::map<TileOp, std::string> added = {
      {TileOp::kCopy, "copy"},      {TileOp::kMulSub, "mul_sub"}, {TileOp::kNegMulAdd, "neg_mul_add"},
      {TileOp::kRowDot, "row_dot"}, {TileOp::kSided, "sided"},    {TileOp::kSidedAbs, "sided_abs"}};
  const auto it = added.find(instr.op);
  const std::string name = it != added.end() ? it->second : ToString(static_cast<Opcode>(instr.op));
  return instr.relu ? name + ".relu" : name;
}

// One instruction a line: "5 = fma(0, 1, 2)", registers by number.
std::string Text(const LoopProgram& loop) {
  std::string text;
  for (const LoopInstr& i : loop.instrs) {
    text += std::to_string(i.reg) + " = " + NameOf(i.instr) + "(" + std::to_string(i.a);
    for (int32_t operand : {i.b, i.c})
      if (operand >= 0) text += ", " + std::to_string(operand);
    text += ")\n";
  }
  return text;
}

// A program over [N, 8, 4] that stores the registers `results`. Plain operands have {} for their
// codec.
Program ProgramOf(std::vector<ProgramInput> inputs, std::vector<ProgramConstant> constants,
                  std::vector<Instr> instrs, const std::vector<int32_t>& results, int32_t row_axes = 0) {
  Program p;
  p.space = {Dim::Batch(), Dim(8), Dim(4)};
  p.row_axes = row_axes;
  p.inputs = std::move(inputs);
  p.constants = std::move(constants);
  p.instrs = std::move(instrs);
  for (int32_t reg : results) p.outputs.push_back({OutputKind::kStore, reg, {}, 0});
  return p;
}
const std::vector<ProgramInput> kOne(1), kTwo(2), kThree(3), kFour(4);

RegisterForm Form(const LoopProgram& loop, int32_t reg) { return loop.registers[static_cast<size_t>(reg)]; }

TEST(LoopProgram, MultipliesAndAddsInOneInstruction) {
  const auto text = [](Opcode second, int32_t a, int32_t b) {
    return Text(MakeLoopProgram(ProgramOf(kThree, {}, {{Opcode::kMul, 0, 1}, {second, a, b}}, {4}),
                                {kElements, kElements, kElements}));
  };
  EXPECT_EQ(text(Opcode::kAdd, 3, 2), "4 = fma(0, 1, 2)\n");
  EXPECT_EQ(text(Opcode::kAdd, 2, 3), "4 = fma(0, 1, 2)\n");
  EXPECT_EQ(text(Opcode::kSub, 3, 2), "4 = mul_sub(0, 1, 2)\n");
  EXPECT_EQ(text(Opcode::kSub, 2, 3), "4 = neg_mul_add(0, 1, 2)\n");
}

TEST(LoopProgram, AProductThatOthersReadStays) {
  const Program p = ProgramOf(kThree, {}, {{Opcode::kMul, 0, 1}, {Opcode::kAdd, 3, 2}}, {3, 4});
  EXPECT_EQ(Text(MakeLoopProgram(p, {kElements, kElements, kElements})), "3 = mul(0, 1)\n4 = add(3, 2)\n");
}

// Contracting it would compute the product for each element.
TEST(LoopProgram, AProductThatIsComputedLessOftenStays) {
  const Program p = ProgramOf(kThree, {}, {{Opcode::kMul, 0, 1}, {Opcode::kAdd, 3, 2}}, {4});
  EXPECT_EQ(Text(MakeLoopProgram(p, {Column(4), Column(4), kElements})), "3 = mul(0, 1)\n4 = add(3, 2)\n");
}

TEST(LoopProgram, ReluIsPartOfTheArithmeticBeforeIt) {
  const Program p = ProgramOf(kThree, {{0, Dim(0)}},
                              {{Opcode::kMul, 0, 1}, {Opcode::kAdd, 4, 2}, {Opcode::kMax, 5, 3}}, {6});
  EXPECT_EQ(Text(MakeLoopProgram(p, {kElements, kElements, kElements})), "6 = fma.relu(0, 1, 2)\n");
  Program other = p;
  other.constants[0].value = 1;
  EXPECT_EQ(Text(MakeLoopProgram(other, {kElements, kElements, kElements})),
            "5 = fma(0, 1, 2)\n6 = max(5, 3)\n");
}

TEST(LoopProgram, WhatNoResultReadsIsDropped) {
  const Program p = ProgramOf(kOne, {}, {{Opcode::kExp, 0}, {Opcode::kNeg, 1}, {Opcode::kAbs, 0}}, {3});
  EXPECT_EQ(Text(MakeLoopProgram(p, {kElements})), "3 = abs(0)\n");
}

TEST(LoopProgram, ARowSumOfAProductIsADotProduct) {
  const Program p = ProgramOf(kTwo, {}, {{Opcode::kMul, 0, 1}, {Opcode::kRowSum, 2}}, {3}, 1);
  EXPECT_EQ(Text(MakeLoopProgram(p, {kElements, kElements})), "3 = row_dot(0, 1)\n");
}

// (code * t + p) * t' + p' = code * (t t') + (p t' + p'). The brackets are computed once. Exact
// tensors keep the order of their operations.
TEST(LoopProgram, ScalesAndShiftsOfACodeAreOneOfEach) {
  const std::vector<Instr> instrs = {{Opcode::kFma, 0, 1, 2}, {Opcode::kFma, 5, 3, 4}};
  const std::vector<ProgramInput> coded = {{Codec::Uniform(2), 1}, {}, {}, {}, {}};
  const std::vector<LoopOperand> columns = {kCode, Column(4), Column(4), Column(1), Column(32)};
  const LoopProgram loop = MakeLoopProgram(ProgramOf(coded, {}, instrs, {6}), columns);
  EXPECT_EQ(Text(loop), "7 = mul(1, 3)\n8 = fma(2, 3, 4)\n6 = fma(0, 7, 8)\n");
  EXPECT_EQ(Form(loop, 7), (RegisterForm{Varies::kNever, 4}));
  EXPECT_EQ(Form(loop, 8), (RegisterForm{Varies::kNever, 32}));
  std::vector<LoopOperand> plain = columns;
  plain[0] = kElements;
  EXPECT_EQ(Text(MakeLoopProgram(ProgramOf(std::vector<ProgramInput>(5), {}, instrs, {6}), plain)),
            "5 = fma(0, 1, 2)\n6 = fma(5, 3, 4)\n");
}

TEST(LoopProgram, TheShiftOfACodeMovesToWhatIsAdded) {
  const std::vector<ProgramInput> coded = {{Codec::Uniform(2), 1}, {}, {}, {}};
  const LoopProgram loop =
      MakeLoopProgram(ProgramOf(coded, {}, {{Opcode::kFma, 0, 1, 2}, {Opcode::kAdd, 4, 3}}, {5}),
                      {kCode, Column(4), Column(4), kElements});
  EXPECT_EQ(Text(loop), "6 = add(3, 2)\n5 = fma(0, 1, 6)\n");
  EXPECT_EQ(Form(loop, 6), (RegisterForm{Varies::kByElement, 0}));
}

// select(side > 0, max(|x|, c), -max(|x|, c))
TEST(LoopProgram, AMagnitudeWithASideIsOneInstruction) {
  const std::vector<Instr> instrs = {{Opcode::kAbs, 0},
                                     {Opcode::kMax, 4, 2},
                                     {Opcode::kNeg, 5},
                                     {Opcode::kGreater, 1, 3},
                                     {Opcode::kSelect, 7, 5, 6}};
  const Program p = ProgramOf(kThree, {{0, Dim(0)}}, instrs, {8});
  EXPECT_EQ(Text(MakeLoopProgram(p, {kElements, kElements, Column(1)})), "8 = sided_abs(0, 1, 2)\n");
  EXPECT_EQ(Text(MakeLoopProgram(p, {kElements, kElements, kElements})),
            "4 = abs(0)\n5 = max(4, 2)\n6 = neg(5)\n7 = greater(1, 3)\n8 = select(7, 5, 6)\n");
}

TEST(LoopProgram, ResultsAreMadeRightBeforeTheyAreRead) {
  const Program p = ProgramOf(kTwo, {}, {{Opcode::kNeg, 0}, {Opcode::kExp, 1}, {Opcode::kMul, 2, 3}}, {2, 4});
  EXPECT_EQ(Text(MakeLoopProgram(p, {kElements, kElements})), "3 = exp(1)\n2 = neg(0)\n4 = mul(2, 3)\n");
}

// What each register is: of operands, then of arithmetic between them.
TEST(LoopRegisters, VaryAsTheirOperandsDo) {
  const std::vector<Instr> instrs = {
      {Opcode::kAdd, 0, 1},                    // 5: column of 4 and column of 32
      {Opcode::kMul, 2, 4},                    // 6: row and scalar
      {Opcode::kMul, 2, 0},                    // 7: row and column
      {Opcode::kAdd, 3, 4},                    // 8: broadcast and scalar
      {Opcode::kNeg, 4},                       // 9: scalar
      {Opcode::kRowSum, 0},                    // 10: the sum of a column's row
      {Opcode::kDropout, 4, -1, -1, 0.5f, 1},  // 11: random by element
  };
  const LoopProgram loop =
      MakeLoopProgram(ProgramOf(kFour, {{2, Dim(0)}}, instrs, {5, 6, 7, 8, 9, 10, 11}, 1),
                      {Column(4), Column(32), kRow, kBroadcast});
  EXPECT_EQ(Form(loop, 0), (RegisterForm{Varies::kNever, 4}));
  EXPECT_EQ(Form(loop, 2), (RegisterForm{Varies::kByRow, 0}));
  EXPECT_EQ(Form(loop, 3), (RegisterForm{Varies::kByElement, 0}));
  EXPECT_EQ(Form(loop, 4), (RegisterForm{Varies::kNever, 1}));
  EXPECT_EQ(Form(loop, 5), (RegisterForm{Varies::kNever, 32}));
  EXPECT_EQ(Form(loop, 6), (RegisterForm{Varies::kByRow, 0}));
  EXPECT_EQ(Form(loop, 7), (RegisterForm{Varies::kByElement, 0}));
  EXPECT_EQ(Form(loop, 8), (RegisterForm{Varies::kByElement, 0}));
  EXPECT_EQ(Form(loop, 9), (RegisterForm{Varies::kNever, 1}));
  EXPECT_EQ(Form(loop, 10), (RegisterForm{Varies::kByRow, 0}));
  EXPECT_EQ(Form(loop, 11), (RegisterForm{Varies::kByElement, 0}));
}

// ---- Operands

TensorView ViewOf(std::vector<int64_t> dims, DType dtype = DType::kFloat32) {
  TensorView view;
  view.dtype = dtype;
  view.elements = 1;
  for (int64_t d : dims) view.elements *= d;
  view.bytes = view.elements * ByteSize(dtype);
  view.dims = std::move(dims);
  return view;
}

// Of an operand of a loop over [3, 8, 4].
LoopOperand Classified(const TensorView& view, int32_t row_axes = 0, int64_t longest_column = 8192) {
  Node node;
  node.program = ProgramOf(kOne, {}, {{Opcode::kNeg, 0}}, {1}, row_axes);
  FusedShape shape;
  shape.dims = {3, 8, 4};
  shape.count = 96;
  KernelSite site;
  site.node = &node;
  site.inputs = {view};
  return ClassifyOperands(site, shape, longest_column)[0];
}
OperandKind KindOf(const TensorView& view, int32_t row_axes = 0, int64_t longest_column = 8192) {
  return Classified(view, row_axes, longest_column).kind;
}

TEST(LoopOperands, AreKnownByTheirShapes) {
  EXPECT_EQ(KindOf(ViewOf({3, 8, 4})), OperandKind::kElements);
  EXPECT_EQ(KindOf(ViewOf({3, 8, 4}, DType::kInt32)), OperandKind::kBroadcast);
  EXPECT_EQ(KindOf(ViewOf({})), OperandKind::kColumn);
  EXPECT_EQ(KindOf(ViewOf({1, 1, 4})), OperandKind::kColumn);
  EXPECT_EQ(Classified(ViewOf({})).period, 1);
  EXPECT_EQ(Classified(ViewOf({1, 1, 4})).period, 4);
  EXPECT_EQ(Classified(ViewOf({8, 4}, DType::kInt32)).period, 32);
  EXPECT_EQ(KindOf(ViewOf({8, 4}), 0, 31), OperandKind::kBroadcast);
  EXPECT_EQ(KindOf(ViewOf({8, 1})), OperandKind::kBroadcast);
  EXPECT_EQ(KindOf(ViewOf({3, 1, 4})), OperandKind::kBroadcast);
}

TEST(LoopOperands, OneNumberARowHasOnesInTheRowsAxes) {
  EXPECT_EQ(KindOf(ViewOf({3, 8, 1}), 1), OperandKind::kRow);
  EXPECT_EQ(KindOf(ViewOf({3, 1, 1}), 2), OperandKind::kRow);
  EXPECT_EQ(KindOf(ViewOf({3, 8, 1})), OperandKind::kBroadcast);
  EXPECT_EQ(KindOf(ViewOf({3, 1, 1}), 1), OperandKind::kBroadcast);
}

TEST(LoopOperands, ReadPatternsMergeAxesThatStepAsOne) {
  FusedShape shape;
  shape.dims = {3, 8, 1, 4};
  const ReadPattern outer = PatternOf(ViewOf({3, 1, 1, 1}), shape),
                    middle = PatternOf(ViewOf({8, 1, 1}), shape),
                    ends = PatternOf(ViewOf({3, 1, 1, 4}), shape);
  EXPECT_EQ(outer.extents, (std::vector<int64_t>{3, 32}));
  EXPECT_EQ(outer.strides, (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(middle.extents, (std::vector<int64_t>{3, 8, 4}));
  EXPECT_EQ(middle.strides, (std::vector<int64_t>{0, 1, 0}));
  EXPECT_EQ(ends.extents, (std::vector<int64_t>{3, 8, 4}));
  EXPECT_EQ(ends.strides, (std::vector<int64_t>{4, 0, 1}));
}

}  // namespace
}  // namespace act
