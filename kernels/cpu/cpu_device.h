// The processor that this program runs on. The arenas are ordinary memory: what the host stages is
// already in its place, and nothing is ever copied for the host to read it.
#pragma once

#include "runtime/executor/device.h"

namespace act {

class CpuDevice : public Device {
 public:
  std::string name() const override { return "cpu"; }
  TargetKind target() const override { return TargetKind::kCpu; }
  llvm::Expected<int64_t> AvailableBytes() const override;
  llvm::Expected<BytesBeside> MeasureBeside() const override { return BytesBeside{}; }
  llvm::Error Wait() override { return llvm::Error::success(); }
  llvm::Expected<std::unique_ptr<DeviceMemory>> Allocate(MemoryKind kind, int64_t bytes) override;
  llvm::Error Upload(DevicePointer to, std::span<const std::byte> from) override;
  llvm::Error Download(std::span<std::byte> to, DevicePointer from) override;
  llvm::Expected<std::span<const std::byte>> Read(DevicePointer from, int64_t bytes) override;
  llvm::Error FillBytes(DevicePointer to, std::byte value, int64_t bytes) override;
  llvm::Error FillFloats(DevicePointer to, float value, int64_t count) override;
  llvm::Expected<std::span<std::byte>> Stage(DevicePointer to, int64_t bytes) override;
  llvm::Error Commit(DevicePointer to, std::span<const std::byte> staged) override;
  llvm::Error Prepare() override { return llvm::Error::success(); }
  llvm::Error BeginStep(const StepState& /*state*/) override { return llvm::Error::success(); }
  std::string Run(Kernel& kernel, const KernelArgs& args, double* seconds) override;
  llvm::Error AddFloats(DevicePointer sum, DevicePointer part, int64_t count) override;
  bool Records() const override { return false; }
  llvm::Error StartRecording() override;
  llvm::Expected<std::unique_ptr<Recording>> FinishRecording() override;
  llvm::Error Launch(Recording& recording) override;
  int64_t StepsAhead() const override { return 0; }
  llvm::Expected<uint64_t> StartRead(DevicePointer from) override;
  llvm::Expected<float> FinishRead(uint64_t ticket) override;
  llvm::Expected<uint64_t> Hash(DevicePointer from, int64_t bytes) override;
  llvm::Expected<int64_t> FindOther(DevicePointer from, std::byte value, int64_t bytes) override;
  llvm::Expected<int64_t> CountNotFinite(const Codec& codec, int64_t elements, int64_t samples,
                                         DevicePointer codes) override;

 private:
  static constexpr uint64_t kReads = 2;  // tickets that may be open
  float reads_[kReads] = {};
  uint64_t next_read_ = 0;
};

}  // namespace act
