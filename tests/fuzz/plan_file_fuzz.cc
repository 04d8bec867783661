// Raw bytes as a plan file. Three quarters of the inputs get a header and a checksum that match, without
// which nearly all would end there.
#include <cstring>
#include <fstream>

#include "runtime/plan/plan_file.h"
#include "runtime/plan/plan_io.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/scratch_file.h"

namespace act::fuzz {
namespace {

// Makes the frame right: sizes by what is there, and the checksum. The blobs keep their size if that is
// possible.
void MendFrame(std::string& file) {
  plan_file::Header header;
  if (file.size() < sizeof header) return;
  std::memcpy(&header, file.data(), sizeof header);
  std::memcpy(header.magic, plan_file::kMagic, sizeof header.magic);
  header.version = kPlanVersion;
  header.file_bytes = file.size();
  // In a file without room for its checksum, which then lies in the header, sizes stay as they are.
  if (file.size() >= sizeof header + plan_file::kChecksumBytes) {
    const uint64_t room = file.size() - sizeof header - plan_file::kChecksumBytes;
    if (header.blob_bytes > room) header.blob_bytes = 0;
    if (const uint64_t schema = room - header.blob_bytes;
        static_cast<uint64_t>(plan_file::AlignUp(static_cast<int64_t>(header.schema_bytes))) != schema)
      header.schema_bytes = schema;
  }
  std::memcpy(file.data(), &header, sizeof header);
  const std::span content(reinterpret_cast<const std::byte*>(file.data()),
                          file.size() - plan_file::kChecksumBytes);
  const uint64_t checksum = plan_file::Checksum(content);
  std::memcpy(file.data() + content.size(), &checksum, sizeof checksum);
}

}  // namespace
}  // namespace act::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return -1;
  static const act::fuzz::ScratchFile scratch("plan");
  std::string file(reinterpret_cast<const char*>(data), size);
  const bool mends = data[size - 1] % 4 != 0;
  if (mends) act::fuzz::MendFrame(file);
  scratch.Write(file);
  auto plan = act::ReadPlan(scratch.path());
  if (!plan) llvm::consumeError(plan.takeError());
  return 0;
}
