#include "kernels/cuda/registry.h"
#include "tests/unit/cuda_testing.h"
#include "tests/unit/loss_cases.h"

namespace act {
namespace {

int Compare(const OpCase& c, double tolerance) {
  return CompareCudaWithReference(cuda::RegisterCudaLoss, c, tolerance);
}

TEST(CudaLoss, AgreesWithTheReference) {
  ForLossCases([](const OpCase& c, const std::string& what) {
    EXPECT_GT(Compare(c, c.inputs[0].elements() == 0 ? 0 : kLossTolerance), 0) << c.op << ", " << what;
  });
}

}  // namespace
}  // namespace act
