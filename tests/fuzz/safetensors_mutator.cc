#include "tests/fuzz/safetensors_mutator.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <random>
#include <string>

#include "tests/fuzz/fuzz_target.h"

namespace act::fuzz {
namespace {

constexpr size_t kLengthBytes = 8;
using Random = std::minstd_rand;

// Replaces the run of digits at or after a random place by a number at which readers go wrong.
void ChangeNumber(std::string& header, Random& random) {
  static constexpr const char* kNumbers[] = {"0",
                                             "1",
                                             "2",
                                             "3",
                                             "4",
                                             "7",
                                             "8",
                                             "16",
                                             "64",
                                             "255",
                                             "256",
                                             "1024",
                                             "65536",
                                             "-1",
                                             "-8",
                                             "2147483647",
                                             "4294967296",
                                             "1e18",
                                             "1.5",
                                             "4611686018427387904",
                                             "9223372036854775807",
                                             "9223372036854775808",
                                             "18446744073709551616",
                                             "-9223372036854775808"};
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const auto from = header.begin() + static_cast<std::ptrdiff_t>(random() % header.size());
  const auto begin = std::find_if(from, header.end(), is_digit);
  const auto end = std::find_if_not(begin, header.end(), is_digit);
  header.replace(begin, end, kNumbers[random() % std::size(kNumbers)]);
}

// Puts a part of the header into it once more.
void Repeat(std::string& header, Random& random) {
  const size_t at = random() % header.size();
  const std::string part = header.substr(at, 1 + random() % 80);
  header.insert(random() % header.size(), part);
}

void ChangeBytes(std::string& bytes, size_t room) {
  const size_t used = bytes.size();
  bytes.resize(std::max(room, used));
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(bytes.data()), used, std::max(room, used)));
}

}  // namespace

size_t MutateSafetensors(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  Random random(seed);
  uint64_t length = 0;
  if (size >= kLengthBytes) std::memcpy(&length, data, kLengthBytes);
  if (size <= kLengthBytes || length == 0 || length > size - kLengthBytes || random() % 16 == 0)
    return LLVMFuzzerMutate(data, size, max_size);
  const auto* text = reinterpret_cast<const char*>(data) + kLengthBytes;
  std::string header(text, length), tensors(text + length, size - kLengthBytes - length);
  switch (random() % 4) {
    case 0:
      ChangeNumber(header, random);
      break;
    case 1:
      Repeat(header, random);
      break;
    case 2:
      ChangeBytes(header, header.size() + 64);
      break;
    default:
      ChangeBytes(tensors, tensors.size() + 64);
  }
  length = header.size();
  const std::string file =
      std::string(reinterpret_cast<const char*>(&length), kLengthBytes) + header + tensors;
  const size_t kept = std::min(file.size(), max_size);
  std::copy_n(file.begin(), kept, data);
  return kept;
}

}  // namespace act::fuzz
