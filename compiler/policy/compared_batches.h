// The batch sizes at which the compiler compares bytes. A plan runs at any batch size, and bytes
// are polynomials in it: to say which of two things is smaller, a number is filled in. It is not
// that of the report, so that a plan does not depend on the report's.
#pragma once

#include <cstdint>

namespace act {

// For what grows alike with the batch, so that its ratio hardly depends on it: tensors and codes of
// them. At 1 what is stored once a batch, not once a sample, would count as much as what is
// multiplied with N.
inline constexpr int64_t kComparedBatch = 16;

// The least for peaks of whole steps: at small ones parameters hide what activations do to the
// peak.
inline constexpr int64_t kLeastPeakBatch = 64;

// For peaks that loops over samples are to lower: large, since at small ones parameters hide what
// activations do to the peak. Nor may such a loop raise the peak at the small one, where sums for
// weights may count for more than samples.
inline constexpr int64_t kTiledPeakBatch = 256, kSmallPeakBatch = 16;

}  // namespace act
