// Where a scatter by known indices puts its updates. What models write as a slice (x[:, 1:] = y) is
// in the file a scatter whose indices name a box: the product of positions along each axis.
#pragma once

#include "compiler/import/fold/lookup.h"

namespace act::onnx_import {

// Positions along one axis of the data: all, in order, or those in `at`.
struct AxisPlaces {
  bool whole = true;
  std::vector<int64_t> at = {};  // from the front, each once
};
using Places = std::vector<AxisPlaces>;  // one for each axis

// Of ScatterND: index [.., tuple] into data of the dims `to`. nullopt where the indices are no box,
// where two updates meet, and where an index is outside.
std::optional<Places> PlacesOfTuples(const Known& index, const Dims& to);
// The same of ScatterElements, whose indices are along one axis.
std::optional<Places> PlacesAlong(const Known& index, size_t axis, const Dims& to);

// The dims of the updates with an axis for each axis of the data.
Dims PartOf(const Places& places, const Dims& to);

}  // namespace act::onnx_import
