// Kernels of a card that read frozen weights as codes, on the fake card.
#include "kernels/cuda/registry.h"
#include "runtime/plan/operand_extents.h"
#include "tests/unit/coded_operand_cases.h"
#include "tests/unit/cuda_testing.h"

namespace act {
namespace {

TEST(CudaCodedGather, AgreesWithTheReference) {
  ForCodedLookups([](const OpCase& coded, const OpCase&) {
    EXPECT_GT(CompareCudaWithReference(cuda::RegisterCudaGather, coded, 0), 0)
        << DimsText(coded.outputs[0].dims);
  });
}

TEST(CudaCodedMatMul, AgreesWithTheReference) {
  // Two pieces in float32: of columns, and of the sum.
  const std::vector<CodedProductCase> large = {{{2, 1024}, {5000, 1024}, {2, 5000}, false, true},
                                               {{2, 5000}, {5000, 1024}, {2, 1024}, false, false}};
  ForCodedProducts(large, [&](const OpCase& c) {
    EXPECT_GT(CompareCudaWithReference(cuda::RegisterCudaMatMul, c, 0), 0) << Describe(c);
  });
}

TEST(CudaCodedConvolution, AgreesWithTheReference) {
  ForCodedConvolutions({}, [](const OpCase& c) {
    if (WindowTaps(c.inputs[1].coded->type) == 1)
      return;  // a plan has no coded weight there (code_frozen.cc)
    EXPECT_GT(CompareCudaWithReference(cuda::RegisterCudaConv, c, 0), 0) << Describe(c);
  });
}

}  // namespace
}  // namespace act
