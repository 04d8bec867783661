#include "tests/fuzz/byte_mutator.h"

#include <algorithm>
#include <cstring>

namespace act::fuzz {
namespace {

using Random = std::mt19937_64;

size_t Below(size_t bound, Random& random) { return bound == 0 ? 0 : static_cast<size_t>(random() % bound); }

// Numbers at which readers go wrong: around zero, and around the limits of each width.
uint64_t Number(Random& random) {
  static constexpr uint64_t kNumbers[] = {0,
                                          1,
                                          2,
                                          7,
                                          16,
                                          64,
                                          100,
                                          127,
                                          128,
                                          255,
                                          256,
                                          1024,
                                          0x7FFF,
                                          0x8000,
                                          0xFFFF,
                                          0x10000,
                                          0x7FFFFFFF,
                                          0x80000000,
                                          0xFFFFFFFF,
                                          uint64_t{1} << 40,
                                          uint64_t{1} << 62,
                                          UINT64_MAX >> 1,
                                          uint64_t{1} << 63,
                                          UINT64_MAX - 1,
                                          UINT64_MAX};
  return kNumbers[Below(std::size(kNumbers), random)];
}

void Insert(Bytes& input, std::span<const uint8_t> part, size_t max_size, Random& random) {
  const size_t room = max_size - std::min(max_size, input.size());
  const size_t count = std::min(part.size(), room);
  const auto at = static_cast<std::ptrdiff_t>(Below(input.size() + 1, random));
  input.insert(input.begin() + at, part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count));
}

void Overwrite(Bytes& input, std::span<const uint8_t> part, Random& random) {
  if (input.empty()) return;
  const size_t at = Below(input.size(), random);
  const size_t count = std::min(part.size(), input.size() - at);
  std::copy_n(part.begin(), count, input.begin() + static_cast<std::ptrdiff_t>(at));
}

std::span<const uint8_t> Part(std::span<const uint8_t> of, Random& random) {
  const size_t at = Below(of.size(), random);
  // short parts are tried more often than long ones
  const size_t longest = size_t{1} << Below(12, random);
  return of.subspan(at, std::min(of.size() - at, 1 + Below(longest, random)));
}

void OverwriteNumber(Bytes& input, Random& random) {
  uint8_t bytes[8];
  const uint64_t number = Number(random);
  std::memcpy(bytes, &number, sizeof bytes);
  Overwrite(input, std::span(bytes, size_t{1} << Below(4, random)), random);
}

}  // namespace

void MutateBytes(Bytes& input, std::span<const uint8_t> other, size_t max_size, Random& random) {
  switch (random() % 9) {
    case 0:
      if (!input.empty()) input[Below(input.size(), random)] ^= static_cast<uint8_t>(1u << random() % 8);
      break;
    case 1:
      if (!input.empty()) input[Below(input.size(), random)] = static_cast<uint8_t>(random());
      break;
    case 2:
      if (!input.empty()) input[Below(input.size(), random)] += static_cast<uint8_t>(random() % 2 ? 1 : -1);
      break;
    case 3:
      OverwriteNumber(input, random);
      break;
    case 4: {  // take bytes away
      const std::span<const uint8_t> part = Part(input, random);
      const auto at = part.data() - input.data();
      if (!part.empty())
        input.erase(input.begin() + at, input.begin() + at + static_cast<std::ptrdiff_t>(part.size()));
      break;
    }
    case 5: {
      const std::span<const uint8_t> part = Part(input, random);
      Insert(input, Bytes(part.begin(), part.end()), max_size, random);
      break;
    }
    case 6: {
      const std::span<const uint8_t> part = Part(input, random);
      Overwrite(input, Bytes(part.begin(), part.end()), random);
      break;
    }
    case 7:
      Insert(input, Part(other, random), max_size, random);
      break;
    case 8:
      Overwrite(input, Part(other, random), random);
      break;
  }
  if (input.size() > max_size) input.resize(max_size);
}

}  // namespace act::fuzz
