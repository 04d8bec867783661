#if defined(__x86_64__)
#include "kernels/cpu/avx2_decode.h"

#include <algorithm>

#include "kernels/cpu/code_bytes.h"
#include "kernels/math/rounding.h"

namespace act {
namespace {

using Xbyak::Xmm;
using Xbyak::Ymm;

constexpr int kRegisters = 14, kRegistersWithCodes = 12;                 // the others are temporary
constexpr int kNoByte = 128;                                             // with it, vpshufb makes 0
constexpr uint32_t kExponents = 0x4B004B00, kZeroPosition = 0x4B000080;  // see Positions

// Which of 32 elements byte j of their codes is.
constexpr int ByteElement(int j) { return static_cast<int>(ElementOfByte(static_cast<size_t>(j), 8)); }

// A word of two 16-bit numbers.
constexpr uint32_t Twice(int number) { return 0x10001u * (static_cast<uint32_t>(number) & 0xFFFF); }
constexpr uint32_t FourBytes(int number) { return 0x01010101u * static_cast<uint32_t>(number); }

// Whether the mask is the plane itself.
bool IsPlane(const PlaneForm& form) { return form.bits == 1 && form.from == 1 && form.to >= 2; }

}  // namespace

Avx2Decode::Avx2Decode(const std::vector<RunInstr>& instrs, const std::vector<StreamType>& streams)
    : RunGenerator(instrs, streams, kLanes, BlockElements(instrs) > 0 ? kRegistersWithCodes : kRegisters) {
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
  HoldConstants(instrs);
}

// Those that a turn uses most come first.
void Avx2Decode::HoldConstants(const std::vector<RunInstr>& instrs) {
  if (!bytes_.empty()) tables_[kBit].held = Hold();
  for (const auto& [stream, bytes] : bytes_)
    for (const uint32_t word : {kZeroPosition, kExponents})
      if (bytes.form.dither) HoldWord(word);
  for (const RunInstr& i : instrs) {
    if (i.op != RunOp::kDecode) continue;
    if (i.planes.value == PlaneValue::kMask) HoldWord(kOne);
    for (const size_t offset : i.planes.Numbers())
      if (const int held = Hold(); held >= 0) numbers_[{static_cast<size_t>(i.stream), offset}] = held;
  }
  if (!bytes_.empty()) tables_[kByte].held = Hold();
}

void Avx2Decode::HoldWord(uint32_t word) {
  Constant& constant = words_[word];
  if (constant.held < 0) constant.held = Hold();
}

void Avx2Decode::Prepare() {
  const auto load = [this](const Constant& constant) {
    if (constant.held >= 0) vmovdqa(Ymm(constant.held), ptr[rip + constant.label]);
  };
  for (const auto& [word, constant] : words_) load(constant);
  for (const Constant& table : tables_) load(table);
}

void Avx2Decode::StartBlock() {
  for (const auto& [at, held] : numbers_) vbroadcastss(Ymm(held), ptr[GroupAt(at.first, at.second)]);
  for (const auto& [stream, bytes] : bytes_) {
    if (!bytes.form.dither) continue;
    const Ymm turned(bytes.turned);
    vpbroadcastw(turned, ptr[GroupAt(stream, offsetof(PlaneGroup, turned) + 2)]);  // the upper half
    vpaddw(turned, turned, Of(kTurns));
  }
}

void Avx2Decode::After() {
  align(32);
  for (auto& [word, constant] : words_) Words(constant.label, word, kLanes);
  const auto table = [this](size_t of, const auto& byte) {
    L(tables_[of].label);
    for (int i = 0; i < 32; ++i) db(static_cast<uint8_t>(byte(i)));
  };
  table(kWiden, [](int i) { return i % 4 < 2 ? kNoByte : i / 4 * 2 + i % 2; });
  table(kNarrow, [](int i) { return i % 16 / 8 == i / 16 ? i % 8 / 2 * 4 + 2 + i % 2 : kNoByte; });
  table(kByte, [](int i) { return ByteElement(i) / 8; });
  table(kBit, [](int i) { return 1 << ByteElement(i) % 8; });
  // Bytes hold the offset plus 128.
  table(kTurns, [](int i) {
    const int element = ByteElement(i / 16 * 16 + i % 16 / 2);
    return (0x8000 - element * static_cast<int>(kWeylStep)) >> 8 * (i % 2);
  });
  for (int v = 0; v < kVectors; ++v) {
    const auto of = static_cast<size_t>(v);
    table(kPlace + of, [v](int i) { return i % 4 == 1 ? 4 * v + i % 16 / 4 : kNoByte; });
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

// Bytes of planes are spread over the vector, each keeps its element's bit, and that is added below those of the planes
// before. Codes of the second kind count from the first of them.
void Avx2Decode::Codes(const Bytes& bytes) {
  const PlaneForm& form = bytes.form;
  const Ymm codes(bytes.codes);
  for (int b = form.bits; b-- > 0;) {
    vpbroadcastd(temp_, ptr[PlaneAt(form, b, 0)]);
    vpshufb(temp_, temp_, Of(kByte));
    vpand(temp_, temp_, Of(kBit));
    vpcmpeqb(temp_, temp_, Of(kBit));  // all ones, which is -1
    if (b == form.bits - 1) {
      vpabsb(codes, temp_);
    } else {
      vpaddb(codes, codes, codes);
      vpsubb(codes, codes, temp_);
    }
  }
  if (bytes.second_kind < 0) return;
  const Ymm second(bytes.second_kind);
  const uint32_t first = FourBytes(form.FirstOfSecondKind());
  vpmaxub(second, codes, All(first));
  vpcmpeqb(second, second, codes);
  vpand(temp_, second, All(first));
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
    vmovdqa(temp_, ptr[rip + words_[FourBytes(1)].label]);
    v == 0 ? vpunpcklbw(words, temp_, codes) : vpunpckhbw(words, temp_, codes);
    vpsrlw(temp_, turned, 8);
    vpor(words, words, temp_);
    if (!in_part)
      vpsubw(turned, turned, All(Twice((IsWholeTurn() ? 2 : 1) * kLanes * static_cast<int>(kWeylStep))));
  }
  v % 2 == 0 ? vpunpcklwd(to, words, All(kExponents)) : vpunpckhwd(to, words, All(kExponents));
  vsubps(to, to, All(kZeroPosition));
}

void Avx2Decode::Numbers(const RunInstr& decode, const Bytes& bytes, const Ymm& to, int v) {
  const auto stream = static_cast<size_t>(decode.stream);
  const auto number = [&](const Ymm& temp, size_t offset) { return Number(temp, stream, offset); };
  const auto second = [&] { vpshufb(mask_, Ymm(bytes.second_kind), Of(kCopy + static_cast<size_t>(v))); };
  // temp = one number, or the other in the second kind of codes. Changes third_temp_.
  const auto either = [&](const Ymm& temp, size_t offset, size_t other) {
    const Ymm first = number(temp, offset);
    vblendvps(temp, first, number(third_temp_, other), mask_);
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
  const size_t bits = kBits + static_cast<size_t>(v);
  const auto inside = inside_.find(stream);
  if (inside == inside_.end() && !IsPlane(form)) {
    vpshufb(to, Ymm(bytes_[stream].second_kind), Of(kCopy + static_cast<size_t>(v)));
    return vandnps(to, to, All(kOne));
  }
  if (inside == inside_.end()) {
    vpbroadcastd(to, ptr[PlaneAt(form, 0, 0)]);
    vpand(to, to, Of(bits));
  } else {
    const Ymm mask(inside->second);
    if (v == 0) Inside(mask, form);
    vpand(to, mask, Of(bits));
  }
  vpcmpeqd(to, to, Of(bits));
  vandps(to, to, All(kOne));
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

Ymm Avx2Decode::Number(const Ymm& temp, size_t stream, size_t offset) {
  const auto held = numbers_.find({stream, offset});
  if (held != numbers_.end()) return Ymm(held->second);
  vbroadcastss(temp, ptr[GroupAt(stream, offset)]);
  return temp;
}

const Xbyak::Operand& Avx2Decode::Where(const Constant& constant) {
  if (constant.held >= 0) return register_ = Ymm(constant.held);
  return memory_.emplace(ptr[rip + constant.label]);
}

}  // namespace act
#endif
