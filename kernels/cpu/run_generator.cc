#if defined(__x86_64__)
#include "kernels/cpu/run_generator.h"

#include <algorithm>

#include "kernels/cpu/bfloat16_tile.h"

namespace act {
namespace {

using Xbyak::Operand;

constexpr int kLineElements = 64 / static_cast<int>(sizeof(BFloat16));

// The registers of the streams' addresses. The first ones may be changed, the others belong to the caller. Streams
// that get none fetch their address each time. The last ones are those of group_, bytes_ and planes_.
constexpr int kHeld[] = {Operand::RDX, Operand::RCX, Operand::R8,  Operand::R9,  Operand::R10, Operand::RBX,
                         Operand::RBP, Operand::R12, Operand::R13, Operand::R14, Operand::R15};
constexpr size_t kFree = 5, kOfCodes = 3;

}  // namespace

RunGenerator::RunGenerator(const std::vector<RunInstr>& instrs, const std::vector<StreamType>& streams,
                           int lanes, int registers)
    : CodeGenerator(Xbyak::DEFAULT_MAX_CODE_SIZE, Xbyak::AutoGrow),
      instrs_(instrs),
      streams_(streams),
      lanes_(lanes),
      registers_(registers),
      block_(BlockElements(instrs)),
      held_(std::min(streams.size(), std::size(kHeld) - (block_ == 0 ? 0 : kOfCodes))) {
  for (size_t i = 0; i < instrs_.size(); ++i)
    for (const int32_t value : {instrs_[i].to, instrs_[i].a, instrs_[i].b, instrs_[i].c}) {
      if (value < 0) continue;
      last_.resize(std::max(last_.size(), static_cast<size_t>(value) + 1));
      last_[static_cast<size_t>(value)] = i;
    }
  register_.resize(last_.size());
  int live = 0;
  for (size_t i = 0; i < instrs_.size(); ++i) {
    live += instrs_[i].to >= 0;
    values_ = std::max(values_, live);
    live -= static_cast<int>(LastUsedBy(i).size());
  }
  next_ = values_;
  fits_ = values_ <= registers_;
}

// void run(const void* const* streams, size_t count)
bool RunGenerator::Generate() {
  if (!fits_) return false;
  const size_t changed = block_ == 0 ? held_ : std::size(kHeld);
  for (size_t s = kFree; s < changed; ++s) push(Xbyak::Reg64(kHeld[s]));
  for (size_t s = 0; s < held_; ++s) mov(Xbyak::Reg64(kHeld[s]), ptr[table_ + 8 * s]);
  xor_(element_.cvt32(), element_.cvt32());
  Xbyak::Label prepare, lines, vectors, rest, done;
  if (block_ > 0) jmp(prepare, T_NEAR);
  L(lines);
  lea(spare_, ptr[element_ + kLineElements]);
  cmp(spare_, count_);
  ja(vectors, T_NEAR);
  EnterBlock();
  AskAhead();
  whole_turn_ = true;
  for (int v = 0; v < kLineElements / lanes_; ++v) Vector(v, false);
  whole_turn_ = false;
  Advance(kLineElements);
  jmp(lines, T_NEAR);
  L(vectors);
  lea(spare_, ptr[element_ + lanes_]);
  cmp(spare_, count_);
  ja(rest, T_NEAR);
  EnterBlock();
  Vector(0, false);
  Advance(lanes_);
  jmp(vectors, T_NEAR);
  L(rest);
  cmp(element_, count_);
  je(done, T_NEAR);
  EnterBlock();
  mov(spare_, count_);
  sub(spare_, element_);
  Rest();
  L(done);
  for (size_t s = changed; s-- > kFree;) pop(Xbyak::Reg64(kHeld[s]));
  vzeroupper();
  ret();
  if (block_ > 0) {
    L(prepare);
    mov(group_, -static_cast<int>(sizeof(PlaneGroup)));
    Prepare();
    jmp(lines, T_NEAR);
  }
  for (const auto& emit : later_) emit();
  After();
  ready(PROTECT_RE);
  run_ = getCode<void (*)(const void* const*, size_t)>();
  return true;
}

// Where a block begins, goes on to its PlaneGroups.
void RunGenerator::EnterBlock() {
  if (block_ == 0) return;
  Xbyak::Label entered;
  test(element_.cvt32(), static_cast<uint32_t>(block_ - 1));
  jnz(entered, T_NEAR);
  add(group_, static_cast<uint32_t>(sizeof(PlaneGroup)));
  xor_(bytes_.cvt32(), bytes_.cvt32());
  StartBlock();
  L(entered);
}

void RunGenerator::Advance(int elements) {
  add(element_, elements);
  if (block_ > 0) add(bytes_, elements / 8);
}

// Prefetches as much of each tensor as this turn computes, a tile further on or, in bfloat16, two. The lines of a tile
// that are prefetched all at once, before the present tile, take longer than none (docs/measurements/kernels.md).
void RunGenerator::AskAhead() {
  constexpr auto kTensorAhead = static_cast<int>(kTileElements * sizeof(float));
  for (size_t s = 0; s < streams_.size(); ++s) {
    if (type(s) == StreamType::kBFloat16)
      prefetcht0(ptr[AddressOf(s) + element_ * 2 + static_cast<int>(kBFloat16Ahead * sizeof(BFloat16))]);
    if (type(s) == StreamType::kTensor)
      for (const int line : {0, 64}) prefetcht0(ptr[AddressOf(s) + element_ * 4 + (kTensorAhead + line)]);
  }
}

Xbyak::Reg64 RunGenerator::AddressOf(size_t stream) {
  if (stream < held_) return Xbyak::Reg64(kHeld[stream]);
  mov(spare_, ptr[table_ + 8 * stream]);
  return spare_;
}

Xbyak::Address RunGenerator::At(size_t stream, int v) {
  const Xbyak::Reg64 base = AddressOf(stream);
  if (type(stream) == StreamType::kSplat) return ptr[base];
  if (type(stream) == StreamType::kBFloat16) return ptr[base + element_ * 2 + v * lanes_ * 2];
  return ptr[base + element_ * 4 + v * lanes_ * 4];
}

void RunGenerator::Words(Xbyak::Label& label, uint32_t word, int times) {
  L(label);
  for (int i = 0; i < times; ++i) dd(word);
}

// The values that no later instruction uses.
std::vector<int32_t> RunGenerator::LastUsedBy(size_t instr) const {
  const RunInstr& i = instrs_[instr];
  std::vector<int32_t> ended{i.to, i.a, i.b, i.c};
  std::sort(ended.begin(), ended.end());
  ended.erase(std::unique(ended.begin(), ended.end()), ended.end());
  std::erase_if(ended,
                [&](int32_t value) { return value < 0 || last_[static_cast<size_t>(value)] != instr; });
  return ended;
}

void RunGenerator::Vector(int v, bool in_part) {
  free_.clear();
  for (int r = values_; r-- > 0;) free_.push_back(r);
  for (size_t i = 0; i < instrs_.size(); ++i) {
    if (const int32_t to = instrs_[i].to; to >= 0) {
      register_[static_cast<size_t>(to)] = free_.back();
      free_.pop_back();
    }
    Instruction(instrs_[i], v, in_part);
    for (const int32_t value : LastUsedBy(i)) free_.push_back(Of(value));
  }
}

void RunGenerator::Instruction(const RunInstr& i, int v, bool in_part) {
  const auto stream = static_cast<size_t>(i.stream);
  switch (i.op) {
    case RunOp::kLoad:
      return Load(Of(i.to), stream, v, in_part);
    case RunOp::kDecode:
      mov(planes_, ptr[GroupAt(stream, offsetof(PlaneGroup, planes))]);
      return Decode(i, Of(i.to), v, in_part);
    case RunOp::kApply:
      return Apply(i);
    case RunOp::kStore:
      return Store(Of(i.a), stream, v, in_part);
    case RunOp::kSum:
      return Sum(Of(i.a), Of(i.b), stream, v, in_part);
  }
}

// A whole register. Missing operands give one that no instruction uses.
Xbyak::Xmm RunGenerator::VectorOf(int32_t value) const {
  const int r = std::max(Of(value), 0);
  return lanes_ == 16 ? Xbyak::Xmm(Xbyak::Zmm(r)) : Xbyak::Xmm(Xbyak::Ymm(r));
}

// As ApplyTile, to the bit.
void RunGenerator::Apply(const RunInstr& i) {
  const Xbyak::Xmm to = VectorOf(i.to), a = VectorOf(i.a), b = VectorOf(i.b), c = VectorOf(i.c);
  const auto arithmetic = [&](const auto& emit) {
    emit();
    if (i.instr.relu) Clip(to);
  };
  const auto multiply_add = [&](const auto& emit) {
    arithmetic([&] {
      vmovaps(to, c);
      emit();
    });
  };
  switch (i.instr.op) {
    case TileOp::kCopy:
      return vmovaps(to, a);
    case TileOp::kMulSub:
      return multiply_add([&] { vfmsub231ps(to, a, b); });
    case TileOp::kNegMulAdd:
      return multiply_add([&] { vfnmadd231ps(to, a, b); });
    case TileOp::kSided:
    case TileOp::kSidedAbs:
      return Sided(to, a, b, c, i.instr.op == TileOp::kSidedAbs);
    default:
      break;
  }
  switch (static_cast<Opcode>(i.instr.op)) {
    case Opcode::kAdd:
      return arithmetic([&] { vaddps(to, a, b); });
    case Opcode::kSub:
      return arithmetic([&] { vsubps(to, a, b); });
    case Opcode::kMul:
      return arithmetic([&] { vmulps(to, a, b); });
    case Opcode::kFma:
      return multiply_add([&] { vfmadd231ps(to, a, b); });
    case Opcode::kDiv:
      return vdivps(to, a, b);
    case Opcode::kMax:
      return Extreme(to, a, b, kIsGreater);
    case Opcode::kMin:
      return Extreme(to, a, b, kIsLess);
    case Opcode::kNeg:
      return Negate(to, a);
    case Opcode::kAbs:
      return Magnitude(to, a);
    case Opcode::kSqrt:
      return vsqrtps(to, a);
    case Opcode::kFloor:
      return Floor(to, a);
    case Opcode::kGreater:
      return Compare(to, a, b, kIsGreater);
    case Opcode::kEqual:
      return Compare(to, a, b, kIsEqual);
    case Opcode::kSelect:
      return Select(to, a, b, c);
    default:
      return;  // HasRunCode has refused it
  }
}

}  // namespace act
#endif
