// Initializers: which are parameters, buffers and constants, and their data.
#pragma once

#include <llvm/Support/Error.h>

#include <set>
#include <string>
#include <vector>

#include "compiler/import/core/import_options.h"
#include "compiler/import/core/importer.h"

namespace act::onnx_import {

// Defines the initializers whose names are in `read`:
//   buffers     running statistics (inputs 3 and 4 of a BatchNormalization), and what the
//               exporter's metadata calls BUFFER
//   constants   what the metadata calls CONSTANT_TENSOR, and single floats under a name that an
//               exporter made up ("onnx::...", "/...", "val_...", "_to_copy..."), or in a model of a
//               producer that writes numbers beside weights: known tensors
//   parameters  every other float32 tensor
// With `all_constant` (training graphs, whose parameters are inputs) there are no parameters and no
// buffers. Integer tensors are known, or constants where they are large. The data of parameters and
// buffers is moved out of the file.
llvm::Error DefineInitializers(Importer& importer, ModelFile& file,
                               const std::vector<const onnx::NodeProto*>& nodes,
                               const std::set<std::string>& read, const ImportOptions& options,
                               bool all_constant);

// The model without the data of the parameters, buffers and constants in `graph`, as bytes: for
// ExportTrainedOnnx.
HostTensor Skeleton(ModelFile& file, const Graph& graph);

}  // namespace act::onnx_import
