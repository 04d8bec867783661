#include "runtime/base/file_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/take.h"
#include "tests/unit/temporary_folder.h"

namespace act {
namespace {

using testing::Contents;
using testing::Overwrite;
using testing::TemporaryFolder;

std::string Refusal(const std::string& path) { return llvm::toString(FileLock::Take(path).takeError()); }

TEST(FileLock, OneHoldsItAtATime) {
  TemporaryFolder folder;
  std::unique_ptr<FileLock> first = Take(FileLock::Take(folder / "run"));
  ASSERT_NE(first, nullptr);
  const std::string refusal = Refusal(folder / "run");
  EXPECT_NE(refusal.find("another run saves there (process " + std::to_string(getpid()) + ")"),
            std::string::npos)
      << refusal;
  EXPECT_NE(Take(FileLock::Take(folder / "other")), nullptr) << "another file has a lock of its own";
  first.reset();
  EXPECT_NE(Take(FileLock::Take(folder / "run")), nullptr);
}

TEST(FileLock, LeavesNoFile) {
  TemporaryFolder folder;
  for (int i = 0; i < 2; ++i) EXPECT_NE(Take(FileLock::Take(folder / "run")), nullptr);
  EXPECT_EQ(folder.Files(), 0u);
}

// A process that was killed leaves the file, but holds nothing.
TEST(FileLock, TakesOverTheFileOfAProcessThatIsGone) {
  TemporaryFolder folder;
  Overwrite(folder / "run.lock", "12345678901\n");
  const std::unique_ptr<FileLock> lock = Take(FileLock::Take(folder / "run"));
  ASSERT_NE(lock, nullptr);
  EXPECT_EQ(Contents(folder / "run.lock"), std::to_string(getpid()) + "\n");
}

TEST(FileLock, TwoNamesOfOneFileHaveOneLock) {
  TemporaryFolder folder;
  Overwrite(folder / "real", "");
  ASSERT_EQ(symlink("real", (folder / "link").c_str()), 0);
  const std::unique_ptr<FileLock> lock = Take(FileLock::Take(folder / "link"));
  EXPECT_NE(Refusal(folder / "real").find("another run"), std::string::npos);
}

TEST(FileLock, DevicesAndFoldersAreNotLocked) {
  TemporaryFolder folder;
  EXPECT_EQ(Take(FileLock::Take("/dev/null")), nullptr);
  EXPECT_EQ(Take(FileLock::Take(folder.path().string())), nullptr);
  EXPECT_EQ(folder.Files(), 0u);
}

TEST(FileLock, AFolderThatIsNotThereIsAnError) {
  TemporaryFolder folder;
  EXPECT_NE(Refusal(folder / "no/run").find("run: cannot write: No such file"), std::string::npos)
      << Refusal(folder / "no/run");
}

}  // namespace
}  // namespace act
