// A batched matrix product given by strides (kernels/site/matmul_shape.h).
#pragma once

#include "kernels/cuda/source/axes.h"
#include "kernels/cuda/source/product_parameters.h"
#include "kernels/cuda/source/tile_product.h"

namespace act::cuda {

// A, B, Y: types of the operands and the result. A float32 factor beside a bfloat16 one is rounded.
template <bool kAAlongRow, bool kBAlongRow, class A, class B, class Y>
ACT_DEVICE void Product(const ProductParameters& p) {
  auto block = static_cast<int32_t>(blockIdx.x);
  TileOf tile{.rows = p.m, .columns = p.n, .end = p.k};
  tile.column = Split(p.tiles_n, block) * kTile;
  tile.row = Split(p.tiles_m, block) * kTile;
  const Places at = PlacesOf(p.batch, block);
  const A* a = static_cast<const A*>(p.a) + at.from;
  const B* b = static_cast<const B*>(p.b) + at.to;
  Y* y = static_cast<Y*>(p.y) + int64_t{block} * p.m * p.n;
  TileProduct<kAAlongRow, kBAlongRow>(
      tile, [&](int32_t i, int32_t q) { return RoundedTo<B>(LoadFloat(a + i * p.a_m + q * p.a_k)); },
      [&](int32_t q, int32_t j) { return RoundedTo<A>(LoadFloat(b + q * p.b_k + j * p.b_n)); },
      [&](int32_t i, int32_t j, float sum) {
        Y* const to = y + int64_t{i} * p.n + j;
        StoreFloat(to, p.bias ? sum + Load(p.bias + j) : p.goes_on ? sum + LoadFloat(to) : sum);
      });
}

}  // namespace act::cuda
