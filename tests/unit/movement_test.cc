#include <numeric>

#include "tests/unit/kernel_testing.h"

namespace act {
namespace {

using Ints = std::vector<int64_t>;

TestTensor Counting(Ints dims) {
  TestTensor t = Empty(std::move(dims));
  std::iota(t.as<float>(), t.as<float>() + t.elements(), 1.0f);
  return t;
}

void ExpectFloats(const OpCase& c, const std::vector<float>& expected) {
  const OpResult y = RunReference(c);
  ASSERT_FALSE(y.refused) << y.error;
  ASSERT_EQ(static_cast<size_t>(y.tensors[0].elements()), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(y.tensors[0].as<float>()[i], expected[i]) << "element " << i;
  EXPECT_GT(CompareWithReference(c, 0), 0);
}

OpCase Transpose(const Ints& in, const Ints& perm, DType dtype) {
  OpCase c{"Transpose", {}, {Empty(in, dtype)}, {}, {}, {}};
  std::mt19937 engine(3);
  // No NaN as floats.
  for (std::byte& b : c.inputs[0].bytes) b = static_cast<std::byte>(engine() & 0x3f);
  Ints out;
  for (int64_t p : perm) out.push_back(in[static_cast<size_t>(p)]);
  c.outputs = {Empty(out, dtype)};
  c.attrs.Set("perm", perm);
  return c;
}

TEST(Transpose, ByHand) {
  OpCase c = Transpose({2, 3}, {1, 0}, DType::kFloat32);
  c.inputs = {Counting({2, 3})};
  ExpectFloats(c, {1, 4, 2, 5, 3, 6});
}

TEST(Transpose, EveryPermutationAndElementSizeAgrees) {
  for (const DType dtype : {DType::kFloat32, DType::kInt64, DType::kUint8, DType::kFloat16}) {
    Ints perm{0, 1, 2, 3};
    do EXPECT_GT(CompareWithReference(Transpose({2, 3, 35, 7}, perm, dtype), 0), 0);
    while (std::next_permutation(perm.begin(), perm.end()));
  }
  EXPECT_GT(CompareWithReference(Transpose({5, 3, 67, 66}, {0, 2, 3, 1}, DType::kFloat32), 0), 0)
      << "an image";
  EXPECT_GT(CompareWithReference(Transpose({2, 40, 20, 30}, {0, 2, 1, 3}, DType::kFloat32), 0), 0) << "rows";
  EXPECT_GT(CompareWithReference(Transpose({1, 1, 5, 1}, {3, 2, 1, 0}, DType::kFloat32), 0), 0);
  EXPECT_GT(CompareWithReference(Transpose({0, 3, 5}, {2, 0, 1}, DType::kFloat32), 0), 0);
  EXPECT_GT(CompareWithReference(Transpose({}, {}, DType::kFloat32), 0), 0);
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
  for (int64_t axis = 0; axis < 4; ++axis) {
    OpCase c{"Concat", {}, {}, {}, {}, {}};
    c.attrs.Set("axis", axis);
    Ints out{3, 4, 5, 6};
    out[static_cast<size_t>(axis)] = 0;
    for (int64_t extent : {2, 0, 7, 1}) {
      Ints in{3, 4, 5, 6};
      in[static_cast<size_t>(axis)] = extent;
      out[static_cast<size_t>(axis)] += extent;
      c.inputs.push_back(Random(in, static_cast<unsigned>(extent)));
    }
    c.outputs = {Empty(out)};
    EXPECT_GT(CompareWithReference(c, 0), 0);
  }
}

OpCase Slice(const Ints& whole, const Ints& part, const Ints& starts, const Ints& steps) {
  OpCase c{"Slice", {}, {Counting(whole)}, {Empty(part)}, {}, {}};
  c.attrs.Set("starts", starts);
  c.attrs.Set("steps", steps);
  return c;
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
  for (const OpCase& c : {Slice({3, 9, 8, 5}, {3, 9, 8, 5}, {0, 0, 0, 0}, {1, 1, 1, 1}),
                          Slice({20, 30, 100}, {20, 30, 70}, {0, 0, 25}, {1, 1, 1}),
                          Slice({3, 9, 8, 5}, {2, 4, 8, 5}, {1, 1, 0, 0}, {1, 2, 1, 1}),
                          Slice({3, 9, 8, 5}, {3, 9, 3, 2}, {0, 0, 7, 1}, {1, 1, -2, 2}),
                          Slice({3, 9, 8, 5}, {3, 0, 8, 5}, {0, 0, 0, 0}, {1, 1, 1, 1})}) {
    EXPECT_GT(CompareWithReference(c, 0), 0);
    OpCase grad = c;
    grad.op = "SliceGrad";
    grad.inputs = {Random(c.outputs[0].dims, 5)};
    grad.outputs = {Empty(c.inputs[0].dims)};
    EXPECT_GT(CompareWithReference(grad, 0), 0);
  }
}

TEST(Slice, OneThatLeavesTheTensorIsRefused) {
  for (const OpCase& c : {Slice({4}, {3}, {2}, {1}), Slice({4}, {3}, {1}, {-1}), Slice({4}, {1}, {-1}, {1}),
                          Slice({4}, {2}, {0}, {int64_t{1} << 62}), Slice({4}, {2}, {int64_t{1} << 62}, {1})})
    for (const KernelEntry& entry : CpuRegistry().For("Slice"))
      EXPECT_TRUE(RunKernel(entry, c, 1, 0).refused);
}

OpCase Pad(const Ints& in, const Ints& pads, const std::string& mode, double value = 0) {
  OpCase c{"Pad", {}, {Counting(in)}, {}, {}, {}};
  Ints out;
  for (size_t d = 0; d < in.size(); ++d) out.push_back(in[d] + pads[d] + pads[in.size() + d]);
  c.outputs = {Empty(out)};
  c.attrs.Set("pads", pads);
  c.attrs.Set("mode", mode);
  c.attrs.Set("value", value);
  return c;
}

TEST(Pad, ByHand) {
  ExpectFloats(Pad({3}, {2, 1}, "constant", 9), {9, 9, 1, 2, 3, 9});
  ExpectFloats(Pad({3}, {2, 2}, "reflect"), {3, 2, 1, 2, 3, 2, 1});
  ExpectFloats(Pad({3}, {2, 1}, "edge"), {1, 1, 1, 2, 3, 3});
  ExpectFloats(Pad({4}, {-1, 1}, "constant"), {2, 3, 4, 0});
}

TEST(Pad, FastKernelsAgree) {
  for (const std::string mode : {"constant", "reflect", "edge"}) {
    EXPECT_GT(CompareWithReference(Pad({2, 5, 6, 7}, {0, 1, 2, 0, 0, 2, 1, 0}, mode, 3), 0), 0);
    EXPECT_GT(CompareWithReference(Pad({2, 5, 6, 7}, {1, 0, -2, 1, 0, 0, 1, 2}, mode, 3), 0), 0);
    EXPECT_GT(CompareWithReference(Pad({2, 3}, {0, 0, 0, 0}, mode), 0), 0);
  }
  EXPECT_GT(CompareWithReference(Pad({20, 30, 100}, {0, 1, 0, 0, 1, 0}, "constant"), 0), 0);
  EXPECT_GT(CompareWithReference(Pad({0, 3}, {0, 1, 0, 0}, "reflect"), 0), 0);
  EXPECT_GT(CompareWithReference(Pad({0, 3}, {1, 0, 1, 0}, "constant", 4), 0), 0);
}

}  // namespace
}  // namespace act
