// The window of a convolution or pooling as ONNX describes it.
#pragma once

#include "compiler/import/core/importer.h"

namespace act::onnx_import {

// One entry per spatial axis; pads: begins, then ends.
struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads;

  Attributes ToAttributes() const;
};

// The node's window over an input of `dims` [N, C, S..] with this kernel. Defaults are filled in,
// and auto_pad is resolved to pads.
llvm::Expected<Window> ReadWindow(const NodeContext& c, std::vector<int64_t> kernel, const Dims& dims);

// Extents of the spatial axes of a weight [M, C / group, K..]. An attribute kernel_shape must agree
// with them.
llvm::Expected<std::vector<int64_t>> KernelOfWeight(const NodeContext& c, const Dims& weight);

}  // namespace act::onnx_import
