#include "runtime/train/kernel_record.h"

#include <cstring>

#include "runtime/base/error.h"
#include "runtime/base/hash.h"
#include "runtime/data/safetensors.h"

namespace act {

KernelRecord RecordOf(const Executor& executor) {
  const int64_t batch = executor.layout().batch;
  uint64_t work = HashOf(std::to_string(batch)), kernels = kEmptyHash;
  for (const BoundGraph* graph : executor.BoundTrainGraphs()) {
    if (graph->batch() != batch) continue;
    for (const BoundNode& node : graph->nodes()) {
      work = HashOf("\n" + node.node->op, work);
      kernels = HashOf("\n" + node.kernel_name, kernels);
    }
  }
  return {.work = static_cast<int64_t>(work), .kernels = static_cast<int64_t>(kernels)};
}

llvm::Expected<std::string> CompareKernels(const std::string& checkpoint, const Executor& executor) {
  ACT_TRY(const Safetensors file, Safetensors::Open(checkpoint));
  const HostView* view = file.Find("kernels");
  if (!view) return "";
  KernelRecord made;
  if (view->dtype != DType::kInt64 || view->bytes != sizeof made)
    return MakeError(checkpoint + ": tensor 'kernels'", "expected i64[2], found " + ToString(*view));
  std::memcpy(&made, view->data, sizeof made);
  const KernelRecord now = RecordOf(executor);
  if (made.work != now.work || made.kernels == now.kernels) return "";
  return "warning: resumed with other kernels than " + checkpoint + " was made with: bits will differ";
}

}  // namespace act
