#include "kernels/cuda/registry.h"
#include "tests/unit/cuda_testing.h"

namespace act {
namespace {

TEST(CudaStepScalar, EachNumberOfAStepIsThatOfTheReference) {
  for (const NamedStepScalar& scalar : AllStepScalars()) {
    OpCase c{"StepScalar", {}, {}, {Empty({})}, {}, {}};
    c.attrs.Set("name", std::string(scalar.name));
    c.state.update.hyper = {.lr = 0.01,
                            .momentum = 0.9,
                            .weight_decay = 0.03,
                            .beta1 = 0.8,
                            .beta2 = 0.95,
                            .eps = 1e-7,
                            .lr_decay = 0.5,
                            .gradient_weight = 0.7,
                            .post_decay = 0.2};
    c.state.update.updates = 4;
    c.state.update.keep_sum = 1;
    c.state.update.sum_weight = 0.25;
    EXPECT_GT(CompareCudaWithReference(cuda::RegisterCudaStepScalar, c, 0), 0) << scalar.name;
  }
}

TEST(CudaStepScalar, ANameThatNoStepHasIsRefused) {
  OpCase c{"StepScalar", {}, {}, {Empty({})}, {}, {}};
  c.attrs.Set("name", std::string("lrr"));
  EXPECT_TRUE(RunCuda(CudaKernels(cuda::RegisterCudaStepScalar).For("StepScalar").front(), c, 0).refused);
}

}  // namespace
}  // namespace act
