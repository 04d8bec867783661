// Convolutions by tiles of products, for those that the library refuses: a row is a pixel, and operands are
// read through the window. Rows and products count as in kernels/reference/conv.cc. T is the type of what is
// multiplied, to which weights are rounded, R that of the result.
#pragma once

#include "kernels/cuda/source/conv_parameters.h"
#include "kernels/cuda/source/tile_product.h"
#include "kernels/cuda/source/window.h"

namespace act::cuda {

// The tile of a block, and its group.
struct ConvBlock {
  TileOf tile;
  int32_t group = 0, part = 0;
};
ACT_DEVICE ConvBlock BlockOf(const ConvParameters& p, int32_t rows, int32_t columns) {
  ConvBlock b{.tile = {.rows = rows, .columns = columns}};
  auto block = static_cast<int32_t>(blockIdx.x);
  b.tile.column = Split(p.tiles_columns, block) * kTile;
  b.tile.row = Split(p.tiles_rows, block) * kTile;
  b.group = Split(p.groups, block);
  b.part = block;
  return b;
}

// The coordinates of a tap.
ACT_DEVICE Pixel TapAt(const WindowParameters& w, int32_t tap) {
  return PixelOf<&WindowAxis::kernel>(w, tap);
}

// The index of the pixel of x that output o reads at `tap`, or -1.
ACT_DEVICE int64_t InputAt(const WindowParameters& w, const Pixel& o, const Pixel& tap) {
  Pixel x{o.sample, {}};
  bool inside = true;
  for (int32_t d = 0; d < 3; ++d) {
    const WindowAxis& a = w.axes[d];
    x.at[d] = o.at[d] * a.stride.by - a.pad + tap.at[d] * a.dilation.by;
    inside = inside && x.at[d] >= 0 && x.at[d] < a.in.by;
  }
  return inside ? IndexOf<&WindowAxis::in>(w, x) : -1;
}

// The index of the pixel of y that reads x at `tap`, or -1.
ACT_DEVICE int64_t OutputAt(const WindowParameters& w, const Pixel& x, const Pixel& tap) {
  Pixel o{x.sample, {}};
  bool reads = true;
  for (int32_t d = 0; d < 3; ++d) {
    o.at[d] = ReaderOf(w.axes[d], x.at[d], tap.at[d]);
    reads = reads && o.at[d] >= 0;
  }
  return reads ? IndexOf<&WindowAxis::out>(w, o) : -1;
}

// w [M, C/group, taps]
ACT_DEVICE int64_t WeightAt(const ConvParameters& p, int32_t m, int32_t c, int32_t tap) {
  return (int64_t{m} * p.group_in.by + c) * p.taps + tap;
}

// y [pixels, M]: product q of an element is that of tap q / (C/group) and channel q % (C/group).
template <class T, class R>
ACT_DEVICE void Conv(const ConvParameters& p) {
  const int32_t cin = p.group_in.by, cout = p.group_out.by;
  ConvBlock b = BlockOf(p, p.pixels, cout);
  b.tile.end = p.taps * cin;
  TileProduct<true, false>(
      b.tile,
      [&](int32_t pixel, int32_t q) {
        const int32_t c = Split(p.group_in, q);
        const int64_t x = InputAt(p.window, PixelOf<&WindowAxis::out>(p.window, pixel), TapAt(p.window, q));
        return x < 0 ? 0 : LoadFloat(static_cast<const T*>(p.x) + x * p.channels + b.group * cin + c);
      },
      [&](int32_t q, int32_t m) {
        const int32_t c = Split(p.group_in, q);
        return RoundedTo<T>(Load(p.w + WeightAt(p, b.group * cout + m, c, q)));
      },
      [&](int32_t pixel, int32_t m, float sum) {
        m += b.group * cout;
        StoreFloat(static_cast<R*>(p.to) + int64_t{pixel} * p.out_channels + m,
                   p.bias ? sum + Load(p.bias + m) : sum);
      });
}

// dx [pixels, C]: product q is that of tap q / (M/group) and channel q % (M/group) of dy.
template <class T, class R>
ACT_DEVICE void ConvGradInput(const ConvParameters& p) {
  const int32_t cin = p.group_in.by, cout = p.group_out.by;
  ConvBlock b = BlockOf(p, p.pixels, cin);
  b.tile.end = p.taps * cout;
  TileProduct<true, false>(
      b.tile,
      [&](int32_t pixel, int32_t q) {
        const int32_t m = Split(p.group_out, q);
        const int64_t y = OutputAt(p.window, PixelOf<&WindowAxis::in>(p.window, pixel), TapAt(p.window, q));
        return y < 0 ? 0 : LoadFloat(static_cast<const T*>(p.y) + y * p.out_channels + b.group * cout + m);
      },
      [&](int32_t q, int32_t c) {
        const int32_t m = Split(p.group_out, q);
        return RoundedTo<T>(Load(p.w + WeightAt(p, b.group * cout + m, c, q)));
      },
      [&](int32_t pixel, int32_t c, float sum) {
        StoreFloat(static_cast<R*>(p.to) + int64_t{pixel} * p.channels + b.group * cin + c, sum);
      });
}

// dw [M/group, taps * C/group] of each group: products are those of the pixels of dy. Parts of the pixels
// make sums of their own, which lie one after the other.
template <class T>
ACT_DEVICE void ConvGradWeight(const ConvParameters& p) {
  const int32_t cin = p.group_in.by, cout = p.group_out.by;
  ConvBlock b = BlockOf(p, cout, p.taps * cin);
  b.tile.first = b.part * p.part_length;
  b.tile.end = p.pixels - b.tile.first < p.part_length ? p.pixels : b.tile.first + p.part_length;
  TileProduct<false, true>(
      b.tile,
      [&](int32_t m, int32_t pixel) {
        return LoadFloat(static_cast<const T*>(p.y) + int64_t{pixel} * p.out_channels + b.group * cout + m);
      },
      [&](int32_t pixel, int32_t column) {
        const int32_t c = Split(p.group_in, column);
        const int64_t x =
            InputAt(p.window, PixelOf<&WindowAxis::out>(p.window, pixel), TapAt(p.window, column));
        return x < 0 ? 0 : LoadFloat(static_cast<const T*>(p.x) + x * p.channels + b.group * cin + c);
      },
      [&](int32_t m, int32_t column, float sum) {
        const int32_t c = Split(p.group_in, column);
        Store(
            static_cast<float*>(p.to) + b.part * p.part_elements + WeightAt(p, b.group * cout + m, c, column),
            sum);
      });
}

}  // namespace act::cuda
