// The memory of a card: allocations, copies, staged inputs, and what checks see of it.
#include <llvm/Support/xxhash.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/source/arena_parameters.h"
#include "kernels/site/dereference.h"
#include "runtime/base/error.h"
#include "runtime/codec/not_finite.h"

namespace act::cuda {
namespace {

class CudaMemory : public DeviceMemory {
 public:
  // Adds its bytes to *allocated_bytes while it exists.
  CudaMemory(Driver& driver, std::byte* base, int64_t bytes, int64_t* allocated_bytes)
      : DeviceMemory(DevicePointer(base), bytes),
        driver_(driver),
        address_(base),
        allocated_bytes_(allocated_bytes) {
    *allocated_bytes_ += bytes;
  }
  ~CudaMemory() override {
    driver_.Free(address_);
    *allocated_bytes_ -= bytes();
  }

 private:
  Driver& driver_;
  std::byte* address_;
  int64_t* allocated_bytes_;
};

class PinnedMemory : public DeviceMemory {
 public:
  // Is listed in *memories while it exists.
  PinnedMemory(PinnedBuffer buffer, int64_t bytes, std::map<const void*, int64_t>* memories)
      : DeviceMemory(DevicePointer(buffer.data()), bytes), buffer_(std::move(buffer)), memories_(memories) {
    (*memories_)[buffer_.data()] = buffer_.bytes();
  }
  ~PinnedMemory() override { memories_->erase(buffer_.data()); }

