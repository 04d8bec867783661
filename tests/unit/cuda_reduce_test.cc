#include "kernels/cuda/registry.h"
#include "tests/unit/cuda_testing.h"
#include "tests/unit/reduce_cases.h"

namespace act {
namespace {

using cuda::RegisterCudaReduce;

int Compare(const OpCase& c, double tolerance) {
  return CompareCudaWithReference(RegisterCudaReduce, c, tolerance);
}

TEST(CudaReduce, EverySetOfAxesAgrees) {
  ForReduceCases([](const OpCase& c, const std::string& what) {
    EXPECT_GT(Compare(c, kReduceTolerance), 0) << c.op << ", " << what;
  });
}

struct Shape {
  const char* what;
  std::vector<int64_t> dims, axes;
};

TEST(CudaReduce, EveryCutOfTheWorkAgrees) {
  const std::vector<Shape> shapes = {
      {"one element", {1}, {0}},
      {"nothing is reduced", {1, 37}, {0}},
      {"one result of parts", {90001}, {0}},
      {"one result of aligned parts", {4, 25000}, {0, 1}},
      {"few results of parts", {3, 70000}, {1}},
      {"short rows", {70, 3}, {1}},
      {"rows of a warp", {40, 100}, {1}},
      {"rows of a block", {5, 4100}, {1}},
      {"one column", {5000, 1}, {0}},
      {"three columns in parts", {20000, 3}, {0}},
      {"columns of several samples", {7, 50, 33}, {1}},
      {"columns of two axes", {3, 20, 5, 8}, {1, 2}},
      {"many columns", {40, 1030}, {0}},
      {"every other axis", {3, 4, 5, 6, 7}, {0, 2, 4}},
      {"the other axes", {3, 4, 5, 6, 7}, {1, 3}},
  };
  for (const std::string op : {"ReduceSum", "ReduceMean", "ReduceMax"})
    for (const Shape& shape : shapes)
      EXPECT_GT(Compare(ReduceCase(op, shape.dims, shape.axes, false), kReduceTolerance), 0)
          << op << ", " << shape.what;
}

TEST(CudaReduce, OfNothing) {
  for (const std::string op : {"ReduceSum", "ReduceMean", "ReduceMax"})
    for (const int64_t axis : {0, 1}) {
      EXPECT_GT(Compare(ReduceCase(op, {0, 4}, {axis}, false), 0), 0) << op;
      EXPECT_GT(Compare(ReduceCase(op, {4, 0}, {axis}, false), 0), 0) << op;
    }
}

TEST(CudaReduce, UndefinedNumbersReachTheResult) {
  for (const std::string op : {"ReduceSum", "ReduceMean", "ReduceMax"})
    for (const float odd : {NAN, INFINITY, -INFINITY})
      for (const int64_t axis : {0, 1}) {
        OpCase c = ReduceCase(op, {300, 70}, {axis}, false);
        c.inputs[0].as<float>()[123 * 70 + 45] = odd;
        EXPECT_GT(Compare(c, kReduceTolerance), 0) << op << " of " << odd;
      }
}

TEST(CudaReduce, SumsOfNumbersThatCancelKeepTheirDigits) {
  OpCase c = ReduceCase("ReduceSum", {4096, 8}, {0}, false);
  for (int64_t i = 0; i < c.inputs[0].elements(); ++i) c.inputs[0].as<float>()[i] += i / 8 % 2 ? 1e5f : -1e5f;
  EXPECT_GT(Compare(c, kReduceTolerance), 0);
}

TEST(CudaReduce, WarpsReadNeighbours) {
  const std::vector<Shape> shapes = {{"64 columns", {2000, 64}, {0}},
                                     {"3 columns", {2000, 3}, {0}},
                                     {"rows of 1,000", {40, 1000}, {1}},
                                     {"rows of 49", {200, 49}, {1}},
                                     {"pixels", {4, 7, 7, 256}, {1, 2}}};
  for (const Shape& shape : shapes)
    EXPECT_LT(SectorsOverIdeal(RegisterCudaReduce, ReduceCase("ReduceSum", shape.dims, shape.axes, false)),
              1.25)
        << shape.what;
}

}  // namespace
}  // namespace act
