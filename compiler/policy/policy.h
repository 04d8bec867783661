// The policy: for each saved-activation edge, how it is stored.
#pragma once

#include <llvm/Support/Error.h>

#include <algorithm>
#include <string>

#include "include/act/codec_plugin.h"
#include "runtime/plan/graph.h"

namespace act {

// What the policy may look at: one forward value that the backward pass reads.
struct EdgeFacts {
  TensorType type;
  bool exact_bits = false;      // 0 or 1 only: one bit holds it exactly
  int64_t index_bits = 0;       // > 0: unsigned integers of so many bits
  bool statistic = false;       // a mean, a deviation: small, and a factor of much else
  bool of_loss = false;         // made by a loss: its error enters every gradient
  bool feeds_product = false;   // read by the gradient of a convolution, matrix product or attention
  bool for_scores = false;      // attention's probabilities are computed again from it
  int64_t part = 0;             // > 0: queries, keys and values alternate, so many elements of each
  bool read_exactly = false;    // an error in it would bias the gradient, or it holds infinities
  bool activation = false;      // made by a node each step (not a parameter, input or statistic)
  bool sign_is_read = false;    // by a ReLU's gradient, which must get it exactly
  bool for_statistics = false;  // normalized, and read by the normalization's own gradient alone
  bool by_rows = false;         // what a normalization of rows made
  bool anchor = false;          // much is computed again from it
  bool sided = false;           // its sign is a mask that says nothing of its magnitude
  bool often_zero = false;      // made by a ReLU
  bool low_frequency = false;   // averages over blocks of an image that is stored beside them
  bool fixed_range = false;     // the number of a level over a fixed range (fix_ranges.cc)
  bool normalized = false;      // made by a normalization, before its gain and offset
  bool fixed_batch = false;     // no tensor of the step varies with N: leading axes do not tell samples
};

struct Decision {
  Codec codec;         // kNone: kept as it is
  std::string reason;  // one sentence for --explain
};

// Where a preset of another system (presets.h) stores otherwise than the levels do.
struct StorageRules {
  Rounding rounding = Rounding::kDither;
  bool copy_per_layer = false;      // what several layers save is stored once for each of them
  bool same_bits = false;           // no more bits for what does more harm
  bool keeps_loss = false;          // what the loss saves is kept exactly
  bool bytes_for_indices = false;   // positions in pooling windows take a byte each
  bool splits_frequencies = false;  // images as averages over blocks and what is left
  bool fuses_attention = true;      // one operator, which saves no probabilities
  bool fixed_range = false;         // codes what a BatchNorm makes, over a range that its parameters give
  bool swaps = false;               // lossy codes wait for the backward pass in the host's memory
  bool swaps_masks = false;         // and so do the masks of activation functions
  double error_bound = 0;           // > 0: bits by type of layer, for errors within so much (BoundedBits)
  bool operator==(const StorageRules&) const = default;
};

// A level's rules. L0: lossless forms only. L1: 4 bits for what convolutions and matrix products read. L2: 4
// bits for all. L3: 3 bits for all that does not follow from what is stored. Lossy codes have exceptions:
// tensors of less than one group a sample are kept (nothing to gain), as are statistics (no batch axis; of a
// model with a fixed batch: rank 1, or less than 16 groups), and what a loss saves takes 8 bits (all
// gradients depend on it). Queries and keys of attention take 4 bits at least: the probabilities are a
// nonlinear function of them, whose gradient is biased by a tenth at 2 bits and by .002 at 4.
struct Policy {
  std::string level = "L0";
  int bits = 0;             // of lossy codes; 0: none
  double average_bits = 0;  // > 0: levels are distributed so that an element takes so many, metadata included
  // Levels are distributed by a prior of what each code does to the gradient (mix-levels), in the bytes that
  // `bits` would take.
  bool mixes_levels = false;
  // > 0: bytes of all saved activations at `batch`; levels and forms are distributed in what it leaves to
  // codes.
  int64_t saved_limit = 0;
  bool products_only = false;
  bool rebuilds = false;       // values that follow from stored ones are not stored
  bool tiles_samples = false;  // parts of the step at its peak run for some samples at a time
  int64_t rerun_spacing = 0;   // > 0: convolutions and products between anchors so many apart run again
  bool shares_codes = false;   // a number and its sign in one code
  bool codes_small = false;    // what has less than a group a sample takes 8 bits, else it is kept
  // May products of a gradient and decoded numbers round both to bfloat16?
  bool rounds_products = false;
  int64_t group_size = kDefaultGroupSize;
  StorageRules rules;
  int range_bits = 0;  // > 0: of a level's number over a fixed range; nothing else is coded then
  int64_t batch = 1;   // of the report
  const act_codec* plugin = nullptr;  // codes plain numbers in place of the level's own codec

  bool Lossy() const { return bits > 0; }
  // Are products run again in the backward pass?
  bool Reruns() const { return rerun_spacing > 0; }
  // Does somebody bound what codes take? Then all forms are there to choose from.
  bool HasBudget() const { return average_bits > 0 || saved_limit > 0; }
  // Of what others are computed of again.
  int AnchorBits() const;
  // May functions that are not linear be computed again from an anchor? Their bias falls with the square of
  // its step: a tenth of the gradient at 2 bits, .002 at 4.
  bool AnchorsAreFine() const;
  // What is smaller than a group: is it coded in 8 bits?
  bool CodesSmall(const EdgeFacts& facts) const;
  // Would a value of these facts be stored with an error?
  bool CodesLossily(const EdgeFacts& facts) const;
  // The lossy code of such a value, and its bits.
  Codec CodecOf(const EdgeFacts& facts) const;
  int BitsOf(const EdgeFacts& facts) const;
  // AC-GC's bits for an activation, from what its type and size alone say (docs/presets.md).
  int BoundedBits(const EdgeFacts& facts) const;
  // Of its code: the parts of a value differ in magnitude, and do not share groups.
  int64_t GroupOf(const EdgeFacts& facts) const;
  // Does what this codec stores wait in the host's memory?
  bool Swaps(const Codec& codec) const;
  // What is re-run waits in this code: one bit finer than its anchor's, whose error then is what counts.
  Codec RecodeCodec() const { return Codec::Uniform(std::min(8, bits + 3), group_size, Rounding::kDither); }
  // Of a lossy code of the value, however small its share of the gradient's variance.
  int LeastBits(const EdgeFacts& facts) const;
  Decision Decide(const EdgeFacts& facts) const;
};

// level: L0 to L3, or a preset's name. bits_override: --bits (0: the level's own; a fraction: an
// average). Errors: unknown level, bits outside 1..8, a group size that CheckCodec refuses.
llvm::Expected<Policy> MakePolicy(const std::string& level, double bits_override, int64_t group_size);

}  // namespace act
