#include "kernels/cpu/tile_product.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tile_product.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = HWY_CAPPED(float, 16);
using V = hn::Vec<D>;

constexpr int64_t kLanes = hn::MaxLanes(D());
// Sums that are kept in registers: 6 x 4 of 32 with AVX-512, otherwise 6 x 2 of 16.
constexpr int64_t kStrip = 6;
constexpr int64_t kMaxVectors = kLanes == 16 ? 4 : 2;
// Terms of a sum before the next panel. kDepth x kMaxVectors vectors of b are 32 KiB. They stay in
// the first-level cache while all strips use them.
constexpr int64_t kDepth = 128;

// The first `count` elements. Touches nothing after them.
HWY_INLINE V LoadPart(D d, const float* from, size_t count) {
  if constexpr (kLanes >= 8) return hn::MaskedLoad(hn::FirstN(d, count), d, from);
  HWY_ALIGN float part[kLanes] = {};
  std::memcpy(part, from, count * sizeof(float));
  return hn::Load(d, part);
}
HWY_INLINE void StorePart(V v, D d, float* to, size_t count) {
  if constexpr (kLanes >= 8) return hn::BlendedStore(v, hn::FirstN(d, count), d, to);
  HWY_ALIGN float part[kLanes];
  hn::Store(v, d, part);
  std::memcpy(to, part, count * sizeof(float));
}

// kRows rows of c by kVectors vectors. With kPartial, the last vector has `last` elements.
template <size_t kRows, size_t kVectors, bool kPartial>
HWY_INLINE void Tile(const TileProduct& p, const float* a, const float* b, float* c, int64_t depth,
                     size_t last, bool add) {
  const D d;
  const auto load = [&](const float* from, size_t v) HWY_ATTR {
    return kPartial && v + 1 == kVectors ? LoadPart(d, from + v * kLanes, last)
                                         : hn::LoadU(d, from + v * kLanes);
  };
  V sum[kRows][kVectors];
#pragma GCC unroll 6
  for (size_t r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v)
      sum[r][v] = add ? load(c + static_cast<int64_t>(r) * p.c_row, v) : hn::Zero(d);
#pragma GCC unroll 6
  for (size_t r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v)
      hwy::Prefetch(c + static_cast<int64_t>(kStrip + r) * p.c_row + v * kLanes);
  for (int64_t k = 0; k < depth; ++k, a += p.a_column, b += p.b_row) {
    V right[kVectors];
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) right[v] = load(b, v);
#pragma GCC unroll 6
    for (size_t r = 0; r < kRows; ++r) {
      const V left = hn::Set(d, a[static_cast<int64_t>(r) * p.a_row]);
#pragma GCC unroll 4
      for (size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(left, right[v], sum[r][v]);
    }
  }
#pragma GCC unroll 6
  for (size_t r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) {
      float* to = c + static_cast<int64_t>(r) * p.c_row + v * kLanes;
      if (kPartial && v + 1 == kVectors) {
        StorePart(sum[r][v], d, to, last);
      } else {
        hn::StoreU(sum[r][v], d, to);
      }
    }
}

// All rows of one panel of columns.
template <size_t kVectors, bool kPartial>
void Panel(const TileProduct& p, const float* a, const float* b, float* c, int64_t depth, size_t last,
           bool add) {
  int64_t i = 0;
  for (; i + kStrip <= p.rows; i += kStrip)
    Tile<kStrip, kVectors, kPartial>(p, a + i * p.a_row, b, c + i * p.c_row, depth, last, add);
  a += i * p.a_row;
  c += i * p.c_row;
  switch (p.rows - i) {
    case 5:
      return Tile<5, kVectors, kPartial>(p, a, b, c, depth, last, add);
    case 4:
      return Tile<4, kVectors, kPartial>(p, a, b, c, depth, last, add);
    case 3:
      return Tile<3, kVectors, kPartial>(p, a, b, c, depth, last, add);
    case 2:
      return Tile<2, kVectors, kPartial>(p, a, b, c, depth, last, add);
    case 1:
      return Tile<1, kVectors, kPartial>(p, a, b, c, depth, last, add);
    default:
      return;
  }
}

