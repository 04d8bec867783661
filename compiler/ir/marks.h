// What passes note of values for the passes that follow: which parameters train, what is stored,
// and why.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/value_map.h"

namespace act {

struct ValueMarks {
  int32_t trained = -1;        // a parameter that training changes: its place in the order of updates
  std::vector<int32_t> edges;  // stored for the backward pass: its places in PassContext::edges
  bool statistic = false;      // kept exactly, as is what operators read as Need::kStatistics
  bool anchor = false;         // re-runs start from it: stored, whatever it could be computed from
  bool rebuilt_from = false;   // stored, and other values are computed from it in the backward pass
  bool low_frequency = false;  // averages over blocks of an image (split-frequencies)
  bool range_code = false;     // numbers of levels over a fixed range (fix-ranges)
  // Made by a derived node that runs in the forward pass, from what a product's gradient reads. A
  // level that codes only the latter codes this too: L0 needs no second tensor here, and no level
  // may store more.
  bool from_product_input = false;
  std::vector<std::string> computed;  // of an anchor: the nodes that run again from it, for --explain

  // Takes over what is said of a value that this one replaces.
  void Merge(const ValueMarks& replaced);
};

// The marks of a graph's values. A value that has none reads as one without. Who replaces or
// renumbers values does so here too: Replacements (compiler/ir/replace.h) and assign-storage are
// the only ones.
using Marks = ValueMap<ValueMarks>;

// The parameters that training changes, in the order of their updates, and how they are marked.
std::vector<ValueId> TrainedParameters(const Marks& marks);
void MarkTrained(Marks& marks, const std::vector<ValueId>& parameters);

// The value that is stored for each of the first `count` edges; kNoValue where none is.
std::vector<ValueId> StoredValues(const Marks& marks, size_t count);

}  // namespace act
