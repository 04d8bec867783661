#include "runtime/base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/temporary_folder.h"

namespace act {
namespace {

using testing::Contents;
using testing::Overwrite;
using testing::TemporaryFolder;

TEST(OutputFile, AppearsOnlyWhenCommitted) {
  TemporaryFolder folder;
  auto file = llvm::cantFail(OutputFile::Create(folder / "out"));
  llvm::cantFail(file->Write("abc", 3));
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  llvm::cantFail(file->Write("def", 3));
  llvm::cantFail(file->Commit());
  EXPECT_EQ(Contents(folder / "out"), "abcdef");
  EXPECT_EQ(folder.Files(), 1u);
}

TEST(OutputFile, WithoutCommitTheOldFileStaysAndNothingIsLeft) {
  TemporaryFolder folder;
  Overwrite(folder / "out", "old");
  {
    auto file = llvm::cantFail(OutputFile::Create(folder / "out"));
    llvm::cantFail(file->Write("new", 3));
  }
  EXPECT_EQ(Contents(folder / "out"), "old");
  EXPECT_EQ(folder.Files(), 1u);
}

TEST(OutputFile, FollowsASymbolicLinkInsteadOfReplacingIt) {
  TemporaryFolder folder;
  Overwrite(folder / "real", "old");
  ASSERT_EQ(::symlink((folder / "real").c_str(), (folder / "link").c_str()), 0);
  llvm::cantFail(WriteFile(folder / "link", "new"));
  EXPECT_EQ(Contents(folder / "real"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
}

TEST(OutputFile, ObeysTheUmask) {
  TemporaryFolder folder;
  const mode_t before = ::umask(0027);
  llvm::cantFail(WriteFile(folder / "out", "x"));
  ::umask(before);
  struct stat status;
  ASSERT_EQ(::stat((folder / "out").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST(OutputFile, WritesToDevicesDirectly) {
  llvm::cantFail(WriteFile("/dev/null", "x"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(OutputFile, AFullDiskIsAnErrorAndNotAPartialFile) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const std::string message = llvm::toString(WriteFile("/dev/full", "x"));
  EXPECT_EQ(message, "/dev/full: cannot write: No space left on device");
}

TEST(OutputFile, SaysWhatIsWrongWithThePath) {
  TemporaryFolder folder;
  EXPECT_EQ(llvm::toString(WriteFile(folder / "missing/out", "x")),
            (folder / "missing/out") + ": cannot write: No such file or directory");
  EXPECT_EQ(llvm::toString(WriteFile(folder.path().string(), "x")),
            folder.path().string() + ": cannot write: it is a folder");
}

TEST(MappedFile, ReadsWhatWasWritten) {
  TemporaryFolder folder;
  Overwrite(folder / "in", "hello");
  const auto file = llvm::cantFail(MappedFile::Open(folder / "in"));
  ASSERT_EQ(file->bytes().size(), 5u);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file->bytes().data()), 5), "hello");
  Overwrite(folder / "empty", "");
  EXPECT_TRUE(llvm::cantFail(MappedFile::Open(folder / "empty"))->bytes().empty());
}

TEST(MappedFile, SaysWhatIsWrongWithThePath) {
  TemporaryFolder folder;
  EXPECT_EQ(llvm::toString(MappedFile::Open(folder / "no").takeError()),
            (folder / "no") + ": cannot open: No such file or directory");
  EXPECT_EQ(llvm::toString(MappedFile::Open(folder.path().string()).takeError()),
            folder.path().string() + ": a folder, not a file");
  EXPECT_EQ(llvm::toString(MappedFile::Open("/dev/null").takeError()), "/dev/null: not a regular file");
}

}  // namespace
}  // namespace act
