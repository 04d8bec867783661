// What the code of a run (run_code.h) is like on every instruction set: a function that walks over its streams, and
// the registers of its values.
#pragma once

#include <xbyak/xbyak.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/cpu/run_code.h"

namespace act {

// Predicates of vcmpps. The two that begin with kIsNot hold where an operand is NaN, the others do not.
enum Predicate : uint8_t {
  kIsEqual = 0,
  kIsUnordered = 3,
  kIsLess = 17,
  kIsNotLess = 21,
  kIsNotGreater = 26,
  kIsGreater = 30
};

constexpr uint8_t kFloorWithoutExceptions = 9;  // of vroundps and vrndscaleps

class RunGenerator : public RunCode, protected Xbyak::CodeGenerator {
 public:
  // Makes the function. False if values do not fit the registers. Throws what Xbyak throws.
  bool Generate();

 protected:
  // Vector registers 0 .. registers - 1, of `lanes` floats each, may have values, or what the code holds beside them.
  RunGenerator(const std::vector<RunInstr>& instrs, const std::vector<StreamType>& streams, int lanes,
               int registers);

  // Vector registers go by their numbers. `v`: which of a turn's vectors. in_part: as Rest() has it.
  virtual void Load(int to, size_t stream, int v, bool in_part) = 0;
  virtual void Store(int from, size_t stream, int v, bool in_part) = 0;
  // to = max(to, 0); a NaN stays NaN.
  virtual void Clip(const Xbyak::Xmm& to) = 0;
  // a where it is NaN or `wins` over b, else b.
  virtual void Extreme(const Xbyak::Xmm& to, const Xbyak::Xmm& a, const Xbyak::Xmm& b, Predicate wins) = 0;
  // max(a, least), or with |a| for a; negative where `side` is not above 0.
  virtual void Sided(const Xbyak::Xmm& to, const Xbyak::Xmm& a, const Xbyak::Xmm& side,
                     const Xbyak::Xmm& least, bool of_magnitude) = 0;
  // 1 where the predicate holds, else 0.
  virtual void Compare(const Xbyak::Xmm& to, const Xbyak::Xmm& a, const Xbyak::Xmm& b,
                       Predicate predicate) = 0;
  // c where a is 0, else b.
  virtual void Select(const Xbyak::Xmm& to, const Xbyak::Xmm& a, const Xbyak::Xmm& b,
                      const Xbyak::Xmm& c) = 0;
  virtual void Negate(const Xbyak::Xmm& to, const Xbyak::Xmm& a) = 0;
  virtual void Magnitude(const Xbyak::Xmm& to, const Xbyak::Xmm& a) = 0;
  virtual void Floor(const Xbyak::Xmm& to, const Xbyak::Xmm& a) = 0;
  // stream += a, or a * b.
  virtual void Sum(int a, int b, size_t stream, int v, bool in_part) = 0;
  // The elements that do not fill a vector. spare_ has their number, which is not 0.
  virtual void Rest() = 0;
  // What stands after the function.
  virtual void After() = 0;
  // to = the values of the planes at PlaneAt.
  virtual void Decode(const RunInstr& decode, int to, int v, bool in_part) = 0;
  // At the start of a block, and of the function. The code of the latter is made last.
  virtual void StartBlock() = 0;
  virtual void Prepare() {}

  // All instructions, on one vector or part of one.
  void Vector(int v, bool in_part);
  // Of vector `v` of those that this turn works on. It may change spare_.
  Xbyak::Address At(size_t stream, int v);
  // Of what GroupAt's block has at this offset, and of plane `b` of the elements of vector `v`.
  Xbyak::RegExp GroupAt(size_t stream, size_t offset) { return AddressOf(stream) + group_ + offset; }
  Xbyak::RegExp PlaneAt(const PlaneForm& form, int b, int v) const {
    return planes_ + bytes_ + b * form.plane_bytes + v * lanes_ / 8;
  }
  // A register that no value will have, or -1. If there must be one, the code is refused without.
  int Hold() { return next_ < registers_ ? next_++ : -1; }
  int MustHold() {
    if (next_ == registers_) Refuse();
    return Hold();
  }
  // Generate will return false.
  void Refuse() { fits_ = false; }
  // Rare code: `emit` emits it after the function.
  void Later(std::function<void()> emit) { later_.push_back(std::move(emit)); }
  StreamType type(size_t stream) const { return streams_[stream]; }
  // Whether the present turn is over a line of elements, so that other vectors follow the first one.
  bool IsWholeTurn() const { return whole_turn_; }
  // Four bytes `times` times.
  void Words(Xbyak::Label& label, uint32_t word, int times);

  const Xbyak::Reg64 table_ = rdi, count_ = rsi, element_ = rax, spare_ = r11;
  // Of runs with codes: the place of the present block's PlaneGroup among those of its stream, the bytes of a plane
  // before the next element, and the planes that are decoded.
  const Xbyak::Reg64 group_ = r15, bytes_ = r14, planes_ = r13;

 private:
  Xbyak::Reg64 AddressOf(size_t stream);
  void AskAhead();
  void EnterBlock();
  void Advance(int elements);
  void Instruction(const RunInstr& instr, int v, bool in_part);
  void Apply(const RunInstr& instr);
  Xbyak::Xmm VectorOf(int32_t value) const;
  std::vector<int32_t> LastUsedBy(size_t instr) const;
  int Of(int32_t value) const { return value < 0 ? -1 : register_[static_cast<size_t>(value)]; }

  const std::vector<RunInstr>& instrs_;
  const std::vector<StreamType>& streams_;
  const int lanes_, registers_;
  const int32_t block_;
  const size_t held_;                 // streams whose address has a register
  std::vector<size_t> last_;          // of each value: the instruction that uses it last
  std::vector<int> register_, free_;  // of each value; those of no value
  int values_ = 0, next_ = 0;         // registers of values: the first ones; the next one that Hold gives
  bool fits_ = true, whole_turn_ = false;
  std::vector<std::function<void()>> later_;
};

// The generators of instruction sets. Each may be made only where the processor has its instructions.
std::shared_ptr<RunGenerator> Avx512Run(RunIsa isa, const std::vector<RunInstr>& instrs,
                                        const std::vector<StreamType>& streams);
std::shared_ptr<RunGenerator> Avx2Run(const std::vector<RunInstr>& instrs,
                                      const std::vector<StreamType>& streams);

}  // namespace act
