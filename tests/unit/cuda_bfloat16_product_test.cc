// Convolutions and matrix products of bfloat16 on the fake card: a float32 factor is rounded, sums are float32,
// and a bfloat16 result is rounded once. Operands are such that every kernel has the reference's bits.
#include "kernels/cuda/registry.h"
#include "tests/unit/bfloat16_cases.h"
#include "tests/unit/conv_case.h"
#include "tests/unit/cuda_testing.h"
#include "tests/unit/exact_numbers.h"
#include "tests/unit/matmul_case.h"

namespace act {
namespace {

constexpr DType kF32 = DType::kFloat32, kBF16 = DType::kBFloat16;

void AllKernels(KernelRegistry& registry, const cuda::CudaContext& context) {
  cuda::RegisterCudaDepthwise(registry, context);
  cuda::RegisterCudaConv(registry, context);
  cuda::RegisterCudaMatMul(registry, context);
}

// How many kernels ran with the planned workspace. Each also runs with none, if it can.
int Compare(const OpCase& c) {
  SCOPED_TRACE(Describe(c));
  return CompareCudaWithReference(AllKernels, c, 0);
}

// Runs kernel `name` with less than the planned workspace, and returns its description.
std::string CompareWithin(const OpCase& c, const std::string& name, int64_t workspace) {
  SCOPED_TRACE(Describe(c));
  const KernelRegistry registry = CudaKernels(AllKernels);
  for (const KernelEntry& entry : registry.For(c.op)) {
    if (entry.name != name) continue;
    const CudaResult result = RunCuda(entry, c, workspace);
    EXPECT_EQ(result.error, "");
    if (!result.error.empty()) return "";
    EXPECT_EQ(Distance(result.tensors[0], RunReference(c).tensors[0]), 0);
    return result.description;
  }
  ADD_FAILURE() << "no kernel " << name;
  return "";
}

// Bfloat16 integers and float32 fractions.
TestTensor Factor(const TestTensor& like, DType dtype, unsigned seed) {
  return dtype == kBF16 ? Narrow(Integers(like.dims, seed)) : Fractions(like.dims, seed);
}

OpCase Exact(OpCase c, DType first, DType second, DType result) {
  c.inputs[0] = Factor(c.inputs[0], first, 1);
  c.inputs[1] = Factor(c.inputs[1], second, 2);
  c.outputs[0] = Empty(c.outputs[0].dims, result);
  // A bias that bfloat16 cannot hold.
  if (c.inputs.size() > 2) c.inputs[2] = Fractions(c.inputs[2].dims, 3);
  for (int64_t i = 0; c.inputs.size() > 2 && i < c.inputs[2].elements(); ++i)
    c.inputs[2].as<uint32_t>()[i] &= 0xFFFFF000u;
  return c;
}

// ---- Products

TEST(CudaBFloat16MatMul, TheLibraryAndOurTilesHaveTheBitsOfTheReference) {
  struct Types {
    DType a, b, y;
  };
  std::vector<OpCase> cases = BiasCases();
  for (const auto& [name, c] : MatMulCases()) cases.push_back(c);
  for (const Types& t :
       {Types{kBF16, kBF16, kF32}, {kBF16, kBF16, kBF16}, {kBF16, kF32, kBF16}, {kF32, kBF16, kF32}})
    for (const OpCase& c : cases) {
      const OpCase exact = Exact(c, t.a, t.b, t.y);
      EXPECT_EQ(Compare(exact), 2) << Describe(exact);
    }
}

TEST(CudaBFloat16MatMul, TilesGoOnFromASum) {
  for (const auto& [a, b] : {std::pair(kBF16, kBF16), {kBF16, kF32}, {kF32, kBF16}})
    for (const OpCase& c : SumsOverSamples()) {
      OpCase exact = Exact(c, a, b, kF32);
      exact.outputs[0] = Integers(c.outputs[0].dims, 4);
      EXPECT_EQ(Compare(exact), 2);
    }
}

TEST(CudaBFloat16MatMul, ABiasIsAddedBeforeSumsOfAPartOfTheRowsAreRounded) {
  for (const bool ta : {false, true}) {
    OpCase c = MatMul(ta ? std::vector<int64_t>{40, 300} : std::vector<int64_t>{300, 40}, {40, 36}, {300, 36},
                      ta, false);
    c.inputs.push_back(Random({36}, 3));
    c = Exact(c, kBF16, kBF16, kBF16);
    // Sums of 64 rows take half.
    CompareWithin(c, "cublaslt.matmul", 2 * 64 * 36 * 4);
    c.inputs[1] = Fractions(c.inputs[1].dims, 2);
    CompareWithin(c, "cublaslt.matmul", 3072 + 2 * 64 * 36 * 4);
  }
}

TEST(CudaBFloat16MatMul, Float32FactorsHaveNoBFloat16Result) {
  const OpCase c = Exact(MatMul({4, 8}, {8, 4}, {4, 4}, false, false), kF32, kF32, kBF16);
  const KernelRegistry registry = CudaKernels(AllKernels);
  for (const KernelEntry& entry : registry.For("MatMul"))
    EXPECT_TRUE(RunCuda(entry, c, 1 << 20).refused) << entry.name;
}

// ---- Convolutions

// At least: the library's, which a real one may refuse, and our tiles.
const int kKernels = IsRealCard() ? 1 : 2;

std::vector<std::pair<std::string, ConvCase>> Cases() {
  std::vector<std::pair<std::string, ConvCase>> cases = {
      {"depthwise, 5 x 5", {{2, 9, 7, 36}, 36, {5, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}, 36}},
      {"depthwise, strided", {{2, 9, 11, 8}, 8, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, 8}},
      {"depthwise, few channels", {{1, 6, 6, 3}, 3, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 3}}};
  // The workspace that is planned for the library has no room for the alignment of operands of a few bytes.
  for (const auto& named : ConvCases())
    if (named.first != "strided pointwise of one channel") cases.push_back(named);
  return cases;
}

TEST(CudaBFloat16Conv, ForwardHasTheBitsOfTheReference) {
  for (const auto& [name, conv] : Cases())
    for (const bool bias : {false, true})
      for (const DType y : {kF32, kBF16})
        EXPECT_GE(Compare(Exact(conv.Forward(bias), kBF16, kF32, y)), kKernels) << name;
}

TEST(CudaBFloat16Conv, GradInputHasTheBitsOfTheReference) {
  for (const auto& [name, conv] : Cases())
    for (const DType dx : {kF32, kBF16})
      EXPECT_GE(Compare(Exact(conv.GradInput(), kBF16, kF32, dx)), kKernels) << name;
}

TEST(CudaBFloat16Conv, GradWeightHasTheBitsOfTheReference) {
  for (const auto& [name, conv] : Cases())
    EXPECT_GE(Compare(Exact(conv.GradWeight(), kBF16, kBF16, kF32)), kKernels) << name;
}

// Seven samples, of which the workspace holds two, widened: parts of two, and one of one.
TEST(CudaBFloat16Conv, WidenedOperandsAreTakenAPartOfTheSamplesAtATime) {
  const ConvCase conv{{7, 5, 6, 8}, 12, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}};
  const auto aligned = [](int64_t bytes) { return (bytes + 255) / 256 * 256; };
  const int64_t w = aligned(12 * 8 * 9 * 4), x = aligned(5 * 6 * 8 * 4), y = aligned(5 * 6 * 12 * 4);
  const auto expect_parts = [](const OpCase& c, const std::string& name, int64_t workspace) {
    EXPECT_NE(CompareWithin(c, name, workspace).find("widened, in 4 parts"), std::string::npos) << c.op;
  };
  expect_parts(Exact(conv.GradWeight(), kBF16, kBF16, kF32), "cudnn.conv_grad_weight", w + 3 * (x + y));
  expect_parts(Exact(conv.Forward(true), kBF16, kF32, kBF16), "cudnn.conv", w + 3 * (x + y));
  expect_parts(Exact(conv.Forward(false), kBF16, kF32, kF32), "cudnn.conv", w + 3 * x);
  expect_parts(Exact(conv.GradInput(), kBF16, kF32, kF32), "cudnn.conv_grad_input", w + 3 * y);
}

}  // namespace
}  // namespace act
