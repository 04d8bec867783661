// Weight gradients of packed operands, in float32 or rounded to bfloat16, compared with the reference kernel.
#include "kernels/cpu/float_product.h"
#include "kernels/cpu/pair_product.h"
#include "kernels/cpu/tile_pairs.h"
#include "kernels/site/dereference.h"
#include "tests/unit/conv_case.h"

namespace act {
namespace {

// Sums of up to about 2,000 products in float32, in another order than the reference's in double:
// 2^-24 * sqrt(terms), relative to the largest.
constexpr double kTolerance = 5e-6;

// Values already rounded to bfloat16, which the kernel does not round further.
TestTensor RandomBFloat16(const std::vector<int64_t>& dims, unsigned seed) {
  TestTensor t = Random(dims, seed);
  for (int64_t i = 0; i < t.elements(); ++i)
    t.as<uint32_t>()[i] = (t.as<uint32_t>()[i] + 0x8000u) & 0xFFFF0000u;
  return t;
}

OpCase CaseOf(const ConvCase& conv) {
  OpCase c = conv.GradWeight();
  c.attrs.Set("may_round", int64_t{1});
  c.inputs = {RandomBFloat16(c.inputs[0].dims, 1), RandomBFloat16(c.inputs[1].dims, 2)};
  return c;
}

OpCase ProductOf(int64_t terms, int64_t m, int64_t n) {
  Attributes attrs;
  attrs.Set("trans_a", int64_t{1});
  attrs.Set("may_round", int64_t{1});
  return {"MatMul",        attrs, {RandomBFloat16({terms, m}, 1), RandomBFloat16({terms, n}, 2)},
          {Empty({m, n})}, {},    {}};
}

// By the name of the kernel.
class PackedGradWeight : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "cpu.float_grad_weight") {
      if (!MultipliesFloats()) GTEST_SKIP() << "the processor has no AVX2";
    } else if (GetParam() == "cpu.tile_grad_weight") {
      if (!AmxProduct::Available()) GTEST_SKIP() << "the processor has no AMX-BF16";
    } else if (!PairProduct::Available()) {
      GTEST_SKIP() << "the processor has no AVX512_BF16";
    }
  }

  static const KernelEntry& Packed(const std::string& op) {
    for (const KernelEntry& entry : CpuRegistry().For(op))
      if (entry.name == GetParam()) return entry;
    ADD_FAILURE() << "no such kernel for " << op;
    return CpuRegistry().For(op).front();
  }

  // Runs the case in the workspace that a plan gives, and compares it with the reference in each
  // place where it runs.
  static void Check(const OpCase& c, double tolerance) {
    const OpResult ran = RunKernel(Packed(c.op), c, 2, PlannedWorkspace(c));
    EXPECT_FALSE(ran.refused) << ran.error;
    CompareWithReference(c, tolerance);
  }
};

// Those that round, which multiply matrices, too.
using RoundedGradWeight = PackedGradWeight;

std::string NameOf(const testing::TestParamInfo<std::string>& param) { return param.param.substr(4); }
INSTANTIATE_TEST_SUITE_P(Kernels, PackedGradWeight,
                         testing::Values("cpu.float_grad_weight", "cpu.rounded_grad_weight",
                                         "cpu.tile_grad_weight"),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Kernels, RoundedGradWeight,
                         testing::Values("cpu.rounded_grad_weight", "cpu.tile_grad_weight"), NameOf);

TEST_P(PackedGradWeight, ConvolutionsOfRoundedNumbersAreExact) {
  const std::vector<std::pair<std::string, ConvCase>> cases = {
      {"plain 3x3", {{2, 9, 7, 16}, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}},
      {"pointwise", {{2, 5, 5, 48}, 24, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}}},
      {"pointwise in four parts of many blocks", {{3, 26, 29, 49}, 56, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}}},
      {"pointwise with a border", {{2, 6, 5, 16}, 9, {1, 1}, {1, 1}, {1, 1}, {1, 0, 1, 2}}},
      {"strided pointwise", {{2, 8, 9, 32}, 64, {1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}}},
      {"strided 3x3", {{3, 8, 8, 16}, 16, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}}},
      {"odd channels", {{1, 6, 5, 17}, 11, {3, 2}, {1, 2}, {1, 1}, {1, 0, 1, 1}}},
      {"asymmetric pads", {{2, 7, 7, 18}, 8, {3, 3}, {2, 2}, {1, 1}, {0, 0, 1, 1}}},
      {"dilated", {{2, 11, 11, 16}, 16, {3, 3}, {1, 1}, {2, 2}, {2, 2, 2, 2}}},
      {"rows of more than a block", {{2, 3, 301, 16}, 8, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}},
      {"fewer rows than parts", {{1, 3, 700, 16}, 8, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}},
      {"one long row", {{1, 1201, 20}, 24, {5}, {1}, {1}, {2, 1}}},
      {"one axis", {{2, 19, 20}, 20, {5}, {2}, {1}, {2, 1}}},
      {"three axes", {{2, 5, 6, 7, 16}, 8, {3, 1, 3}, {1, 2, 1}, {1, 1, 1}, {1, 0, 1, 1, 0, 1}}},
      {"single pixel", {{4, 1, 1, 30}, 13, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}}},
      {"a window as large as the image", {{5, 3, 4, 16}, 16, {3, 4}, {1, 1}, {1, 1}, {0, 0, 0, 0}}},
      {"rows without a window", {{2, 2, 4, 16}, 8, {3, 3}, {1, 1}, {1, 1}, {3, 1, 3, 1}}},
      {"a window of 35 taps", {{2, 9, 12, 50}, 17, {5, 7}, {1, 1}, {1, 1}, {2, 3, 2, 3}}},
      {"panels of every width", {{1, 6, 6, 100}, 104, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}},
  };
  for (const auto& [name, conv] : cases) {
    SCOPED_TRACE(name);
    Check(CaseOf(conv), kTolerance);
  }
}

