// The instructions of runs (run_code.h) that decode bit planes with AVX2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cpu/run_generator.h"

namespace act {

// A turn's 32 codes are the bytes of one vector, as in code_bytes-inl.h. Where vectors are left over they are made again
// for each. Constants that are used most have the registers that are left: loads are what decoding waits for.
class Avx2Decode : public RunGenerator {
 protected:
  Avx2Decode(const std::vector<RunInstr>& instrs, const std::vector<StreamType>& streams);

  void Prepare() override;
  void StartBlock() override;
  void Decode(const RunInstr& decode, int to, int v, bool in_part) override;
  void After() override;

  // Vectors of constants. For vpshufb: from the words of 16 bytes to the upper halves of lanes, and back to the words of
  // 16 bytes, of which each half of the vector makes its own; the byte of a plane that has the bit of a code. That bit,
  // and how the dither goes on. For each of four vectors its codes in 32 bits, times 256, a byte of each code as all
  // bytes, and the bits of its elements in a plane.
  static constexpr int kVectors = 4;
  enum Table : size_t {
    kWiden,
    kNarrow,
    kByte,
    kBit,
    kTurns,
    kPlace,
    kCopy = kPlace + kVectors,
    kBits = kCopy + kVectors,
    kTables = kBits + kVectors
  };
  const Xbyak::Operand& Of(size_t table) { return Where(tables_[table]); }
  // The word for all lanes. An instruction may have one of these two.
  const Xbyak::Operand& All(uint32_t word) { return Where(words_[word]); }

  static constexpr uint32_t kOne = 0x3F800000;  // in float32
  static constexpr int kLanes = 8, kTemp = 14;
  const Xbyak::Ymm temp_{kTemp}, mask_{15};

 private:
  struct Constant {
    Xbyak::Label label;
    int held = -1;  // its register; -1: none
  };
  // Of a stream whose numbers are decoded: the codes, which of them are of the second kind (all ones; unused if there is
  // none), and with dither the sequence's state (DitherOffsets) and the positions of two vectors in 16 bits. The first
  // instruction that reads the stream makes the codes.
  struct Bytes {
    int codes = -1, second_kind = -1, turned = -1, words = -1;
    PlaneForm form;
    const RunInstr* maker = nullptr;
  };

  void Codes(const Bytes& bytes);
  // to = the positions as floats, those of the second kind of codes (level_values-inl.h) from the first of these on;
  // or kCode itself.
  void Positions(const Bytes& bytes, const Xbyak::Ymm& to, int v, bool in_part);
  void Numbers(const RunInstr& decode, const Bytes& bytes, const Xbyak::Ymm& to, int v);
  void Mask(const PlaneForm& form, const Xbyak::Ymm& to, size_t stream, int v);
  // bits = those of 32 codes, in each lane: where they are in the mask, and where they are at least `first`, which is
  // not 0. Inside changes temp_, and both change mask_.
  void Inside(const Xbyak::Ymm& bits, const PlaneForm& form);
  void FromCode(const Xbyak::Ymm& bits, const PlaneForm& form, int first);

  // Gives a word a register, if one is left.
  void HoldWord(uint32_t word);
  // Holds what there are registers for.
  void HoldConstants(const std::vector<RunInstr>& instrs);
  // The number of a block's PlaneGroup at this offset, for all lanes: in `temp` if it has no register.
  Xbyak::Ymm Number(const Xbyak::Ymm& temp, size_t stream, size_t offset);
  const Xbyak::Operand& Where(const Constant& constant);

  const Xbyak::Ymm second_temp_{13}, third_temp_{12};
  std::map<size_t, Bytes> bytes_;  // by stream
  std::map<size_t, int> inside_;   // of streams whose mask follows from several planes: its 32 bits
  std::map<std::pair<size_t, size_t>, int> numbers_;  // of a stream and an offset: its register
  std::map<uint32_t, Constant> words_;
  Constant tables_[kTables];
  std::optional<Xbyak::Address> memory_;  // what Where has returned last
  Xbyak::Ymm register_{0};
};

}  // namespace act
