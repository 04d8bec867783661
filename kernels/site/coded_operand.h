// Operands that are codes of frozen weights (TensorView::coded), as kernels see them.
#pragma once

#include "runtime/codec/codec.h"
#include "runtime/executor/kernel.h"

namespace act {

// A view, without data, of the numbers that the operand stands for. Of an operand that is no code: the operand.
TensorView NumbersOf(const TensorView& operand);

// The numbers one by one, for reference kernels. A code that the runtime makes of a frozen weight (EncodesNumbers) has
// bit planes of even levels, rounded to nearest.
class CodedElements {
 public:
  explicit CodedElements(const CodedParameter& coded)
      : codec_(coded.codec), layout_(LayoutOf(coded.codec, coded.type.Elements().fixed)) {}
  float At(const void* code, int64_t i) const;

 private:
  Codec codec_;
  CodeLayout layout_;
};

}  // namespace act
