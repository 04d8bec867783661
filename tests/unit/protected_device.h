// The processor as a device whose memory the host cannot see: its pages are inaccessible but while
// the device does something. A host that dereferences an address of the device stops there, as it
// would with a GPU's. Staging and reading go through buffers of their own, which become garbage
// when the interface says that they are no longer valid.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "runtime/base/error.h"
#include "runtime/executor/guarded_memory.h"

namespace act {

class ProtectedDevice : public CpuDevice {
 public:
  llvm::Expected<std::unique_ptr<DeviceMemory>> Allocate(MemoryKind /*kind*/, int64_t bytes) override {
    ACT_TRY(GuardedMemory memory, GuardedMemory::Allocate(bytes));
    return std::make_unique<Memory>(*this, std::move(memory));
  }
  llvm::Error Upload(DevicePointer to, std::span<const std::byte> from) override {
    const Access access(*this);
    return CpuDevice::Upload(to, from);
  }
  llvm::Error Download(std::span<std::byte> to, DevicePointer from) override {
    const Access access(*this);
    return CpuDevice::Download(to, from);
  }
  llvm::Expected<std::span<const std::byte>> Read(DevicePointer from, int64_t bytes) override {
    const Access access(*this);
    ACT_TRY(const std::span<const std::byte> seen, CpuDevice::Read(from, bytes));
    read_.assign(seen.begin(), seen.end());
    return std::span<const std::byte>(read_);
  }
  llvm::Error FillBytes(DevicePointer to, std::byte value, int64_t bytes) override {
    const Access access(*this);
    return CpuDevice::FillBytes(to, value, bytes);
  }
  llvm::Error FillFloats(DevicePointer to, float value, int64_t count) override {
    const Access access(*this);
    return CpuDevice::FillFloats(to, value, count);
  }
  llvm::Expected<std::span<std::byte>> Stage(DevicePointer /*to*/, int64_t bytes) override {
    staged_.assign(static_cast<size_t>(bytes), std::byte{0xcd});
    return std::span<std::byte>(staged_);
  }
  llvm::Error Commit(DevicePointer to, std::span<const std::byte> staged) override {
    const Access access(*this);
    llvm::Error error = CpuDevice::Upload(to, staged);
    std::fill(staged_.begin(), staged_.end(), std::byte{0xcd});
    return error;
  }
  std::string Run(Kernel& kernel, const KernelArgs& args, double* seconds) override {
    const Access access(*this);
    return CpuDevice::Run(kernel, args, seconds);
  }
  llvm::Expected<uint64_t> StartRead(DevicePointer from) override {
    const Access access(*this);
    return CpuDevice::StartRead(from);
  }
  llvm::Error AddFloats(DevicePointer sum, DevicePointer part, int64_t count) override {
    const Access access(*this);
    return CpuDevice::AddFloats(sum, part, count);
  }
  llvm::Expected<uint64_t> Hash(DevicePointer from, int64_t bytes) override {
    const Access access(*this);
    return CpuDevice::Hash(from, bytes);
  }
  llvm::Expected<int64_t> FindOther(DevicePointer from, std::byte value, int64_t bytes) override {
    const Access access(*this);
    return CpuDevice::FindOther(from, value, bytes);
  }
  llvm::Expected<int64_t> CountNotFinite(const Codec& codec, int64_t elements, int64_t samples,
                                         DevicePointer codes) override {
    const Access access(*this);
    return CpuDevice::CountNotFinite(codec, elements, samples, codes);
  }

 private:
  class Memory : public DeviceMemory {
   public:
    Memory(ProtectedDevice& device, GuardedMemory memory)
        : DeviceMemory(DevicePointer(memory.base()), memory.bytes()),
          device_(device),
          memory_(std::move(memory)) {
      memory_.SetAccessible(false);
      device_.memories_.push_back(&memory_);
    }
    ~Memory() override { std::erase(device_.memories_, &memory_); }

   private:
    ProtectedDevice& device_;
    GuardedMemory memory_;
  };
  // While one of these exists, the device's memory is accessible and what was read is garbage.
  class Access {
   public:
    explicit Access(ProtectedDevice& device) : device_(device) {
      std::fill(device_.read_.begin(), device_.read_.end(), std::byte{0xcd});
      for (const GuardedMemory* memory : device_.memories_) memory->SetAccessible(true);
    }
    ~Access() {
      for (const GuardedMemory* memory : device_.memories_) memory->SetAccessible(false);
    }
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

   private:
    ProtectedDevice& device_;
  };

  std::vector<const GuardedMemory*> memories_;
  std::vector<std::byte> read_, staged_;
};

}  // namespace act
