#include "tests/unit/kernel_testing.h"

namespace act {
namespace {

OpCase MatMul(std::vector<int64_t> a, std::vector<int64_t> b, std::vector<int64_t> y, bool trans_a,
              bool trans_b) {
  OpCase c{"MatMul", {}, {Random(std::move(a), 1), Random(std::move(b), 2)}, {Empty(std::move(y))}, {}, {}};
  c.attrs.Set("trans_a", int64_t{trans_a});
  c.attrs.Set("trans_b", int64_t{trans_b});
  return c;
}

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
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      SCOPED_TRACE(testing::Message() << "trans_a " << ta << ", trans_b " << tb);
      const auto pair = [](bool t, int64_t r, int64_t c) {
        return t ? std::vector{c, r} : std::vector{r, c};
      };
      const auto batch = [](std::vector<int64_t> b, std::vector<int64_t> m) {
        b.insert(b.end(), m.begin(), m.end());
        return b;
      };
      const auto a = pair(ta, 17, 100), b = pair(tb, 100, 33);
      EXPECT_GT(CompareWithReference(MatMul(a, b, {17, 33}, ta, tb), kTolerance), 0);
      EXPECT_GT(CompareWithReference(MatMul(batch({3}, a), b, {3, 17, 33}, ta, tb), kTolerance), 0)
          << "shared b";
      EXPECT_GT(CompareWithReference(MatMul(a, batch({3}, b), {3, 17, 33}, ta, tb), kTolerance), 0)
          << "shared a";
      EXPECT_GT(
          CompareWithReference(MatMul(batch({2, 1}, a), batch({3}, b), {2, 3, 17, 33}, ta, tb), kTolerance),
          0);
      EXPECT_GT(CompareWithReference(MatMul(batch({2, 4}, a), batch({2, 4}, b), {2, 4, 17, 33}, ta, tb),
                                     kTolerance),
                0);
    }
  EXPECT_GT(CompareWithReference(MatMul({1, 1}, {1, 1}, {1, 1}, false, false), kTolerance), 0);
  EXPECT_GT(CompareWithReference(MatMul({5, 1}, {1, 7}, {5, 7}, false, false), kTolerance), 0);
  EXPECT_GT(CompareWithReference(MatMul({1, 9}, {9, 1}, {1, 1}, false, false), kTolerance), 0);
}

TEST(MatMul, ABiasIsAddedToEveryRow) {
  for (OpCase c : {MatMul({17, 100}, {100, 33}, {17, 33}, false, false),
                   MatMul({3, 17, 100}, {33, 100}, {3, 17, 33}, false, true),
                   MatMul({2, 4, 17, 10}, {4, 10, 33}, {2, 4, 17, 33}, false, false)}) {
    c.inputs.push_back(Random({33}, 3));
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
