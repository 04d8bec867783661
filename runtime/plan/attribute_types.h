// The types of the attributes in a plan. Attributes gives a default for an attribute of another type
// than the reader asks for, so that a wrong type must be found before.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/attributes.h"

namespace act {

// Which attribute is not of the type that the runtime reads, and what that type is. Nullopt if all
// are. A name has one type, whichever operator has it. Names that only the compiler reads pass.
std::optional<std::string> WrongType(const Attributes& attrs);

}  // namespace act
