#include "runtime/plan/program.h"

#include <gtest/gtest.h>

namespace act {
namespace {

const Dim N = Dim::Batch();

// y = relu((x - mean) * rstd), its mask, and the mean of y over the batch.
Program Example() {
  Program p;
  p.space = {N, Dim(4)};
  p.inputs = {{Codec::Uniform(2), 3}, {}, {}};
  p.constants = {{0, Dim(0)}, {1, N * Dim(2)}, {0.1f, Dim(0)}};
  p.instrs = {{Opcode::kSub, 0, 1}, {Opcode::kFma, 6, 2, 5}, {Opcode::kMax, 7, 3}, {Opcode::kMul, 8, 4}};
  p.instrs.push_back({Opcode::kDropout, 8, -1, -1, 0.25f, 11});
  p.outputs = {{OutputKind::kStore, 10, {}, 0},
               {OutputKind::kEncode, 8, Codec::Mask(), 0},
               {OutputKind::kEncode, 6, Codec::Uniform(4), 5},
               {OutputKind::kSum, 9, {}, 0}};
  return p;
}

TEST(ProgramText, ShowsEveryRegisterAndResult) {
  EXPECT_EQ(ToString(Example()),
            "in0 = decode<uniform2,g256, stream 3>\n"
            "r0 = sub(in0, in1)\n"
            "r1 = fma(r0, in2, 0.1)\n"
            "r2 = max(r1, 0)\n"
            "r3 = mul(r2, 1/(2N))\n"
            "r4 = dropout(r2, p 0.25, stream 11)\n"
            "out0 = store(r4)\n"
            "out1 = encode<mask1>(r2)\n"
            "out2 = encode<uniform4,g256, stream 5>(r0)\n"
            "out3 = sum(r3)\n");
}

TEST(ProgramText, SurvivesRegistersThatDoNotExist) {
  Program p = Example();
  p.instrs[0].a = 99;
  EXPECT_NE(ToString(p).find("?99"), std::string::npos);
}

TEST(ProgramCheck, TakesTheExample) { EXPECT_EQ(CheckProgram(Example()), std::nullopt); }

// Each edit breaks one rule; the message names the place.
TEST(ProgramCheck, NamesWhatIsWrong) {
  const auto wrong = [](auto&& edit) {
    Program p = Example();
    edit(p);
    return CheckProgram(p).value_or("nothing");
  };
  EXPECT_EQ(wrong([](Program& p) { p.instrs[1].b = 7; }),
            "r1: operand register 7 is not made before it is read");
  EXPECT_EQ(wrong([](Program& p) { p.instrs[1].c = -1; }),
            "r1: operand register -1 is not made before it is read");
  EXPECT_EQ(wrong([](Program& p) { p.instrs[0].c = 1; }), "r0: sub has too many operands");
  EXPECT_EQ(wrong([](Program& p) { p.instrs[0].op = static_cast<Opcode>(200); }), "r0: unknown opcode 200");
  EXPECT_EQ(wrong([](Program& p) { p.instrs[4].parameter = 1; }),
            "r4: dropout probability 1 is not in [0, 1)");
  EXPECT_EQ(wrong([](Program& p) { p.outputs[0].reg = 11; }), "out0: register 11 does not exist");
  EXPECT_EQ(wrong([](Program& p) { p.outputs[1].codec = {}; }),
            "out1: group size 0 is not a power of two in 64..1024");
  EXPECT_EQ(wrong([](Program& p) { p.outputs[0].codec = Codec::Mask(); }),
            "out0: only an encoded output has a codec");
  EXPECT_EQ(wrong([](Program& p) { p.outputs[0].kind = static_cast<OutputKind>(9); }),
            "out0: unknown kind 9");
  EXPECT_EQ(wrong([](Program& p) { p.inputs[0].codec.bits = 9; }), "in0: 9 bits are not in 1..8");
  EXPECT_EQ(wrong([](Program& p) {
              p.space = {Dim(4), N};
            }),
            "in0: elements per sample of [4,N] vary with the batch size");
  EXPECT_EQ(wrong([](Program& p) { p.space[1] = Dim(kTooLarge); }),
            "the iteration space [N," + std::to_string(kTooLarge) + "] is too large");
  EXPECT_EQ(wrong([](Program& p) { p.instrs[0] = {Opcode::kRowSum, 0}; }), "r0: row_sum without rows");
  EXPECT_EQ(wrong([](Program& p) {
              p.outputs[0] = {OutputKind::kRowStore, 0, {}, 0};
            }),
            "out0: a number a row, without rows");
  EXPECT_EQ(wrong([](Program& p) { p.row_axes = 3; }), "rows of 3 axes of [N,4]");
  EXPECT_EQ(wrong([](Program& p) { p.row_axes = -1; }), "rows of -1 axes of [N,4]");
  EXPECT_EQ(wrong([](Program& p) { p.row_axes = 2; }), "rows of [N,4] that no tile holds");
  EXPECT_EQ(wrong([](Program& p) { p.instrs.resize(5000); }), "the program has more than 4096 registers");
}

// Whole rows, beginning at whole groups; a sample that is one tile begins wherever it does.
TEST(ProgramTile, HoldsWholeRowsAndGroups) {
  const auto tile = [](Dims space, int32_t rows, Codec codec = {}) {
    Program p;
    p.space = std::move(space);
    p.row_axes = rows;
    p.inputs = {{codec, 0}};
    return TileElements(p);
  };
  const Codec code = Codec::Uniform(2);
  EXPECT_EQ(tile({N, Dim(5000)}, 0, code), 1024);
  EXPECT_EQ(tile({N, Dim(96)}, 1), 960);
  EXPECT_EQ(tile({N, Dim(50), Dim(96)}, 1, code), 768);
  EXPECT_EQ(tile({N, Dim(2500)}, 1), 2500);
  EXPECT_EQ(tile({N, Dim(4096)}, 1, code), 4096);
  EXPECT_EQ(tile({N, Dim(4097)}, 1), std::nullopt);
  EXPECT_EQ(tile({N, Dim(64), Dim(64)}, 2), 4096);
  EXPECT_EQ(tile({N, Dim(17), Dim(33)}, 1, code), 17 * 33);
  EXPECT_EQ(tile({N, Dim(197), Dim(33)}, 1, code), std::nullopt);
  EXPECT_EQ(tile({N, Dim(0)}, 1), std::nullopt);
}

TEST(ProgramCheck, EveryOpcodeHasAName) {
  for (int op = 0; op <= static_cast<int>(Opcode::kRowMax); ++op)
    EXPECT_STRNE(ToString(static_cast<Opcode>(op)), "?") << op;
}

TEST(FusedWorkspace, BoundsThePartialSums) {
  const TensorType full{DType::kFloat32, {N, Dim(4)}}, sum{DType::kFloat32, {Dim(4)}};
  EXPECT_EQ(FusedWorkspaceBound(Example(), {full, full, full, sum}, CpuTarget()), Dim(16 * 4 * 8 + 64));
  const TensorType wide{DType::kFloat32, {Dim(100000)}};
  EXPECT_EQ(FusedWorkspaceBound(Example(), {full, full, full, wide}, CpuTarget()), Dim(2 * 100000 * 8 + 64));
  const TensorType batched{DType::kFloat32, {N}};
  EXPECT_EQ(FusedWorkspaceBound(Example(), {full, full, full, batched}, CpuTarget()),
            N * Dim(16 * 8) + Dim(64));
}

}  // namespace
}  // namespace act
