#include "runtime/train/input_staging.h"

#include <algorithm>
#include <utility>

namespace act {

SampleBytes InputBytes(const StepGraph& step, const StepLayout& layout, int64_t batch) {
  SampleBytes bytes;
  for (const ValueId id : step.graph.inputs) {
    const StorageId storage = step.storage_of[static_cast<size_t>(id)];
    const bool read = storage >= 0 && layout.offset[static_cast<size_t>(storage)] >= 0;
    bytes.push_back(read ? step.graph.value(id).type.Bytes().At(batch) / batch : 0);
  }
  return bytes;
}

int64_t InputStagingBytes(const Plan& plan, const MemoryLayout& layout, bool evaluates) {
  const int64_t train = StagedBytes(InputBytes(plan.train, layout.train, layout.batch), layout.batch);
  if (!evaluates) return train;
  return std::max(train, StagedBytes(InputBytes(plan.eval, layout.eval, layout.batch), layout.batch));
}

int64_t PrefetchInputs(const Plan& plan, const MemoryLayout& layout, std::unique_ptr<BatchSource>& data,
                       std::unique_ptr<BatchSource>& eval_data) {
  const int64_t batch = layout.batch;
  const auto staging = std::make_shared<BatchStaging>(InputStagingBytes(plan, layout, eval_data != nullptr));
  data = Prefetch(std::move(data), staging, InputBytes(plan.train, layout.train, batch), batch);
  if (eval_data)
    eval_data = Prefetch(std::move(eval_data), staging, InputBytes(plan.eval, layout.eval, batch), batch);
  return staging->bytes();
}

}  // namespace act
