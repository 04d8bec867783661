// The parameters of the kernels in attention.h and attention_grad.h, for the host and the device.
#pragma once

#include <cstdint>

#include "kernels/cuda/source/axes_parameters.h"
#include "kernels/math/empty_row.h"
#include "kernels/math/step_block.h"

namespace act::cuda {

// A block computes the scores of so many queries with as many keys at a time. Results have a multiple of so many
// columns in registers.
inline constexpr int32_t kAttentionTile = 64;

// For tensor cores, tiles of up to so many operands lie in shared memory: q, k, v, and the gradient of o. In an operand's
// row, `chunks` times 64 elements are followed by 16 bytes, so that rows begin in other banks than their neighbours.
inline constexpr int32_t kAttentionOperands = 4;
constexpr int32_t TensorRowBytes(int32_t element_bytes, int32_t chunks) {
  return chunks * kAttentionTile * element_bytes + 16;
}

// The matrices of a tensor (kernels/site/attention_shape.h: MatrixSlices). Strides are in elements.
struct MatrixPlaces {
  Axes slices;
  int64_t offset = 0, row = 0;
  int32_t column = 1;  // 0 or 1
};

// Of a query of one head, from the forward pass: the largest score, 1 / sum of e^(score - largest), and the sum over
// keys of probability times gradient. The first two make a probability of a score.
struct QueryStatistics {
  float largest, normalizer, shift;
};

struct AttentionParameters {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  const float* bias = nullptr;
  const uint8_t* mask = nullptr;
  void* o = nullptr;
  Divisor column_tiles;  // of o, each of a block
  MatrixPlaces at_q, at_k, at_v, at_o, at_bias, at_mask;

  int32_t queries = 0, keys = 0, depth = 0, value_depth = 0;
  int32_t group = 1;  // query heads of a head of keys
  int32_t heads = 1;  // of a sample
  Divisor query_tiles;
  float scale = 1, softcap = 0;
  // Query i sees the keys i + window_offset .. i + causal_offset, of those that there are.
  int32_t causal_offset = 0, window_offset = 0;
  EmptyRow empty = EmptyRow::kNaN;
  bool hidden_gradient = false;

  const StepBlock* step = nullptr;
  int64_t random_elements = 0;  // of a sample: heads * queries * keys
  float kept = 1;               // 1 / (1 - probability)
  uint32_t threshold = 0;
  int32_t stream = 0;
  int64_t batches_each = 1;  // of a sample
  int64_t first_batch = 0;   // batches of the whole step before the first one here
};

// The gradient, of some heads at a time.
struct AttentionGradParameters {
  AttentionParameters forward;
  const void* d_o = nullptr;  // lies as o does
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  MatrixPlaces at_dq, at_dk, at_dv;
  Divisor key_tiles, query_columns, key_columns, value_columns;  // columns: of dq, dk and dv, each of a block
  QueryStatistics* statistics = nullptr;                         // [slices of the launch, queries]
  int32_t first_kv_slice = 0;  // a slice of k, v; slices of q follow from it

  // Parts of the bias's gradient [parts, bias_elements], each of a block. An item is a tile of scores that is
  // added: of a slice of the launch, and of a tile of queries or keys if the bias has one for all.
  float* d_bias = nullptr;
  Axes bias_slices;  // those that differ
  int64_t bias_elements = 0;
  Divisor bias_matrices, bias_query_tiles, bias_key_tiles, item_query_tiles, item_key_tiles;
  int32_t items = 0, part_items = 0;
  bool goes_on = false;  // d_bias has the sums of earlier launches
};

// A gradient that was made in scratch space goes to its place.
struct MoveMatricesParameters {
  const void* from = nullptr;  // [slices, rows, columns]
  void* to = nullptr;
  MatrixPlaces at;
  int32_t first_slice = 0;
  Divisor rows, columns;  // columns: packs of a row
  int32_t items = 0;      // packs
};

}  // namespace act::cuda
