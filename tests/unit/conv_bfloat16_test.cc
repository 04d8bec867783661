// Convolutions of bfloat16 activations: every kernel that takes one, compared with the reference kernel,
// and the reference with itself on float32.
#include <dnnl.hpp>

#include "kernels/cpu/convert_bfloat16.h"
#include "tests/unit/conv_case.h"

namespace act {
namespace {

TestTensor Rounded(const TestTensor& t) {
  TestTensor r = Empty(t.dims, DType::kBFloat16);
  RoundToBFloat16(t.as<float>(), t.elements(), r.as<BFloat16>(), 1);
  return r;
}
TestTensor Widened(const TestTensor& t) {
  if (t.dtype == DType::kFloat32) return t;
  TestTensor w = Empty(t.dims);
  Widen(t.as<BFloat16>(), t.elements(), w.as<float>(), 1);
  return w;
}

// Whole numbers from -3 to 3: all sums of their products here are exact in float32 in any order.
TestTensor Whole(const std::vector<int64_t>& dims, unsigned seed) {
  TestTensor t = Empty(dims);
  std::mt19937 engine(seed);
  for (int64_t i = 0; i < t.elements(); ++i) t.as<float>()[i] = static_cast<float>(engine() % 7) - 3;
  return t;
}

// The three operators on bfloat16 operands, with results of either type.
std::vector<OpCase> CasesOf(const ConvCase& conv, bool whole) {
  std::vector<OpCase> cases;
  for (OpCase c : {conv.Forward(false), conv.Forward(true), conv.GradInput(), conv.GradWeight()}) {
    if (whole)
      for (size_t i = 0; i < c.inputs.size(); ++i) c.inputs[i] = Whole(c.inputs[i].dims, 10 + unsigned(i));
    c.workspace_byte = std::byte{0xff};  // NaN, which even a factor of 0 shows
    c.inputs[0] = Rounded(c.inputs[0]);
    if (c.op == "ConvGradWeight") {
      c.inputs[1] = Rounded(c.inputs[1]);
    } else {
      OpCase rounds = c;
      rounds.outputs[0] = Empty(c.outputs[0].dims, DType::kBFloat16);
      cases.push_back(rounds);
    }
    cases.push_back(c);
  }
  return cases;
}

// The names of the kernels that ran, besides the reference. All results are compared with it.
std::map<std::string, int> Compare(const OpCase& c, double tolerance) {
  std::map<std::string, int> ran;
  const OpResult truth = RunReference(c);
  EXPECT_FALSE(truth.refused) << truth.error;
  const TestTensor expected = Widened(truth.tensors[0]);
  const auto& entries = CpuRegistry().For(c.op);
  for (size_t k = 0; k + 1 < entries.size(); ++k)
    for (const int64_t workspace : {PlannedWorkspace(c), int64_t{0}}) {
      OpResult first;
      for (const int threads : {1, 2, 5}) {
        const OpResult result = RunKernel(entries[k], c, threads, workspace);
        if (result.refused) continue;
        const std::string where = entries[k].name + ", " + std::to_string(threads) + " threads, " +
                                  std::to_string(workspace) + " bytes of workspace";
        EXPECT_EQ(result.error, "") << where;
        EXPECT_EQ(result.tensors[0].dtype, c.outputs[0].dtype) << where;
        if (tolerance == 0) {
          EXPECT_EQ(result.tensors[0].bytes, truth.tensors[0].bytes) << where;
        } else {
          EXPECT_LE(Distance(Widened(result.tensors[0]), expected), tolerance) << where;
        }
        if (entries[k].name.rfind("cpu.", 0) == 0 && !first.tensors.empty()) {
          EXPECT_EQ(result.tensors[0].bytes, first.tensors[0].bytes)
              << where << ": other bits than on 1 thread";
        }
        if (threads == 1) first = result;
        ++ran[entries[k].name];
      }
    }
  return ran;
}

// Shapes that are divided in chunks: a sample takes more than a chunk, or samples are many.
const std::vector<std::pair<std::string, ConvCase>>& LargeCases() {
  static const std::vector<std::pair<std::string, ConvCase>> cases = {
      {"rows", {{1, 150, 140, 16}, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}},
      {"strided rows", {{1, 203, 70, 16}, 8, {5, 3}, {3, 2}, {1, 1}, {2, 1, 0, 1}}},
      {"dilated rows of two samples", {{2, 70, 40, 16}, 24, {3, 2}, {2, 1}, {3, 1}, {5, 0, 4, 1}}},
      {"samples", {{37, 9, 8, 24}, 20, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}},
      {"pixels", {{13, 27, 29, 64}, 40, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}}},
      {"pixels with strides", {{7, 31, 29, 40}, 48, {1, 1}, {2, 3}, {1, 1}, {0, 0, 0, 0}}},
      {"pixels with strides past the end", {{2, 9, 9, 16}, 16, {1, 1}, {2, 2}, {1, 1}, {0, 0, 2, 2}}},
      {"one long axis", {{1, 40001, 16}, 16, {5}, {2}, {1}, {2, 1}}},
      {"planes", {{1, 36, 10, 10, 16}, 16, {3, 3, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 0, 1, 1, 0}}},
      {"depthwise", {{2, 130, 70, 36}, 36, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, 36}},
  };
  return cases;
}

TEST(ConvBFloat16, WholeNumbersAreExact) {
  for (const auto* cases : {&ConvCases(), &LargeCases()})
    for (const auto& [name, conv] : *cases)
      for (const OpCase& c : CasesOf(conv, true)) {
        SCOPED_TRACE(name + ", " + c.op + " to " + std::string(ToString(c.outputs[0].dtype)));
        EXPECT_FALSE(Compare(c, 0).empty()) << "no fast kernel took it";
      }
}

// Sums of products of bfloat16 in float32, as many as a float32 convolution has: 2^-24 sqrt(terms)
// relative to the largest, see conv_test.cc. A sum at the middle of two bfloat16 may be rounded to
// either, which is a distance of 2^-7 of the smaller power of two, so of 2^-7 at most.
TEST(ConvBFloat16, NormalNumbersAgreeWithTheReference) {
  for (const auto& [name, conv] : ConvCases())
    for (const OpCase& c : CasesOf(conv, false)) {
      SCOPED_TRACE(name + ", " + c.op + " to " + std::string(ToString(c.outputs[0].dtype)));
      const bool rounds = c.outputs[0].dtype == DType::kBFloat16;
      EXPECT_FALSE(Compare(c, rounds ? std::ldexp(1, -7) : 2e-6).empty()) << "no fast kernel took it";
    }
}

// A dw of which each thread of 5 cannot have a sum of its own, and more activations than a chunk holds.
TEST(ConvBFloat16, LargeWeightGradientsAddUpChunks) {
  for (const ConvCase& conv : {ConvCase{{1, 120, 120, 64}, 64, {5, 5}, {2, 2}, {1, 1}, {2, 2, 2, 2}},
                               ConvCase{{2, 25, 24, 512}, 512, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}}}) {
    const OpCase c = CasesOf(conv, true).back();
    ASSERT_EQ(c.op, "ConvGradWeight");
    const OpResult truth = RunReference(c);
    for (const KernelEntry& entry : CpuRegistry().For(c.op)) {
      if (entry.name != "dnnl.widened_conv_grad_weight") continue;
      for (const int threads : {1, 5}) {
        const OpResult result = RunKernel(entry, c, threads, PlannedWorkspace(c));
        ASSERT_FALSE(result.refused) << result.error;
        EXPECT_EQ(result.tensors[0].bytes, truth.tensors[0].bytes) << threads << " threads";
      }
    }
  }
}

