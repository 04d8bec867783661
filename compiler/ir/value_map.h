// A table by value id, for what a pass knows about each value of a graph.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "runtime/plan/graph.h"

namespace act {

// Every id can be read. Ids that were never written, kNoValue, and values that the graph got later
// read as `missing`. Writing to a value that the graph got later enlarges the table. What is written
// to kNoValue is lost: operands may be absent, and a table that can be written is mostly read.
template <class T>
class ValueMap {
 public:
  ValueMap() = default;
  explicit ValueMap(const Graph& graph, T missing = T())
      : entries_(graph.values.size(), missing), missing_(std::move(missing)) {}

  // Returns bool by value, other types by reference. A write to another value
  // invalidates the reference.
  typename std::vector<T>::const_reference operator[](ValueId v) const {
    return Holds(v) ? entries_[static_cast<size_t>(v)] : missing_;
  }
  typename std::vector<T>::reference operator[](ValueId v) {
    if (v < 0) {
      absent_.assign(1, missing_);
      return absent_[0];
    }
    if (!Holds(v)) entries_.resize(static_cast<size_t>(v) + 1, missing_);
    return entries_[static_cast<size_t>(v)];
  }

  // Every value that was written is less than this one.
  ValueId end() const { return static_cast<ValueId>(entries_.size()); }

  // Value v becomes number[v]. Where that is kNoValue the value is removed.
  void Renumber(const ValueMap<ValueId>& number) {
    std::vector<T> entries;
    for (ValueId v = 0; v < end(); ++v) {
      if (number[v] == kNoValue) continue;
      const auto to = static_cast<size_t>(number[v]);
      if (to >= entries.size()) entries.resize(to + 1, missing_);
      entries[to] = std::move(entries_[static_cast<size_t>(v)]);
    }
    entries_ = std::move(entries);
  }

 private:
  bool Holds(ValueId v) const { return v >= 0 && static_cast<size_t>(v) < entries_.size(); }

  std::vector<T> entries_;
  T missing_ = T();
  std::vector<T> absent_;  // one entry, for kNoValue
};

}  // namespace act
