// A graph at any stage of compilation as an ONNX file, for viewers.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "runtime/plan/graph.h"

namespace act {

// Operators that ONNX has under the same name with the same meaning are written as such; all others,
// channels-last ones among them, are operators of domain `act` with our attributes, Compress and Decompress
// for instance. A fused loop shows its program as attribute `program`. Dims that vary with N are symbols
// ("N", "2N+1"). Small constants and parameters are initializers, larger ones inputs of the graph: the file
// shows the structure, it is not for running.
llvm::Error EmitOnnx(const Graph& graph, const std::string& path);

}  // namespace act
