// Numbers of positions, from which models compute masks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "passes/recognize/match_attention.h"

namespace act {

// A number for each query, for each key, or one for all.
struct Positions {
  std::vector<double> numbers;
  bool of_keys = false;
};

// Of v, which broadcasts to [.., queries, keys]. Follows what repeats and moves a constant's axes. Nullopt: v depends
// on more, or differs from query to query and from key to key.
std::optional<Positions> PositionsOf(const AttentionMatcher& nodes, ValueId v, int64_t queries, int64_t keys);

// The value, if it is a constant whose bytes are there. Else null.
const Value* StoredConstant(const Value& value);

}  // namespace act
