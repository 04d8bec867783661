// The batch sizes at which the compiler compares bytes. A plan runs at any batch size, and bytes
// are polynomials in it. To say which of two polynomials is smaller, the compiler evaluates both at
// one of these sizes. It does not use the report's batch size, so that the plan does not depend on
// the report.
#pragma once

#include <cstdint>

namespace act {

// For tensors and their codes, which grow alike with the batch, so that their ratio hardly depends
// on it. At batch size 1, bytes that are stored once a batch would count as much as bytes that are
// multiplied by N.
inline constexpr int64_t kComparedBatch = 16;

// The least batch size at which peaks of whole steps are compared. At small ones parameters hide
// the effect of activations on the peak.
inline constexpr int64_t kLeastPeakBatch = 64;

// For peaks that loops over samples are to lower. The first is large, since at small sizes
// parameters hide the effect of activations on the peak. Nor may such a loop raise the peak at the
// second, small size, where sums for weights may take more bytes than samples.
inline constexpr int64_t kTiledPeakBatch = 256, kSmallPeakBatch = 16;

}  // namespace act