// The reference is the float32 one on operands that are rounded before, and its result after.
TEST(ConvBFloat16, TheReferenceRoundsFactorsAndResults) {
  for (const auto& [name, conv] : ConvCases())
    for (const OpCase& c : CasesOf(conv, false)) {
      SCOPED_TRACE(name + ", " + c.op);
      OpCase f32 = c;
      f32.inputs[0] = Widened(c.inputs[0]);
      f32.inputs[1] = Widened(c.inputs[1].dtype == DType::kFloat32 ? Rounded(c.inputs[1]) : c.inputs[1]);
      f32.outputs[0] = Empty(c.outputs[0].dims);
      TestTensor expected = RunReference(f32).tensors[0];
      if (c.outputs[0].dtype == DType::kBFloat16) expected = Rounded(expected);
      EXPECT_EQ(RunReference(c).tensors[0].bytes, expected.bytes);
    }
}

// 1 + 2^-9 times a whole number of 2 bits rounds to that number, so the result is the same.
TEST(ConvBFloat16, EveryKernelRoundsWeights) {
  for (const auto& [name, conv] : ConvCases())
    for (const OpCase& c : CasesOf(conv, true)) {
      if (c.op == "ConvGradWeight") continue;
      SCOPED_TRACE(name + ", " + c.op);
      OpCase near = c;
      for (int64_t i = 0; i < near.inputs[1].elements(); ++i) near.inputs[1].as<float>()[i] *= 1 + 0x1p-9f;
      EXPECT_EQ(RunReference(near).tensors[0].bytes, RunReference(c).tensors[0].bytes);
      Compare(near, 0);
    }
}

