// What the products of packed operands share, and those who call them (packed_grad_weight.h). A packed
// operand has panels of channels. A panel has slots: a 32-bit word of each channel, which holds one term
// of a sum, or two.
#pragma once

#include <cstdint>

namespace act {

// The width of a right panel is a multiple of this.
inline constexpr int64_t kSlotLanes = 16;

struct Range {
  int64_t first = 0, last = 0;
  int64_t size() const { return last - first; }
};

// Slots a .. a + slots - 1 of the left panel and b .. of the right one.
struct SlotRun {
  int64_t a = 0, b = 0, slots = 0;
};

// Neighbouring pixels of a row of x that a tap reads, as terms of a sum. Those outside are zeros.
template <class T>
struct PixelRow {
  const T* x = nullptr;
  int64_t first = 0, distance = 0;  // elements from x to pixel 0, and from a pixel to the next
  int64_t pixels = 0;
  Range inside = {};

  const T* At(int64_t i) const { return x + (first + i * distance); }
  const T* AtOrNull(int64_t i) const { return i >= inside.first && i < inside.last ? At(i) : nullptr; }
};

// Memory that products prefetch while they multiply: a cache line with each slot, or with every so
// many. A prefetch is not an access, so the address need not be valid.
struct Ahead {
  static constexpr int64_t kNever = int64_t{1} << 62;
  uintptr_t at = 0;
  int64_t step = 0;             // bytes
  int64_t lines = 0;            // that are left; a product may prefetch more
  int64_t every = 1, wait = 1;  // slots from a line to the next, and to the first
};

// Prefetches with a slot. Into the second-level cache: a block does not fit into the first.
inline void Prefetch(Ahead& ahead) {
  if (--ahead.wait > 0) return;
  ahead.wait = ahead.every;
  __builtin_prefetch(reinterpret_cast<const void*>(ahead.at), 0, 2);  // NOLINT(performance-no-int-to-ptr)
  ahead.at += static_cast<uintptr_t>(ahead.step);
  --ahead.lines;
}

}  // namespace act
