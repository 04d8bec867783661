#include "kernels/cpu/cpu_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "kernels/site/dereference.h"
#include "runtime/base/error.h"
#include "runtime/base/seconds.h"
#include "runtime/codec/not_finite.h"
#include "runtime/executor/guarded_memory.h"
#include "runtime/executor/machine.h"

namespace act {
namespace {

// Below this a second thread costs more than it saves.
constexpr int64_t kParallelElements = 1 << 16;

llvm::Error NotRecorded() { return MakeError("internal error: cpu", "records nothing"); }

class CpuMemory : public DeviceMemory {
 public:
  explicit CpuMemory(GuardedMemory memory)
      : DeviceMemory(DevicePointer(memory.base()), memory.bytes()), memory_(std::move(memory)) {}

 private:
  GuardedMemory memory_;
};

}  // namespace

llvm::Expected<std::unique_ptr<DeviceMemory>> CpuDevice::Allocate(MemoryKind /*kind*/, int64_t bytes) {
  ACT_TRY(GuardedMemory memory, GuardedMemory::Allocate(bytes));
  return std::make_unique<CpuMemory>(std::move(memory));
}

llvm::Error CpuDevice::Upload(DevicePointer to, std::span<const std::byte> from) {
  if (!from.empty()) std::memcpy(to.as<std::byte>(), from.data(), from.size());
  return llvm::Error::success();
}

llvm::Error CpuDevice::Download(std::span<std::byte> to, DevicePointer from) {
  if (!to.empty()) std::memcpy(to.data(), from.as<std::byte>(), to.size());
  return llvm::Error::success();
}

llvm::Expected<std::span<const std::byte>> CpuDevice::Read(DevicePointer from, int64_t bytes) {
  return std::span<const std::byte>(from.as<const std::byte>(), static_cast<size_t>(bytes));
}

llvm::Error CpuDevice::FillBytes(DevicePointer to, std::byte value, int64_t bytes) {
  if (bytes > 0) std::memset(to.as<std::byte>(), static_cast<int>(value), static_cast<size_t>(bytes));
  return llvm::Error::success();
}

llvm::Error CpuDevice::FillFloats(DevicePointer to, float value, int64_t count) {
  std::fill_n(to.as<float>(), count, value);
  return llvm::Error::success();
}

llvm::Expected<std::span<std::byte>> CpuDevice::Stage(DevicePointer to, int64_t bytes) {
  return std::span<std::byte>(to.as<std::byte>(), static_cast<size_t>(bytes));
}

llvm::Error CpuDevice::Commit(DevicePointer /*to*/, std::span<const std::byte> /*staged*/) {
  return llvm::Error::success();
}

llvm::Expected<int64_t> CpuDevice::AvailableBytes() const { return AvailableMemoryBytes(); }

std::string CpuDevice::Run(Kernel& kernel, const KernelArgs& args, double* seconds) {
  const auto start = std::chrono::steady_clock::now();
  std::string failure = kernel.Run(args);
  *seconds += SecondsSince(start);
  return failure;
}

// A recording would save nothing: a kernel's call is a function call.
llvm::Error CpuDevice::StartRecording() { return NotRecorded(); }
llvm::Expected<std::unique_ptr<Recording>> CpuDevice::FinishRecording() { return NotRecorded(); }
llvm::Error CpuDevice::Launch(Recording& /*recording*/) { return NotRecorded(); }

llvm::Expected<uint64_t> CpuDevice::StartRead(DevicePointer from) {
  const uint64_t ticket = next_read_++;
  reads_[ticket % kReads] = *from.as<const float>();
  return ticket;
}

llvm::Expected<float> CpuDevice::FinishRead(uint64_t ticket) { return reads_[ticket % kReads]; }

llvm::Error CpuDevice::AddFloats(DevicePointer sum, DevicePointer part, int64_t count) {
  const auto* from = part.as<const float>();
  auto* to = sum.as<float>();
#pragma omp parallel for simd if (count > kParallelElements)
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
  return llvm::Error::success();
}

// FNV-1a over 64-bit words, and over bytes at the tail.
llvm::Expected<uint64_t> CpuDevice::Hash(DevicePointer from, int64_t bytes) {
  constexpr uint64_t kPrime = 0x100000001b3;
  const auto* data = from.as<const std::byte>();
  uint64_t hash = 0xcbf29ce484222325;
  for (; bytes >= 8; data += 8, bytes -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, data, 8);
    hash = (hash ^ word) * kPrime;
    hash ^= hash >> 32;  // multiplication alone moves no high bit into the low half
  }
  for (; bytes > 0; ++data, --bytes) hash = (hash ^ static_cast<uint64_t>(*data)) * kPrime;
  return hash;
}

// The fast check: a range equals itself shifted by one byte if and only if all its bytes are equal.
llvm::Expected<int64_t> CpuDevice::FindOther(DevicePointer from, std::byte value, int64_t bytes) {
  const auto* begin = from.as<const std::byte>();
  if (bytes == 0) return 0;
  if (*begin == value && std::memcmp(begin, begin + 1, static_cast<size_t>(bytes) - 1) == 0) return bytes;
  return std::find_if(begin, begin + bytes, [value](std::byte b) { return b != value; }) - begin;
}

llvm::Expected<int64_t> CpuDevice::CountNotFinite(const Codec& codec, int64_t elements, int64_t samples,
                                                  DevicePointer codes) {
  const int64_t sample_bytes = LayoutOf(codec, elements).sample_bytes;
  int64_t count = 0;
  for (int64_t s = 0; s < samples; ++s)
    count += act::CountNotFinite(codec, elements, codes.as<const uint8_t>() + s * sample_bytes);
  return count;
}

}  // namespace act