TEST_P(PackedGradWeight, RandomConvolutionsOfRoundedNumbersAreExact) {
  std::mt19937 engine(7);
  const auto draw = [&engine](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine);
  };
  for (int i = 0; i < 30; ++i) {
    const int64_t axes = draw(1, 3), channels = draw(16, 20) * draw(1, 3),
                  out_channels = draw(8, 30) * draw(1, 4);
    ConvCase conv{{draw(1, 4)}, out_channels, {},
                  {},           {},           std::vector<int64_t>(static_cast<size_t>(2 * axes))};
    int64_t pixels = draw(1, 3000) / conv.in[0];  // approximately, of one image
    for (int64_t a = 0; a < axes; ++a) {
      conv.kernel.push_back(draw(1, 3));
      conv.strides.push_back(draw(1, 2));
      conv.dilations.push_back(draw(1, 2));
      const int64_t window = conv.dilations.back() * (conv.kernel.back() - 1) + 1;
      const int64_t extent = a + 1 == axes ? pixels : draw(1, std::min<int64_t>(30, pixels));
      pixels = std::max<int64_t>(1, pixels / extent);
      conv.in.push_back(std::max(window, extent));
      conv.pads[static_cast<size_t>(a)] = draw(0, window - 1);
      conv.pads[static_cast<size_t>(axes + a)] = draw(0, window - 1);
    }
    conv.in.push_back(channels);
    SCOPED_TRACE(testing::Message() << i << ": " << testing::PrintToString(conv.in) << " to " << out_channels
                                    << " by " << testing::PrintToString(conv.kernel));
    CompareWithReference(CaseOf(conv), kTolerance);
  }
}

TEST_P(RoundedGradWeight, MatrixProductsOfRoundedNumbersAreExact) {
  for (const auto& [terms, m, n] : std::vector<std::array<int64_t, 3>>{
           {1, 8, 16}, {7, 9, 17}, {300, 64, 48}, {2000, 40, 33}, {513, 120, 300}, {64, 300, 130}}) {
    SCOPED_TRACE(std::to_string(terms) + " x " + std::to_string(m) + " x " + std::to_string(n));
    Check(ProductOf(terms, m, n), kTolerance);
  }
}

// From a sum over the tiles before.
TEST_P(RoundedGradWeight, ProductsGoOnFromASum) {
  for (const auto& [terms, m, n] :
       std::vector<std::array<int64_t, 3>>{{7, 9, 17}, {300, 64, 48}, {2000, 40, 33}, {64, 300, 130}}) {
    OpCase c = ProductOf(terms, m, n);
    c.outputs[0] = Random({m, n}, 3);
    c.goes_on = true;
    SCOPED_TRACE(std::to_string(terms) + " x " + std::to_string(m) + " x " + std::to_string(n));
    Check(c, kTolerance);
  }
}

// Each of a product's two factors is wrong by at most 2^-8 of itself, and as often too
// large as too small.
TEST_P(RoundedGradWeight, OperandsAreRoundedToNearest) {
  OpCase c = CaseOf({{2, 9, 10, 32}, 24, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}});
  c.inputs[0] = Random(c.inputs[0].dims, 3);
  c.inputs[1] = Random(c.inputs[1].dims, 4);
  const OpResult got = RunKernel(Packed(c.op), c, 2, PlannedWorkspace(c)), exact = RunReference(c);
  ASSERT_FALSE(got.refused) << got.error;
  for (TestTensor& operand : c.inputs)
    for (int64_t i = 0; i < operand.elements(); ++i)
      operand.as<float>()[i] = std::fabs(operand.as<float>()[i]);
  const OpResult bound = RunReference(c);
  double worst = 0;
  for (int64_t i = 0; i < exact.tensors[0].elements(); ++i) {
    const double error = std::fabs(double{got.tensors[0].as<float>()[i]} - exact.tensors[0].as<float>()[i]);
    const double most = bound.tensors[0].as<float>()[i] * (std::ldexp(1, -7) + std::ldexp(1, -16));
    EXPECT_LE(error, most) << i;
    worst = std::fmax(worst, error / most);
  }
  EXPECT_GT(worst, .01) << "nothing was rounded";
  // Sums of 100 products and more of positive numbers. If they are truncated instead of rounded,
  // they are low by 2^-7.
  const OpResult positive = RunKernel(Packed(c.op), c, 2, PlannedWorkspace(c));
  EXPECT_LE(Distance(positive.tensors[0], bound.tensors[0]), std::ldexp(1, -10));
}

