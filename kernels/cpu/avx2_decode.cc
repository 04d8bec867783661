#if defined(__x86_64__)
#include "kernels/cpu/avx2_decode.h"

#include <algorithm>

#include "kernels/math/rounding.h"

namespace act {
namespace {

using Xbyak::Xmm;
using Xbyak::Ymm;

constexpr int kRegisters = 14, kRegistersWithCodes = 12;  // the others are temporary
constexpr int kNoCode = 128;                              // a byte of vpshufb that makes 0

// Which of 32 elements byte j of their codes is (ElementOfByte in code_bytes-inl.h).
constexpr int ElementOfByte(int j) { return j % 16 / 4 * 8 + j / 16 * 4 + j % 4; }

// A word of two 16-bit numbers.
constexpr uint32_t Twice(int number) { return 0x10001u * (static_cast<uint32_t>(number) & 0xFFFF); }
constexpr uint32_t FourBytes(int number) { return 0x01010101u * static_cast<uint32_t>(number); }

constexpr size_t kScale = offsetof(PlaneGroup, scale), kMinimum = offsetof(PlaneGroup, minimum),
                 kOtherScale = offsetof(PlaneGroup, other_scale),
                 kOtherMinimum = offsetof(PlaneGroup, other_minimum);

// Whether the mask is the plane itself.
bool IsPlane(const PlaneForm& form) { return form.bits == 1 && form.from == 1 && form.to >= 2; }

}  // namespace

Avx2Decode::Avx2Decode(const std::vector<RunInstr>& instrs, const std::vector<StreamType>& streams)
    : RunGenerator(instrs, streams, kLanes, BlockElements(instrs) > 0 ? kRegistersWithCodes : kRegisters),
      decodes_(BlockElements(instrs) > 0) {
  for (const RunInstr& i : instrs) {
    if (i.op != RunOp::kDecode || i.planes.value == PlaneValue::kMask) continue;
    Bytes& bytes = bytes_[static_cast<size_t>(i.stream)];
    bytes.form = i.planes;
    bytes.codes = MustHold();
    if (i.planes.FirstOfSecondKind() > 0) bytes.second_kind = MustHold();
    if (!i.planes.dither) continue;
    bytes.turned = MustHold();
    bytes.words = MustHold();
  }
  for (const RunInstr& i : instrs) {
    if (i.op != RunOp::kDecode) continue;
    const auto stream = static_cast<size_t>(i.stream);
    const auto of = bytes_.find(stream);
    if (of != bytes_.end() && !of->second.maker) of->second.maker = &i;
    if (i.planes.value == PlaneValue::kMask && !IsPlane(i.planes) &&
        (of == bytes_.end() || !i.planes.MasksFirstKind(of->second.form)))
      inside_[stream] = MustHold();
  }
}

void Avx2Decode::StartBlock() {
  for (const auto& [stream, bytes] : bytes_) {
    if (!bytes.form.dither) continue;
    const Ymm turned(bytes.turned);
    vpbroadcastw(turned, ptr[GroupAt(stream, offsetof(PlaneGroup, turned) + 2)]);  // the upper half
    vpaddw(turned, turned, Of(kTurns));
  }
}

void Avx2Decode::After() {
  align(32);
  for (auto& [word, label] : words_) Words(label, word, kLanes);
  if (!decodes_) return;
  const auto table = [this](size_t of, const auto& byte) {
    L(tables_[of]);
    for (int i = 0; i < 32; ++i) db(static_cast<uint8_t>(byte(i)));
  };
  table(kByte, [](int i) { return ElementOfByte(i) / 8; });
  table(kBit, [](int i) { return 1 << ElementOfByte(i) % 8; });
  // Bytes hold the offset plus 128.
  table(kTurns, [](int i) {
    const int element = ElementOfByte(i / 16 * 16 + i % 16 / 2);
    return (0x8000 - element * static_cast<int>(kWeylStep)) >> 8 * (i % 2);
  });
  for (int v = 0; v < kVectors; ++v) {
    const auto of = static_cast<size_t>(v);
    table(kPlace + of, [v](int i) { return i % 4 == 1 ? 4 * v + i % 16 / 4 : kNoCode; });
    table(kCopy + of, [v](int i) { return 4 * v + i % 16 / 4; });
    table(kBits + of, [v](int i) { return i % 4 == v ? 1 << i / 4 : 0; });
  }
}

void Avx2Decode::Decode(const RunInstr& decode, int to_number, int v, bool in_part) {
  const Ymm to(to_number);
  const auto stream = static_cast<size_t>(decode.stream);
  const auto bytes = bytes_.find(stream);
  if (bytes != bytes_.end() && bytes->second.maker == &decode && v == 0) Codes(bytes->second);
  if (decode.planes.value == PlaneValue::kMask) {
    Mask(decode.planes, to, stream, v);
  } else {
    Positions(bytes->second, to, v, in_part);
    Numbers(decode, bytes->second, to, v);
  }
  if (!in_part) return;
  vmovd(Xmm(kTemp), element_.cvt32());  // the lane that it is of the vector: vpermps takes it modulo 8
  vpermps(to, temp_, to);
}

// Bytes of planes are spread over the vector, and each keeps its element's bit. Codes of the second kind count from the
// first of them.
void Avx2Decode::Codes(const Bytes& bytes) {
  const PlaneForm& form = bytes.form;
  const Ymm codes(bytes.codes);
  for (int b = 0; b < form.bits; ++b) {
    const Ymm level = b == 0 ? codes : temp_;
    vpbroadcastd(level, ptr[PlaneAt(form, b, 0)]);
    vpshufb(level, level, Of(kByte));
    vpand(level, level, Of(kBit));
    vpcmpeqb(level, level, Of(kBit));
    vpand(level, level, All(FourBytes(1 << b)));
    if (b > 0) vpor(codes, codes, level);
  }
  if (bytes.second_kind < 0) return;
  const Ymm second(bytes.second_kind);
  const Xbyak::Address first = All(FourBytes(form.FirstOfSecondKind()));
  vpmaxub(second, codes, first);
  vpcmpeqb(second, second, codes);
  vpand(temp_, second, first);
  vpsubb(codes, codes, temp_);
}

// With dither, 2^23 + 128 plus the position is put together from its bits: the code, and the offset plus 128, which is
// a byte whose lowest bit is set.
void Avx2Decode::Positions(const Bytes& bytes, const Ymm& to, int v, bool in_part) {
  const Ymm codes(bytes.codes), words(bytes.words), turned(bytes.turned);
  if (!bytes.form.dither) {
    vpshufb(to, codes, Of(kPlace + static_cast<size_t>(v)));
    if (bytes.form.value == PlaneValue::kCode) vpsrld(to, to, 8);
    return vcvtdq2ps(to, to);
  }
  if (v % 2 == 0) {
    vmovdqa(temp_, All(FourBytes(1)));
    v == 0 ? vpunpcklbw(words, temp_, codes) : vpunpckhbw(words, temp_, codes);
    vpsrlw(temp_, turned, 8);
    vpor(words, words, temp_);
    if (!in_part)
      vpsubw(turned, turned, All(Twice((IsWholeTurn() ? 2 : 1) * kLanes * static_cast<int>(kWeylStep))));
  }
  const Xbyak::Address exponent = All(0x4B004B00);
  v % 2 == 0 ? vpunpcklwd(to, words, exponent) : vpunpckhwd(to, words, exponent);
  vsubps(to, to, All(0x4B000080));
}

void Avx2Decode::Numbers(const RunInstr& decode, const Bytes& bytes, const Ymm& to, int v) {
  const auto stream = static_cast<size_t>(decode.stream);
  const auto number = [&](const Ymm& temp, size_t offset) {
    vbroadcastss(temp, ptr[GroupAt(stream, offset)]);
    return temp;
  };
  const auto second = [&] { vpshufb(mask_, Ymm(bytes.second_kind), Of(kCopy + static_cast<size_t>(v))); };
  // temp = one number, or the other in the second kind of codes. Changes third_temp_.
  const auto either = [&](const Ymm& temp, size_t offset, size_t other) {
    vblendvps(temp, number(temp, offset), number(third_temp_, other), mask_);
    return temp;
  };
  switch (decode.planes.value) {
    case PlaneValue::kMask:
    case PlaneValue::kCode:
      return;
    case PlaneValue::kUniform:
      return vfmadd213ps(to, number(temp_, kScale), number(second_temp_, kMinimum));
    case PlaneValue::kSign:
      second();
      return vmulps(to, to, either(temp_, kScale, kOtherScale));
    case PlaneValue::kSides:
      second();
      either(temp_, kScale, kOtherScale);
      return vfmadd213ps(to, temp_, either(second_temp_, kMinimum, kOtherMinimum));
    case PlaneValue::kZero:
      second();
      vfmadd213ps(to, number(temp_, kScale), number(second_temp_, kMinimum));
      return vblendvps(to, number(temp_, kOtherMinimum), to, mask_);
  }
}

// Planes are read unless the stream's codes are there, and those of the mask are all that are not of the second kind.
void Avx2Decode::Mask(const PlaneForm& form, const Ymm& to, size_t stream, int v) {
  const Xbyak::Address one = All(0x3F800000), bits = Of(kBits + static_cast<size_t>(v));
  const auto inside = inside_.find(stream);
  if (inside == inside_.end() && !IsPlane(form)) {
    vpshufb(to, Ymm(bytes_[stream].second_kind), Of(kCopy + static_cast<size_t>(v)));
    return vandnps(to, to, one);
  }
  if (inside == inside_.end()) {
    vpbroadcastd(to, ptr[PlaneAt(form, 0, 0)]);
    vpand(to, to, bits);
  } else {
    const Ymm mask(inside->second);
    if (v == 0) Inside(mask, form);
    vpand(to, mask, bits);
  }
  vpcmpeqd(to, to, bits);
  vandps(to, to, one);
}

// The bits of 32 codes that are at least `from` and below `to`.
void Avx2Decode::Inside(const Ymm& bits, const PlaneForm& form) {
  const bool has_from = form.from > 0, has_to = form.to < 1 << form.bits;
  if (has_to) FromCode(temp_, form, form.to);
  if (has_from) FromCode(bits, form, form.from);
  if (!has_from) vpcmpeqd(bits, bits, bits);
  if (has_to) vpandn(bits, temp_, bits);
}

// Bits are compared, from the lowest that `first` has.
void Avx2Decode::FromCode(const Ymm& bits, const PlaneForm& form, int first) {
  int b = 0;
  while ((first >> b & 1) == 0) ++b;
  vpbroadcastd(bits, ptr[PlaneAt(form, b, 0)]);
  for (++b; b < form.bits; ++b) {
    vpbroadcastd(mask_, ptr[PlaneAt(form, b, 0)]);
    (first >> b & 1) != 0 ? vpand(bits, bits, mask_) : vpor(bits, bits, mask_);
  }
}

}  // namespace act
#endif
