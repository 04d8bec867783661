#include "kernels/cuda/registry.h"
#include "kernels/site/strided.h"
#include "tests/unit/cuda_testing.h"

namespace act {
namespace {

using Ints = std::vector<int64_t>;

int Compare(const OpCase& c, double tolerance) {
  return CompareCudaWithReference(cuda::RegisterCudaSoftmax, c, tolerance);
}

OpCase Forward(const std::string& op, TestTensor x) {
  const Ints dims = x.dims;
  return {op, {}, {std::move(x)}, {Empty(dims)}, {}, {}};
}

OpCase Grad(const Ints& dims) {
  const OpResult y = RunReference(Forward("Softmax", Random(dims, 1)));
  return {"SoftmaxGrad", {}, {Random(dims, 2), y.tensors[0]}, {Empty(dims)}, {}, {}};
}

// Exponentials are in float32: 2 units in the last place, and two more roundings. The sums are in double.
constexpr double kTolerance = 5e-7;

// Rows of part of a warp, of a warp, of a block, and those too long for registers; with and without vectors.
const std::vector<Ints> kShapes = {{1, 1},    {7, 2},    {33, 5},    {3, 4, 16}, {9, 31},
                                   {5, 100},  {3, 333},  {2, 1000},  {3, 1021},  {2, 2048},
                                   {1, 5003}, {2, 9000}, {1, 17001}, {1, 40000}, {0, 8}};

TEST(CudaSoftmax, AgreesWithTheReference) {
  for (const Ints& dims : kShapes) {
    for (const std::string op : {"Softmax", "LogSoftmax"})
      EXPECT_GT(Compare(Forward(op, Random(dims, 1)), kTolerance), 0) << op << " of " << DimsText(dims);
    EXPECT_GT(Compare(Grad(dims), kTolerance), 0) << "gradient of " << DimsText(dims);
  }
}

TEST(CudaSoftmax, HugeMaskedAndUndefinedScores) {
  for (const std::string op : {"Softmax", "LogSoftmax"})
    for (const Ints& dims : {Ints{3, 20}, Ints{3, 500}, Ints{2, 40000}})
      for (const float odd : {1e30f, -1e30f, -INFINITY, INFINITY, NAN}) {
        OpCase c = Forward(op, Random(dims, 1));
        c.inputs[0].as<float>()[dims[1] + 5] = odd;
        EXPECT_GT(Compare(c, kTolerance), 0) << op << " with " << odd;
      }
}

TEST(CudaSoftmax, ARowThatIsMaskedAsAWholeIsNan) {
  OpCase c = Forward("Softmax", Random({3, 70}, 1));
  for (int64_t i = 70; i < 140; ++i) c.inputs[0].as<float>()[i] = -INFINITY;
  EXPECT_GT(Compare(c, kTolerance), 0);
}

TEST(CudaSoftmax, WarpsReadNeighbours) {
  for (const Ints& dims : {Ints{64, 128}, Ints{64, 12}, Ints{8, 1000}, Ints{2, 40000}})
    EXPECT_LT(SectorsOverIdeal(cuda::RegisterCudaSoftmax, Forward("Softmax", Random(dims, 1))), 1.05)
        << DimsText(dims);
}

}  // namespace
}  // namespace act
