// Passes over a row, which a team of threads (team.h) holds in registers, or loads anew in each pass.
#pragma once

#include "kernels/cuda/source/floats.h"
#include "kernels/cuda/source/team.h"

namespace act::cuda {

// kSlots packs of kVector elements a thread at a time; kHeld if that is the whole row.
template <int kTeamThreads, int kPacks, int kVectorElements, bool kWholeRow>
struct RowShape {
  static constexpr int kTeam = kTeamThreads, kSlots = kPacks, kVector = kVectorElements;
  static constexpr bool kHeld = kWholeRow;
  static constexpr int32_t kStep = kTeam * kVector, kChunk = kStep * kSlots;

  int32_t columns = 0;  // 0 for a team without a row, which must still take part in what all do
  int32_t lane = 0;

  // The column of a slot's first element.
  ACT_DEVICE int32_t Column(int32_t base, int slot) const { return base + slot * kStep + lane * kVector; }
};

template <class Shape>
class Row {
 public:
  ACT_DEVICE Row(const Shape& shape, const float* from) : from_(from) {
    if constexpr (Shape::kHeld) Fill(shape, 0);
  }
  // Loads the elements from column `base` on.
  ACT_DEVICE void Reload(const Shape& shape, int32_t base) {
    if constexpr (!Shape::kHeld) Fill(shape, base);
  }
  ACT_DEVICE float At(int slot, int v) const { return held_[slot].at[v]; }

 private:
  ACT_DEVICE void Fill(const Shape& shape, int32_t base) {
    for (int s = 0; s < Shape::kSlots; ++s) {
      const int32_t c = shape.Column(base, s);
      if (c < shape.columns) LoadFloats(from_ + c, held_[s]);
    }
  }

  const float* from_;
  Floats<Shape::kVector> held_[Shape::kSlots];
};

// Calls f(column, element of each row) for a thread's elements.
template <class Shape, class F, class... Rows>
ACT_DEVICE void ForRow(const Shape& shape, F f, Rows&... rows) {
  for (int32_t base = 0; base < shape.columns; base += Shape::kChunk) {
    (rows.Reload(shape, base), ...);
    for (int s = 0; s < Shape::kSlots; ++s) {
      const int32_t c = shape.Column(base, s);
      if (c >= shape.columns) continue;
      for (int v = 0; v < Shape::kVector; ++v) f(c + v, rows.At(s, v)...);
    }
    if constexpr (Shape::kHeld) return;
  }
}

// to[column] = f(column, element of each row). `to` may be one of the rows, if its type is theirs: a thread loads an element
// before it stores it, and no other thread reads it after that.
template <class Shape, class T, class F, class... Rows>
ACT_DEVICE void MapRow(const Shape& shape, T* to, F f, Rows&... rows) {
  for (int32_t base = 0; base < shape.columns; base += Shape::kChunk) {
    (rows.Reload(shape, base), ...);
    for (int s = 0; s < Shape::kSlots; ++s) {
      const int32_t c = shape.Column(base, s);
      if (c >= shape.columns) continue;
      Floats<Shape::kVector> pack;
      for (int v = 0; v < Shape::kVector; ++v) pack.at[v] = f(c + v, rows.At(s, v)...);
      StoreFloats(to + c, pack);
    }
    if constexpr (Shape::kHeld) return;
  }
}

}  // namespace act::cuda
