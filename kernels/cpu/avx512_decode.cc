#if defined(__x86_64__)
#include "kernels/cpu/avx512_decode.h"

#include "kernels/math/rounding.h"

namespace act {
namespace {

using Xbyak::Operand;
using Xbyak::Opmask;
using Xbyak::Zmm;

constexpr size_t kScale = offsetof(PlaneGroup, scale), kMinimum = offsetof(PlaneGroup, minimum),
                 kOtherScale = offsetof(PlaneGroup, other_scale),
                 kOtherMinimum = offsetof(PlaneGroup, other_minimum);

std::vector<size_t> NumbersOf(PlaneValue value) {
  switch (value) {
    case PlaneValue::kCode:
    case PlaneValue::kMask:
      return {};
    case PlaneValue::kUniform:
      return {kScale, kMinimum};
    case PlaneValue::kSign:
      return {kScale, kOtherScale};
    case PlaneValue::kSides:
      return {kScale, kOtherScale, kMinimum, kOtherMinimum};
    case PlaneValue::kZero:
      return {kScale, kMinimum, kOtherMinimum};
  }
  return {};
}

}  // namespace

Avx512Decode::Avx512Decode(const std::vector<RunInstr>& instrs, const std::vector<StreamType>& streams)
    : RunGenerator(instrs, streams, kLanes, kRegisters) {
  for (const RunInstr& i : instrs)
    if (i.op == RunOp::kDecode && i.planes.dither) turned_[static_cast<size_t>(i.stream)] = MustHold();
  for (const RunInstr& i : instrs)
    if (i.op == RunOp::kDecode)
      for (const size_t offset : NumbersOf(i.planes.value))
        numbers_[{static_cast<size_t>(i.stream), offset}] = Hold();
}

void Avx512Decode::Prepare() {
  for (const auto& [word, at] : words_)
    if (at.held >= 0) vpbroadcastd(Zmm(at.held), ptr[rip + at.label]);
}

void Avx512Decode::StartBlock() {
  for (const auto& [stream, turned] : turned_) {
    vpbroadcastd(Zmm(turned), ptr[GroupAt(stream, offsetof(PlaneGroup, turned))]);
    vpaddd(Zmm(turned), Zmm(turned), ptr[rip + turns_]);
  }
  for (const auto& [at, held] : numbers_)
    if (held >= 0) vbroadcastss(Zmm(held), ptr[GroupAt(at.first, at.second)]);
}

void Avx512Decode::After() {
  align(4);
  for (auto& [word, at] : words_) Words(at.label, word, 1);
  align(64);
  L(turns_);
  for (uint32_t lane = 0; lane < kLanes; ++lane) dd(0u - (lane * kWeylStep << 16));
}

void Avx512Decode::Decode(const PlaneForm& form, int to_number, size_t stream, int v) {
  const Zmm to(to_number);
  // k1 = the codes from `first` on. Their positions are at most half a level below it.
  const auto from = [&](int first) { vpcmpgtd(k1, to, All(static_cast<uint32_t>(first * 256 - 128))); };
  if (form.value != PlaneValue::kMask) Positions(form, to, stream, v);
  switch (form.value) {
    case PlaneValue::kMask:
      return Mask(form, to, v);
    case PlaneValue::kCode:
      return vcvtdq2ps(to, to);
    case PlaneValue::kUniform:
      return ScaleEvenly(to, stream);
    case PlaneValue::kSign:
    case PlaneValue::kSides:
      from(form.to);
      vpsubd(to | k1, to, All(static_cast<uint32_t>(form.to * 256)));
      vcvtdq2ps(to, to);
      if (form.value == PlaneValue::kSign) return vmulps(to, to, Either(temp_, stream, kScale, kOtherScale));
      return vfmadd213ps(to, Either(temp_, stream, kScale, kOtherScale),
                         Either(second_temp_, stream, kMinimum, kOtherMinimum));
    case PlaneValue::kZero:
      from(1);
      vpsubd(to, to, All(256));
      ScaleEvenly(to, stream);
      vblendmps(to | k1, Register(temp_, stream, kOtherMinimum), to);
  }
}

void Avx512Decode::Positions(const PlaneForm& form, const Zmm& to, size_t stream, int v) {
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
}

void Avx512Decode::Mask(const PlaneForm& form, const Zmm& to, int v) {
  const bool has_from = form.from > 0, has_to = form.to < 1 << form.bits;
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

void Avx512Decode::ScaleEvenly(const Zmm& to, size_t stream) {
  vcvtdq2ps(to, to);
  vfmadd213ps(to, Register(temp_, stream, kScale), Number(stream, kMinimum));
}

// temp = one number, or where k1 is the other.
Zmm Avx512Decode::Either(const Zmm& temp, size_t stream, size_t offset, size_t other) {
  const Zmm first = Register(temp, stream, offset);
  vblendmps(temp | k1, first, Number(stream, other));
  return temp;
}

const Operand& Avx512Decode::Number(size_t stream, size_t offset) {
  const int held = numbers_[{stream, offset}];
  if (held >= 0) return register_ = Zmm(held);
  return memory_.emplace(ptr_b[GroupAt(stream, offset)]);
}
const Operand& Avx512Decode::All(uint32_t word) {
  const Word& at = WordOf(word);
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
  const Word& at = WordOf(word);
  at.held < 0 ? vpbroadcastd(to, ptr[rip + at.label]) : vmovdqa32(to, Zmm(at.held));
}
Avx512Decode::Word& Avx512Decode::WordOf(uint32_t word) {
  const auto [at, fresh] = words_.try_emplace(word);
  if (fresh) at->second.held = Hold();
  return at->second;
}

}  // namespace act
#endif
