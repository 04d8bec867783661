// Plans whose codecs come from shared libraries.
#pragma once

#include <llvm/Support/Error.h>

#include <vector>

#include "runtime/codec/plugin.h"
#include "runtime/plan/plan.h"

namespace act {

// Gives every plugin codec of the plan its functions, from the libraries that are loaded. With
// `check`, their calls are checked in every step, at several times the cost. Errors: no library has
// a codec, or it has another version or other sizes; a trial finds that a codec does not keep to
// its sizes.
llvm::Error BindPlugins(Plan& plan, const std::vector<const act_codec*>& loaded, bool check);

}  // namespace act
