#include "tests/unit/reduce_cases.h"

namespace act {
namespace {

TEST(Reduce, ByHand) {
  OpCase c = ReduceCase("ReduceSum", {2, 3}, {0}, false);
  c.inputs = {Floats({2, 3}, {1, 2, 3, 10, 20, 30})};
  const float sums[] = {11, 22, 33};
  const OpResult sum = RunReference(c);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sum.tensors[0].as<float>()[i], sums[i]);
  c = ReduceCase("ReduceMean", {2, 3}, {-1}, true);
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
  ForReduceCases([](const OpCase& c, const std::string& what) {
    EXPECT_GT(CompareWithReference(c, kReduceTolerance), 0) << c.op << ", " << what;
  });
  for (const std::string op : {"ReduceSum", "ReduceMean", "ReduceMax"}) {
    CompareWithReference(ReduceCase(op, {0, 4}, {0}, false), 0);
    CompareWithReference(ReduceCase(op, {0, 4}, {1}, false), 0);
  }
}

TEST(Reduce, AnAxisOutOfRangeIsRefused) {
  OpCase c = ReduceCase("ReduceSum", {2, 3}, {1}, false);
  c.attrs.Set("axes", std::vector<int64_t>{2});
  for (const KernelEntry& entry : CpuRegistry().For("ReduceSum"))
    EXPECT_TRUE(RunKernel(entry, c, 1, 0).refused);
}

}  // namespace
}  // namespace act
