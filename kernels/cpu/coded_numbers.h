// The numbers of a frozen weight that lies in memory as a code: a kernel decodes those that it needs next.
#pragma once

#include <cstdint>

#include "kernels/math/convert.h"
#include "runtime/codec/codec.h"
#include "runtime/plan/graph.h"

namespace act {

class CodedNumbers {
 public:
  CodedNumbers() = default;
  // coded: of a code with levels, not of a cast, whose numbers are the plain loads of their type.
  explicit CodedNumbers(const CodedParameter& coded)
      : codec_(coded.codec), layout_(LayoutOf(coded.codec, coded.type.Elements().fixed)) {}

  // to[i] = number `first` + i, i < count, of the code that begins at `code`. Any first and count: groups that they cut
  // are decoded whole, aside. Several threads may call it.
  void Read(const void* code, int64_t first, int64_t count, float* to) const;
  // The same, rounded to bfloat16.
  void Read(const void* code, int64_t first, int64_t count, BFloat16* to) const;

 private:
  // Calls f(numbers, offset, count) for pieces of the range in their order: numbers[0] is number first + offset.
  template <class F>
  void ForPieces(const void* code, int64_t first, int64_t count, const F& f) const;

  Codec codec_;
  CodeLayout layout_;
};

}  // namespace act
