// All rows of all families. op_cases.cc compiles them once: that takes longer than the programs which go through them.
#pragma once

#include <vector>

#include "tests/compiler/gradient_case.h"

namespace act::gradient_case {

const std::vector<OpCase>& AllCases();

}  // namespace act::gradient_case
