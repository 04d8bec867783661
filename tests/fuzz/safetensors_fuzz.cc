// Raw bytes as a safetensors file, and as the fixed batch of two inputs. What opens covers the data without holes,
// and reads the same after it is written again.
#include <cstring>
#include <string>
#include <vector>

#include "runtime/data/batch_source.h"
#include "runtime/data/safetensors.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/require.h"
#include "tests/fuzz/safetensors_mutator.h"
#include "tests/fuzz/scratch_file.h"

namespace act::fuzz {
namespace {

void ReadAsBatch(const std::string& path) {
  constexpr int64_t kBatch = 2;
  const std::vector<InputSlot> slots = {{.name = "x", .type = {DType::kFloat32, {Dim::Batch(), 3}}},
                                        {.name = "label", .type = {DType::kInt64, {Dim::Batch()}}}};
  auto batch = FixedBatch(slots, path, kBatch);
  if (!batch) return llvm::consumeError(batch.takeError());
  Require((*batch)->Next(kBatch) == kBatch, "a batch has another number of samples");
  std::vector<std::byte> x(kBatch * 3 * sizeof(float)), label(kBatch * sizeof(int64_t));
  (*batch)->Fill(0, x);
  (*batch)->Fill(1, label);
}

void Run(const std::string& bytes) {
  static const ScratchFile scratch("safetensors"), copy("copy.safetensors");
  scratch.Write(bytes);
  auto file = Safetensors::Open(scratch.path());
  if (!file) return llvm::consumeError(file.takeError());
  std::vector<NamedTensor> named;
  int64_t held = 0;
  for (const auto& [name, view] : file->tensors()) {
    const int64_t needed = SaturatingMul(ElementCount(view.dims), ByteSize(view.dtype));
    Require(view.bytes == needed, "a tensor has other bytes than its shape says");
    held += view.bytes;
    named.push_back({.name = name, .view = view});
  }
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  Require(sizeof header + header + static_cast<uint64_t>(held) == bytes.size(),
          "the tensors have other bytes than the file");
  if (llvm::Error error = WriteSafetensors(copy.path(), named)) Fail(llvm::toString(std::move(error)));
  auto again = Safetensors::Open(copy.path());
  if (!again) Fail("it is written so that it does not open: " + llvm::toString(again.takeError()));
  Require(again->tensors().size() == named.size(), "tensors are lost when it is written");
  for (const auto& [name, view] : file->tensors()) {
    const HostView* found = again->Find(name);
    Require(found && found->dtype == view.dtype && found->dims == view.dims,
            "a tensor is written as another");
    Require(view.bytes == 0 || std::memcmp(found->data, view.data, static_cast<size_t>(view.bytes)) == 0,
            "a tensor is written with other numbers");
  }
  ReadAsBatch(scratch.path());
}

}  // namespace
}  // namespace act::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  return act::fuzz::MutateSafetensors(data, size, max_size, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  act::fuzz::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
