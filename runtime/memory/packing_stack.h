// Internal to the packing solver: items that lie one above the other, and how far each can be pushed.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/memory/packing_placement.h"

namespace act::packing_internal {

// The height of what is piled up in each of many columns.
class Levels {
 public:
  void Clear(int32_t columns);
  // Puts `size` on the highest of the columns [lower, upper), and raises all of them to its end, which is returned.
  int64_t Raise(int32_t lower, int32_t upper, int64_t size);

 private:
  // The columns of a block are mostly raised together. So a block has one level until a part of it is raised.
  static constexpr int32_t kBlock = 16;
  struct Block {
    int64_t highest;
    bool is_level;  // all its columns are as high; `levels_` has not been told
  };
  int64_t Highest(int32_t block, int32_t lower, int32_t upper) const;
  void SetPart(int32_t block, int32_t lower, int32_t upper, int64_t level);

  std::vector<int64_t> levels_;
  std::vector<Block> blocks_;
};

// Some items of an instance, its members. Those that are placed have an order: of two that live at once, the earlier
// one lies below. The order and a height say how low and how high each can lie. All of them lie as low as they can at
// once, or as high. Sizes and offsets are in units.
class Stack {
 public:
  struct Member {
    int32_t item = 0;              // of the instance
    int32_t lower = 0, upper = 0;  // half-open live range in columns
    int64_t size = 0;
    int64_t lowest_end = 0;      // its end with all below it pushed down
    int64_t highest_offset = 0;  // its offset with all above it pushed up
    int64_t failures = 1;        // how often it was placed only by taking out others

    bool Meets(const Member& other) const { return lower < other.upper && other.lower < upper; }
    // Whether it is in the way of `added` bytes at `offset`: it can be pushed neither below nor above them.
    bool Blocks(int64_t offset, int64_t added) const {
      return highest_offset - added < offset && offset < lowest_end;
    }
  };

  // Without members. `unit` is in bytes.
  Stack(const Instance& instance, int64_t unit)
      : instance_(instance), unit_(unit), is_member_(instance.items.size(), false) {}

  bool IsMember(int32_t item) const { return is_member_[static_cast<size_t>(item)]; }
  // Adds a member without a place, and returns it. Update must follow before it gets one.
  int32_t Add(int32_t item);
  // Finds the columns anew: the sets of members that live at once and are in no larger set.
  void FindColumns();

  // Orders all members by their offsets. Those that then end above `height` get no place and are returned.
  std::vector<int32_t> Restack(const std::vector<int64_t>& offsets, int64_t height);
  // Gives the member a place at the offset, and takes out what blocks it. Appends that to `out`.
  void Insert(int32_t member, int64_t offset, std::vector<int32_t>& out);
  // Finds out anew how low and how high each member can lie.
  void Update();

  int64_t height() const { return height_; }
  int64_t member_count() const { return static_cast<int64_t>(members_.size()); }
  Member& member(int32_t index) { return members_[static_cast<size_t>(index)]; }
  // The members that have a place, by their lowest end.
  const std::vector<int32_t>& order() const { return order_; }
  // Their lowest offsets in bytes, by item. -1: no place.
  std::vector<int64_t> Offsets() const;

 private:
  const Instance& instance_;
  const int64_t unit_;
  std::vector<bool> is_member_;  // by item
  int64_t height_ = 0;
  int32_t columns_ = 0;
  std::vector<Member> members_;
  std::vector<int32_t> order_;
  Levels levels_;
};

}  // namespace act::packing_internal
