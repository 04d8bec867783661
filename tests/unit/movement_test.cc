#include "tests/unit/movement_case.h"

namespace act {
namespace {


void ExpectFloats(const OpCase& c, const std::vector<float>& expected) {
  const OpResult y = RunReference(c);
  ASSERT_FALSE(y.refused) << y.error;
  ASSERT_EQ(static_cast<size_t>(y.tensors[0].elements()), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(y.tensors[0].as<float>()[i], expected[i]) << "element " << i;
  EXPECT_GT(CompareWithReference(c, 0), 0);
}

TEST(Transpose, ByHand) {
  OpCase c = Transpose({2, 3}, {1, 0}, DType::kFloat32);
  c.inputs = {Counting({2, 3})};
  ExpectFloats(c, {1, 4, 2, 5, 3, 6});
}

TEST(Transpose, EveryPermutationAndElementSizeAgrees) {
  for (const OpCase& c : TransposeCases()) {
    SCOPED_TRACE(DimsText(c.inputs[0].dims) + " by " + DimsText(c.attrs.Ints("perm")));
    EXPECT_GT(CompareWithReference(c, 0), 0);
  }
}

TEST(Transpose, APermThatIsNoneIsRefused) {
  for (const Ints& perm : {Ints{0, 0}, Ints{0}, Ints{0, 2}, Ints{-1, 0}}) {
    OpCase c = Transpose({3, 3}, {1, 0}, DType::kFloat32);
    c.attrs.Set("perm", perm);
    for (const KernelEntry& entry : CpuRegistry().For("Transpose"))
      EXPECT_TRUE(RunKernel(entry, c, 1, 0).refused);
  }
}

TEST(Concat, ByHand) {
  OpCase c{"Concat", {}, {Counting({2, 1}), Counting({2, 2})}, {Empty({2, 3})}, {}, {}};
  c.attrs.Set("axis", int64_t{-1});
  ExpectFloats(c, {1, 1, 2, 2, 3, 4});
}

TEST(Concat, EveryAxisAgrees) {
  for (const OpCase& c : ConcatCases()) EXPECT_GT(CompareWithReference(c, 0), 0);
}

TEST(Slice, ByHand) {
  ExpectFloats(Slice({2, 4}, {2, 2}, {1, 3}, {-1, -2}), {8, 6, 4, 2});
  ExpectFloats(Slice({4, 2}, {2, 2}, {1, 0}, {2, 1}), {3, 4, 7, 8});
  OpCase grad{"SliceGrad", {}, {Counting({2, 2})}, {Empty({4, 2})}, {}, {}};
  grad.attrs.Set("starts", Ints{1, 0});
  grad.attrs.Set("steps", Ints{2, 1});
  ExpectFloats(grad, {0, 0, 1, 2, 0, 0, 3, 4});
}

TEST(Slice, FastKernelsAgree) {
  for (const OpCase& c : SliceCases()) {
    EXPECT_GT(CompareWithReference(c, 0), 0);
    EXPECT_GT(CompareWithReference(SliceGrad(c), 0), 0);
  }
}

TEST(Slice, OneThatLeavesTheTensorIsRefused) {
  for (const OpCase& c : {Slice({4}, {3}, {2}, {1}), Slice({4}, {3}, {1}, {-1}), Slice({4}, {1}, {-1}, {1}),
                          Slice({4}, {2}, {0}, {int64_t{1} << 62}), Slice({4}, {2}, {int64_t{1} << 62}, {1})})
    for (const KernelEntry& entry : CpuRegistry().For("Slice"))
      EXPECT_TRUE(RunKernel(entry, c, 1, 0).refused);
}

TEST(Pad, ByHand) {
  ExpectFloats(Pad({3}, {2, 1}, "constant", 9), {9, 9, 1, 2, 3, 9});
  ExpectFloats(Pad({3}, {2, 2}, "reflect"), {3, 2, 1, 2, 3, 2, 1});
  ExpectFloats(Pad({3}, {2, 1}, "edge"), {1, 1, 1, 2, 3, 3});
  ExpectFloats(Pad({4}, {-1, 1}, "constant"), {2, 3, 4, 0});
}

TEST(Pad, FastKernelsAgree) {
  for (const OpCase& c : PadCases()) EXPECT_GT(CompareWithReference(c, 0), 0);
}

}  // namespace
}  // namespace act
