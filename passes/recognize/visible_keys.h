// Which keys each query sees by a mask that a model computes from positions. The mask itself has an element for
// each pair of query and key, so it is not made to find out: comparisons of positions are followed row by row, as
// ranges of keys.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "passes/recognize/match_attention.h"
#include "passes/recognize/positions.h"

namespace act {

// Keys first .. last - 1. A query that sees none has 0, 0.
struct KeyRange {
  int64_t first = 0, last = 0;
  bool operator==(const KeyRange&) const = default;
};

// A bool tensor that broadcasts to the scores, and which of its pairs take part.
struct MaskTerm {
  ValueId value = kNoValue;
  bool hides_where_true = false;
};

// Bounds that move by one key from each query to the next, as attention has them for attributes.
struct KeyBand {
  std::optional<int64_t> causal_offset;  // query i sees no key after i + offset
  std::optional<int64_t> window_offset;  // query i sees no key before i + offset

  void Narrow(const KeyBand& other);
};

// The ranges as bounds on both sides, of which each hides something.
struct KeyBounds {
  // Its first query may see a key after the band's window, and its last one the last key.
  KeyBand band;
  std::vector<float> first, last;  // a query sees no key before `first`, and none from `last` on
};
KeyBounds BoundsOf(const std::vector<KeyRange>& of_queries, int64_t keys);

class VisibleKeys {
 public:
  // Of scores [.., queries, keys]. `nodes` must outlive this.
  VisibleKeys(const AttentionMatcher& nodes, int64_t queries, int64_t keys)
      : nodes_(nodes), queries_(queries), keys_(keys) {}

  // The terms, all of which must let a pair take part: one, or those of a conjunction.
  std::vector<MaskTerm> TermsOf(const MaskTerm& mask) const;
  // For each query the keys that take part. Nullopt: this depends on more than positions, or a query's keys are not
  // one range.
  std::optional<std::vector<KeyRange>> Of(const MaskTerm& term) const;

 private:
  using Ranges = std::optional<std::vector<KeyRange>>;
  Ranges WhereTrue(ValueId v, int depth) const;
  // Of a tensor of 0 and 1, as the importer multiplies flags: where it is 1.
  Ranges WhereOne(ValueId v, int depth) const;
  // Of Where, or of Integer's select.
  Ranges Selected(const Node& node, int depth) const;
  Ranges Compared(const Node& node) const;
  Ranges OfConstant(ValueId v) const;
  std::optional<Positions> PositionsAt(ValueId v) const { return PositionsOf(nodes_, v, queries_, keys_); }
  // What v repeats along leading axes, or v.
  ValueId Inside(ValueId v) const;
  void AddTerms(const MaskTerm& mask, int depth, std::vector<MaskTerm>& terms) const;
  bool IsBool(ValueId v) const;

  const AttentionMatcher& nodes_;
  const int64_t queries_, keys_;
};

}  // namespace act
