// Reads and writes plan files. docs/plan_format.md describes the bytes.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>

#include "runtime/plan/plan.h"

namespace act {

// A reader accepts only the version for which it was built. Any change of meaning or bytes needs a
// new version.
inline constexpr uint32_t kPlanVersion = 18;

// Writes the plan to `path`, all of it or nothing. Unknown weights (HostTensor::data == nullptr)
// stay unknown. Errors: those of CheckPlan and of the file system.
llvm::Error WritePlan(const Plan& plan, const std::string& path);

// The same without CheckPlan. The values' data has the bytes that it says, and codecs are of the table.
// For tests of what ReadPlan refuses.
llvm::Error WriteUncheckedPlan(const Plan& plan, const std::string& path);

// Maps the file and checks all of it: checksum, FlatBuffers structure, and CheckPlan. The tensors
// of the returned plan point into the mapping and keep it alive. If the file is not a plan that
// this program reads, the error says what it is.
llvm::Expected<Plan> ReadPlan(const std::string& path);

}  // namespace act
