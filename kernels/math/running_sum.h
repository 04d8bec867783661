// What a running sum (CumSum) is added up in.
#pragma once

#include <cstdint>
#include <type_traits>

namespace act {

// Of elements of type T: floats in double, integers modulo 2^64, which gives what wrapping in T gives.
template <class T>
using RunningSum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;

}  // namespace act
