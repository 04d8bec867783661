#include "kernels/cuda/library_weights.h"

namespace act::cuda {

std::optional<LibraryWeights> LibraryWeights::Of(const CudaContext& context, const ConvShape& shape,
                                                 ConvolutionDirection direction, bool rounds,
                                                 const CodedParameter* coded, std::string* why) {
  LibraryWeights weights;
  const int64_t taps = shape.KernelPixels(), in = shape.GroupIn(), m = shape.out_channels;
  if (coded) {
    weights.decode_ = StridedDecoding::Of(context, *coded, {{m, taps, in}, {in * taps, 1, taps}},
                                          rounds ? DType::kBFloat16 : DType::kFloat32, why);
    return weights.decode_ ? std::optional(std::move(weights)) : std::nullopt;
  }
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

std::optional<LibraryWeights> LibraryWeights::ForInputGradient(const CudaContext& context,
                                                               const ConvShape& shape,
                                                               const CodedParameter* coded,
                                                               std::string* why) {
  LibraryWeights weights;
  const int64_t taps = shape.KernelPixels(), c = shape.channels, m = shape.out_channels;
  const Strided from{{c, taps, m}, {taps, -1, c * taps}, taps - 1};
  if (coded) {
    weights.decode_ = StridedDecoding::Of(context, *coded, from, DType::kFloat32, why);
    return weights.decode_ ? std::optional(std::move(weights)) : std::nullopt;
  }
  const Strided to{from.dims, RowMajorStrides(from.dims)};
  weights.turn_ = StridedCopy::Of(context, from, to, sizeof(float), sizeof(float), why);
  return weights.turn_ ? std::optional(std::move(weights)) : std::nullopt;
}

Status LibraryWeights::Run(const void* from, void* to) const {
  if (transpose_) return transpose_->Run(from, to);
  if (round_) return round_->Run(from, to);
  if (decode_) return decode_->Run(from, to);
  TensorView source, target;
  source.data = DevicePointer(const_cast<void*>(from));
  target.data = DevicePointer(to);
  return turn_->Run(source, target);
}

}  // namespace act::cuda
