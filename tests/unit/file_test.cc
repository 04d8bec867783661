#include "runtime/base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <thread>

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

// A file of 10,000 bytes that is mapped and then cut off.
class CutFile : public ::testing::Test {
 protected:
  CutFile() {
    Overwrite(path_, std::string(10000, 'x'));
    file_ = llvm::cantFail(MappedFile::Open(path_));
  }
  void CutTo(off_t bytes) { ASSERT_EQ(::truncate(path_.c_str(), bytes), 0); }
  // By a pointer to volatile: clang drops a read through a cast to a volatile reference if nobody uses the byte.
  char Byte(size_t at) {
    const volatile std::byte* byte = &file_->bytes()[at];
    return static_cast<char>(*byte);
  }
  std::string Message(const std::string& bytes) const {
    return "file_test: error: " + path_ +
           ": became shorter while it was in use: it had 10000 bytes and has " + bytes +
           "\nhint: write changed data to another file";
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "in";
  std::shared_ptr<const MappedFile> file_;
};

TEST_F(CutFile, ReadingItIsAnErrorThatNamesTheFile) {
  Overwrite(folder_ / "out", "old");
  const auto read = [&] {
    auto output = llvm::cantFail(OutputFile::Create(folder_ / "out"));
    llvm::cantFail(output->Write("new", 3));
    CutTo(5000);
    EXPECT_EQ(Byte(4999), 'x');
    Byte(9000);
  };
  EXPECT_EXIT(read(), ::testing::ExitedWithCode(1), Message("5000"));
  EXPECT_EQ(Contents(folder_ / "out"), "old");
  EXPECT_EQ(folder_.Files(), 2u) << "a temporary file is left";
}

TEST_F(CutFile, ReadingItInAThreadToo) {
  CutTo(0);
  EXPECT_EXIT(std::thread([&] { Byte(0); }).join(), ::testing::ExitedWithCode(1), Message("0"));
}

TEST_F(CutFile, WritingItsBytesToo) {
  CutTo(0);
  const auto write = [&] {
    llvm::consumeError(
        WriteFile(folder_ / "out", {reinterpret_cast<const char*>(file_->bytes().data()), 10000}));
  };
  EXPECT_EXIT(write(), ::testing::ExitedWithCode(1), Message("0"));
  EXPECT_EQ(folder_.Files(), 1u);
}

TEST_F(CutFile, AFewMissingBytesAreNoticed) {
  CutTo(9999);
  EXPECT_EQ(Byte(9999), 0) << "the page is there, and the byte is not: this is why lengths are checked";
  EXPECT_EXIT(file_->CheckLength(), ::testing::ExitedWithCode(1), Message("9999"));
}

TEST_F(CutFile, AnotherFileInItsPlaceIsNoError) {
  llvm::cantFail(WriteFile(path_, "new"));
  file_->CheckLength();
  EXPECT_EQ(Byte(9999), 'x');
}

TEST_F(CutFile, OtherFaultsAreAsEver) {
  EXPECT_EXIT(::raise(SIGBUS), ::testing::KilledBySignal(SIGBUS), "");
  // Mapped by nobody's MappedFile, while one has a range that was another's before.
  const auto fault = [&] {
    file_.reset();
    Overwrite(folder_ / "other", "other");
    const auto other = llvm::cantFail(MappedFile::Open(folder_ / "other"));
    const int fd = ::open(path_.c_str(), O_RDONLY);
    const auto* data =
        static_cast<const volatile char*>(::mmap(nullptr, 10000, PROT_READ, MAP_PRIVATE, fd, 0));
    CutTo(0);
    [[maybe_unused]] const char byte = data[0];
  };
  EXPECT_EXIT(fault(), ::testing::KilledBySignal(SIGBUS), "");
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
