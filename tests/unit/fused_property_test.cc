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

// Registers are float32: whether an operand's numbers come from float32 or from bfloat16 changes no bit of a
// result. Sums and rows are added up in the same order.
TEST(FusedProperty, BFloat16OperandsGiveWhatTheirNumbersInFloat32Give) {
  int operands = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    RandomNumbers random(seed);
    const RandomCase wide = MakeRandomCase(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + ToString(wide.program));
    RandomCase narrow = wide;
    FusedCase of_wide = Build(random, wide);
    const auto is_float = [&wide](size_t i) {
      return wide.program.inputs[i].codec.kind == CodecKind::kNone && wide.inputs[i].dtype == DType::kFloat32;
    };
    for (size_t i = 0; i < wide.inputs.size(); ++i)
      if (is_float(i)) narrow.inputs[i].dtype = DType::kBFloat16;
    FusedCase of_narrow(narrow.program, narrow.inputs, narrow.outputs, narrow.batch);
    of_narrow.state = of_wide.state;
    for (size_t i = 0; i < wide.inputs.size(); ++i) {
      const TensorView &from = of_wide.input_views[i], &to = of_narrow.input_views[i];
      if (!is_float(i)) {
        std::memcpy(to.as<void>(), from.as<void>(), static_cast<size_t>(to.bytes));
        continue;
      }
      WriteFromFloat(to.dtype, from.as<float>(), to.elements, to.as<void>());
      ReadAsFloat(to.dtype, to.as<void>(), 1, to.elements, from.as<float>());
      ++operands;
    }
    of_wide.Run("fused", 2);
    of_narrow.Run("fused", 2);
    for (size_t i = 0; i < wide.outputs.size(); ++i)
      ASSERT_TRUE(of_narrow.OutBytes(i) == of_wide.OutBytes(i)) << "out" << i;
  }
  EXPECT_GT(operands, 500);
}

}  // namespace
}  // namespace act
