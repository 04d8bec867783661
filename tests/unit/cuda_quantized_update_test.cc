#include <cmath>
#include <limits>
#include <span>

#include "kernels/cuda/registry.h"
#include "tests/unit/cuda_testing.h"
#include "tests/unit/quantized_update_case.h"

namespace act {
namespace {

// A NaN of a parameter or of a direction has the bits that the machine's arithmetic gives it: 0x7fffffff on a card,
// some sign and payload on a processor. They mean nothing, so all become one.
TestTensor WithOneNaN(TestTensor tensor) {
  if (tensor.dtype == DType::kFloat32)
    for (float& x : std::span(tensor.as<float>(), static_cast<size_t>(tensor.elements())))
      if (std::isnan(x)) x = std::numeric_limits<float>::quiet_NaN();
  return tensor;
}

// The processor's kernels round by the same bits, and compute in the same order. A state's NaN is a
// constant on both: no code, maximum or bfloat16 depends on what a NaN was made of.
void ExpectTheProcessorsBits(const OpCase& c) {
  const OpResult host = RunKernel(CpuRegistry().For(c.op).front(), c, 1, 0);
  ASSERT_EQ(host.error, "");
  const CudaResult card = RunCuda(CudaKernels(cuda::RegisterCudaQuantizedUpdates).For(c.op).front(), c, 0);
  ASSERT_FALSE(card.refused) << card.error;
  ASSERT_EQ(card.error, "");
  ASSERT_EQ(card.tensors.size(), host.tensors.size());
  EXPECT_EQ(WithOneNaN(card.tensors[0]).bytes, WithOneNaN(host.tensors[0]).bytes) << "parameter or direction";
  for (size_t i = 1; i < host.tensors.size(); ++i)
    EXPECT_EQ(card.tensors[i].bytes, host.tensors[i].bytes) << "state's tensor " << i;
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

TEST(CudaQuantizedUpdate, AStateDoesNotDependOnANaNsBits) {
  for (const QuantizedUpdate& update : AllQuantizedUpdates()) {
    std::vector<TestTensor> first;
    for (const uint32_t bits : {0x7fc00000u, 0x7fffffffu, 0xffc00000u, 0xff800001u}) {
      SCOPED_TRACE(update.Name() + ", a NaN of bits " + std::to_string(bits));
      OpCase c = update.Case(1000, 3);
      c.inputs[0].as<float>()[300] = FloatOf(bits);
      const CudaResult card =
          RunCuda(CudaKernels(cuda::RegisterCudaQuantizedUpdates).For(c.op).front(), c, 0);
      ASSERT_EQ(card.error, "");
      if (first.empty()) first = card.tensors;
      for (size_t i = 1; i < card.tensors.size(); ++i)
        EXPECT_EQ(card.tensors[i].bytes, first[i].bytes) << "state's tensor " << i;
    }
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
