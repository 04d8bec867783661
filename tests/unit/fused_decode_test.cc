// Decoded numbers that a fused loop scales, adds up and masks. Folding these into one pass gives
// the reference's results, in as few steps as possible.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/unit/decode_program.h"
#include "tests/unit/each_target.h"

namespace act {
namespace {

std::vector<Codec> Codecs() {
  return {CodeWithSides(8, 2),
          Codec::Sign(3, 2).With(Metadata::kLogPair),
          Codec::Sign(4, 7, 64).Fitted(),
          Codec::Sign(3, 3).OfLevels(5),
          Codec::Uniform(2),
          Codec::Zero(3),
          Codec::Uniform(3, kDefaultGroupSize, Rounding::kDither).Fitted(),
          Codec::Cast(kBFloat16)};
}

int Steps(const FusedCase& c) { return std::stoi(c.Describe()); }

// The number of steps of a tile, where the results are those of the reference.
int StepsOf(const Rebuild& b, unsigned seed, bool same) {
  FusedCase truth = b.Case(seed, same);
  truth.Run("reference.fused");
  FusedCase fast = b.CopyFor(truth, same);
  fast.Run("fused", 2);
  ExpectSameResults(b.r, fast, truth);
  return Steps(fast);
}

TEST(FusedDecode, RandomChainsGiveTheReferencesResults) {
  const std::vector<Codec> codecs = Codecs();
  for (unsigned seed = 0; seed < 800; ++seed) {
    RandomNumbers random(seed);
    const Rebuild b = RandomChain(random, codecs);
    const bool same = Pick(random, 0, 3) != 0;
    SCOPED_TRACE("seed " + std::to_string(seed) + (same ? ", in1 = in0\n" : "\n") + ToString(b.r.program));
    ASSERT_EQ(CheckProgram(b.r.program), std::nullopt);
    FusedCase truth = b.Case(seed, same);
    truth.Run("reference.fused");
    const auto expect_same = [&] {
      FusedCase fast = b.CopyFor(truth, same);
      fast.Run("fused", 2);
      ExpectSameResults(b.r, fast, truth);
    };
    seed % 20 == 0 ? ForEachTarget(expect_same) : expect_same();
    if (HasFatalFailure()) return;
  }
}

// relu(scale (|in0| - 2.1 number) + shift + masked (scale in2 + shift)), the input of a convolution
// in a chain of residual blocks.
TEST(FusedDecode, AResidualSumIsRebuiltInAStepACode) {
  Rebuild b({Dim::Batch(), Dim(9), Dim(130)}, CodeWithSides(8, 2), Codec::Uniform(2));
  b.r.program.constants.push_back({-2.1f, Dim(0)});
  const int32_t least = b.r.program.FirstInstr() - 1;
  const int32_t distance = b.Op(Opcode::kFma, Rebuild::kNumber, least, b.Op(Opcode::kAbs, Rebuild::kCode));
  const int32_t branch = b.Op(Opcode::kAdd, b.Op(Opcode::kMul, distance, Rebuild::kScale), Rebuild::kShift);
  const int32_t skip =
      b.Op(Opcode::kAdd, b.Op(Opcode::kMul, Rebuild::kOther, Rebuild::kScale), Rebuild::kShift);
  b.Store(b.Op(Opcode::kMul, b.Op(Opcode::kAdd, branch, skip), Rebuild::kMask));
  EXPECT_EQ(StepsOf(b, 7, /*same=*/true), 3);   // two decodes and the store
  EXPECT_EQ(StepsOf(b, 7, /*same=*/false), 4);  // the mask of another code is decoded separately
}

// (in0 scale + shift) number + shift, then times scale, plus number.
TEST(FusedDecode, ScalesAndShiftsOfANumberAreOneOfEach) {
  for (const Codec& codec : Codecs()) {
    // A cast's number is exact to more digits than two roundings leave.
    if (!codec.HasLevels()) continue;
    Rebuild b({Dim::Batch(), Dim(9), Dim(130)}, codec, codec);
    const int32_t once = b.Op(Opcode::kFma, Rebuild::kCode, Rebuild::kScale, Rebuild::kShift);
    const int32_t twice = b.Op(Opcode::kFma, once, Rebuild::kNumber, Rebuild::kShift);
    const int32_t thrice = b.Op(Opcode::kMul, twice, Rebuild::kScale);
    b.Store(b.Op(Opcode::kAdd, thrice, Rebuild::kNumber));
    EXPECT_EQ(StepsOf(b, 9, /*same=*/true), 2) << ToString(codec);  // and the store
  }
}

// A division by it would show the difference.
TEST(FusedDecode, AScaledZeroKeepsItsSign) {
  const Codec codec = Codec::Sign(3, 2, 64, Rounding::kNearest);
  Rebuild b({Dim::Batch(), Dim(7), Dim(33)}, codec, codec);
  b.Store(b.Op(Opcode::kMul, Rebuild::kCode, Rebuild::kFull));
  FusedCase truth = b.Case(10, true);
  truth.Run("reference.fused");
  ForEachTarget([&] {
    FusedCase fast = b.CopyFor(truth, true);
    fast.Run("fused");
    int zeros = 0;
    for (int64_t i = 0; i < truth.output_views[0].elements; ++i) {
      ASSERT_EQ(std::signbit(fast.Out(0)[i]), std::signbit(truth.Out(0)[i])) << i;
      zeros += truth.Out(0)[i] == 0 && std::signbit(truth.Out(0)[i]);
    }
    EXPECT_GT(zeros, 10);
  });
}

// A number that is read twice is decoded once, unchanged.
TEST(FusedDecode, WhatIsReadTwiceIsNotFolded) {
  Rebuild b({Dim::Batch(), Dim(9), Dim(130)}, CodeWithSides(8, 2), Codec::Uniform(2));
  const int32_t scaled = b.Op(Opcode::kMul, Rebuild::kCode, Rebuild::kScale);
  b.Store(scaled);
  b.Store(b.Op(Opcode::kAdd, scaled, Rebuild::kShift));
  EXPECT_EQ(StepsOf(b, 8, /*same=*/true), 4);  // decode with the scale, add, two stores
}

// A code with a mask in its sign is made in one step, and is exact on both sides of the mask.
TEST(FusedDecode, SidedValuesTakeOneStep) {
  constexpr float kInf = std::numeric_limits<float>::infinity(),
                  kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const bool absolute : {false, true}) {
    RandomCase r;
    Program& p = r.program;
    p.space = {Dim(1103)};
    p.inputs.resize(2);
    r.inputs = {{DType::kFloat32, p.space}, {DType::kFloat32, p.space}};
    p.constants = {{1e-30f, Dim(0)}, {0.0f, Dim(0)}};
    const int32_t v = r.Op(Opcode::kMax, absolute ? r.Op(Opcode::kAbs, 0) : 0, 2);
    const int32_t negative = r.Op(Opcode::kNeg, v), side = r.Op(Opcode::kGreater, 1, 3);
    r.Store(r.Op(Opcode::kSelect, side, v, negative));
    RandomNumbers random(5);
    FusedCase truth = Build(random, r);
    const std::vector<float> odd = {0.0f, -0.0f, 1e-31f, -1e-31f, 1e-30f, kInf, -kInf, kNaN};
    for (size_t i = 0; i < odd.size() * odd.size(); ++i) {
      truth.In(0)[i] = odd[i % odd.size()];
      truth.In(1)[i] = odd[i / odd.size()];
    }
    truth.Run("reference.fused");
    ForEachTarget([&] {
      FusedCase fast = CopyOf(r, truth);
      fast.Run("fused");
      EXPECT_EQ(Steps(fast), 2);  // and the store
      for (int64_t i = 0; i < truth.output_views[0].elements; ++i)
        ASSERT_TRUE(fast.Out(0)[i] == truth.Out(0)[i] ||
                    (std::isnan(fast.Out(0)[i]) && std::isnan(truth.Out(0)[i])))
            << i << ": " << fast.Out(0)[i] << ", reference " << truth.Out(0)[i];
    });
  }
}

}  // namespace
}  // namespace act
