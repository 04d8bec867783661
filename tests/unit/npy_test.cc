#include "runtime/data/npy.h"

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/base/error.h"
#include "tests/unit/temporary_folder.h"

namespace act {
namespace {

class NpyTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) { return folder_ / name; }
  // An .npy file of version 1 with this header and `bytes` bytes of data.
  std::string Make(const std::string& header, size_t bytes, char version = 1) {
    std::string file = std::string("\x93NUMPY") + version + '\0';
    file += static_cast<char>(header.size() & 0xff);
    file += static_cast<char>(header.size() >> 8);
    if (version > 1) file += std::string(2, '\0');
    const std::string path = Path("made.npy");
    testing::Overwrite(path, file + header + std::string(bytes, 'd'));
    return path;
  }
  static std::string Open(const std::string& path) {
    auto file = NpyFile::Open(path);
    return file ? ToString(file->view()) : llvm::toString(file.takeError());
  }

  testing::TemporaryFolder folder_;
};

TEST_F(NpyTest, WhatIsWrittenIsRead) {
  const int64_t numbers[] = {1, -2, 3, -4, 5, -6};
  const HostView view{.dtype = DType::kInt64,
                      .dims = {3, 2},
                      .data = reinterpret_cast<const std::byte*>(numbers),
                      .bytes = 48};
  ASSERT_EQ(llvm::toString(WriteNpy(Path("a.npy"), view)), "");
  auto file = NpyFile::Open(Path("a.npy"));
  ASSERT_TRUE(static_cast<bool>(file)) << llvm::toString(file.takeError());
  EXPECT_EQ(ToString(file->view()), "i64[3,2]");
  EXPECT_EQ(std::memcmp(file->view().data, numbers, sizeof numbers), 0);
  // NumPy's format wants it, and files are mapped at the start of a page.
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file->view().data) % 64, 0u);
}

TEST_F(NpyTest, ReadsWhatNumPyWrites) {
  EXPECT_EQ(Open(Make("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", 24)), "f32[2,3]");
  EXPECT_EQ(Open(Make("{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }\n", 5)), "u8[5]");
  EXPECT_EQ(Open(Make("{'descr': '<i8', 'fortran_order': False, 'shape': (), }\n", 8)), "i64[]");
  EXPECT_EQ(Open(Make("{'descr': '|b1', 'fortran_order': False, 'shape': (0, 7), }\n", 0)), "bool[0,7]");
  EXPECT_EQ(Open(Make("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }\n", 8, 2)), "f64[1]");
}

TEST_F(NpyTest, DamagedFilesAreNamedForWhatIsWrong) {
  const auto says = [&](const std::string& path, const std::string& what) {
    const std::string text = Open(path);
    EXPECT_NE(text.find(what), std::string::npos) << "got: " << text;
  };
  says(Make("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 23),
       "it holds 23 bytes of data, f32[2,3] needs 24");
  says(Make("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", 24), "column-major");
  says(Make("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24), "big-endian");
  says(Make("{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3), }\n", 48),
       "type <c8 is not supported");
  says(Make("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }\n", 8), "records");
  says(Make("{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3), }\n", 24), "its shape is damaged");
  says(Make("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }\n", 0), "needs");
  says(Make("{'descr': '<f4', 'fortran_order': False, 'shape': (2", 24), "damaged");
  says(Make("{'descr': '<f4'}\n", 24), "lacks type or shape");
  says(Make("nonsense", 24), "no dictionary");
  says(Make("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24, 9), "version 9");
  testing::Overwrite(Path("text.npy"), "this is not an array at all");
  says(Path("text.npy"), "not a NumPy .npy file");
  testing::Overwrite(Path("archive.npz"), "PK\x03\x04 and so on");
  says(Path("archive.npz"), "an archive of arrays: save each as .npy");
  says(Make("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }\n", 8), "holds Python objects");
  testing::Overwrite(Path("empty.npy"), "");
  says(Path("empty.npy"), "not a NumPy .npy file");
}

}  // namespace
}  // namespace act
