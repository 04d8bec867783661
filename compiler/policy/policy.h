// The policy decides how each saved-activation edge is stored.
#pragma once

#include <llvm/Support/Error.h>

#include <algorithm>
#include <string>

#include "include/act/codec_plugin.h"
#include "runtime/plan/graph.h"

namespace act {

// The facts about a forward value, read by the backward pass, from which the policy decides.
struct EdgeFacts {
  TensorType type;
  bool exact_bits = false;  // 0 or 1 only: one bit holds it exactly
  int64_t index_bits = 0;   // > 0: unsigned integers of this many bits
  bool statistic = false;   // a mean or a deviation: small, and a factor of many other values
  bool of_loss = false;     // made by a loss: its error enters every gradient
  // made from the many scores of a product by the loss with which the forward pass ends, or by a penalty beside it
  bool large_loss = false;
  // Read by the gradient of a convolution, matrix product or attention.
  bool feeds_product = false;
  bool for_scores = false;  // attention's probabilities are recomputed from it
  // Where the backward pass makes queries or keys from normalized rows: the bits by which scores are larger than usual.
  int score_bits = 0;
  // > 0: queries, keys and values alternate, with this many elements each.
  int64_t part = 0;
  bool read_exactly = false;    // an error in it would bias the gradient, or it holds infinities
  bool kept_exactly = false;    // it is of Policy::exact_part
  bool of_steep_loss = false;   // of a loss that may enlarge its error by any factor
  bool activation = false;      // made by a node each step (not a parameter, input or statistic)
  bool sign_is_read = false;    // a ReLU's gradient reads its sign, which must be exact
  bool for_statistics = false;  // normalized, and read only by the normalization's own gradient
  bool by_rows = false;         // made by a normalization of rows
  bool anchor = false;          // many other values are recomputed from it
  bool kept_finely = false;     // it could be re-run and is not: it takes a bit more than the level's own
  bool sided = false;           // its sign is a mask that says nothing of its magnitude
  bool often_zero = false;      // made by a ReLU, and perhaps moved afterwards
  bool unbounded = false;       // a few of its numbers may be larger than the others by any factor
  bool low_frequency = false;   // averages over blocks of an image that is stored beside them
  bool fixed_range = false;     // the number of a level over a fixed range (fix_ranges.cc)
  bool normalized = false;      // made by a normalization, before its gain and offset
  // No tensor of the step varies with N, so the leading axes do not tell samples apart.
  bool fixed_batch = false;
};

struct Decision {
  Codec codec;         // kNone: kept as it is
  std::string reason;  // one sentence for --explain
  // The fewest bits of a lossy code, however small the value's share of the gradient's variance is.
  int least_bits = 0;
};

// Where a preset of another system (presets.h) stores values differently from the levels.
struct StorageRules {
  Rounding rounding = Rounding::kDither;
  // A value that several layers save is stored once for each of them.
  bool copy_per_layer = false;
  bool same_bits = false;           // values whose error does more harm get no more bits
  bool keeps_loss = false;          // the values that the loss saves are kept exactly
  bool bytes_for_indices = false;   // positions in pooling windows take a byte each
  bool splits_frequencies = false;  // stores images as averages over blocks and the remainder
  bool fuses_attention = true;      // attention is one operator, which saves no probabilities
  // Codes BatchNorm's results, over a range that its parameters give.
  bool fixed_range = false;
  bool swaps = false;        // lossy codes wait for the backward pass in the host's memory
  bool swaps_masks = false;  // the masks of activation functions wait there too
  // > 0: bits by type of layer, so that errors stay below this (BoundedBits).
  double error_bound = 0;
  bool operator==(const StorageRules&) const = default;
};

// A level's rules. L0: lossless forms only. L1: 4 bits for the operands of convolutions and matrix
// products. L2: 4 bits for all values. L3: 3 bits for all values that cannot be computed from
// stored ones. Lossy codes have exceptions. Tensors of less than one group a sample are kept,
// because there is nothing to gain. Statistics are kept too: they have no batch axis, or, in a
// model with a fixed batch, rank 1 or less than 16 groups. The values that a loss saves take 8
// bits, because all gradients depend on them. Queries and keys of attention take at least 4 bits:
// the probabilities are a nonlinear function of them, whose gradient is biased by a tenth at 2 bits
// and by .002 at 4.
struct Policy {
  std::string level = "L0";
  int bits = 0;  // of lossy codes; 0: there are none
  // > 0: levels are distributed so that an element takes this many bits on average, metadata
  // included.
  double average_bits = 0;
  // Levels are distributed by a prior of how much each code adds to the gradient's variance
  // (mix-levels). The codes then take the bytes that `bits` would take.
  bool mixes_levels = false;
  // The part of these bytes that they take (L5 may take fewer).
  double bytes_part = 1;
  // The part, 0 to 1, of the bytes that codes would replace, which is stored exactly: what the forward
  // pass makes last.
  double exact_part = 0;
  // > 0: the bytes of all saved activations at `batch`. Levels and forms are distributed in the
  // part of it that is left to codes.
  int64_t saved_limit = 0;
  bool products_only = false;
  bool rebuilds = false;       // values that can be computed from stored ones are not stored
  bool tiles_samples = false;  // parts of the step at its peak run for some samples at a time
  // > 0: convolutions and products between anchors of this spacing are re-run.
  int64_t rerun_spacing = 0;
  // Of all steps the one of least peak, in tiles as small as a sample, is taken, whatever its time.
  bool least_peak = false;
  bool shares_codes = false;  // one code holds a number and its sign
  // Values of less than a group a sample take 8 bits; otherwise they are kept.
  bool codes_small = false;
  // May products of a gradient and decoded numbers round both to bfloat16?
  bool rounds_products = false;
  int64_t group_size = kDefaultGroupSize;
  StorageRules rules;
  // > 0: the bits of a level's number over a fixed range. Nothing else is coded then.
  int range_bits = 0;
  int64_t batch = 1;                  // the report's batch size
  const act_codec* plugin = nullptr;  // codes plain numbers in place of the level's own codec

