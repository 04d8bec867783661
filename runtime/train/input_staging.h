// The host memory in which the inputs of the next step wait, beside the arenas.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/data/batch_source.h"
#include "runtime/data/prefetch.h"
#include "runtime/memory/layout.h"
#include "runtime/plan/plan.h"

namespace act {

// Of the inputs that FillInputs writes.
SampleBytes InputBytes(const StepGraph& step, const StepLayout& layout, int64_t batch);

// The bytes that PrefetchInputs takes: a batch of the graph whose inputs are larger.
int64_t InputStagingBytes(const Plan& plan, const MemoryLayout& layout, bool evaluates);

// Lets both sources read ahead, through the same memory. `eval_data` may be null. Returns the memory's bytes.
int64_t PrefetchInputs(const Plan& plan, const MemoryLayout& layout, std::unique_ptr<BatchSource>& data,
                       std::unique_ptr<BatchSource>& eval_data);

}  // namespace act
