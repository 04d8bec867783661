// Kernels with bfloat16 operands and results, other than products and fused loops.
#include <bit>
#include <set>

#include "kernels/cpu/bfloat16_tile.h"
#include "tests/unit/bfloat16_cases.h"
#include "tests/unit/each_target.h"
#include "tests/unit/operator_cases.h"

namespace act {
namespace {

TEST(BFloat16, KernelsComputeWhatFloat32KernelsComputeOfTheSameValues) {
  std::set<std::string> fast, all;
  for (const OpCase& c : Float32Cases()) {
    const BothTypes both = InBothTypes(c);
    const auto& entries = CpuRegistry().For(c.op);
    for (const KernelEntry& entry : entries)
      for (const int64_t workspace : {PlannedWorkspace(both.narrow), int64_t{0}})
        for (const int threads : {1, 5}) {
          SCOPED_TRACE(entry.name + ", " + Describe(both.narrow) + ", " + std::to_string(threads) +
                       " threads");
          ExpectRounded(entry, both, threads, workspace);
          if (HasFatalFailure()) return;
          const bool ran = !RunKernel(entry, both.narrow, threads, workspace).refused;
          if (ran && &entry != &entries.back()) fast.insert(c.op);
        }
    all.insert(c.op);
  }
  EXPECT_EQ(fast, all) << "operators for which a fast kernel takes bfloat16";
  for (const RuntimeOp& op : RuntimeOps()) {
    const bool may = op.bfloat16.operands != "-" || op.bfloat16.results != "-";
    // The state of quantized updates is never float32 (quantized_update_test).
    const bool elsewhere = IsProduct(op) || op.runs == Runs::kProgram || op.runs == Runs::kAlias ||
                           op.name.starts_with("Quantized");
    EXPECT_EQ(all.count(std::string(op.name)) == 1, may && !elsewhere) << op.name;
  }
}

// Each float32 operand and result of each operator in turn becomes bfloat16, where the table does not allow
// that. Kernels refuse the node, or do what they do with float32; none takes one for the other.
TEST(BFloat16, ElsewhereKernelsRefuseItOrComputeItRight) {
  for (const RuntimeOp& op : RuntimeOps()) {
    // Convolutions leave the type of a bias to the check of plans.
    if (op.runs == Runs::kProgram || op.runs == Runs::kAlias || op.name.starts_with("Conv")) continue;
    const OpCase c = SmallCase(std::string(op.name));
    const auto& entries = CpuRegistry().For(c.op);
    const OpResult truth = RunReference(c);
    ASSERT_FALSE(truth.refused) << op.name << ": " << truth.error;
    for (const BothTypes& both : WithOneBFloat16(c))
      for (const KernelEntry& entry : entries) {
        SCOPED_TRACE(entry.name + ", " + Describe(both.narrow));
        const int64_t workspace = PlannedWorkspace(both.wide);
        if (!RunKernel(entry, both.narrow, 1, workspace).refused) ExpectRounded(entry, both, 1, workspace);
      }
  }
}

// ---- Conversions --------------------------------------------------------------------------------

TEST(BFloat16, VectorsAreConvertedAsNumbersAreOnEveryInstructionSet) {
  // Every upper half, with lower halves around ties; then the same again with a NaN in each vector.
  std::vector<float> x;
  for (uint32_t upper = 0; upper < 0x10000; ++upper)
    for (const uint32_t lower : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      x.push_back(std::bit_cast<float>(upper << 16 | lower));
  const size_t plain = x.size();
  for (size_t i = 0; i < plain; ++i) {
    if (i % 6 == 0) x.push_back(NAN);
    x.push_back(x[i]);
  }
  ForEachTarget([&x] {
    std::vector<BFloat16> narrow(x.size());
    RoundTile(x.size(), x.data(), narrow.data());
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(narrow[i].bits, FromFloat<BFloat16>(x[i]).bits) << std::bit_cast<uint32_t>(x[i]);
    std::vector<float> wide(x.size());
    WidenTile(narrow.size(), narrow.data(), wide.data());
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(ToFloat(narrow[i])));
  });
}

// Nothing past the end is read (the sanitizers' builds see that) or written.
TEST(BFloat16, TilesOfAnyLengthAreConverted) {
  ForEachTarget([] {
    for (size_t n = 0; n < 100; ++n) {
      std::vector<float> x(n), back(n + 1, 7.0f);
      for (size_t i = 0; i < n; ++i) x[i] = 1.0f + static_cast<float>(i) / 64;
      std::vector<BFloat16> narrow(n + 1, BFloat16{0x1234});
      RoundTile(n, x.data(), narrow.data());
      const std::vector<BFloat16> exact(narrow.begin(), narrow.begin() + static_cast<std::ptrdiff_t>(n));
      WidenTile(n, exact.data(), back.data());
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(back[i], ToFloat(FromFloat<BFloat16>(x[i]))) << n;
      ASSERT_EQ(narrow[n].bits, 0x1234) << n;
      ASSERT_EQ(back[n], 7.0f) << n;
    }
  });
}

}  // namespace
}  // namespace act
