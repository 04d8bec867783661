// Raw bytes as an .npy file, and as the only input of a data set. What opens must hold the last bytes of the
// file, and read the same after it is written again.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/data/batch_source.h"
#include "runtime/data/dataset.h"
#include "runtime/data/npy.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/require.h"
#include "tests/fuzz/scratch_file.h"

namespace act::fuzz {
namespace {

constexpr int64_t kMostBatchBytes = 1 << 20;

bool SameNumbers(const HostView& a, const HostView& b) {
  return a.dtype == b.dtype && a.dims == b.dims && a.bytes == b.bytes &&
         (a.bytes == 0 || std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes)) == 0);
}

// Two epochs of the file as samples of an input of its own type.
void ReadAsDataSet(const std::string& path, const HostView& view) {
  if (view.dims.empty() || view.dims[0] == 0) return;
  constexpr int64_t kBatch = 3;
  const int64_t sample_bytes = view.bytes / view.dims[0];
  if (kBatch * sample_bytes > kMostBatchBytes || view.dims[0] > kMostBatchBytes) return;
  InputSlot slot{.name = "x", .type = {view.dtype, {Dim::Batch()}}};
  for (size_t axis = 1; axis < view.dims.size(); ++axis) slot.type.dims.push_back(view.dims[axis]);
  auto data = OpenDataSet({slot}, kBatch, "--data", "x=" + path, {.seed = 1});
  if (!data) return llvm::consumeError(data.takeError());
  std::vector<std::byte> batch(static_cast<size_t>(kBatch * sample_bytes));
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    (*data)->StartEpoch(epoch, epoch == 0 ? 0 : 1);
    for (int steps = 0; steps < 64; ++steps) {
      const int64_t taken = (*data)->Next(kBatch);
      Require(taken >= 0 && taken <= kBatch, "a batch has another number of samples");
      if (taken == 0) break;
      (*data)->Fill(0, std::span(batch).first(static_cast<size_t>(taken * sample_bytes)));
    }
  }
}

void Run(const std::string& bytes) {
  static const ScratchFile scratch("npy"), copy("copy.npy");
  scratch.Write(bytes);
  auto file = NpyFile::Open(scratch.path());
  if (!file) return llvm::consumeError(file.takeError());
  const HostView& view = file->view();
  Require(view.bytes >= 0 && static_cast<size_t>(view.bytes) <= bytes.size(), "more bytes than the file has");
  // The header tells where the array begins, and it goes to the end of the file.
  const size_t length_bytes = bytes[6] == 1 ? 2 : 4;
  size_t begin = 8 + length_bytes;
  for (size_t i = 0; i < length_bytes; ++i)
    begin += static_cast<size_t>(static_cast<uint8_t>(bytes[8 + i])) << (8 * i);
  Require(begin + static_cast<size_t>(view.bytes) == bytes.size(), "the array is not the rest of the file");
  Require(
      view.bytes == 0 || std::memcmp(view.data, bytes.data() + begin, static_cast<size_t>(view.bytes)) == 0,
      "the array's bytes are others than the file's");
  if (llvm::Error error = WriteNpy(copy.path(), view)) Fail(llvm::toString(std::move(error)));
  auto again = NpyFile::Open(copy.path());
  if (!again) Fail("it is written so that it does not open: " + llvm::toString(again.takeError()));
  Require(SameNumbers(view, again->view()), "it is written as another array");
  ReadAsDataSet(scratch.path(), view);
}

}  // namespace
}  // namespace act::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  act::fuzz::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
