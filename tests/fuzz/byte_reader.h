// Decisions from the bytes of an input. Behind the last byte come zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace act::fuzz {

class ByteReader {
 public:
  explicit ByteReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  bool Done() const { return at_ >= bytes_.size(); }
  uint8_t Byte() { return at_ < bytes_.size() ? bytes_[at_++] : 0; }
  uint16_t Pair() {
    const uint16_t low = Byte();
    return static_cast<uint16_t>(low | Byte() << 8);
  }
  // 0 to bound - 1; 0 if there is none.
  size_t Below(size_t bound) { return bound == 0 ? (Pair(), 0) : Pair() % bound; }

 private:
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
};

}  // namespace act::fuzz