template <size_t kVectors>
void PanelOf(const TileProduct& p, const float* a, const float* b, float* c, int64_t depth, int64_t columns,
             bool add) {
  const auto last = static_cast<size_t>(columns - static_cast<int64_t>(kVectors - 1) * kLanes);
  if (last == static_cast<size_t>(kLanes)) return Panel<kVectors, false>(p, a, b, c, depth, last, add);
  Panel<kVectors, true>(p, a, b, c, depth, last, add);
}

constexpr int64_t kWidth = kMaxVectors * kLanes;
static_assert(kWidth <= kMostTileColumns);

int64_t TileColumnsOnTarget() { return kWidth; }

void MultiplyOnTarget(const TileProduct& p) {
  for (int64_t k = 0; k == 0 || k < p.depth; k += kDepth) {
    const int64_t depth = std::min(kDepth, p.depth - k);
    const bool add = p.add || k > 0;
    for (int64_t j = 0; j < p.columns; j += kWidth) {
      const int64_t columns = std::min(kWidth, p.columns - j);
      const float *a = p.a + k * p.a_column, *b = p.b + k * p.b_row + j;
      float* c = p.c + j;
      const int64_t vectors = (columns + kLanes - 1) / kLanes;
      if (vectors == 1) PanelOf<1>(p, a, b, c, depth, columns, add);
      if (vectors == 2) PanelOf<2>(p, a, b, c, depth, columns, add);
      if constexpr (kMaxVectors == 4) {
        if (vectors == 3) PanelOf<3>(p, a, b, c, depth, columns, add);
        if (vectors == 4) PanelOf<4>(p, a, b, c, depth, columns, add);
      }
    }
  }
}

void TransposeScaledOnTarget(const float* x, int64_t x_row, int64_t rows, int64_t columns, float scale,
                             float* y, int64_t y_row) {
  int64_t r = 0;
#if HWY_TARGET != HWY_SCALAR
  // 4 x 4 elements at a time.
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> d64;
  const auto factor = hn::Set(d, scale);
  const int64_t whole = columns / 4 * 4;
  for (; r + 4 <= rows; r += 4) {
    const float* from = x + r * x_row;
    for (int64_t c = 0; c < whole; c += 4) {
      const auto x0 = hn::LoadU(d, from + c), x1 = hn::LoadU(d, from + x_row + c),
                 x2 = hn::LoadU(d, from + 2 * x_row + c), x3 = hn::LoadU(d, from + 3 * x_row + c);
      const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d, x0, x1)),
                 low23 = hn::BitCast(d64, hn::InterleaveLower(d, x2, x3)),
                 high01 = hn::BitCast(d64, hn::InterleaveUpper(d, x0, x1)),
                 high23 = hn::BitCast(d64, hn::InterleaveUpper(d, x2, x3));
      const auto store = [&](auto column, int64_t at) HWY_ATTR {
        hn::StoreU(hn::Mul(hn::BitCast(d, column), factor), d, y + (c + at) * y_row + r);
      };
      store(hn::InterleaveLower(d64, low01, low23), 0);
      store(hn::InterleaveUpper(d64, low01, low23), 1);
      store(hn::InterleaveLower(d64, high01, high23), 2);
      store(hn::InterleaveUpper(d64, high01, high23), 3);
    }
    for (int64_t c = whole; c < columns; ++c)
      for (int64_t i = 0; i < 4; ++i) y[c * y_row + r + i] = scale * from[i * x_row + c];
  }
#endif
  for (; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) y[c * y_row + r] = scale * x[r * x_row + c];
}

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace act {

HWY_EXPORT(MultiplyOnTarget);
HWY_EXPORT(TileColumnsOnTarget);
HWY_EXPORT(TransposeScaledOnTarget);

void Multiply(const TileProduct& product) { HWY_DYNAMIC_DISPATCH(MultiplyOnTarget)(product); }

int64_t TileColumns() { return HWY_DYNAMIC_DISPATCH(TileColumnsOnTarget)(); }

void TransposeScaled(const float* x, int64_t x_row, int64_t rows, int64_t columns, float scale, float* y,
                     int64_t y_row) {
  HWY_DYNAMIC_DISPATCH(TransposeScaledOnTarget)(x, x_row, rows, columns, scale, y, y_row);
}

}  // namespace act
#endif
