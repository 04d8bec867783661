// Updates of embedding tables by rows.
#pragma once

#include "runtime/executor/kernel.h"

namespace act {

void RegisterCpuUpdateRows(KernelRegistry& registry);

}  // namespace act
