// Weights of a convolution on their way into oneDNN's blocked layout: plain ones, or frozen ones that lie in memory as a
// code. Of a code, some rows at a time are decoded into scratch space.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cpu/coded_numbers.h"
#include "kernels/cpu/conv_primitive.h"

namespace act {

class WeightPacking {
 public:
  WeightPacking() = default;
  // plain: float32 [M,C,K..], which `coded`, if it is not null, says what the code stands for. Nullopt, with the reason
  // in *why, if the layout cannot be filled by rows. It runs with as many threads as there are when it is made.
  static std::optional<WeightPacking> Of(const DnnlContext& context, const dnnl::memory::desc& plain,
                                         const dnnl::memory::desc& packed, const CodedParameter* coded,
                                         std::string* why);
  bool empty() const { return parts_.empty(); }
  int64_t ScratchBytes() const { return scratch_bytes_; }
  std::string Run(const void* weights, void* packed, void* scratch);

 private:
  struct Part {
    WeightReorder reorder;
    int64_t first = 0, numbers = 0;  // of a code
  };

  std::optional<CodedNumbers> code_;
  std::vector<Part> parts_;  // one of plain weights
  int64_t scratch_bytes_ = 0;
};

}  // namespace act
