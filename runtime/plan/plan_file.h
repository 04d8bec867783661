// The frame of a plan file, shared by the writer and the reader:
//
//   header (64 bytes) | FlatBuffer | zeros to a multiple of 64 |
//   blobs, each padded to a multiple of 64 | checksum
//
// Integers are little-endian. Each piece of 16 MiB before the checksum has an XXH64 (the last piece may be shorter), and
// the checksum is the XXH64 of these. So a large file need not be in memory whole to be hashed.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace act::plan_file {

inline constexpr char kMagic[8] = {'A', 'C', 'T', 'P', 'L', 'A', 'N', '\n'};
inline constexpr int64_t kAlignment = 64;
inline constexpr int64_t kChecksumBytes = 8;
inline constexpr size_t kPieceBytes = size_t{16} << 20;

struct Header {
  char magic[8];
  uint32_t version;       // kPlanVersion
  uint32_t reserved;      // 0
  uint64_t file_bytes;    // of the whole file, checksum included
  uint64_t schema_bytes;  // of the FlatBuffer, which starts after the header
  uint64_t blob_bytes;    // of the blob section, a multiple of 64
  uint8_t padding[24];    // 0
};
static_assert(sizeof(Header) == kAlignment);

inline constexpr int64_t AlignUp(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

using Bytes = std::span<const std::byte>;
// Is told of each piece of a file that has been read.
using PieceRead = llvm::function_ref<void(Bytes piece)>;

uint64_t Checksum(Bytes bytes, PieceRead read = nullptr);

// The parts between the header and the checksum.
struct Sections {
  Bytes schema;  // the FlatBuffer
  Bytes blobs;
};
// Checks header and checksum. If the file is not a plan of this version, the error says what it is.
llvm::Expected<Sections> Open(Bytes file, PieceRead read = nullptr);

}  // namespace act::plan_file
