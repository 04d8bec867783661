// Plans whose codecs come from shared libraries.
#pragma once

#include <llvm/Support/Error.h>

#include <vector>

#include "runtime/codec/plugin.h"
#include "runtime/plan/plan.h"

namespace act {

// Gives every plugin codec of the plan its functions, from the libraries that are loaded. check: their calls
// are checked in every step, at several times the cost. Errors: a codec that no library has, or that one has
// in another version or with other sizes; a codec that a trial finds not to keep to its sizes.
llvm::Error BindPlugins(Plan& plan, const std::vector<const act_codec*>& loaded, bool check);

}  // namespace act
