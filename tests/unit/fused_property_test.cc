#include <gtest/gtest.h>

#include <string>

#include "tests/unit/random_program.h"

namespace act {
namespace {

TEST(FusedProperty, RandomProgramsGiveTheReferencesResults) {
  for (unsigned seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomNumbers random(seed);
    const RandomCase r = MakeRandomCase(random);
    SCOPED_TRACE(ToString(r.program.space) + " batch " + std::to_string(r.batch) + "\n" +
                 ToString(r.program));
    ASSERT_EQ(CheckProgram(r.program), std::nullopt);
    FusedCase fast = Build(random, r);
    FusedCase truth = CopyOf(r, fast);
    fast.Run("fused", static_cast<int>(1 + seed % 3));
    truth.Run("reference.fused");
    ExpectSameResults(r, fast, truth);
    if (HasFatalFailure()) return;
  }
}

// A result may be in the same memory as an operand of the same type and dims, since the planner reuses
// memory this way. Every such pair is tried, one at a time.
TEST(FusedProperty, ResultsMayOverwriteOperandsOfTheirShape) {
  int pairs = 0, narrow = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    RandomNumbers random(seed);
    const RandomCase r = MakeRandomCase(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + ToString(r.program));
    FusedCase plain = Build(random, r);
    const auto fits = [&](size_t in, size_t out) {
      const DType dtype = r.inputs[in].dtype;
      return r.program.inputs[in].codec.kind == CodecKind::kNone && dtype == r.outputs[out].dtype &&
             (dtype == DType::kFloat32 || dtype == DType::kBFloat16) &&
             r.program.outputs[out].kind == OutputKind::kStore && r.inputs[in].dims == r.program.space;
    };
    for (size_t in = 0; in < r.inputs.size(); ++in)
      for (size_t out = 0; out < r.outputs.size(); ++out) {
        if (!fits(in, out)) continue;
        FusedCase aliased = CopyOf(r, plain);
        aliased.Alias(out, in);
        aliased.Run("fused", 2);
        FusedCase fresh = CopyOf(r, plain);
        fresh.Run("fused", 2);
        for (size_t i = 0; i < r.outputs.size(); ++i)
          ASSERT_TRUE(aliased.OutBytes(i) == fresh.OutBytes(i))
              << "out" << out << " on in" << in << ": out" << i;
        ++pairs;
        narrow += r.outputs[out].dtype == DType::kBFloat16;
      }
  }
  EXPECT_GT(pairs, 100);
  EXPECT_GT(narrow, 20);
}

}  // namespace
}  // namespace act
