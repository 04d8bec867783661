// Weights of a convolution on their way to the library, or their gradient on its way back.
#pragma once

#include <optional>

#include "kernels/cuda/coded_numbers.h"
#include "kernels/cuda/conversion.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/strided_copy.h"
#include "kernels/cuda/transpose.h"
#include "kernels/site/window.h"

namespace act::cuda {

// Ours are [M,C/group,taps], the library's [M,taps,C/group]. A gradient comes the other way.
class LibraryWeights {
 public:
  // `rounds`: what is multiplied is bfloat16, and so are the library's weights. `coded`: ours are frozen, and lie in
  // memory as a code; else null. Nullopt, with the reason in *why, if it cannot be done.
  static std::optional<LibraryWeights> Of(const CudaContext& context, const ConvShape& shape,
                                          ConvolutionDirection direction, bool rounds,
                                          const CodedParameter* coded, std::string* why);
  // Those of a dense convolution with float32 weights whose forward pass over dy makes dx: [C,taps,M], with the
  // taps in opposite order.
  static std::optional<LibraryWeights> ForInputGradient(const CudaContext& context, const ConvShape& shape,
                                                        const CodedParameter* coded, std::string* why);
  // The library takes ours as they are.
  bool AreOurs() const { return !transpose_ && !round_ && !turn_ && !decode_; }
  Status Run(const void* from, void* to) const;

 private:
  LibraryWeights() = default;

  // One at most: a transpose also rounds.
  std::optional<TileTranspose> transpose_;  // if there is more than one tap, and channel
  std::optional<Conversion> round_;
  std::optional<StridedCopy> turn_;
  std::optional<StridedDecoding> decode_;  // into the library's order
};

}  // namespace act::cuda
