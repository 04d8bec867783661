// A card as the device of a run: its memory, copies, recorded steps. Everything is asynchronous, in the
// order of one stream, but what returns bytes to the host.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/context.h"
#include "kernels/cuda/host_work.h"
#include "kernels/cuda/pinned.h"
#include "kernels/math/step_block.h"
#include "runtime/executor/device.h"

namespace act::cuda {

struct CudaOptions {
  FloatMath conv_math = FloatMath::kStrict, product_math = FloatMath::kStrict;
  bool profile = false;  // measure each kernel; steps are then not recorded
  KernelCacheOptions kernels = {};
  std::optional<EngineTimerOptions> timer = {};  // without it, engines of convolutions are not timed
};

class CudaDevice : public Device {
 public:
  static llvm::Expected<std::unique_ptr<CudaDevice>> Open(std::unique_ptr<Toolkit> toolkit,
                                                          const CudaOptions& options);
  ~CudaDevice() override;

  // What this device's kernels are made with. Valid while the device is.
  const CudaContext& context() const { return context_; }

  std::string name() const override;
  TargetKind target() const override { return TargetKind::kCuda; }
  llvm::Expected<int64_t> AvailableBytes() const override;
  llvm::Expected<BytesBeside> MeasureBeside() const override;
  llvm::Error Wait() override;
  llvm::Expected<std::unique_ptr<DeviceMemory>> Allocate(MemoryKind kind, int64_t bytes) override;
  llvm::Error Upload(DevicePointer to, std::span<const std::byte> from) override;
  llvm::Error Download(std::span<std::byte> to, DevicePointer from) override;
  llvm::Expected<std::span<const std::byte>> Read(DevicePointer from, int64_t bytes) override;
  llvm::Error FillBytes(DevicePointer to, std::byte value, int64_t bytes) override;
  llvm::Error FillFloats(DevicePointer to, float value, int64_t count) override;
  llvm::Expected<std::span<std::byte>> Stage(DevicePointer to, int64_t bytes) override;
  llvm::Error Commit(DevicePointer to, std::span<const std::byte> staged) override;
  llvm::Error Prepare() override;
  llvm::Error BeginStep(const StepState& state) override;
  std::string Run(Kernel& kernel, const KernelArgs& args, double* seconds) override;
  llvm::Error AddFloats(DevicePointer sum, DevicePointer part, int64_t count) override;
  bool Records() const override { return !options_.profile; }
  llvm::Error StartRecording() override;
  llvm::Expected<std::unique_ptr<Recording>> FinishRecording() override;
  llvm::Error Launch(Recording& recording) override;
  int64_t StepsAhead() const override { return kTickets - 1; }
  llvm::Expected<uint64_t> StartRead(DevicePointer from) override;
  llvm::Expected<float> FinishRead(uint64_t ticket) override;
  llvm::Expected<uint64_t> Hash(DevicePointer from, int64_t bytes) override;
  llvm::Expected<int64_t> FindOther(DevicePointer from, std::byte value, int64_t bytes) override;
  llvm::Expected<int64_t> CountNotFinite(const Codec& codec, int64_t elements, int64_t samples,
                                         DevicePointer codes) override;

 private:
  static constexpr int kTickets = 2;
  static constexpr int kReads = 2;  // floats of a step that are read
  static constexpr int64_t kBounceBytes = 4 << 20;
  static constexpr int64_t kMostLooks = 1 << 14;  // threads of Look
  // Pinned memory that is written by the host, and an event after the copy that reads it (or the other way).
  struct Slot {
    PinnedBuffer memory;
    Event* event = nullptr;
    bool pending = false;
  };
  // The memories in which the next two batches of an input are prepared.
  struct StagedInput {
    Slot slots[2];
    int next = 0;
  };
  struct Timing {
    Event *from = nullptr, *to = nullptr;
    double* seconds = nullptr;
  };

  CudaDevice(std::unique_ptr<Toolkit> toolkit, const CudaOptions& options);
  llvm::Error Start();
  Driver& driver() const { return toolkit_->driver(); }
  // An error of the machine, if `status` is not empty.
  llvm::Error Check(const Status& status) const;
  Status MakeSlot(Slot& slot, int64_t bytes);
  // The slot's memory may be used by the host again.
  Status Await(Slot& slot);
  Status MarkPending(Slot& slot);
  // The address for the host, after all work is done, if it is in memory of MemoryKind::kHost. Null
  // otherwise.
  llvm::Expected<std::byte*> OnHost(DevicePointer pointer) const;
  // What each thread of hash_bytes or find_other made of the bytes.
  llvm::Expected<std::vector<uint64_t>> Look(const CompiledKernel& kernel, DevicePointer from, int64_t bytes,
                                             uint32_t value);
  // Errors of kernels, and the times of those that are done.
  llvm::Error Settle(const FaultRecord& fault);
  Status SettleTimings();

  std::unique_ptr<Toolkit> toolkit_;
  const CudaOptions options_;
  KernelCache cache_;
  const std::unique_ptr<EngineTimer> timer_;  // null: nothing is timed
  EngineCache engines_;
  FaultSites fault_sites_;
  HostWork host_work_;
  CudaContext context_;
  int64_t free_at_open_ = 0, pinned_bytes_ = 0;
  int64_t allocated_bytes_ = 0;                   // by Allocate, on the card, and not freed
  std::map<const void*, int64_t> host_memories_;  // by Allocate: their bytes
  // In device memory: a StepImage, then a FaultRecord; what the threads of Look have found.
  std::byte *state_ = nullptr, *looks_ = nullptr;
  Slot steps_[kTickets], tickets_[kReads * kTickets];
  uint64_t next_step_ = 0, next_ticket_ = 0;
  PinnedBuffer bounce_;
  std::vector<std::byte> read_;
  std::map<const void*, StagedInput> staged_;
  std::vector<Timing> timings_, free_timings_;
  const CompiledKernel *add_floats_ = nullptr, *hash_ = nullptr, *find_other_ = nullptr;
};

}  // namespace act::cuda
