// Kernels for frozen weights that lie in memory as codes (source/coded_numbers.h).
#pragma once

#include <optional>
#include <string>

#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/source/coded_numbers_parameters.h"
#include "kernels/site/strided.h"
#include "runtime/plan/graph.h"

namespace act::cuda {

// Decodes some of a weight's numbers into the workspace.
class Decoding {
 public:
  // to: float32 or bfloat16.
  Decoding(const CudaContext& context, const CodedParameter& coded, DType to);
  // to[i] = number first + i, i < count. `first` is a multiple of 4, and `to` of 16 bytes.
  Status Run(const void* code, int64_t first, int64_t count, void* to) const;

 private:
  OwnKernel<DecodeParameters> kernel_;
};

// to[i] = the number at view.At(i), for every i of the view.
class StridedDecoding {
 public:
  // Nullopt, with the reason in *why, if there are too many numbers or axes.
  static std::optional<StridedDecoding> Of(const CudaContext& context, const CodedParameter& coded,
                                           const Strided& view, DType to, std::string* why);
  Status Run(const void* code, void* to) const;

 private:
  explicit StridedDecoding(const OwnKernel<DecodeStridedParameters>& kernel) : kernel_(kernel) {}

  OwnKernel<DecodeStridedParameters> kernel_;
  DecodeStridedParameters parameters_;
};

// Rows of a coded table.
OwnKernel<GatherParameters> CodedGather(const CudaContext& context, const CodedParameter& coded,
                                        const std::string& index, const std::string& flags);

}  // namespace act::cuda
