// The factors of attention's products: float32, in tensors or widened to tiles, or pairs of bfloat16 (pair_tiles.h). If
// operands are bfloat16, probabilities and the gradients of scores are rounded before they are factors, so pairs hold
// them exactly. Pairs lie in the scratch space of the floats. They take half of it, so where products read a tile in
// two orders, it is there twice.
#pragma once

#include <cstdint>

#include "runtime/executor/kernel.h"

namespace act {

// Rows of a matrix in float32: in the tensor itself, or in scratch space if the tensor is bfloat16. Or rows of pairs.
struct FloatTile {
  float* at = nullptr;
  int64_t row = 0;
  float* Row(int64_t r) const { return at + r * row; }
};
// Rows of a tensor from element `at` on, `row` elements apart.
struct TensorRows {
  const TensorView& tensor;
  int64_t at, row, columns;
};
FloatTile TileOf(const TensorRows& rows, float* scratch);
// Widens the tensor's rows begin..end-1, if the tile is not the tensor.
void ReadTile(const FloatTile& tile, const TensorRows& rows, int64_t begin, int64_t end);
// Rows begin..end-1, times their factors unless these are null, go to the tensor when they are complete.
void StoreTile(const FloatTile& tile, const TensorRows& rows, int64_t begin, int64_t end,
               const float* factors);

// The left factor of a product. Row r lies at at + r / 2 * two_rows + r % 2 * row. From one term of a sum to the next,
// or of pairs from one pair to the next, are `column` words.
struct LeftFactor {
  const float* at;
  int64_t row, two_rows, column;
  LeftFactor From(int64_t even_row) const { return {at + even_row / 2 * two_rows, row, two_rows, column}; }
};
inline LeftFactor LeftOf(const FloatTile& tile) { return {tile.at, tile.row, 2 * tile.row, 1}; }

// Rows of an operand as the left factor of one product, which adds up along rows, and as the right factor of another,
// which adds up over rows: one tile, or two of pairs.
struct FactorTiles {
  FloatTile left, right;
};

class AttentionFactors {
 public:
  // Pairs, if the operands are bfloat16 and this processor multiplies pairs faster.
  explicit AttentionFactors(DType operands);
  bool pairs() const { return pairs_; }

  // c [rows, columns] = a b, a sum over `terms`, plus the present value of c with `add`. A row of b has one term, or a
  // pair of them.
  void Product(const LeftFactor& a, const FloatTile& b, const FloatTile& c, int64_t rows, int64_t columns,
               int64_t terms, bool add) const;
  // The right factor from an even term on. If a block has an odd number of keys, its last pair holds the next key too,
  // which counts like a hidden one: times 0.
  FloatTile FromTerm(const FloatTile& b, int64_t term) const {
    return {b.Row(pairs_ ? term / 2 : term), b.row};
  }

  // Room for both tiles of at most `most_rows` rows. For pairs, this is an even number.
  FactorTiles TilesOf(const TensorRows& rows, int64_t most_rows, float* scratch) const;
  // Read the tensor's rows begin..end-1, from an even one on.
  void ReadLeft(const FloatTile& left, const TensorRows& rows, int64_t begin, int64_t end) const;
  void ReadRight(const FloatTile& right, const TensorRows& rows, int64_t begin, int64_t end) const;
  void ReadTiles(const FactorTiles& tiles, const TensorRows& rows, int64_t begin, int64_t end) const;
  // As columns begin..end-1 of a right factor: to[c * to_row + r] is column c of row r, times `scale`, or pair c of
  // row r. Pairs are not multiplied by `scale`, since that could round them. A float tile is read first.
  void ReadAcross(const FloatTile& tile, const TensorRows& rows, int64_t begin, int64_t end, float scale,
                  float* to, int64_t to_row) const;
  // Rows of such a factor.
  int64_t RowsAcross(int64_t columns) const { return pairs_ ? (columns + 1) / 2 : columns; }

  // A row of probabilities in float32 becomes a left factor in its place: pairs, or floats that are rounded.
  void RoundProbabilities(float* p, int64_t keys) const;
  // Rows of probabilities and of gradients of scores, from an even one on and `row` floats apart, become factors. Of
  // pairs, those of both rows replace the first row, and those along the gradients' rows replace the second row of
  // probabilities, a half each. So the place of that row is needed, too, where the last one has no second.
  void RoundGradients(float* p, float* ds, int64_t rows, int64_t row, int64_t keys) const;
  // These as left factors: p and ds with keys as rows, which add up over queries, and ds with queries as rows.
  LeftFactor OverQueries(const float* x, int64_t row) const { return {x, 1, 2, pairs_ ? 2 * row : row}; }
  LeftFactor OverKeys(const float* p, const float* ds, int64_t row) const {
    if (pairs_) return {p + row, row / 2, 2 * row, 1};
    return {ds, row, 2 * row, 1};
  }

 private:
  bool pairs_;
};

}  // namespace act
