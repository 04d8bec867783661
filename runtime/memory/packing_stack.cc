#include "runtime/memory/packing_stack.h"

#include <algorithm>
#include <numeric>

namespace act::packing_internal {

void Levels::Clear(int32_t columns) {
  const auto blocks = static_cast<size_t>((columns + kBlock - 1) / kBlock);
  levels_.resize(blocks * kBlock);
  blocks_.assign(blocks, {0, true});
}

int64_t Levels::Highest(int32_t block, int32_t lower, int32_t upper) const {
  if (blocks_[block].is_level) return blocks_[block].highest;
  return *std::max_element(levels_.begin() + lower, levels_.begin() + upper);
}

void Levels::SetPart(int32_t block, int32_t lower, int32_t upper, int64_t level) {
  Block& b = blocks_[block];
  if (b.is_level) std::fill_n(levels_.begin() + block * kBlock, kBlock, b.highest);
  b.is_level = false;
  b.highest = std::max(b.highest, level);
  std::fill(levels_.begin() + lower, levels_.begin() + upper, level);
}

int64_t Levels::Raise(int32_t lower, int32_t upper, int64_t size) {
  const int32_t first = lower / kBlock, last = (upper - 1) / kBlock;
  const int32_t first_end = std::min(upper, (first + 1) * kBlock),
                last_begin = std::max(lower, last * kBlock);
  int64_t level = std::max(Highest(first, lower, first_end), Highest(last, last_begin, upper));
  for (int32_t b = first + 1; b < last; ++b) level = std::max(level, blocks_[b].highest);
  level += size;
  SetPart(first, lower, first_end, level);
  for (int32_t b = first + 1; b < last; ++b) blocks_[b] = {level, true};
  if (last > first) SetPart(last, last_begin, upper, level);
  return level;
}

int32_t Stack::Add(int32_t item) {
  is_member_[item] = true;
  members_.push_back({.item = item, .size = AlignUp(instance_.items[item].size, unit_) / unit_});
  return static_cast<int32_t>(members_.size()) - 1;
}

void Stack::FindColumns() {
  std::vector<bool> starts(instance_.time_count), ends(instance_.time_count);
  for (const Member& m : members_) {
    starts[instance_.items[m.item].lower] = true;
    ends[instance_.items[m.item].upper - 1] = true;
  }
  // A set is complete when a member ends. The next one begins where another starts.
  std::vector<int32_t> column_at(instance_.time_count);
  columns_ = 0;
  bool complete = true;
  for (int32_t t = 0; t < instance_.time_count; ++t) {
    if (starts[t] && complete) {
      ++columns_;
      complete = false;
    }
    column_at[t] = columns_ - 1;
    if (ends[t]) complete = true;
  }
  for (Member& m : members_) {
    m.lower = column_at[instance_.items[m.item].lower];
    m.upper = column_at[instance_.items[m.item].upper - 1] + 1;
  }
}

std::vector<int32_t> Stack::Restack(const std::vector<int64_t>& offsets, int64_t height) {
  height_ = height;
  order_.resize(members_.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) {
    return offsets[members_[a].item] < offsets[members_[b].item];
  });
  levels_.Clear(columns_);
  for (const int32_t i : order_) {
    Member& m = members_[i];
    m.lowest_end = levels_.Raise(m.lower, m.upper, m.size);
  }
  const auto above = std::stable_partition(order_.begin(), order_.end(),
                                           [&](int32_t i) { return members_[i].lowest_end <= height; });
  std::vector<int32_t> out(above, order_.end());
  order_.erase(above, order_.end());
  Update();
  return out;
}

void Stack::Insert(int32_t index, int64_t offset, std::vector<int32_t>& out) {
  const Member& added = members_[index];
  const auto kept = std::stable_partition(order_.begin(), order_.end(), [&](int32_t i) {
    return !members_[i].Meets(added) || !members_[i].Blocks(offset, added.size);
  });
  out.insert(out.end(), kept, order_.end());
  order_.erase(kept, order_.end());
  // All that can end at or below the offset go below. What is left can be pushed above.
  const auto above =
      std::find_if(order_.begin(), order_.end(), [&](int32_t i) { return members_[i].lowest_end > offset; });
  order_.insert(above, index);
  Update();
}

void Stack::Update() {
  levels_.Clear(columns_);
  for (size_t k = 0; k < order_.size(); ++k) {
    const int32_t index = order_[k];
    Member& m = members_[index];
    m.lowest_end = levels_.Raise(m.lower, m.upper, m.size);
    // Few change their place in the order.
    size_t to = k;
    for (; to > 0 && members_[order_[to - 1]].lowest_end > m.lowest_end; --to) order_[to] = order_[to - 1];
    order_[to] = index;
  }
  levels_.Clear(columns_);
  for (size_t k = order_.size(); k-- > 0;) {
    Member& m = members_[order_[k]];
    m.highest_offset = height_ - levels_.Raise(m.lower, m.upper, m.size);
  }
}

std::vector<int64_t> Stack::Offsets() const {
  std::vector<int64_t> offsets(instance_.items.size(), -1);
  for (const int32_t i : order_)
    offsets[members_[i].item] = (members_[i].lowest_end - members_[i].size) * unit_;
  return offsets;
}

}  // namespace act::packing_internal
