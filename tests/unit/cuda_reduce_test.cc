#include "kernels/cuda/registry.h"
#include "tests/unit/cuda_testing.h"
#include "tests/unit/reduce_cases.h"

namespace act {
namespace {

using cuda::RegisterCudaReduce;

TEST(CudaReduce, EverySetOfAxesAgrees) {
  ForReduceCases([](const OpCase& c, const std::string& what) {
    EXPECT_GT(CompareCudaWithReference(RegisterCudaReduce, c, kReduceTolerance), 0) << c.op << ", " << what;
  });
}

}  // namespace
}  // namespace act