TEST(ConvBFloat16, WhichKernelsRun) {
  const bool pairs =
      (static_cast<int>(dnnl::get_effective_cpu_isa()) & static_cast<int>(dnnl::cpu_isa::avx512_core_bf16)) ==
      static_cast<int>(dnnl::cpu_isa::avx512_core_bf16);
  for (const auto& [name, conv] : ConvCases()) {
    if (name != "plain 3x3" && name != "pointwise" && name != "strided pointwise") continue;
    for (const OpCase& c : CasesOf(conv, true)) {
      SCOPED_TRACE(name + ", " + c.op);
      const auto ran = Compare(c, 0);
      const std::string suffix = c.op == "Conv"            ? "conv"
                                 : c.op == "ConvGradInput" ? "conv_grad_input"
                                                           : "conv_grad_weight";
      EXPECT_EQ(ran.count("dnnl.widened_" + suffix), 1u);
      if (pairs) {
        EXPECT_EQ(ran.count("dnnl." + suffix), 1u);
      }
    }
  }
}

// Borders and rows between chunks are zeros, which weights multiply. So a value spreads no further.
TEST(ConvBFloat16, NotANumberStaysWhereItIsRead) {
  for (const auto& [name, conv] : ConvCases())
    for (OpCase c : CasesOf(conv, true)) {
      if (c.op == "ConvGradWeight") continue;
      SCOPED_TRACE(name + ", " + c.op);
      c.inputs[0].as<uint16_t>()[c.inputs[0].elements() / 2] = 0x7FC0;
      EXPECT_FALSE(Compare(c, 1e-30).empty());  // whole numbers are exact
    }
}

TEST(ConvBFloat16, AnEmptyBatch) {
  const ConvCase conv{{0, 6, 6, 8}, 4, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}};
  for (const OpCase& c : CasesOf(conv, true)) {
    EXPECT_TRUE(Compare(c, 0).empty()) << c.op;
    if (c.op != "ConvGradWeight") continue;
    const OpResult dw = RunReference(c);
    for (int64_t i = 0; i < dw.tensors[0].elements(); ++i) EXPECT_EQ(dw.tensors[0].as<float>()[i], 0);
  }
}

// Types that no plan has: no fast kernel may misread them.
TEST(ConvBFloat16, OtherTypesAreRefused) {
  const ConvCase conv{{2, 9, 7, 16}, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}};
  const auto refused = [](const OpCase& c, bool by_all) {
    const auto& entries = CpuRegistry().For(c.op);
    for (size_t k = 0; k + (by_all ? 0 : 1) < entries.size(); ++k)
      EXPECT_TRUE(RunKernel(entries[k], c, 1, 1 << 24).refused) << entries[k].name;
  };
  OpCase rounds = conv.Forward(false);  // float32 to bfloat16
  rounds.outputs[0] = Empty(rounds.outputs[0].dims, DType::kBFloat16);
  refused(rounds, false);
  OpCase weights = conv.Forward(false);
  weights.inputs[1] = Rounded(weights.inputs[1]);
  refused(weights, true);
  OpCase mixed = conv.GradWeight();
  mixed.inputs[0] = Rounded(mixed.inputs[0]);
  refused(mixed, false);
  OpCase half = conv.Forward(false);
  half.inputs[0] = Empty(half.inputs[0].dims, DType::kFloat16);
  refused(half, true);
}

TEST(ConvertBFloat16, AgreesWithTheConversionOfOneNumber) {
  std::vector<float> x;
  for (uint32_t bits = 0; bits < 1 << 16; ++bits)
    for (const uint32_t low : {0x0000u, 0x7FFFu, 0x8000u, 0x8001u}) x.push_back(FloatOf(bits << 16 | low));
  const auto n = std::ssize(x);
  for (const int threads : {1, 3}) {
    std::vector<BFloat16> rounded(x.size());
    std::vector<float> widened(x.size()), in_place = x;
    RoundToBFloat16(x.data(), n, rounded.data(), threads);
    Widen(rounded.data(), n, widened.data(), threads);
    RoundInPlace(in_place.data(), n, threads);
    for (size_t i = 0; i < x.size(); ++i) {
      const BFloat16 expected = FromFloat<BFloat16>(x[i]);
      ASSERT_EQ(rounded[i].bits, expected.bits) << x[i];
      ASSERT_EQ(BitsOf(widened[i]), BitsOf(ToFloat(expected))) << x[i];
      ASSERT_EQ(BitsOf(in_place[i]), BitsOf(ToFloat(expected))) << x[i];
    }
  }
}

}  // namespace
}  // namespace act
