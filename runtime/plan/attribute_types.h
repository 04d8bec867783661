// The types of the attributes in a plan. Attributes gives a default for an attribute of another type
// than the reader asks for, so that a wrong type must be found before.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/attributes.h"

namespace act {

// Which attribute is not of the type that the runtime reads, and what that type is, or has an integer
// beyond 2^60, where sums of a few could overflow. Nullopt if none is or has. A name has one type,
// whichever operator has it. Names that only the compiler reads pass.
std::optional<std::string> WrongType(const Attributes& attrs);

}  // namespace act
