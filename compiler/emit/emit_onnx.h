// A graph at any stage of compilation as an ONNX file, for viewers.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "runtime/plan/graph.h"

namespace act {

// Operators that ONNX has under the same name and with the same meaning are written as ONNX's. All
// others, such as channels-last ones, Compress and Decompress, are operators of domain `act` with
// our attributes. A fused loop shows its program as attribute `program`. Dims that vary with N are
// symbols ("N", "2N+1"). Small constants and parameters are initializers, larger ones inputs of the
// graph: the file shows the structure and is not meant to be run.
llvm::Error EmitOnnx(const Graph& graph, const std::string& path);

}  // namespace act
