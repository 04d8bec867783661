// The instructions of runs (run_code.h) that decode bit planes with AVX2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "kernels/cpu/run_generator.h"

namespace act {

// A turn's 32 codes are the bytes of one vector, as in code_bytes-inl.h. Where vectors are left over they are made again
// for each.
class Avx2Decode : public RunGenerator {
 protected:
  Avx2Decode(const std::vector<RunInstr>& instrs, const std::vector<StreamType>& streams);

  void StartBlock() override;
  void Decode(const RunInstr& decode, int to, int v, bool in_part) override;
  void After() override;

  static constexpr int kLanes = 8, kTemp = 14;
  const Xbyak::Ymm temp_{kTemp}, mask_{15};

 private:
  // Of a stream whose numbers are decoded: the codes, which of them are of the second kind (all ones; unused if there is
  // none), and with dither the sequence's state (DitherOffsets) and the positions of two vectors in 16 bits. The first
  // instruction that reads the stream makes the codes.
  struct Bytes {
    int codes = -1, second_kind = -1, turned = -1, words = -1;
    PlaneForm form;
    const RunInstr* maker = nullptr;
  };
  // Constants: the byte of a plane that has the bit of a code, and the bit; how the dither goes on; and for each of four
  // vectors its codes in 32 bits, times 256, a byte of each code as all bytes, and the bits of its elements in a plane.
  static constexpr int kVectors = 4;
  enum Table : size_t {
    kByte,
    kBit,
    kTurns,
    kPlace,
    kCopy = kPlace + kVectors,
    kBits = kCopy + kVectors,
    kTables = kBits + kVectors
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

  Xbyak::Address All(uint32_t word) { return ptr[rip + words_[word]]; }
  Xbyak::Address Of(size_t table) { return ptr[rip + tables_[table]]; }

  const bool decodes_;
  const Xbyak::Ymm second_temp_{13}, third_temp_{12};
  std::map<size_t, Bytes> bytes_;  // by stream
  std::map<size_t, int> inside_;   // of streams whose mask follows from several planes: its 32 bits
  std::map<uint32_t, Xbyak::Label> words_;
  Xbyak::Label tables_[kTables];
};

}  // namespace act
