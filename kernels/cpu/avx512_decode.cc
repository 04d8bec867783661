#if defined(__x86_64__)
#include "kernels/cpu/avx512_decode.h"

#include <algorithm>
#include <span>

#include "kernels/math/rounding.h"

namespace act {
namespace {

using Xbyak::Operand;
using Xbyak::Opmask;
using Xbyak::Xmm;
using Xbyak::Ymm;
using Xbyak::Zmm;

constexpr int kNoCode = 63;                           // a byte of Codes that is 0
constexpr uint8_t kOr = 0xFE, kIsNotLessInteger = 5;  // of vpternlogd and vpcmpub
constexpr int kFirstMask = 3, kLastMask = 6;          // those of codes of the second kind, 32 of them

}  // namespace

Avx512Decode::Avx512Decode(RunIsa isa, const std::vector<RunInstr>& instrs,
                           const std::vector<StreamType>& streams)
    : RunGenerator(instrs, streams, kLanes, kRegisters), has_bytes_(isa == RunIsa::kAvx512Bytes) {
  int next_mask = kFirstMask;
  for (const RunInstr& i : instrs) {
    if (i.op != RunOp::kDecode) continue;
    const auto stream = static_cast<size_t>(i.stream);
    if (i.planes.dither) turned_[stream] = MustHold();
    // With one plane and no dither, a mask is all that is needed.
    if (!has_bytes_ || i.planes.value == PlaneValue::kMask || (i.planes.bits == 1 && !i.planes.dither))
      continue;
    Bytes& bytes = bytes_[stream];
    bytes.codes = MustHold();
    bytes.form = i.planes;
    if (i.planes.FirstOfSecondKind() == 0) continue;
    if (next_mask > kLastMask) Refuse();
    bytes.second_kind = std::min(next_mask++, kLastMask);
  }
  for (const RunInstr& i : instrs)
    if (const auto of = bytes_.find(static_cast<size_t>(i.stream));
        i.op == RunOp::kDecode && of != bytes_.end() && !of->second.maker)
      of->second.maker = &i;
  for (Constant& table : std::span(tables_).first(kTurns))
    if (!bytes_.empty()) table.held = Hold();
  for (const RunInstr& i : instrs)
    if (i.op == RunOp::kDecode)
      for (const size_t offset : i.planes.Numbers())
        numbers_[{static_cast<size_t>(i.stream), offset}] = Hold();
}

void Avx512Decode::Prepare() {
  for (const auto& [word, at] : words_)
    if (at.held >= 0) vpbroadcastd(Zmm(at.held), ptr[rip + at.label]);
  for (const Constant& table : tables_)
    if (table.held >= 0) vmovdqa32(Zmm(table.held), ptr[rip + table.label]);
}

void Avx512Decode::StartBlock() {
  for (const auto& [stream, turned] : turned_) {
    vpbroadcastd(Zmm(turned), ptr[GroupAt(stream, offsetof(PlaneGroup, turned))]);
    vpaddd(Zmm(turned), Zmm(turned), ptr[rip + tables_[kTurns].label]);
  }
  for (const auto& [at, held] : numbers_)
    if (held >= 0) vbroadcastss(Zmm(held), ptr[GroupAt(at.first, at.second)]);
}

void Avx512Decode::After() {
  align(4);
  for (auto& [word, at] : words_) Words(at.label, word, 1);
  align(64);
  const auto table = [this](Table of, const auto& byte) {
    L(tables_[of].label);
    for (int i = 0; i < 64; ++i) db(static_cast<uint8_t>(byte(i)));
  };
  // Of eight codes' bytes, the instruction takes number r for bit 7 - r. Plane b has its 32 bits in bytes 4 b on.
  table(kOrder, [](int i) { return 4 * (7 - i % 8) + i / 8 % 4; });
  table(kUnits, [](int i) { return 1 << i % 8; });
  for (const int v : {0, 1})
    table(static_cast<Table>(kSpread + v), [v](int i) { return i % 4 == 1 ? 16 * v + i / 4 : kNoCode; });
  // Bytes hold the offset plus 128.
  const uint32_t first = has_bytes_ ? 0x80000000 : 0;
  table(kTurns,
        [first](int i) { return (first - (static_cast<uint32_t>(i / 4) * kWeylStep << 16)) >> 8 * (i % 4); });
}

void Avx512Decode::Decode(const RunInstr& decode, int to_number, int v, bool /* in_part */) {
  const Zmm to(to_number);
  const PlaneForm& form = decode.planes;
  const auto stream = static_cast<size_t>(decode.stream);
  const auto bytes = bytes_.find(stream);
  if (bytes != bytes_.end() && bytes->second.maker == &decode && v == 0) Codes(bytes->second);
  if (form.value == PlaneValue::kMask) return Mask(form, to, stream, v);
  const Opmask second = bytes != bytes_.end() ? PositionsOfBytes(bytes->second, to, stream, v)
                                              : PositionsOfPlanes(form, to, stream, v);
  // temp = one number, or the other in the second kind of codes.
  const auto either = [&](const Zmm& temp, size_t offset, size_t other) {
    const Zmm first = Register(temp, stream, offset);
    vblendmps(temp | second, first, Number(stream, other));
    return temp;
  };
  switch (form.value) {
    case PlaneValue::kMask:
    case PlaneValue::kCode:
      return;
    case PlaneValue::kUniform:
      return vfmadd213ps(to, Register(temp_, stream, kScale), Number(stream, kMinimum));
    case PlaneValue::kSign:
      return vmulps(to, to, either(temp_, kScale, kOtherScale));
    case PlaneValue::kSides:
      either(temp_, kScale, kOtherScale);
      return vfmadd213ps(to, temp_, either(second_temp_, kMinimum, kOtherMinimum));
    case PlaneValue::kZero:
      vfmadd213ps(to, Register(temp_, stream, kScale), Number(stream, kMinimum));
      return vblendmps(to | second, Register(temp_, stream, kOtherMinimum), to);
  }
}

Opmask Avx512Decode::PositionsOfPlanes(const PlaneForm& form, const Zmm& to, size_t stream, int v) {
  const int one = form.value == PlaneValue::kCode ? 1 : 256;
  if (form.dither) {
    const Zmm turned(turned_[stream]);
    vpsrad(to, turned, 24);
    vpsubd(turned, turned, All(kLanes * kWeylStep << 16));
    vpord(to, to, All(1));
  }
  for (int b = 0; b < form.bits; ++b) {
    kmovw(k1, word[PlaneAt(form, b, v)]);
    const auto level = static_cast<uint32_t>(one << b);
    b == 0 && !form.dither ? Put(to | k1 | T_z, level) : vpaddd(to | k1, to, All(level));
  }
  if (const int first = form.FirstOfSecondKind();
      first > 0) {  // positions are at most half a level below their code
    vpcmpgtd(k1, to, All(static_cast<uint32_t>(first * 256 - 128)));
    vpsubd(to | k1, to, All(static_cast<uint32_t>(first * 256)));
  }
  vcvtdq2ps(to, to);
  return k1;
}

// With dither, 2^23 + 128 plus the position is put together from its bits: the code, and the offset plus 128, which is
// a byte whose lowest bit is set.
Opmask Avx512Decode::PositionsOfBytes(const Bytes& bytes, const Zmm& to, size_t stream, int v) {
  vpermb(to, Of(v == 0 ? kSpread : kSpreadSecond, second_temp_), Zmm(bytes.codes));
  if (bytes.form.dither) {
    const Zmm turned(turned_[stream]);
    vpsrld(temp_, turned, 24);
    vpsubd(turned, turned, All(kLanes * kWeylStep << 16));
    vpternlogd(to, temp_, All(0x4B000001), kOr);
    vsubps(to, to, All(0x4B000080));
  } else {
    if (bytes.form.value == PlaneValue::kCode) vpsrld(to, to, 8);
    vcvtdq2ps(to, to);
  }
  return SecondKind(bytes, v);
}

Opmask Avx512Decode::SecondKind(const Bytes& bytes, int v) {
  const Opmask second(bytes.second_kind);
  if (v == 0 || bytes.form.FirstOfSecondKind() == 0) return second;
  kshiftrd(k1, second, 16);
  return k1;
}

// The codes of 32 elements: bytes of their planes are put side by side, and each 8 x 8 bits turned over. Codes of the
// second kind count from the first of them.
void Avx512Decode::Codes(const Bytes& bytes) {
  const PlaneForm& form = bytes.form;
  const Opmask second(bytes.second_kind);
  const auto planes = [&](const Xmm& to, int first) {
    vmovd(to, dword[PlaneAt(form, first, 0)]);
    for (int b = first + 1; b < std::min(form.bits, first + 4); ++b)
      vpinsrd(to, to, dword[PlaneAt(form, b, 0)], static_cast<uint8_t>(b - first));
  };
  const Ymm codes(bytes.codes);
  planes(Xmm(bytes.codes), 0);
  if (form.bits > 4) {
    planes(Xmm(kSecondTemp), 4);
    vinserti32x4(codes, codes, Xmm(kSecondTemp), 1);
  }
  vpermb(codes, Ymm(Of(kOrder, second_temp_).getIdx()), codes);
  vgf2p8affineqb(codes, Ymm(Of(kUnits, second_temp_).getIdx()), codes, 0);
  if (const int first = form.FirstOfSecondKind(); first > 0) {
    const Constant& word = WordOf(0x01010101u * static_cast<uint32_t>(first));
    if (word.held < 0) vpbroadcastd(second_temp_, ptr[rip + word.label]);
    const Ymm from(word.held < 0 ? kSecondTemp : word.held);
    vpcmpub(second, codes, from, kIsNotLessInteger);
    vpsubb(codes | second, codes, from);
  }
}

// Planes are read unless the stream's codes are there, and those of the mask are all that are not of the second kind.
void Avx512Decode::Mask(const PlaneForm& form, const Zmm& to, size_t stream, int v) {
  const bool has_from = form.from > 0, has_to = form.to < 1 << form.bits;
  if (const auto bytes = bytes_.find(stream);
      bytes != bytes_.end() && form.MasksFirstKind(bytes->second.form)) {
    knotw(k1, SecondKind(bytes->second, v));
    return Put(to | k1 | T_z, 0x3F800000);
  }
  if (has_from) FromCode(k1, form, form.from, v);
  if (has_to) FromCode(k2, form, form.to, v);
  if (has_from && has_to)
    kandnw(k1, k2, k1);
  else if (has_to)
    knotw(k1, k2);
  else if (!has_from)
    kxnorw(k1, k1, k1);
  Put(to | k1 | T_z, 0x3F800000);
}

// mask = where codes are at least `first`, which is not 0: bits are compared, from the lowest that `first` has.
void Avx512Decode::FromCode(const Opmask& mask, const PlaneForm& form, int first, int v) {
  int b = 0;
  while ((first >> b & 1) == 0) ++b;
  movzx(spare_.cvt32(), word[PlaneAt(form, b, v)]);
  for (++b; b < form.bits; ++b) {
    const Xbyak::Address plane = word[PlaneAt(form, b, v)];
    (first >> b & 1) != 0 ? and_(spare_.cvt16(), plane) : or_(spare_.cvt16(), plane);
  }
  kmovw(mask, spare_.cvt32());
}

const Operand& Avx512Decode::Number(size_t stream, size_t offset) {
  const int held = numbers_[{stream, offset}];
  if (held >= 0) return register_ = Zmm(held);
  return memory_.emplace(ptr_b[GroupAt(stream, offset)]);
}
const Operand& Avx512Decode::All(uint32_t word) {
  const Constant& at = WordOf(word);
  if (at.held >= 0) return register_ = Zmm(at.held);
  return memory_.emplace(ptr_b[rip + at.label]);
}
Zmm Avx512Decode::Register(const Zmm& temp, size_t stream, size_t offset) {
  const int held = numbers_[{stream, offset}];
  if (held >= 0) return Zmm(held);
  vbroadcastss(temp, ptr[GroupAt(stream, offset)]);
  return temp;
}
void Avx512Decode::Put(const Zmm& to, uint32_t word) {
  const Constant& at = WordOf(word);
  at.held < 0 ? vpbroadcastd(to, ptr[rip + at.label]) : vmovdqa32(to, Zmm(at.held));
}
const Avx512Decode::Constant& Avx512Decode::WordOf(uint32_t word) {
  const auto [at, fresh] = words_.try_emplace(word);
  if (fresh) at->second.held = Hold();
  return at->second;
}
Zmm Avx512Decode::Of(Table table, const Zmm& temp) {
  const Constant& at = tables_[table];
  if (at.held >= 0) return Zmm(at.held);
  vmovdqa32(temp, ptr[rip + at.label]);
  return temp;
}

}  // namespace act
#endif
