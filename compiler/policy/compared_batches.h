// The batch sizes at which the compiler compares bytes. A plan runs at any batch size, and bytes
// are polynomials in it. To say which of two polynomials is smaller, the compiler evaluates both at
// one of these sizes. It does not use the report's batch size, so that the plan does not depend on
// the report.
#pragma once

#include <cstdint>

namespace act {

// The batch size for tensors and their codes. They grow alike with the batch, so their ratio hardly
// depends on it. At batch size 1, bytes that are stored once a batch would count as much as bytes
// that are multiplied by N.
inline constexpr int64_t kComparedBatch = 16;

// The least batch size at which peaks of whole steps are compared. At small batch sizes parameters
// hide the effect of activations on the peak.
inline constexpr int64_t kLeastPeakBatch = 64;

// Batch sizes for the peaks that loops over samples are to lower. A loop must lower the peak at the
// first size. That size is large, because at small ones parameters hide the effect of activations.
// Loops may hardly raise the peak at the second, small size, where sums of weight gradients may take
// more bytes than samples do.
inline constexpr int64_t kTiledPeakBatch = 256, kSmallPeakBatch = 16;

}  // namespace act
