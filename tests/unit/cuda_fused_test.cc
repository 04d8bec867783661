// Fused loops of the CUDA backend, on the fake card.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "tests/unit/cuda_fused_case.h"
#include "tests/unit/random_program.h"

namespace act {
namespace {

// Whether every operation has the same result on a card and on a processor with fused multiply-add, to the bit: all but
// sums, whose order is another, and functions that come from a library.
bool IsExact(const Program& program) {
  return std::none_of(program.instrs.begin(), program.instrs.end(), [](const Instr& x) {
    return x.op == Opcode::kRowSum || x.op == Opcode::kLog || x.op == Opcode::kPow || x.op == Opcode::kSin ||
           x.op == Opcode::kCos;
  });
}

bool SameFloat(float a, float b) { return (a != a && b != b) || BitsOf(a) == BitsOf(b); }

TEST(CudaFused, RandomPrograms) {
  const char* count = std::getenv("ACT_RANDOM_PROGRAMS");
  const unsigned kCount = count ? static_cast<unsigned>(std::atoi(count)) : 60;
  struct Each {
    RandomCase random;
    FusedCase cpu, card;
    std::unique_ptr<FusedOnCard> kernel;
  };
  std::deque<Each> cases;
  for (unsigned seed = 0; seed < kCount; ++seed) {
    RandomNumbers random(seed);
    RandomCase r = MakeRandomCase(random);
    FusedCase cpu = Build(random, r);
    FusedCase card = CopyOf(r, cpu);
    cases.push_back({std::move(r), std::move(cpu), std::move(card), nullptr});
    Each& c = cases.back();
    c.kernel = std::make_unique<FusedOnCard>(c.card);
  }
  for (size_t n = 0; n < cases.size(); ++n) {
    Each& c = cases[n];
    SCOPED_TRACE("seed " + std::to_string(n) + "\n" + ToString(c.random.program));
    if (!c.kernel->refusal().empty()) {
      std::printf("seed %zu: %s\n", n, c.kernel->refusal().c_str());
      continue;
    }
    c.kernel->Run();
    FusedCase truth = CopyOf(c.random, c.cpu);
    truth.Run("reference.fused");
    ASSERT_NO_FATAL_FAILURE(ExpectSameResults(c.random, c.card, truth));
    c.cpu.Run("fused");
    if (!IsExact(c.random.program)) continue;
    for (size_t i = 0; i < c.random.program.outputs.size(); ++i) {
      const ProgramOutput& output = c.random.program.outputs[i];
      if (output.kind == OutputKind::kSum) continue;
      if (output.kind == OutputKind::kEncode) {
        EXPECT_EQ(c.card.OutBytes(i), c.cpu.OutBytes(i)) << "out" << i;
        continue;
      }
      for (int64_t e = 0; e < c.card.output_views[i].elements; ++e)
        ASSERT_TRUE(SameFloat(c.card.Out(i)[e], c.cpu.Out(i)[e]))
            << "out" << i << "[" << e << "] = " << c.card.Out(i)[e] << ", processor " << c.cpu.Out(i)[e];
    }
  }
}

}  // namespace
}  // namespace act
