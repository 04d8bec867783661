// What attention gives a query that sees no key.
#pragma once

#include <cstdint>

namespace act {

enum class EmptyRow : int32_t { kNaN, kMean, kZero };

}  // namespace act
