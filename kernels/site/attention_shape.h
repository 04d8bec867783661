// Attention as extents and strides: what the reference and the fast kernels read of a node.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "kernels/math/empty_row.h"
#include "kernels/site/strided.h"
#include "runtime/executor/kernel.h"

namespace act {

// A tensor of matrices. Element (slice, row, column) lies at offset + slices.At(slice) + row *
// this->row + column * this->column. Slices are the logical axes before the last two, [B.., H].
// Their strides are 0 where the tensor broadcasts.
struct MatrixSlices {
  Strided slices;
  int64_t row = 0, column = 0;
  int64_t offset = 0;
  int64_t At(int64_t slice, int64_t r, int64_t c) const {
    return offset + slices.At(slice) + r * row + c * column;
  }
};

struct AttentionShape {
  int64_t batches = 1, heads = 1, kv_heads = 1;
  int64_t batches_each = 1;            // of a sample
  int64_t queries = 0, keys = 0;       // Tq, Tk
  int64_t depth = 0, value_depth = 0;  // D, Dv
  // slices of q and o: batch * heads + head; of k and v: batch * kv_heads + head
  MatrixSlices q, k, v, o;
  std::optional<MatrixSlices> bias, mask;  // [B.., H, Tq, Tk]
  float scale = 1;
  float softcap = 0;  // > 0: scores are softcap * tanh(score / softcap), before the bias
  bool causal = false, window = false;
  int64_t causal_offset = 0;  // query i sees no key after i + causal_offset
  int64_t window_offset = 0;  // and none before i + window_offset
  EmptyRow empty_row = EmptyRow::kNaN;
  // Masks were added to the scores, so queries that see no key have a gradient like others.
  bool hidden_gradient = false;
  float dropout = 0;
  int32_t stream = 0;
  bool packed = false;  // q, k, v are slices of one tensor, and so are their gradients

  // The position among the gradient's results of the gradients of q, k, v and the bias.
  size_t GradientOf(size_t operand) const { return !packed ? operand : operand == 3 ? 1 : 0; }

  int64_t Group() const { return heads / kv_heads; }
  // Counts the batches (of the whole step) before the first one of this run. Dropout is drawn by that number.
  int64_t FirstBatch(const KernelArgs& args) const { return args.first_sample * batches_each; }
  // Keys that `causal` and `window` leave to query i: FirstKey(i)..EndKey(i)-1. Both grow with i.
  int64_t FirstKey(int64_t i) const {
    return window ? std::clamp<int64_t>(SaturatingAdd(i, window_offset), 0, keys) : 0;
  }
  int64_t EndKey(int64_t i) const {
    return causal ? std::clamp<int64_t>(SaturatingAdd(i + 1, causal_offset), 0, keys) : keys;
  }
};

// The site's operands from `first` on are q, k, v, bias?, mask?. `o` has the dims of the result. q, k and v are all
// float32 or all bfloat16; then `o` is either. Nullopt, with the reason in *why, if they do not fit together.
std::optional<AttentionShape> AttentionShapeOf(const KernelSite& site, size_t first, const TensorView& o,
                                               std::string* why);

// Whether the gradient's results have the dims of their operands (q, k, v, bias?, mask?), and are
// float32, or bfloat16 if q is.
bool GradientsFit(const AttentionShape& shape, std::span<const TensorView> operands,
                  std::span<const TensorView> results, std::string* why);

}  // namespace act
