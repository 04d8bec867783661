#include "kernels/cuda/library_weights.h"

namespace act::cuda {

std::optional<LibraryWeights> LibraryWeights::Of(const CudaContext& context, const ConvShape& shape,
                                                 ConvolutionDirection direction, bool rounds,
                                                 std::string* why) {
  LibraryWeights weights;
  const int64_t taps = shape.KernelPixels(), in = shape.GroupIn(), m = shape.out_channels;
  if (taps > 1 && in > 1) {
    const bool gradient = direction == ConvolutionDirection::kWeightGradient;
    const Strided view{{m, gradient ? in : taps, gradient ? taps : in}, {in * taps, 1, gradient ? in : taps}};
    weights.transpose_ = TileTranspose::Of(context, view, sizeof(float), why, rounds);
    if (!weights.transpose_) return std::nullopt;
  } else if (rounds) {
    weights.round_.emplace(context, DType::kFloat32, DType::kBFloat16, m * in * taps, /*vectors=*/true);
  }
  return weights;
}

}  // namespace act::cuda
