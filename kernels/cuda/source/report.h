// Faults in data that a kernel meets.
#pragma once

#include "kernels/cuda/source/device.h"
#include "kernels/math/step_block.h"

namespace act::cuda {

// Keeps `value` in the record if it is the first fault there. Of faults that several threads meet, any may be
// that. `site` is a number of FaultSites (kernels/cuda/context.h).
ACT_DEVICE void Report(FaultRecord* record, int32_t site, DataFault kind, int64_t value) {
  if (AtomicMax(&record->kind, static_cast<uint32_t>(kind)) != 0) return;
  Store(&record->node, site);
  Store(&record->value, value);
}

}  // namespace act::cuda
