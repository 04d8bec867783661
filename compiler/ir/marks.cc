#include "compiler/ir/marks.h"

#include <algorithm>

namespace act {

void ValueMarks::Merge(const ValueMarks& replaced) {
  if (trained < 0) trained = replaced.trained;
  edges.insert(edges.end(), replaced.edges.begin(), replaced.edges.end());
  statistic |= replaced.statistic;
  kept_exactly |= replaced.kept_exactly;
  of_loss |= replaced.of_loss;
  of_steep_loss |= replaced.of_steep_loss;
  near_steep |= replaced.near_steep;
  anchor |= replaced.anchor;
  kept_finely |= replaced.kept_finely;
  rebuilt_from |= replaced.rebuilt_from;
  low_frequency |= replaced.low_frequency;
  range_code |= replaced.range_code;
  from_product_input |= replaced.from_product_input;
  precision = std::max(precision, replaced.precision);
  computed.insert(computed.end(), replaced.computed.begin(), replaced.computed.end());
}

std::vector<ValueId> TrainedParameters(const Marks& marks) {
  std::vector<ValueId> trained;
  for (ValueId v = 0; v < marks.end(); ++v)
    if (marks[v].trained >= 0) trained.push_back(v);
  std::sort(trained.begin(), trained.end(),
            [&marks](ValueId a, ValueId b) { return marks[a].trained < marks[b].trained; });
  return trained;
}

void MarkTrained(Marks& marks, const std::vector<ValueId>& parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) marks[parameters[i]].trained = static_cast<int32_t>(i);
}

std::vector<ValueId> StoredValues(const Marks& marks, size_t count) {
  std::vector<ValueId> stored(count, kNoValue);
  for (ValueId v = 0; v < marks.end(); ++v)
    for (const int32_t edge : marks[v].edges) stored[static_cast<size_t>(edge)] = v;
  return stored;
}

}  // namespace act
