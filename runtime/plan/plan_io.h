// Plan files: docs/plan_format.md has the bytes.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>

#include "runtime/plan/plan.h"

namespace act {

// A reader takes the version that it was built for and no other; any change of meaning or bytes makes a new
// one.
inline constexpr uint32_t kPlanVersion = 9;

// Writes the plan to `path`, all of it or nothing. Weights that are not known (HostTensor::data == nullptr)
// stay so. Errors: CheckPlan's, and those of the file system.
llvm::Error WritePlan(const Plan& plan, const std::string& path);

// Maps the file and checks all of it: checksum, FlatBuffers structure, and CheckPlan. The tensors of the
// returned plan point into the mapping and keep it alive. Errors say what the file is where it is no plan
// that this program reads.
llvm::Expected<Plan> ReadPlan(const std::string& path);

}  // namespace act
