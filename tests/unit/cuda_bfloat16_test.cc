// Kernels of a card with bfloat16 operands and results, other than products and fused loops: they compute
// what the reference computes, or refuse the node and leave it to the host.
#include <set>

#include "kernels/cuda/registry.h"
#include "tests/unit/bfloat16_cases.h"
#include "tests/unit/cuda_testing.h"
#include "tests/unit/operator_cases.h"

namespace act {
namespace {

const KernelRegistry& CardKernels() {
  static const KernelRegistry* registry = [] {
    KernelRegistry host;
    RegisterCpuKernels(host);
    auto* card = new KernelRegistry;
    cuda::RegisterCudaKernels(*card, TheTestCard().context(), host);
    return card;
  }();
  return *registry;
}

// cuda.host runs the reference kernel, which bfloat16_test compares.
std::vector<KernelEntry> OwnKernels(const std::string& op) {
  std::vector<KernelEntry> own;
  for (const KernelEntry& entry : CardKernels().For(op))
    if (entry.name != "cuda.host") own.push_back(entry);
  return own;
}

// The card contracts the products of an average's gradient with its sums, so that now and then a sum lies on
// the other side of a tie: one bfloat16 further, which is 2^-7 of it at most. All others have the reference's bits.
// Moments are in double, and both add them up in another order.
double ToleranceOf(const std::string& op) {
  return op == "AveragePoolGrad" ? 0x1p-7 : op == "BatchNormMoments" ? 1e-12 : 0;
}
double DistanceOf(const std::string& op, const TestTensor& a, const TestTensor& b) {
  return op == "AveragePoolGrad" && a.dtype == DType::kBFloat16 ? Distance(Widen(a), Widen(b))
                                                                : Distance(a, b);
}

// False where the kernel refuses the node.
bool ExpectReference(const KernelEntry& entry, const OpCase& c) {
  const CudaResult result = RunCuda(entry, c, PlannedWorkspace(c, CudaTarget()));
  if (result.refused) return false;
  EXPECT_EQ(result.error, "");
  const OpResult truth = RunReference(c);
  for (size_t i = 0; i < truth.tensors.size(); ++i)
    if (truth.tensors[i].present) {
      EXPECT_LE(DistanceOf(c.op, result.tensors[i], truth.tensors[i]), ToleranceOf(c.op)) << "tensor " << i;
    }
  return true;
}

TEST(CudaBFloat16, KernelsComputeWhatTheReferenceDoesOrRefuse) {
  std::set<std::string> taken;
  for (const OpCase& wide : Float32Cases()) {
    const OpCase c = InBothTypes(wide).narrow;
    if (c.op == "SwapOut" || c.op == "SwapIn") continue;   // their operands are in two memories
    if (ElementCount(c.inputs[0].dims) > 20000) continue;  // the fake card is slow
    for (const KernelEntry& entry : OwnKernels(c.op)) {
      SCOPED_TRACE(entry.name + ", " + Describe(c));
      if (ExpectReference(entry, c)) taken.insert(c.op);
    }
  }
  // Others go to the host.
  for (const std::string op : {"AveragePool", "AveragePoolGrad", "BatchNormMoments", "BatchNormStats",
                               "Concat", "Gather", "MaxPool", "MaxPoolGrad", "Pad", "ReduceMax", "ReduceMean",
                               "ReduceSum", "Slice", "SliceGrad", "SoftmaxCrossEntropyGrad", "Transpose"})
    EXPECT_TRUE(taken.count(op)) << op;
}

TEST(CudaBFloat16, ElsewhereItIsRefused) {
  for (const RuntimeOp& op : RuntimeOps()) {
    if (op.runs == Runs::kProgram || op.runs == Runs::kAlias || IsProduct(op)) continue;
    for (const BothTypes& both : WithOneBFloat16(SmallCase(std::string(op.name))))
      for (const KernelEntry& entry : OwnKernels(std::string(op.name))) {
        SCOPED_TRACE(entry.name + ", " + Describe(both.narrow));
        ExpectReference(entry, both.narrow);
      }
  }
}

}  // namespace
}  // namespace act
