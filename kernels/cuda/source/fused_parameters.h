// How the blocks of a fused loop go over its space, for the host and the device.
//
// A sample is cut into units: what a team of warps works on at a time. Unit u of a sample begins at its
// element u * (elements of a unit). Units whose numbers are equal modulo `classes` begin at the same column
// of every sum, so that a team adds up the units of one class in registers. A block's share of a class is cut
// into `splits` for its teams.
//
// A sum of many columns cannot have a part for each block: parts would take more memory than what is added up. So the
// classes are cut into `slices`, too. The first `slices` blocks make the first part of such a sum, each the columns of
// its classes, the next ones the second part, and so on.
#pragma once

#include <cstdint>

namespace act {

struct LoopWalk {
  // Classes count units among `units` of each of `samples`. Usually these are the samples and units of the
  // space. If a sum has more columns than a sample has elements, the whole space counts as one sample here.
  int64_t samples = 1, units = 0;
  int64_t classes = 1, splits = 1;
  uint32_t slices = 1;
  int64_t units_per_sample = 0;  // of the space
  int64_t elements = 0;          // of a sample of the space
  int64_t first_sample = 0;      // the number of the first one in the whole batch
};

// Adds up the parts of a sum, in order: partial[part][column] -> to[column].
struct FinishSum {
  const double* partial = nullptr;
  float* to = nullptr;
  int64_t columns = 0, parts = 0;
};

}  // namespace act
