#include <limits>

#include "kernels/site/dereference.h"
#include "tests/unit/gather_cases.h"

namespace act {
namespace {

using Ints = std::vector<int64_t>;

TEST(Gather, ByHand) {
  OpCase c = GatherCase({{3, 2}, {4, 1}, {4, 2}});
  c.inputs = {Floats({3, 2}, {1, 2, 3, 4, 5, 6}), Labels({4, 1}, {2, 0, -1, 1})};
  EXPECT_EQ(RunReference(c).tensors[0].bytes, Floats({4, 2}, {5, 6, 1, 2, 5, 6, 3, 4}).bytes);
}

TEST(Scatter, ByHand) {
  OpCase c = ScatterCase({{3, 2}, {4, 1}, {4, 2}}, "add");
  c.inputs = {Floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), Labels({4, 1}, {2, 0, -1, 2})};
  EXPECT_EQ(RunReference(c).tensors[0].bytes, Floats({3, 2}, {3, 4, 0, 0, 13, 16}).bytes);
  c.attrs.Set("reduction", std::string("none"));
  c.inputs.push_back(Floats({3, 2}, {9, 9, 9, 9, 9, 9}));
  EXPECT_EQ(RunReference(c).tensors[0].bytes, Floats({3, 2}, {3, 4, 9, 9, 7, 8}).bytes);
}

TEST(Gather, AgreesWithTheReference) {
  ForGatherCases(kLookups, [](const OpCase& c) { EXPECT_GT(CompareWithReference(c, 0), 0); });
}

TEST(Scatter, CombinesIntegersExactly) {
  const int32_t most = std::numeric_limits<int32_t>::max();
  const auto result = [](const std::string& reduction, const std::vector<int32_t>& update, const Ints& index,
                         const std::vector<int32_t>& into) {
    OpCase c{"Scatter", {}, {}, {Empty({2}, DType::kInt32)}, {}, {}};
    const auto count = static_cast<int64_t>(update.size());
    c.inputs = {Of({count}, update, DType::kInt32), Labels({count}, index), Of({2}, into, DType::kInt32)};
    c.attrs.Set("axis", int64_t{0});
    c.attrs.Set("reduction", reduction);
    const OpResult y = RunReference(c);
    EXPECT_FALSE(y.refused) << y.error;
    return std::vector<int32_t>(y.tensors[0].as<int32_t>(), y.tensors[0].as<int32_t>() + 2);
  };
  using Row = std::vector<int32_t>;
  EXPECT_EQ(result("add", {most, 1, 5}, {0, 0, -1}, {1, 1}),
            (Row{std::numeric_limits<int32_t>::min() + 1, 6}));
  EXPECT_EQ(result("mul", {65536, 65537, 3}, {0, 0, 1}, {1, -7}), (Row{65536, -21}));
  EXPECT_EQ(result("min", {(1 << 24) + 1, most}, {0, 1}, {(1 << 24) + 2, 9}), (Row{(1 << 24) + 1, 9}));
  EXPECT_EQ(result("max", {(1 << 24) + 1, -most}, {0, 1}, {1 << 24, -9}), (Row{(1 << 24) + 1, -9}));
}

TEST(Scatter, AgreesWithTheReferenceOnAnyNumberOfThreads) {
  // Each element's updates run in one order: the same bits.
  ForScatterCases(kLookups, [](const OpCase& c) {
    EXPECT_GT(CompareWithReference(c, 0), 0) << c.attrs.String("reduction");
  });
}

TEST(Lookup, AnIndexOutsideIsAnErrorThatSaysWhere) {
  for (const int64_t wrong : {int64_t{3}, int64_t{-4}, INT64_MIN, INT64_MAX}) {
    OpCase gather = GatherCase({{3, 2}, {4, 1}, {4, 2}});
    gather.inputs[1] = Labels({4, 1}, {2, 0, wrong, 1});
    OpCase scatter = ScatterCase({{3, 2}, {4, 1}, {4, 2}}, "add");
    scatter.inputs[1] = gather.inputs[1];
    for (const OpCase& c : {gather, scatter})
      for (const KernelEntry& entry : CpuRegistry().For(c.op))
        EXPECT_EQ(RunKernel(entry, c, 1, 0).error,
                  "index " + std::to_string(wrong) + " at [2,0] is outside an axis of extent 3")
            << entry.name;
  }
}

TEST(NonZero, ByHand) {
  OpCase c{"NonZero",
           {},
           {Floats({2, 3}, {0, 2, 0, NAN, -0.0f, 1})},
           {Empty({2, 6}, DType::kInt64), Empty({6}, DType::kBool)},
           {},
           {}};
  OpResult y = RunReference(c);
  EXPECT_EQ(y.tensors[0].bytes, Labels({2, 6}, {0, 1, 1, 0, 0, 0, 1, 0, 2, 1, 1, 1}).bytes);
  EXPECT_EQ(y.tensors[1].bytes, Of({6}, std::vector<uint8_t>{1, 1, 1, 0, 0, 0}, DType::kBool).bytes);
  c.inputs[0] = Of({2, 3}, std::vector<uint8_t>(6, 0), DType::kBool);
  y = RunReference(c);
  EXPECT_EQ(y.tensors[0].bytes, Labels({2, 6}, std::vector<int64_t>(12, 0)).bytes);
  EXPECT_EQ(y.tensors[1].bytes, Of({6}, std::vector<uint8_t>(6, 0), DType::kBool).bytes);
  c.outputs[1] = Empty({5}, DType::kBool);
  EXPECT_TRUE(RunReference(c).refused);
}

TEST(FlatIndex, ByHand) {
  OpCase c{"FlatIndex", {}, {Labels({3, 2}, {0, 4, -1, 0, 1, -5})}, {Empty({3}, DType::kInt64)}, {}, {}};
  c.attrs.Set("extents", Ints{2, 0, 0, 2, 1, 0});  // 2, and 2 + N at N = 3
  EXPECT_EQ(RunReference(c).tensors[0].bytes, Labels({3}, {4, 5, 5}).bytes);
  c.inputs[0] = Labels({3, 2}, {0, 4, -1, 5, 1, -5});
  EXPECT_EQ(RunReference(c).error, "index 5 of tuple 1 is outside an axis of extent 5");
  c.attrs.Set("extents", Ints{2, 0, 0, -2, 0, 0});
  EXPECT_TRUE(RunReference(c).refused);
  c.attrs.Set("extents", Ints{int64_t{1} << 40, 0, 0, int64_t{1} << 40, 0, 0});
  EXPECT_TRUE(RunReference(c).refused);
}

TEST(Range, ByHand) {
  OpCase c{"Range", {}, {}, {Empty({4}, DType::kInt64)}, {}, {}};
  c.attrs.Set("start", Ints{-1, 20, 300});  // -1 + 20 N + 300 N^2 at N = 1
  c.attrs.Set("step", int64_t{-5});
  EXPECT_EQ(RunReference(c).tensors[0].bytes, Labels({4}, {319, 314, 309, 304}).bytes);
  c.attrs.Set("start", Ints{0, 1});
  EXPECT_TRUE(RunReference(c).refused);
}

TEST(Lookup, ShapesThatDoNotFitAreRefused) {
  const Lookup fits{{3, 2}, {4, 1}, {4, 2}};
  std::vector<OpCase> wrong;
  for (Lookup l : {Lookup{{3, 2}, {5, 1}, {4, 2}}, Lookup{{3, 2}, {4, 1}, {4, 3}},
                   Lookup{{3, 2}, {4}, {4, 2}}, Lookup{{3, 2}, {1, 1}, {4, 2}}}) {
    wrong.push_back(GatherCase(l));
    wrong.push_back(ScatterCase(l, "add"));
  }
  for (const int64_t axis : {-1, 2}) {
    wrong.push_back(GatherCase(fits));
    wrong.back().attrs.Set("axis", axis);
  }
  wrong.push_back(GatherCase(fits));
  wrong.back().inputs.pop_back();
  wrong.push_back(GatherCase(fits));
  wrong.back().inputs.push_back(Flags(3));
  wrong.push_back(GatherCase(fits));
  wrong.back().inputs[1] = Random({4, 1}, 1);
  wrong.push_back(ScatterCase(fits, "mean"));
  wrong.push_back(ScatterCase(fits, "add", true));
  wrong.back().inputs[2] = Random({2, 2}, 1);
  for (const OpCase& c : wrong)
    for (const KernelEntry& entry : CpuRegistry().For(c.op)) EXPECT_TRUE(RunKernel(entry, c, 1, 0).refused);
}

}  // namespace
}  // namespace act
