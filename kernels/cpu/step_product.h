// The product of a recurrent cell's state with its weights, at each step. Weights are packed once
// per run.
#pragma once

#include <optional>
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

  // Uses the first number of threads for which packed weights and scratch fit `limit_bytes`.
  // Nullopt if there is none, with the reason in *why.
  static std::optional<StepProduct> Create(const DnnlContext& context, const Shape& shape, int threads,
                                           int64_t limit_bytes, std::string* why);

  int threads() const { return threads_; }
  int64_t WorkspaceBytes() const { return scratch_at_ + scratch_bytes_; }
  const std::string& name() const { return name_; }

  // Pack must be called before the steps of a run. Both return an error of the library, or an empty
  // string.
  std::string Pack(const float* weights, std::byte* workspace);
  std::string Run(const float* left, float* result);

 private:
  DnnlCall product_, pack_;
  std::string name_;
  size_t left_ = 0, packed_ = 0, result_ = 0, scratch_ = 0, pack_from_ = 0, pack_to_ = 0;
  int64_t scratch_at_ = 0, scratch_bytes_ = 0;
  int threads_ = 1;
};

}  // namespace act
