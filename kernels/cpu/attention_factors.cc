#include "kernels/cpu/attention_factors.h"

#include "kernels/cpu/attention_rows.h"
#include "kernels/cpu/float_rows.h"
#include "kernels/cpu/pair_product.h"
#include "kernels/cpu/pair_tiles.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/site/dereference.h"
#include "runtime/plan/workspace.h"

namespace act {
namespace {

// Scratch space that holds pairs.
uint32_t* Words(float* scratch) { return reinterpret_cast<uint32_t*>(scratch); }
const uint32_t* Words(const float* scratch) { return reinterpret_cast<const uint32_t*>(scratch); }

BFloat16* BFloat16Row(const TensorRows& rows, int64_t r) {
  return rows.tensor.as<BFloat16>() + rows.at + r * rows.row;
}

}  // namespace

FloatTile TileOf(const TensorRows& rows, float* scratch) {
  if (rows.tensor.dtype != DType::kBFloat16) return {rows.tensor.as<float>() + rows.at, rows.row};
  return {scratch, ProductRowFloats(rows.columns)};
}

void ReadTile(const FloatTile& tile, const TensorRows& rows, int64_t begin, int64_t end) {
  if (rows.tensor.dtype != DType::kBFloat16) return;
  ReadRows({FloatSource::kBFloat16, BFloat16Row(rows, begin), rows.row}, end - begin, rows.columns,
           tile.Row(begin), tile.row);
}

void StoreTile(const FloatTile& tile, const TensorRows& rows, int64_t begin, int64_t end,
               const float* factors) {
  for (int64_t r = begin; r < end; ++r) {
    const float factor = factors ? factors[r] : 1;
    if (rows.tensor.dtype == DType::kBFloat16) {
      WriteBFloat16Rows(tile.Row(r), 0, 1, rows.columns, factor, BFloat16Row(rows, r), 0);
    } else if (factors) {
      ScaleRow(factor, rows.columns, tile.Row(r));
    }
  }
}

AttentionFactors::AttentionFactors(DType operands)
    : pairs_(operands == DType::kBFloat16 && MultipliesPairsFast()) {}

void AttentionFactors::Product(const LeftFactor& a, const FloatTile& b, const FloatTile& c, int64_t rows,
                               int64_t columns, int64_t terms, bool add) const {
  if (pairs_) {
    MultiplyPairTiles({Words(a.at), a.row, a.two_rows, a.column, Words(b.at), b.row, c.at, c.row, rows,
                       columns, (terms + 1) / 2, add});
  } else {
    Multiply({a.at, a.row, a.column, b.at, b.row, c.at, c.row, rows, columns, terms, add});
  }
}

FactorTiles AttentionFactors::TilesOf(const TensorRows& rows, int64_t most_rows, float* scratch) const {
  const FloatTile tile = TileOf(rows, scratch);
  if (!pairs_) return {tile, tile};
  return {{tile.at, tile.row / 2}, {tile.Row(most_rows / 2), tile.row}};
}

void AttentionFactors::ReadLeft(const FloatTile& left, const TensorRows& rows, int64_t begin,
                                int64_t end) const {
  if (!pairs_) return ReadTile(left, rows, begin, end);
  for (int64_t r = begin; r < end; ++r) PairsAlongRow(BFloat16Row(rows, r), rows.columns, Words(left.Row(r)));
}

void AttentionFactors::ReadRight(const FloatTile& right, const TensorRows& rows, int64_t begin,
                                 int64_t end) const {
  if (!pairs_) return ReadTile(right, rows, begin, end);
  for (int64_t r = begin; r < end; r += 2)
    PairsOfRows(BFloat16Row(rows, r), r + 1 < end ? BFloat16Row(rows, r + 1) : nullptr, rows.columns,
                Words(right.Row(r / 2)));
}

void AttentionFactors::ReadTiles(const FactorTiles& tiles, const TensorRows& rows, int64_t begin,
                                 int64_t end) const {
  ReadLeft(tiles.left, rows, begin, end);
  if (pairs_) ReadRight(tiles.right, rows, begin, end);
}

void AttentionFactors::ReadAcross(const FloatTile& tile, const TensorRows& rows, int64_t begin, int64_t end,
                                  float scale, float* to, int64_t to_row) const {
  if (pairs_)
    return PairsAlongRowsAcross(BFloat16Row(rows, begin), rows.row, end - begin, rows.columns,
                                Words(to + begin), to_row);
  ReadTile(tile, rows, begin, end);
  TransposeScaled(tile.Row(begin), tile.row, end - begin, rows.columns, scale, to + begin, to_row);
}

void AttentionFactors::RoundProbabilities(float* p, int64_t keys) const {
  if (!pairs_) return RoundRow(keys, p, p);
  PairsAlongRow(p, keys, Words(p));
}

void AttentionFactors::RoundGradients(float* p, float* ds, int64_t rows, int64_t row, int64_t keys) const {
  if (!pairs_) {
    for (int64_t r = 0; r < rows; ++r) {
      RoundRow(keys, p + r * row, p + r * row);
      RoundRow(keys, ds + r * row, ds + r * row);
    }
    return;
  }
  for (int64_t r = 0; r < rows; r += 2, p += 2 * row, ds += 2 * row) {
    const bool two = r + 1 < rows;
    PairsOfRows(p, two ? p + row : nullptr, keys, Words(p));
    PairsAlongRow(ds, keys, Words(p + row));
    if (two) PairsAlongRow(ds + row, keys, Words(p + row + row / 2));
    PairsOfRows(ds, two ? ds + row : nullptr, keys, Words(ds));
  }
}

}  // namespace act
