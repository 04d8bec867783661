// Operands that are codes of frozen weights (TensorView::coded), as kernels see them.
#pragma once

#include <optional>

#include "runtime/codec/codec.h"
#include "runtime/executor/kernel.h"

namespace act {

// A view, without data, of the numbers that the operand stands for. Of an operand that is no code: the operand.
TensorView NumbersOf(const TensorView& operand);
// The site with such a view in the place of operand i, which keeps its `coded`: for a kernel that decodes there.
KernelSite WithNumbers(KernelSite site, size_t i);

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

// Of operand i, if it is a code.
inline std::optional<CodedElements> CodeOfOperand(const KernelSite& site, size_t i) {
  if (!site.inputs[i].coded) return std::nullopt;
  return CodedElements(*site.inputs[i].coded);
}

}  // namespace act
