// Looks for a better variant of the re-runs that were chosen: of a lower peak, or with the same peak in less time.
#pragma once

#include "passes/storage/rerun_attempts.h"

namespace act {

// Peaks of at most this many times the least count as equal where nothing is gained by a higher one.
inline constexpr double kBarelyAlike = 1.01;

// Lowers the peak of the best candidate further. Segments are re-run in parts, those of the largest results first, as
// long as that adds little work. Then codes take fewer bytes. A variant is taken if it lowers the peak by enough.
// Returns the peak.
llvm::Expected<double> LowerFurther(TriedRerun& best, double bytes, const UnfinishedStep& step,
                                    RerunAttempts& attempts);

// A product that is made twice takes time. So of `best`, which makes all twice that it can, the variant that makes
// the fewest twice and has a peak of at most `bytes`.
llvm::Error TakeFewestRepeats(TriedRerun& best, double bytes, const UnfinishedStep& step,
                              const RerunPasses& passes);

// What is stored for the last segments is gone before the backward pass comes to a peak in the first ones. So of
// `best`, which re-runs all segments that it can, the variant that re-runs the fewest and has the least peak, and at
// other batches none that is higher than that of `best`. `least`: the least peak that is known from elsewhere, infinity
// if none is.
llvm::Error TakeFewestReruns(TriedRerun& best, double least, const UnfinishedStep& step,
                             RerunAttempts& attempts);

}  // namespace act
