// Kernels that read frozen weights as codes: lookups, and products with large weights.
#include "tests/unit/coded_operand_cases.h"

#include "kernels/cpu/coded_numbers.h"
#include "kernels/reference/codec.h"

namespace act {
namespace {

// What a loop would decode.
std::vector<float> Decoded(const TestTensor& code) {
  std::vector<float> numbers(static_cast<size_t>(code.coded->type.Elements().fixed));
  DecodeSampleReference(code.coded->codec, {}, 0, static_cast<int64_t>(numbers.size()), code.as<uint8_t>(),
                        numbers.data());
  return numbers;
}

TEST(CodedNumbers, AreThoseThatALoopDecodes) {
  for (const Codec& codec : kFrozenCodecs)
    for (const int64_t elements : {1, 63, 64, 300, 5000}) {
      const TestTensor code = CodeOf(Random({elements}, 1), codec);
      const std::vector<float> all = Decoded(code);
      const CodedNumbers numbers(*code.coded);
      for (const int64_t first : {int64_t{0}, int64_t{1}, elements / 2, elements - 1})
        for (const int64_t count : {int64_t{0}, int64_t{1}, (elements - first) / 2, elements - first}) {
          if (first + count > elements) continue;
          std::vector<float> part(static_cast<size_t>(count + 1), -1);
          numbers.Read(code.as<uint8_t>(), first, count, part.data());
          std::vector<BFloat16> rounded(static_cast<size_t>(count + 1), BFloat16{7});
          numbers.Read(code.as<uint8_t>(), first, count, rounded.data());
          for (int64_t i = 0; i < count; ++i) {
            const auto at = static_cast<size_t>(i);
            ASSERT_EQ(part[at], all[static_cast<size_t>(first + i)])
                << first << " + " << i << " of " << elements;
            ASSERT_EQ(rounded[at].bits, FromFloat<BFloat16>(part[at]).bits);
          }
          EXPECT_EQ(part.back(), -1) << "writes past the end";
          EXPECT_EQ(rounded.back().bits, 7);
        }
    }
}

TEST(CodedGather, TakesTheRowsOfTheDecodedTable) {
  ForCodedLookups([](const OpCase& coded, OpCase numbers) {
    EXPECT_GT(CompareWithReference(coded, 0), 0);
    const std::vector<float> table = Decoded(coded.inputs[0]);
    numbers.inputs[0] = Floats(numbers.inputs[0].dims, table);
    EXPECT_EQ(RunReference(coded).tensors[0].bytes, RunReference(numbers).tensors[0].bytes);
  });
}

// The reference gives the bits of the same operator of the decoded numbers.
void ExpectResultOfNumbers(OpCase c) {
  const OpResult truth = RunReference(c);
  ASSERT_EQ(truth.error, "");
  c.inputs[1] = Floats(DimsAt(c.inputs[1].coded->type.dims, 1), Decoded(c.inputs[1]));
  EXPECT_EQ(truth.tensors[0].bytes, RunReference(c).tensors[0].bytes);
}

TEST(CodedMatMul, MultipliesTheDecodedWeight) {
  // More than one piece, of columns and of the sum, where rows of the weight are columns of the result and where they
  // are terms.
  const std::vector<CodedProductCase> large = {{{2, 1000}, {600, 1000}, {2, 600}, false, true},
                                               {{2, 5000}, {5000, 130}, {2, 130}, false, false},
                                               {{2, 1000}, {1000, 600}, {2, 600}, false, false},
                                               {{2, 5000}, {130, 5000}, {2, 130}, false, true}};
  ForCodedProducts(large, [&](const OpCase& c) {
    SCOPED_TRACE(Describe(c));
    ExpectResultOfNumbers(c);
    EXPECT_GT(CompareWithReference(c, 0), 0);
  });
}

TEST(CodedConvolution, MultipliesTheDecodedWeight) {
  // More rows than are decoded at a time.
  ForCodedConvolutions({{{1, 4, 4, 512}, 200, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}}, [](const OpCase& c) {
    SCOPED_TRACE(Describe(c));
    ExpectResultOfNumbers(c);
    EXPECT_GT(CompareWithReference(c, 0), 0);
  });
}

// A code where a kernel decodes none, and numbers of another weight.
TEST(CodedMatMul, RefusesACodeAsItsFirstFactor) {
  OpCase c = MatMul({17, 100}, {100, 33}, {17, 33}, false, false);
  c.inputs[0] = CodeOf(c.inputs[0], kFrozenCodecs[1]);
  c.inputs[0].coded = nullptr;
  for (const KernelEntry& entry : CpuRegistry().For("MatMul"))
    EXPECT_TRUE(RunKernel(entry, c, 1, PlannedWorkspace(c)).refused) << entry.name;
}

}  // namespace
}  // namespace act
