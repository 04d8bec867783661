// The instructions of runs (run_code.h) that decode bit planes with AVX-512.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cpu/run_generator.h"

namespace act {

// Vectors of 16 positions in 32 bits. What all vectors of a block or of the run need is in registers that no value
// needs, and else in memory: loads are what decoding waits for.
class Avx512Decode : public RunGenerator {
 protected:
  Avx512Decode(RunIsa isa, const std::vector<RunInstr>& instrs, const std::vector<StreamType>& streams);

  void Prepare() override;
  void StartBlock() override;
  void Decode(const RunInstr& decode, int to, int v, bool in_part) override;
  void After() override;

  static constexpr int kLanes = 16, kTemp = 31, kSecondTemp = 30;
  const Xbyak::Zmm temp_{kTemp};

 private:
  static constexpr int kRegisters = 30;  // the others are temporary
  struct Constant {
    Xbyak::Label label;
    int held = -1;  // its register; -1: none
  };
  // Of a stream whose codes are made in bytes, 32 of them: where they are, and the mask of those of the second kind
  // (unused if there is none). The first instruction that reads the stream makes them.
  struct Bytes {
    int codes = -1, second_kind = 1;
    PlaneForm form;
    const RunInstr* maker = nullptr;
  };
  // Vectors of constants: which byte goes where in Codes, where codes go from there, and how the dither goes on.
  enum Table : size_t { kOrder, kUnits, kSpread, kSpreadSecond, kTurns, kTables };

  // to = the positions as floats, those of the second kind of codes (level_values-inl.h) from the first of these on;
  // or kCode itself. Both return where that kind is.
  Xbyak::Opmask PositionsOfPlanes(const PlaneForm& form, const Xbyak::Zmm& to, size_t stream, int v);
  Xbyak::Opmask PositionsOfBytes(const Bytes& bytes, const Xbyak::Zmm& to, size_t stream, int v);
  void Codes(const Bytes& bytes);
  // The lanes of vector `v` in the mask of the second kind.
  Xbyak::Opmask SecondKind(const Bytes& bytes, int v);
  void Mask(const PlaneForm& form, const Xbyak::Zmm& to, size_t stream, int v);
  void FromCode(const Xbyak::Opmask& mask, const PlaneForm& form, int first, int v);

  // The number of a block's PlaneGroup at this offset, or a word, for all lanes. An instruction may have one of them.
  const Xbyak::Operand& Number(size_t stream, size_t offset);
  const Xbyak::Operand& All(uint32_t word);
  // The same in a register: `temp` where it has none.
  Xbyak::Zmm Register(const Xbyak::Zmm& temp, size_t stream, size_t offset);
  // to = the word, in lanes of its mask.
  void Put(const Xbyak::Zmm& to, uint32_t word);
  const Constant& WordOf(uint32_t word);
  Xbyak::Zmm Of(Table table, const Xbyak::Zmm& temp);

  const bool has_bytes_;
  const Xbyak::Zmm second_temp_{kSecondTemp};
  std::map<size_t, int> turned_;  // of streams with dither: the sequence's state (DitherOffsets)
  std::map<std::pair<size_t, size_t>, int> numbers_;  // of a stream and an offset: its register; -1: none
  std::map<size_t, Bytes> bytes_;
  std::map<uint32_t, Constant> words_;
  Constant tables_[kTables];
  std::optional<Xbyak::Address> memory_;  // what Number and All have returned last
  Xbyak::Zmm register_{0};
};

}  // namespace act
