#include "kernels/cuda/registry.h"
#include "tests/unit/cuda_testing.h"
#include "tests/unit/movement_case.h"

namespace act {
namespace {

void ExpectSame(const OpCase& c) {
  SCOPED_TRACE(c.op + " " + DimsText(c.inputs[0].dims) + " to " + DimsText(c.outputs[0].dims));
  EXPECT_GT(CompareCudaWithReference(cuda::RegisterCudaMovement, c, 0), 0);
}

constexpr DType kDTypes[] = {DType::kFloat32, DType::kInt64, DType::kUint8, DType::kBool, DType::kFloat16};

// The same case with elements of another type.
OpCase As(OpCase c, DType dtype) {
  for (std::vector<TestTensor>* tensors : {&c.inputs, &c.outputs})
    for (TestTensor& t : *tensors) {
      const bool input = tensors == &c.inputs;
      t = Empty(t.dims, dtype);
      std::mt19937 engine(5);
      // No byte pattern is a NaN.
      if (input)
        for (std::byte& b : t.bytes) b = static_cast<std::byte>(engine() & 0x3f);
    }
  return c;
}

TEST(CudaMovement, Concat) {
  for (const OpCase& c : ConcatCases())
    for (const DType dtype : kDTypes) ExpectSame(As(c, dtype));
}

TEST(CudaMovement, SlicesAndTheirGradients) {
  std::vector<OpCase> cases = SliceCases();
  cases.push_back(Slice({7}, {1}, {6}, {1}));
  cases.push_back(Slice({1, 1}, {1, 1}, {0, 0}, {1, 1}));
  cases.push_back(Slice({4, 64}, {4, 32}, {0, 16}, {1, 1}));  // whole vectors
  cases.push_back(Slice({4, 64}, {4, 32}, {0, 17}, {1, 1}));  // that begin between vectors
  cases.push_back(Slice({6, 5, 4}, {3, 5, 4}, {5, 0, 0}, {-2, 1, 1}));
  for (const OpCase& c : cases)
    for (const DType dtype : kDTypes) {
      ExpectSame(As(c, dtype));
      ExpectSame(As(SliceGrad(c), dtype));
    }
}

TEST(CudaMovement, Pad) {
  std::vector<OpCase> cases = PadCases();
  cases.push_back(Pad({2, 8, 16}, {0, 1, 0, 0, 1, 0}, "constant", -1));
  cases.push_back(Pad({4, 3, 4, 2}, {1, 0, 0, 1, 0, 0, 0, 1}, "reflect"));
  cases.push_back(Pad({1}, {3, 3}, "reflect"));
  cases.push_back(Pad({4}, {9, 9}, "reflect"));
  for (const OpCase& c : cases)
    for (const DType dtype : kDTypes)
      if (dtype != DType::kFloat16) ExpectSame(As(c, dtype));
}

}  // namespace
}  // namespace act
