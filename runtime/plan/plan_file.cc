#include "runtime/plan/plan_file.h"

#include <llvm/Support/xxhash.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/plan/file_kind.h"
#include "runtime/plan/plan_io.h"

namespace act::plan_file {
namespace {

uint64_t Hash(Bytes bytes) {
  return llvm::xxHash64(llvm::StringRef(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace

uint64_t Checksum(Bytes bytes, PieceRead read) {
  std::vector<uint64_t> hashes;
  for (size_t first = 0; first < bytes.size(); first += kPieceBytes) {
    const Bytes piece = bytes.subspan(first, std::min(kPieceBytes, bytes.size() - first));
    hashes.push_back(Hash(piece));
    if (read) read(piece);
  }
  return Hash(std::as_bytes(std::span(hashes)));
}

llvm::Expected<Sections> Open(Bytes file, PieceRead read) {
  if (file.size() < sizeof(kMagic) || std::memcmp(file.data(), kMagic, sizeof(kMagic)) != 0) {
    const FileKind kind = GuessFileKind(file);
    return MakeError("", kind.name + ", not a plan" + kind.what_to_do);
  }
  if (file.size() < sizeof(Header)) return MakeError("", "truncated: the file ends in its header");
  Header header;
  std::memcpy(&header, file.data(), sizeof header);
  if (header.version != kPlanVersion) {
    return MakeError("", "a plan of version " + std::to_string(header.version) +
                             ", this program reads version " + std::to_string(kPlanVersion) +
                             ": compile the model again");
  }
  if (header.file_bytes > file.size()) {
    return MakeError("",
                     "truncated: " + std::to_string(file.size()) + " of " +
                         std::to_string(header.file_bytes) + " bytes are there",
                     "copy it again, or compile the model again");
  }
  const auto damaged = [](const char* what) {
    return MakeError("", std::string("damaged: ") + what, "copy it again, or compile the model again");
  };
  if (header.file_bytes < file.size()) return damaged("there are bytes after its end");
  // Else the checksum would lie in the header.
  if (file.size() < sizeof header + kChecksumBytes) return damaged("its header");
  const Bytes content = file.first(file.size() - kChecksumBytes);
  uint64_t checksum = 0;
  std::memcpy(&checksum, file.data() + content.size(), sizeof checksum);
  if (checksum != Checksum(content, read)) return damaged("the checksum does not match");

  // A matching checksum does not rule out malice, so the sizes are checked too.
  const uint64_t room = content.size() - sizeof header;
  if (header.schema_bytes > room) return damaged("its header");
  const auto schema_bytes = static_cast<int64_t>(header.schema_bytes);
  if (header.blob_bytes != room - static_cast<uint64_t>(AlignUp(schema_bytes)) || header.blob_bytes > room) {
    return damaged("its header");
  }
  return Sections{content.subspan(sizeof header, header.schema_bytes), content.last(header.blob_bytes)};
}

}  // namespace act::plan_file