  bool Lossy() const { return bits > 0; }
  // Not a preset of another system, which stores values by rules of its own.
  bool IsLevel() const { return rules == StorageRules{}; }
  // Are products re-run in the backward pass?
  bool Reruns() const { return rerun_spacing > 0; }
  // Is there a bound on the bytes of codes? Then every form may be chosen.
  bool HasBudget() const { return average_bits > 0 || saved_limit > 0; }
  // Bits of a value from which others are recomputed.
  int AnchorBits() const;
  // May nonlinear functions be recomputed from an anchor? Their bias falls with the square of the
  // anchor's step: it is a tenth of the gradient at 2 bits, and .002 at 4.
  bool AnchorsAreFine() const;
  // Is this value kept exactly because it exists in tiles of samples alone?
  bool KeepsInTiles(const EdgeFacts& facts) const;
  // Is this value coded in 8 bits because it is smaller than a group?
  bool CodesSmall(const EdgeFacts& facts) const;
  // Would a value with these facts be stored with an error?
  bool CodesLossily(const EdgeFacts& facts) const;
  // The lossy code of such a value, and its bits.
  Codec CodecOf(const EdgeFacts& facts) const;
  int BitsOf(const EdgeFacts& facts) const;
  // AC-GC's bits for an activation, which depend only on its type and size (docs/presets.md).
  int BoundedBits(const EdgeFacts& facts) const;
  // The group size of the value's code. The parts of a value differ in magnitude, so they share no
  // groups.
  int64_t GroupOf(const EdgeFacts& facts) const;
  // Does the code that this codec makes wait in the host's memory?
  bool Swaps(const Codec& codec) const;
  // The code of a re-run value while it waits. It is one bit finer than its anchor's, so that the
  // anchor's error dominates.
  Codec RecodeCodec() const { return Codec::Uniform(std::min(8, bits + 3), group_size, Rounding::kDither); }
  Decision Decide(const EdgeFacts& facts) const;
};

// level: L0 to L5, or a preset's name. bits_override: --bits (0: the level's own; a fraction: an
// average). exact_part: --exact. Errors: an unknown level, bits outside 1..8, a group size that CheckCodec refuses, an
// exact part that is no part, or that the level does not take.
llvm::Expected<Policy> MakePolicy(const std::string& level, double bits_override, int64_t group_size,
                                  double exact_part = 0);

}  // namespace act
