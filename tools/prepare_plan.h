// actc --aot: code and engines for one card, which need not be here.
#pragma once

#include <llvm/Support/Error.h>

#include <functional>
#include <memory>
#include <string>

#include "kernels/cuda/libraries.h"
#include "runtime/plan/plan.h"

namespace act {

// For runs at the plan's own batch size. `say` is told of long work.
llvm::Expected<std::shared_ptr<const Prepared>> PreparePlan(
    std::unique_ptr<cuda::Toolkit> card, const Plan& plan,
    const std::function<void(const std::string&)>& say);

}  // namespace act
