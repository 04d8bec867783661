// Scatters whose known indices name a box (scatter_places.h). They are what models write as an
// assignment to a slice, and need no index when the plan runs.
#pragma once

#include "compiler/import/core/importer.h"
#include "compiler/import/fold/scatter_places.h"

namespace act::onnx_import {

// Input 0 of a scatter with its updates, input 2, in these places: a Pad of the updates where one
// number fills input 0, a Concat with what remains of it elsewhere. Positions that are no run of
// neighbours are a Scatter along their axis.
llvm::Expected<ValueId> ScatterBox(const NodeContext& c, const Places& places);

}  // namespace act::onnx_import
