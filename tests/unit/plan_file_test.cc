// A plan file is hashed in pieces, which need not be in memory together.
#include "runtime/plan/plan_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/plan/plan_io.h"
#include "tests/paths.h"
#include "tests/unit/resident_files.h"
#include "tests/unit/small_plan.h"
#include "tests/unit/temporary_folder.h"

namespace act {
namespace {

// Three pieces, the last one short.
std::vector<std::byte> Pieces() {
  std::vector<std::byte> bytes(2 * plan_file::kPieceBytes + 1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 31 % 251);
  return bytes;
}

TEST(PlanFile, TheChecksumCoversEachPieceInOrder) {
  const std::vector<std::byte> bytes = Pieces();
  std::vector<size_t> sizes;
  const uint64_t expected =
      plan_file::Checksum(bytes, [&](plan_file::Bytes piece) { sizes.push_back(piece.size()); });
  EXPECT_EQ(sizes, (std::vector<size_t>{plan_file::kPieceBytes, plan_file::kPieceBytes, 1000}));
  for (const size_t at : {size_t{0}, plan_file::kPieceBytes - 1, plan_file::kPieceBytes, bytes.size() - 1}) {
    std::vector<std::byte> changed = bytes;
    changed[at] ^= std::byte{1};
    EXPECT_NE(plan_file::Checksum(changed), expected) << at;
  }
  std::vector<std::byte> exchanged = bytes;
  std::swap_ranges(exchanged.begin(), exchanged.begin() + plan_file::kPieceBytes,
                   exchanged.begin() + plan_file::kPieceBytes);
  EXPECT_NE(plan_file::Checksum(exchanged), expected);
}

// A file may say of itself that it ends in its header, and have a checksum that matches.
TEST(PlanFile, AFileWithoutRoomForItsChecksumIsRefused) {
  plan_file::Header header = {};
  std::memcpy(header.magic, plan_file::kMagic, sizeof header.magic);
  header.version = kPlanVersion;
  header.file_bytes = sizeof header;
  header.schema_bytes = uint64_t{1} << 40;
  // The room between header and checksum is -8 bytes.
  header.blob_bytes = -uint64_t{plan_file::kChecksumBytes} - header.schema_bytes;
  std::vector<std::byte> file(sizeof header);
  std::memcpy(file.data(), &header, sizeof header);
  const plan_file::Bytes content(file.data(), file.size() - plan_file::kChecksumBytes);
  const uint64_t checksum = plan_file::Checksum(content);
  std::memcpy(file.data() + content.size(), &checksum, sizeof checksum);
  auto sections = plan_file::Open(file);
  ASSERT_FALSE(sections);
  EXPECT_EQ(llvm::toString(sections.takeError()),
            "damaged: its header\nhint: copy it again, or compile the model again");
}

// Inputs that are changed from a plan which is refused reach little code. After a change of the format, actc writes
// these anew (tests/fuzz/README.md).
TEST(PlanFile, TheFuzzTargetBeginsWithPlansOfThisVersion) {
  for (const char* name : {"mlp_l3.plan", "frozen_4bit.plan"}) {
    auto plan = ReadPlan(SourceFolder() + "/tests/fuzz/corpus/plan_file/" + name);
    EXPECT_TRUE(static_cast<bool>(plan)) << llvm::toString(plan.takeError());
  }
}

// Weights that are stored as codes may be several times larger in the file than in the arena.
TEST(PlanFile, APlanThatWasReadIsNotInMemoryWhole) {
  testing::TemporaryFolder folder;
  Plan plan = testing::SmallPlan();
  const std::vector<std::byte> bytes = Pieces();
  plan.onnx_model = HostTensor::Copy(bytes.data(), static_cast<int64_t>(bytes.size()));
  llvm::cantFail(WritePlan(plan, folder / "p"));
  const int64_t before = testing::ResidentFileBytes();
  const Plan read = llvm::cantFail(ReadPlan(folder / "p"));
  // The rest is for the program's own pages, which are mapped when they are touched.
  EXPECT_LT(testing::ResidentFileBytes() - before, static_cast<int64_t>(plan_file::kPieceBytes) / 4);
  ASSERT_EQ(read.onnx_model.bytes, plan.onnx_model.bytes);
  EXPECT_EQ(std::memcmp(read.onnx_model.data, bytes.data(), bytes.size()), 0);
}

}  // namespace
}  // namespace act
