// Graphics cards by name. A report compares an arena with their memory. Plans know nothing of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace act {

struct Card {
  std::string_view name;  // "h200"
  // As its driver reports it, in whole GiB: a few hundred MiB depend on the driver's version.
  int64_t memory_bytes = 0;

  // What is left for an arena. The rest is for the driver's context, kernels and libraries.
  int64_t ArenaBytes() const;
};

// Null if there is no such card in the list.
const Card* FindCard(std::string_view name);

// "h200, h100, a100, b200, l4"
std::string CardNames();

}  // namespace act
