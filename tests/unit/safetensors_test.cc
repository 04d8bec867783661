#include "runtime/data/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <csignal>
#include <cstring>

#include "runtime/base/error.h"
#include "tests/unit/temporary_folder.h"

namespace act {
namespace {

HostView View(DType dtype, std::vector<int64_t> dims, const void* data) {
  HostView view{
      .dtype = dtype, .dims = std::move(dims), .data = static_cast<const std::byte*>(data), .bytes = 0};
  view.bytes = ElementCount(view.dims) * ByteSize(dtype);
  return view;
}

class SafetensorsTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) { return folder_ / name; }
  // A file with this header and data.
  std::string Make(const std::string& header, const std::string& data) {
    const uint64_t length = header.size();
    std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
    return MakeRaw(bytes + header + data);
  }
  std::string MakeRaw(const std::string& bytes) {
    const std::string path = Path("made.safetensors");
    testing::Overwrite(path, bytes);
    return path;
  }
  // The error of opening it. "" if there is none.
  static std::string Open(const std::string& path) {
    auto file = Safetensors::Open(path);
    return file ? "" : llvm::toString(file.takeError());
  }

  testing::TemporaryFolder folder_;
};

TEST_F(SafetensorsTest, WhatIsWrittenIsRead) {
  const std::array<float, 6> floats = {1, 2, 3, 4, 5, 6};
  const int64_t scalar = -7;
  const uint8_t bytes[] = {1, 0, 1};
  const std::string path = Path("a.safetensors");
  ASSERT_EQ(llvm::toString(WriteSafetensors(
                path, {{"z \"quoted\" \xC3\xA9", View(DType::kFloat32, {2, 3}, floats.data())},
                       {"scalar", View(DType::kInt64, {}, &scalar)},
                       {"flags", View(DType::kBool, {3}, bytes)},
                       {"empty", View(DType::kFloat32, {0, 4}, nullptr)}})),
            "");
  auto file = Safetensors::Open(path);
  ASSERT_TRUE(static_cast<bool>(file)) << llvm::toString(file.takeError());
  EXPECT_EQ(file->tensors().size(), 4u);
  const HostView* z = file->Find("z \"quoted\" \xC3\xA9");
  ASSERT_NE(z, nullptr);
  EXPECT_EQ(ToString(*z), "f32[2,3]");
  std::array<float, 6> read;
  std::memcpy(read.data(), z->data, sizeof read);  // it may be unaligned
  EXPECT_EQ(read, floats);
  EXPECT_EQ(ToString(*file->Find("scalar")), "i64[]");
  EXPECT_EQ(std::memcmp(file->Find("scalar")->data, &scalar, sizeof scalar), 0);
  EXPECT_EQ(file->Find("flags")->bytes, 3);
  EXPECT_EQ(file->Find("empty")->bytes, 0);
  EXPECT_EQ(file->Find("absent"), nullptr);
}

TEST_F(SafetensorsTest, TheHeaderIsPaddedSoThatDataIsAligned) {
  const float x = 1;
  for (const char* name : {"a", "ab", "abc", "abcd"}) {
    const std::string path = Path("a.safetensors");
    ASSERT_EQ(llvm::toString(WriteSafetensors(path, {{name, View(DType::kFloat32, {1}, &x)}})), "");
    EXPECT_EQ((testing::Contents(path).size() - sizeof x) % 8, 0u);
  }
}

TEST_F(SafetensorsTest, DamagedFilesAreNamedForWhatIsWrong) {
  const std::string good = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", data(8, 'd');
  EXPECT_EQ(Open(Make(good, data)), "");
  const auto says = [&](const std::string& path, const std::string& what) {
    const std::string text = Open(path);
    EXPECT_NE(text.find(what), std::string::npos) << "got: " << text;
  };
  says(MakeRaw(""), "not a safetensors file: it is too short");
  says(MakeRaw("12345678"), "not a safetensors file");
  says(MakeRaw(std::string(8, '\xff') + "{}"), "its header is longer than the file");
  says(Make("{", ""), "its header is no JSON");
  says(Make("[]", ""), "does not begin with a JSON header");
  says(Make(good, data.substr(1)), "tensor 'x': its bytes lie outside of the file");
  says(Make(good, data + "d"), "bytes that belong to no tensor");
  says(Make(R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", data),
       "holds 8 bytes, f32[3] needs 12");
  says(Make(R"({"x":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}})", data),
       "type F8_E4M3 is not supported");
  says(Make(R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", data),
       "something else than extents");
  says(Make(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", data), "outside of the file");
  says(Make(R"({"x":{"dtype":"F32","shape":[2]}})", data), "data_offsets is missing");
  says(Make(R"({"x":7})", data), "is no object");
  // 2^62 elements of 4 bytes would wrap around to 0 bytes
  says(Make(R"({"x":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", ""), "needs");
  says(
      Make(
          R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"y":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
          data.substr(4)),
      "overlap");
  // 2^63 is one more than a 64-bit integer holds.
  says(Make(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[9223372036854775808.5,1]}})", "x"),
       "bytes lie outside");
  says(Make(R"({"x":{"dtype":"U8","shape":[9223372036854775808.0],"data_offsets":[0,1]}})", "x"),
       "else than extents");
  // A parser that calls itself for each bracket would need more stack than there is.
  says(Make("{\"x\":" + std::string(1 << 20, '['), ""), "arrays and objects are more than 64 deep");
  says(Make(R"({"[[\"{{":7})", ""), "is no object");  // brackets in a name
  says(Path("absent"), "cannot open");
}

TEST_F(SafetensorsTest, AFullDiskLeavesTheOldFile) {
  const std::vector<float> big(1 << 20, 3.f);
  const float small = 1;
  const std::string path = Path("a.safetensors");
  ASSERT_EQ(llvm::toString(WriteSafetensors(path, {{"old", View(DType::kFloat32, {1}, &small)}})), "");
  const std::string before = testing::Contents(path);

  rlimit old = {}, limit = {};
  getrlimit(RLIMIT_FSIZE, &old);
  limit = old;
  limit.rlim_cur = 1 << 20;  // of the 4 MiB
  std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  const std::string text =
      llvm::toString(WriteSafetensors(path, {{"new", View(DType::kFloat32, {1 << 20}, big.data())}}));
  setrlimit(RLIMIT_FSIZE, &old);

  EXPECT_NE(text.find("a.safetensors: cannot write: File too large"), std::string::npos) << text;
  EXPECT_EQ(testing::Contents(path), before);
  EXPECT_EQ(folder_.Files(), 1u) << "no temporary file may be left";
}

}  // namespace
}  // namespace act
