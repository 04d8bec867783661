// The product of a recurrent cell's state with its weights, at each step. Weights are packed once
// per run.
#pragma once

#include <memory>
#include <string>

#include "kernels/cpu/dnnl_call.h"

namespace act {

class StepProduct {
 public:
  struct Shape {
    int64_t rows = 0, depth = 0, columns = 0;
    int64_t row_stride = 0;   // of the left operand, in floats
    bool transposed = false;  // weights lie as [columns, depth], else as [depth, columns]
    bool accumulate = false;  // adds to the result
  };

  // oneDNN's product where it packs weights, else tile_product.h's. Uses the first number of threads for which
  // packed weights and scratch fit `limit_bytes`. Null if there is none, with the reason in *why. The bits of a
  // result do not depend on the threads.
  static std::unique_ptr<StepProduct> Create(const DnnlContext& context, const Shape& shape, int threads,
                                             int64_t limit_bytes, std::string* why);

  virtual ~StepProduct() = default;
  virtual int threads() const = 0;
  virtual int64_t WorkspaceBytes() const = 0;
  virtual std::string name() const = 0;

  // Pack must be called before the steps of a run. Both return an error of the library, or an empty
  // string.
  virtual std::string Pack(const float* weights, std::byte* workspace) = 0;
  virtual std::string Run(const float* left, float* result) = 0;
};

}  // namespace act
