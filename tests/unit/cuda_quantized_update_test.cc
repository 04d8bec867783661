#include "kernels/cuda/registry.h"
#include "tests/unit/cuda_testing.h"
#include "tests/unit/quantized_update_case.h"

namespace act {
namespace {

// The processor's kernels round by the same bits, and compute in the same order.
void ExpectTheProcessorsBits(const OpCase& c) {
  const OpResult host = RunKernel(CpuRegistry().For(c.op).front(), c, 1, 0);
  ASSERT_EQ(host.error, "");
  const CudaResult card = RunCuda(CudaKernels(cuda::RegisterCudaQuantizedUpdates).For(c.op).front(), c, 0);
  ASSERT_FALSE(card.refused) << card.error;
  ASSERT_EQ(card.error, "");
  ASSERT_EQ(card.tensors.size(), host.tensors.size());
  for (size_t i = 0; i < host.tensors.size(); ++i)
    EXPECT_EQ(card.tensors[i].bytes, host.tensors[i].bytes) << "tensor " << i;
}

TEST(CudaQuantizedUpdate, HasTheProcessorsBits) {
  for (const QuantizedUpdate& update : AllQuantizedUpdates())
    for (const int64_t elements : {0, 1, 3, 130, 256, 257, 2048, 5003}) {
      SCOPED_TRACE(update.Name() + ", " + std::to_string(elements) + " elements");
      OpCase c = update.Case(elements, 7);
      c.state.seed = 11;
      c.state.step = 5;
      ExpectTheProcessorsBits(c);
    }
}

TEST(CudaQuantizedUpdate, ZerosAndNumbersThatAreNotFinite) {
  for (const QuantizedUpdate& update : AllQuantizedUpdates())
    for (const float odd : {0.0f, 1e-30f, 1e30f, INFINITY, -INFINITY, NAN}) {
      SCOPED_TRACE(update.Name() + ", " + std::to_string(odd));
      OpCase c = update.Case(1000, 3);
      c.inputs[0].as<float>()[300] = odd;
      std::fill_n(c.inputs[0].as<float>() + 512, 256, 0.0f);
      for (size_t i = update.parameter() + 1; i < c.inputs.size(); ++i)  // a state of zero bytes
        std::fill(c.inputs[i].bytes.begin(), c.inputs[i].bytes.end(), std::byte{0});
      ExpectTheProcessorsBits(c);
    }
}

TEST(CudaQuantizedUpdate, TheDirectionMayLieWhereTheGradientDoes) {
  OpCase c = QuantizedUpdate{"QuantizedLamb", true, false}.Case(700, 3);
  const KernelRegistry registry = CudaKernels(cuda::RegisterCudaQuantizedUpdates);
  const CudaResult apart = RunCuda(registry.For(c.op).front(), c, 0);
  c.in_place = {{0, 0}};
  EXPECT_EQ(RunCuda(registry.For(c.op).front(), c, 0).tensors[0].bytes, apart.tensors[0].bytes);
}

TEST(CudaQuantizedUpdate, WarpsReadNeighbours) {
  const OpCase c = QuantizedUpdate{}.Case(1 << 14, 3);
  EXPECT_LT(SectorsOverIdeal(cuda::RegisterCudaQuantizedUpdates, c), 1.05);
}

}  // namespace
}  // namespace act