// A value that no window reads must not spread, nor one beside a border or the odd
// last pixel of a row.
TEST_P(PackedGradWeight, NotANumberStaysWhereItIsRead) {
  OpCase c = CaseOf({{1, 5, 6, 16}, 8, {2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}});
  for (int64_t column = 0; column < 6; ++column)
    c.inputs[1].as<float>()[(4 * 6 + column) * 16] = NAN;  // the last row, which no window reads
  Check(c, kTolerance);
  c.inputs[1].as<float>()[0] = INFINITY;
  c.inputs[0].as<float>()[3] = NAN;
  Check(c, kTolerance);
  OpCase odd = CaseOf({{1, 1, 5, 16}, 8, {1, 2}, {1, 1}, {1, 1}, {0, 1, 0, 0}});
  for (int64_t channel = 0; channel < 16; ++channel) odd.inputs[1].as<float>()[4 * 16 + channel] = INFINITY;
  Check(odd, kTolerance);
}

TEST_P(PackedGradWeight, GroupsAndLargeWindowsAreRefused) {
  const OpCase grouped = CaseOf({{2, 5, 5, 48}, 24, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 2});
  EXPECT_TRUE(RunKernel(Packed(grouped.op), grouped, 2, PlannedWorkspace(grouped)).refused);
  const OpCase large = CaseOf({{1, 1100, 16}, 8, {1025}, {1}, {1}, {0, 0}});
  const OpResult refused = RunKernel(Packed(large.op), large, 2, PlannedWorkspace(large));
  EXPECT_TRUE(refused.refused);
  EXPECT_NE(refused.error.find("large window"), std::string::npos) << refused.error;
}

TEST_P(RoundedGradWeight, OnlyWhereThePlanSaysSo) {
  for (OpCase c :
       {CaseOf({{2, 5, 5, 48}, 24, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}}), ProductOf(20, 16, 16)}) {
    c.attrs.Set("may_round", int64_t{0});
    EXPECT_TRUE(RunKernel(Packed(c.op), c, 2, PlannedWorkspace(c)).refused);
  }
  OpCase straight = ProductOf(24, 24, 24);
  straight.attrs.Set("trans_a", int64_t{0});
  EXPECT_TRUE(RunKernel(Packed(straight.op), straight, 2, PlannedWorkspace(straight)).refused);
  EXPECT_TRUE(RunKernel(Packed("MatMul"), ProductOf(24, 24, 24), 2, 1000).refused) << "in 1,000 bytes";
  const OpCase large = ProductOf(1, 8, (1 << 20) + 1);
  const OpResult refused = RunKernel(Packed(large.op), large, 2, PlannedWorkspace(large));
  EXPECT_TRUE(refused.refused);
  EXPECT_NE(refused.error.find("many channels"), std::string::npos) << refused.error;
}

// The bits of a product by tiles depend on where a block of pixels begins, so its size must not follow
// from the threads. 16 threads have the least room for each.
TEST_P(PackedGradWeight, BitsDoNotDependOnThreads) {
  for (const OpCase& c :
       {CaseOf({{3, 13, 11, 80}, 96, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}),
        CaseOf({{2, 30, 31, 64}, 48, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}}), ProductOf(1100, 200, 300)}) {
    if (c.op == "MatMul" && GetParam() == "cpu.float_grad_weight") continue;
    for (const int64_t workspace : {PlannedWorkspace(c), PlannedWorkspace(c) / 4}) {
      const OpResult one = RunKernel(Packed(c.op), c, 1, workspace);
      for (const int threads : {2, 5, 16}) {
        const OpResult other = RunKernel(Packed(c.op), c, threads, workspace);
        EXPECT_EQ(one.refused, other.refused) << one.error << other.error;
        if (one.refused || other.refused) continue;
        EXPECT_EQ(std::memcmp(one.tensors[0].as<float>(), other.tensors[0].as<float>(),
                              static_cast<size_t>(one.tensors[0].elements()) * sizeof(float)),
                  0)
            << c.op << " on " << threads << " threads in " << workspace << " bytes";
      }
    }
  }
}

TEST_P(PackedGradWeight, AnEmptyBatchIsRefused) {
  const OpCase c = CaseOf({{0, 5, 5, 48}, 24, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}});
  EXPECT_TRUE(RunKernel(Packed(c.op), c, 2, PlannedWorkspace(c)).refused);
  CompareWithReference(c, 0);
}

}  // namespace
}  // namespace act
