#include "compiler/ir/replace.h"

#include <algorithm>
#include <utility>

namespace act {

void Replacements::Replace(ValueId old, ValueId by) {
  by = Current(by);
  if (by == old) return;
  by_[old] = by;
  std::replace(graph_.outputs.begin(), graph_.outputs.end(), old, by);
  const ValueMarks replaced = std::exchange(marks_[old], {});
  marks_[by].Merge(replaced);
}

ValueId Replacements::Current(ValueId v) const {
  while (by_[v] != kNoValue) v = by_[v];
  return v;
}

void Replacements::Update(Node& node) const {
  for (ValueId& v : node.inputs) v = Current(v);
}

}  // namespace act
