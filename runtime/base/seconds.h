// Durations as the reports have them.
#pragma once

#include <algorithm>
#include <chrono>

namespace act {

// At least 0. A steady clock does not go back, but those of some virtual machines do when they are moved.
inline double SecondsBetween(std::chrono::steady_clock::time_point from,
                             std::chrono::steady_clock::time_point to) {
  return std::max(0.0, std::chrono::duration<double>(to - from).count());
}

inline double SecondsSince(std::chrono::steady_clock::time_point from) {
  return SecondsBetween(from, std::chrono::steady_clock::now());
}

}  // namespace act