 private:
  PinnedBuffer buffer_;
  std::map<const void*, int64_t>* memories_;
};

}  // namespace

// ---- Memory that copies read or write while the host goes on

Status CudaDevice::MakeSlot(Slot& slot, int64_t bytes) {
  pinned_bytes_ += bytes - slot.memory.bytes();
  Status status = slot.memory.Allocate(driver(), bytes);
  if (status.empty() && !slot.event) status = driver().CreateEvent(/*with_time=*/false, &slot.event);
  return status;
}

Status CudaDevice::Await(Slot& slot) {
  return std::exchange(slot.pending, false) ? driver().Synchronize(slot.event) : "";
}

Status CudaDevice::MarkPending(Slot& slot) {
  slot.pending = true;
  return driver().Record(slot.event, context_.stream);
}

llvm::Expected<std::unique_ptr<DeviceMemory>> CudaDevice::Allocate(MemoryKind kind, int64_t bytes) {
  const int64_t some = std::max<int64_t>(bytes, 1);  // an arena may have no bytes
  if (kind == MemoryKind::kHost) {
    PinnedBuffer buffer;
    ACT_CHECK_OK(Check(buffer.Allocate(driver(), some)));
    return std::make_unique<PinnedMemory>(std::move(buffer), bytes, &host_memories_);
  }
  std::byte* base = nullptr;
  if (const Status status = driver().Allocate(some, &base); !status.empty())
    return MakeError(name(), "cannot allocate " + std::to_string(bytes) + " bytes: " + status,
                     "another process may have taken memory meanwhile: give a smaller --batch");
  return std::make_unique<CudaMemory>(driver(), base, bytes, &allocated_bytes_);
}

llvm::Expected<std::byte*> CudaDevice::OnHost(DevicePointer pointer) const {
  auto* const address = pointer.as<std::byte>();
  const auto after = host_memories_.upper_bound(address);
  if (after == host_memories_.begin()) return nullptr;
  const auto& [base, bytes] = *std::prev(after);
  if (address >= static_cast<const std::byte*>(base) + bytes) return nullptr;
  ACT_CHECK_OK(Check(driver().Synchronize(context_.stream)));
  return address;
}

llvm::Error CudaDevice::Upload(DevicePointer to, std::span<const std::byte> from) {
  for (size_t at = 0; at < from.size();) {
    const size_t bytes = std::min(from.size() - at, static_cast<size_t>(kBounceBytes));
    std::memcpy(bounce_.data(), from.data() + at, bytes);
    ACT_CHECK_OK(Check(driver().CopyToDevice(context_.stream, (to + static_cast<int64_t>(at)).as<std::byte>(),
                                             bounce_.data(), static_cast<int64_t>(bytes))));
    ACT_CHECK_OK(Check(driver().Synchronize(context_.stream)));
    at += bytes;
  }
  return llvm::Error::success();
}

llvm::Error CudaDevice::Download(std::span<std::byte> to, DevicePointer from) {
  for (size_t at = 0; at < to.size();) {
    const size_t bytes = std::min(to.size() - at, static_cast<size_t>(kBounceBytes));
    ACT_CHECK_OK(Check(driver().CopyToHost(context_.stream, bounce_.data(),
                                           (from + static_cast<int64_t>(at)).as<std::byte>(),
                                           static_cast<int64_t>(bytes))));
    ACT_CHECK_OK(Check(driver().Synchronize(context_.stream)));
    std::memcpy(to.data() + at, bounce_.data(), bytes);
    at += bytes;
  }
  return llvm::Error::success();
}

llvm::Expected<std::span<const std::byte>> CudaDevice::Read(DevicePointer from, int64_t bytes) {
  read_.resize(static_cast<size_t>(bytes));
  ACT_CHECK_OK(Download(read_, from));
  return std::span<const std::byte>(read_);
}

llvm::Error CudaDevice::FillBytes(DevicePointer to, std::byte value, int64_t bytes) {
  if (bytes == 0) return llvm::Error::success();
  ACT_TRY(std::byte* const host, OnHost(to));
  if (host) {
    std::memset(host, static_cast<int>(value), static_cast<size_t>(bytes));
    return llvm::Error::success();
  }
  return Check(driver().Fill8(context_.stream, to.as<std::byte>(), static_cast<uint8_t>(value), bytes));
}

llvm::Error CudaDevice::FillFloats(DevicePointer to, float value, int64_t count) {
  if (count == 0) return llvm::Error::success();
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return Check(driver().Fill32(context_.stream, to.as<std::byte>(), bits, count));
}

llvm::Expected<std::span<std::byte>> CudaDevice::Stage(DevicePointer to, int64_t bytes) {
  StagedInput& input = staged_[to.as<void>()];
  Slot& slot = input.slots[input.next];
  ACT_CHECK_OK(Check(Await(slot)));
  if (slot.memory.bytes() < bytes) ACT_CHECK_OK(Check(MakeSlot(slot, bytes)));
  return std::span<std::byte>(slot.memory.data(), static_cast<size_t>(bytes));
}

llvm::Error CudaDevice::Commit(DevicePointer to, std::span<const std::byte> staged) {
  if (staged.empty()) return llvm::Error::success();
  StagedInput& input = staged_[to.as<void>()];
  Slot& slot = input.slots[input.next];
  input.next = 1 - input.next;
  ACT_CHECK_OK(Check(driver().CopyToDevice(context_.stream, to.as<std::byte>(), slot.memory.data(),
                                           static_cast<int64_t>(staged.size()))));
  return Check(MarkPending(slot));
}

// ---- Checks

llvm::Expected<std::vector<uint64_t>> CudaDevice::Look(const CompiledKernel& kernel, DevicePointer from,
                                                       int64_t bytes, uint32_t value) {
  constexpr int kThreads = 256;
  constexpr int64_t kBlockBytes = 16 * kThreads;
  const int64_t blocks = std::clamp(bytes / kBlockBytes, int64_t{1}, kMostLooks / kThreads);
  const DevicePointer results(looks_);
  const LookParameters p{from.as<const unsigned char>(), bytes, results.as<uint64_t>(), value};
  ACT_CHECK_OK(Check(cuda::Launch(context_, kernel, blocks, kThreads, p)));
  std::vector<uint64_t> found(static_cast<size_t>(blocks * kThreads));
  ACT_CHECK_OK(Download(std::as_writable_bytes(std::span(found)), results));
  return found;
}

llvm::Expected<uint64_t> CudaDevice::Hash(DevicePointer from, int64_t bytes) {
  ACT_TRY(const std::byte* const host, OnHost(from));
  if (host) return llvm::xxh3_64bits({reinterpret_cast<const uint8_t*>(host), static_cast<size_t>(bytes)});
  ACT_TRY(const std::vector<uint64_t> parts, Look(*hash_, from, bytes, 0));
  return std::accumulate(parts.begin(), parts.end(), uint64_t{0});
}

llvm::Expected<int64_t> CudaDevice::FindOther(DevicePointer from, std::byte value, int64_t bytes) {
  if (bytes == 0) return 0;
  ACT_TRY(const std::byte* const host, OnHost(from));
  if (host) return std::find_if(host, host + bytes, [value](std::byte b) { return b != value; }) - host;
  ACT_TRY(const std::vector<uint64_t> places, Look(*find_other_, from, bytes, static_cast<uint32_t>(value)));
  return static_cast<int64_t>(*std::min_element(places.begin(), places.end()));
}

llvm::Expected<int64_t> CudaDevice::CountNotFinite(const Codec& codec, int64_t elements, int64_t samples,
                                                   DevicePointer codes) {
  const int64_t sample_bytes = LayoutOf(codec, elements).sample_bytes;
  ACT_TRY(const std::span<const std::byte> bytes, Read(codes, samples * sample_bytes));
  int64_t count = 0;
  for (int64_t s = 0; s < samples; ++s)
    count += act::CountNotFinite(codec, elements,
                                 reinterpret_cast<const uint8_t*>(bytes.data()) + s * sample_bytes);
  return count;
}

}  // namespace act::cuda
