// A product of matrices that a kernel enqueues many times, of other addresses each time: by the library, or by our tiles
// where it refuses. Float32.
#pragma once

#include <memory>
#include <optional>

#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/source/product_parameters.h"

namespace act::cuda {

class StepProduct {
 public:
  // c [m,n] = a [m,k] b, where b is [k,n], or [n,k] if `transposed`. lead_a, lead_b: elements from one row to the next;
  // c is dense. `adds`: the product is added to what c holds. `workspace_bytes`: at most, for the library; below 0: our
  // tiles multiply.
  struct Shape {
    int64_t m = 0, n = 0, k = 0, lead_a = 0, lead_b = 0;
    bool transposed = false, adds = false;
  };
  StepProduct(const CudaContext& context, const Shape& shape, int64_t workspace_bytes);

  int64_t workspace_bytes() const { return call_ ? call_->workspace_bytes() : 0; }
  std::string engine() const { return call_ ? call_->engine() : "our tiles"; }
  Status Enqueue(const float* a, const float* b, float* c, std::byte* workspace) const;

 private:
  const CudaContext* context_;
  std::shared_ptr<LibraryCall> call_;
  std::optional<OwnKernel<ProductParameters>> tiles_;  // without a call
  ProductParameters parameters_;
  int64_t blocks_ = 0;
};

}  // namespace act::cuda
