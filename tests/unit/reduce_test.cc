#include <set>

#include "tests/unit/kernel_testing.h"

namespace act {
namespace {

OpCase Reduce(const std::string& op, const std::vector<int64_t>& in, const std::vector<int64_t>& axes,
              bool keep) {
  OpCase c{op, {}, {Random(in, 1)}, {}, {}, {}};
  c.attrs.Set("axes", axes);
  std::set<int64_t> reduced;
  for (int64_t a : axes) reduced.insert(a < 0 ? a + static_cast<int64_t>(in.size()) : a);
  std::vector<int64_t> out;
  for (size_t d = 0; d < in.size(); ++d) {
    if (!reduced.count(static_cast<int64_t>(d))) out.push_back(in[d]);
    if (reduced.count(static_cast<int64_t>(d)) && keep) out.push_back(1);
  }
  c.outputs = {Empty(out)};
  return c;
}

TEST(Reduce, ByHand) {
  OpCase c = Reduce("ReduceSum", {2, 3}, {0}, false);
  c.inputs = {Floats({2, 3}, {1, 2, 3, 10, 20, 30})};
  const float sums[] = {11, 22, 33};
  const OpResult sum = RunReference(c);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sum.tensors[0].as<float>()[i], sums[i]);
  c = Reduce("ReduceMean", {2, 3}, {-1}, true);
  c.inputs = {Floats({2, 3}, {1, 2, 3, 10, 20, 30})};
  const OpResult mean = RunReference(c);
  EXPECT_EQ(mean.tensors[0].as<float>()[0], 2);
  EXPECT_EQ(mean.tensors[0].as<float>()[1], 20);
  c.op = "ReduceMax";
  c.inputs = {Floats({2, 3}, {1, 3, 2, -1, NAN, 5})};
  const OpResult max = RunReference(c);
  EXPECT_EQ(max.tensors[0].as<float>()[0], 3);
  EXPECT_TRUE(std::isnan(max.tensors[0].as<float>()[1]));
  CompareWithReference(c, 0);
}

TEST(Reduce, EverySetOfAxesAgrees) {
  for (const std::string op : {"ReduceSum", "ReduceMean", "ReduceMax"}) {
    for (int set = 0; set < 16; ++set) {
      std::vector<int64_t> axes;
      for (int64_t d = 0; d < 4; ++d)
        if (set >> d & 1) axes.push_back(d);
      SCOPED_TRACE(testing::Message() << op << ", set of axes " << set);
      // Sums are computed in double and rounded once.
      EXPECT_GT(CompareWithReference(Reduce(op, {3, 5, 7, 19}, axes, set % 2), 1e-7), 0);
    }
    EXPECT_GT(CompareWithReference(Reduce(op, {80, 30, 24}, {0, 1}, false), 1e-7), 0) << "in parts";
    EXPECT_GT(CompareWithReference(Reduce(op, {600, 513}, {0}, true), 1e-7), 0)
        << "several blocks of columns";
    EXPECT_GT(CompareWithReference(Reduce(op, {90, 20, 24}, {1, 2}, false), 1e-7), 0) << "rows";
    CompareWithReference(Reduce(op, {0, 4}, {0}, false), 0);
    CompareWithReference(Reduce(op, {0, 4}, {1}, false), 0);
  }
}

TEST(Reduce, AnAxisOutOfRangeIsRefused) {
  OpCase c = Reduce("ReduceSum", {2, 3}, {1}, false);
  c.attrs.Set("axes", std::vector<int64_t>{2});
  for (const KernelEntry& entry : CpuRegistry().For("ReduceSum"))
    EXPECT_TRUE(RunKernel(entry, c, 1, 0).refused);
}

}  // namespace
}  // namespace act
