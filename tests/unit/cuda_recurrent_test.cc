#include "kernels/cuda/registry.h"
#include "kernels/cuda/step_product.h"
#include "tests/unit/cuda_testing.h"
#include "tests/unit/recurrent_cases.h"

namespace act {
namespace {

using namespace recurrent_cases;

// As for the processor's kernels: sums of up to 3 * 300 products in float over five steps.
constexpr double kTolerance = 1e-5;

TEST(CudaRecurrent, AgreesWithTheReference) {
  ForCases([](const OpCase& c) {
    EXPECT_GT(CompareCudaWithReference(cuda::RegisterCudaRecurrent, c, kTolerance), 0);
  });
}

// The pairs of recurrent_signature.h.
TEST(CudaRecurrent, ResultsMayLieWhereOperandsDo) {
  for (const RecurrentSignature& signature : kRecurrentSignatures) {
    SCOPED_TRACE(signature.op);
    const OpCase apart = Case(std::string(signature.op), {3, 4, 20}, false, true);
    OpCase in_place = apart;
    for (size_t i = 0; i < signature.in_place.size(); i += 2)
      in_place.in_place.push_back({signature.in_place[i] - '0', signature.in_place[i + 1] - '0'});
    const KernelRegistry registry = CudaKernels(cuda::RegisterCudaRecurrent);
    const int64_t workspace = PlannedWorkspace(apart, CudaTarget());
    const CudaResult a = RunCuda(registry.For(apart.op).front(), apart, workspace),
                     b = RunCuda(registry.For(apart.op).front(), in_place, workspace);
    ASSERT_EQ(a.error + b.error, "");
    for (size_t i = 0; i < a.tensors.size(); ++i)
      EXPECT_EQ(a.tensors[i].bytes, b.tensors[i].bytes) << "result " << i;
  }
}

TEST(CudaRecurrent, EmptyTensorsAndThoseThatDoNotFitAreRefused) {
  const KernelRegistry registry = CudaKernels(cuda::RegisterCudaRecurrent);
  for (const RecurrentSignature& signature : kRecurrentSignatures) {
    const std::string op(signature.op);
    for (const Shape& shape : {Shape{0, 3, 4}, Shape{2, 3, 0}, Shape{2, 0, 4}})
      EXPECT_TRUE(RunCuda(registry.For(op).front(), Case(op, shape, false, true), 8 << 20).refused) << op;
    OpCase bad = Case(op, {2, 3, 4}, false, true);
    bad.outputs[0] = Empty({2, 3, 5});
    EXPECT_TRUE(RunCuda(registry.For(op).front(), bad, 8 << 20).refused) << op;
    if (op.ends_with("Grad")) continue;
    EXPECT_TRUE(RunCuda(registry.For(op).front(), Case(op, {2, 3, 4}, false, true), 16).refused) << op;
  }
}

TEST(CudaRecurrent, ProductsOfAStepByTheLibraryAndByOurTiles) {
  TestCard& card = TheTestCard();
  for (const bool transposed : {false, true})
    for (const bool adds : {false, true})
      for (const int64_t workspace : {int64_t{0}, int64_t{-1}}) {
        const int64_t m = 5, n = 70, k = 33, lead_a = 50, lead_b = transposed ? 40 : 90;
        const TestTensor a = Random({m, lead_a}, 1), b = Random({transposed ? n : k, lead_b}, 2),
                         before = Random({m, n}, 3);
        const cuda::StepProduct product(card.context(), {m, n, k, lead_a, lead_b, transposed, adds},
                                        workspace);
        EXPECT_EQ(product.engine() == "our tiles", workspace < 0);
        ASSERT_EQ(card.cache().CompileAll(), "");
        const auto on_card = [&card](const TestTensor& t) {
          const DevicePointer memory = card.Allocate(static_cast<int64_t>(t.bytes.size()));
          card.Upload(memory, t.bytes.data(), static_cast<int64_t>(t.bytes.size()));
          return memory;
        };
        const DevicePointer at_a = on_card(a), at_b = on_card(b), at_c = on_card(before);
        ASSERT_EQ(product.Enqueue(at_a.as<float>(), at_b.as<float>(), at_c.as<float>(), nullptr), "");
        ASSERT_EQ(card.Wait(), "");
        TestTensor c = before;
        card.Download(c.bytes.data(), at_c, static_cast<int64_t>(c.bytes.size()));
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            double sum = adds ? before.as<float>()[i * n + j] : 0;
            for (int64_t t = 0; t < k; ++t)
              sum += double{a.as<float>()[i * lead_a + t]} *
                     b.as<float>()[transposed ? j * lead_b + t : t * lead_b + j];
            EXPECT_NEAR(c.as<float>()[i * n + j], sum, 1e-5) << "33 products near 1";
          }
        for (const DevicePointer memory : {at_a, at_b, at_c}) card.Free(memory);
      }
}

}  // namespace
}  // namespace act
