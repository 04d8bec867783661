// Programs that scale, add up and mask decoded numbers.
#pragma once

#include <random>
#include <utility>
#include <vector>

#include "tests/unit/random_program.h"

namespace act {

// The operands of a rebuild: two codes, the first one's mask, a tensor, columns and a number.
struct Rebuild {
  enum : size_t { kCode, kMask, kOther, kFull, kScale, kShift, kNumber, kOperands };

  RandomCase r;
  Rebuild(Dims space, const Codec& code, const Codec& other) {
    Program& p = r.program;
    p.space = std::move(space);
    r.batch = 3;
    const Dims column = {p.space.back()};
    r.inputs = {{},
                {},
                {},
                {DType::kFloat32, p.space},
                {DType::kFloat32, column},
                {DType::kFloat32, column},
                {DType::kFloat32, {}}};
    p.inputs.resize(kOperands);
    p.inputs[kCode] = {.codec = code, .stream = 3};
    p.inputs[kMask] = {.codec = code, .stream = 3, .mask = code.HoldsMask()};
    p.inputs[kOther] = {.codec = other, .stream = 3};
  }
  int32_t Op(Opcode op, int32_t a, int32_t b = -1, int32_t c = -1) { return r.Op(op, a, b, c); }
  void Store(int32_t reg) { r.Store(reg); }

  // The mask belongs to the first code's own tensor, or to another tensor with the same codec.
  FusedCase Case(unsigned seed, bool same) const {
    RandomNumbers random(seed);
    FusedCase c = Build(random, r);
    std::uniform_real_distribution<float> number(-1, 1);  // so that long products stay small
    for (size_t i : {kScale, kShift, kNumber})
      for (int64_t e = 0; e < c.input_views[i].elements; ++e) c.In(i)[e] = number(random);
    if (same) c.SameTensor(kCode, kMask);
    return c;
  }
  FusedCase CopyFor(FusedCase& from, bool same) const {
    FusedCase c = CopyOf(r, from);
    if (same) c.SameTensor(kCode, kMask);
    return c;
  }
};

inline Codec CodeWithSides(int levels, int below) {
  return Codec::Sign(BitsOfLevels(levels), below).OfLevels(levels).With(Metadata::kSides);
}

// Chains of one to eight instructions on the operands and on earlier results. Each result may be
// read again or stored.
inline Rebuild RandomChain(RandomNumbers& random, const std::vector<Codec>& codecs) {
  static const std::vector<Dims> kSpaces = {
      {Dim::Batch(), Dim(5), Dim(300)}, {Dim::Batch(), Dim(7)}, {Dim::Batch(), Dim(2), Dim(1024)}};
  const auto any = [&random](const auto& list) {
    return list[static_cast<size_t>(Pick(random, 0, static_cast<int64_t>(list.size()) - 1))];
  };
  Rebuild b(any(kSpaces), any(codecs), any(codecs));
  const auto operand = [&] {  // recent results are chosen more often than earlier ones
    const int32_t registers = b.r.program.Registers();
    const auto last = static_cast<int32_t>(Pick(random, 1, 3));
    return Pick(random, 0, 1) && registers - last >= static_cast<int32_t>(Rebuild::kOperands)
               ? registers - last
               : static_cast<int32_t>(Pick(random, 0, Rebuild::kOperands - 1));
  };
  for (int64_t i = Pick(random, 1, 8); i > 0; --i) {
    const Opcode op = any(std::vector{Opcode::kAbs, Opcode::kMul, Opcode::kMul, Opcode::kAdd, Opcode::kFma});
    b.Op(op, operand(), Arity(op) > 1 ? operand() : -1, Arity(op) > 2 ? operand() : -1);
  }
  b.Store(b.r.program.Registers() - 1);
  if (Pick(random, 0, 3) == 0) b.Store(static_cast<int32_t>(Pick(random, 0, b.r.program.Registers() - 1)));
  return b;
}

}  // namespace act
