#include "tests/unit/matmul_case.h"

namespace act {
namespace {

TEST(MatMul, ByHand) {
  OpCase c = MatMul({2, 3}, {2, 2}, {3, 2}, true, false);
  c.inputs = {Floats({2, 3}, {1, 2, 3, 4, 5, 6}), Floats({2, 2}, {1, 10, 100, 1000})};
  const float expected[] = {401, 4010, 502, 5020, 603, 6030};
  const OpResult y = RunReference(c);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(y.tensors[0].as<float>()[i], expected[i]);
}

TEST(MatMul, OneDnnAgreesWithTheReference) {
  // Up to 100 products in float32: 2^-24 * sqrt(100), relative to the largest output.
  constexpr double kTolerance = 1e-6;
  for (const auto& [name, c] : MatMulCases()) {
    SCOPED_TRACE(name);
    EXPECT_GT(CompareWithReference(c, kTolerance), 0);
  }
}

TEST(MatMul, ABiasIsAddedToEveryRow) {
  for (OpCase c : BiasCases()) {
    EXPECT_GT(CompareWithReference(c, 1e-6), 0);  // as above
    c.inputs[2] = Random({34}, 3);
    for (const KernelEntry& entry : CpuRegistry().For("MatMul"))
      EXPECT_TRUE(RunKernel(entry, c, 1, 1 << 20).refused) << entry.name;
  }
  OpCase c = MatMul({1, 2}, {2, 2}, {1, 2}, false, false);
  c.inputs = {Floats({1, 2}, {1, 2}), Floats({2, 2}, {1, 10, 100, 1000}), Floats({2}, {.5, .25})};
  const OpResult y = RunReference(c);
  EXPECT_EQ(y.tensors[0].as<float>()[0], 201.5f);
  EXPECT_EQ(y.tensors[0].as<float>()[1], 2010.25f);
}

TEST(MatMul, TilesGoOnFromASum) {
  OpCase c = GoingOn(MatMul({2, 1}, {2, 2}, {1, 2}, true, false));
  c.inputs = {Floats({2, 1}, {1, 2}), Floats({2, 2}, {1, 10, 100, 1000})};
  c.outputs = {Floats({1, 2}, {.5, .25})};
  const OpResult y = RunReference(c);
  EXPECT_EQ(y.tensors[0].as<float>()[0], 201.5f);
  EXPECT_EQ(y.tensors[0].as<float>()[1], 2010.25f);
  // Up to 2,000 products: 2^-24 * sqrt(2000), relative to the largest output.
  for (const OpCase& sum : SumsOverSamples()) EXPECT_GT(CompareWithReference(sum, 3e-6), 0);
}

TEST(MatMul, EmptyExtents) {
  CompareWithReference(MatMul({0, 4}, {4, 3}, {0, 3}, false, false), 0);
  CompareWithReference(MatMul({2, 0}, {0, 3}, {2, 3}, false, false), 0);
  const OpResult y = RunReference(MatMul({2, 0}, {0, 3}, {2, 3}, false, false));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(y.tensors[0].as<float>()[i], 0) << "a sum of nothing";
}

TEST(MatMul, ExtentsThatDoNotFitAreRefused) {
  const OpCase bad[] = {
      MatMul({2, 3}, {4, 5}, {2, 5}, false, false), MatMul({2, 3}, {3, 5}, {2, 6}, false, false),
      MatMul({2, 2, 3}, {3, 3, 5}, {2, 2, 5}, false, false), MatMul({2, 2, 3}, {3, 5}, {2, 5}, false, false),
      MatMul({3}, {3, 5}, {1, 5}, false, false)};
  for (const OpCase& c : bad)
    for (const KernelEntry& entry : CpuRegistry().For("MatMul"))
      EXPECT_TRUE(RunKernel(entry, c, 1, 1 << 20).refused);
}

}  // namespace
}  // namespace act
