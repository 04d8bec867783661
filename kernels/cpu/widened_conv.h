// Convolutions of bfloat16 activations on processors where float32 is faster. Operands are widened to
// float32 a chunk at a time (conv_chunks.h), oneDNN computes the chunk in float32, and its result is
// rounded. Chunks stay in a cache, so that memory is only read and written as bfloat16.
#pragma once

#include <memory>

#include "kernels/cpu/conv_chunks.h"
#include "kernels/cpu/conv_primitive.h"

namespace act {

// The convolution or the gradient of its input. Null with the reason in *why.
std::unique_ptr<Kernel> CreateWidenedConv(const DnnlContext& context, ConvDirection direction,
                                          const KernelSite& site, std::string* why);
// The weight gradient.
std::unique_ptr<Kernel> CreateWidenedGradWeight(const DnnlContext& context, const KernelSite& site,
                                                std::string* why);

// The same in a workspace of limit_bytes, where each thread has room for a sum of its own. Throws
// dnnl::error.
std::unique_ptr<Kernel> CreateWidenedGradByThread(const DnnlContext& context, const ConvSite& site,
                                                  int threads, int64_t limit_bytes, std::string* why);

// The convolution that is computed on widened operands. If it is by single pixels, it is one of a single
// sample and axis, which can be divided anywhere, and of x only the pixels are widened that strides do
// not skip.
class WidenedShape {
 public:
  explicit WidenedShape(const ConvShape& shape);

  const ConvShape& shape() const { return widened_; }
  // Whether the rows of x are those of the tensor, none skipped.
  bool ReadsAllOfX() const { return !skips_; }
  // The chunk's rows of x in float32.
  void WidenX(const BFloat16* x, const ConvChunks& chunks, int64_t chunk, float* to, int threads) const;

 private:
  ConvShape shape_, widened_;
  bool skips_ = false;
};

}  // namespace act
