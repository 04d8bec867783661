// What a run needs of the machine that computes: memory, copies, and running kernels. All bytes of
// the arenas are reached through this interface, or by kernels.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/base/target.h"
#include "runtime/codec/codec.h"
#include "runtime/executor/device_pointer.h"
#include "runtime/executor/kernel.h"

namespace act {

enum class MemoryKind : uint8_t {
  kDevice,  // where kernels compute
  kHost,    // the host's, for tensors that are swapped out (runtime/plan/swap.h)
};

// One allocation of a device. The destructor frees it.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  DevicePointer base() const { return base_; }
  int64_t bytes() const { return bytes_; }

 protected:
  DeviceMemory(DevicePointer base, int64_t bytes) : base_(base), bytes_(bytes) {}

 private:
  DevicePointer base_;
  int64_t bytes_;
};

// Operations that a device has recorded, to be run again without the host's work.
class Recording {
 public:
  virtual ~Recording() = default;
};

// All pointers are to memory that this device has allocated, of either kind. Operations take effect
// in the order of their calls. A device may return before an operation is done; what it hands to the host
// is then what the operation made. An error is a failure of the machine, or of a kernel that has run before
// in this order: it ends the run.
class Device {
 public:
  virtual ~Device() = default;

  // "cpu", or a card's name.
  virtual std::string name() const = 0;
  // For which kind of machine a plan is laid out that runs here.
  virtual TargetKind target() const = 0;
  // Bytes that Allocate can give now, of MemoryKind::kDevice.
  virtual llvm::Expected<int64_t> AvailableBytes() const = 0;
  // What it takes beside what Allocate gave: code, libraries, recordings, staging. Measured.
  struct BytesBeside {
    int64_t device = 0, host = 0;
  };
  virtual llvm::Expected<BytesBeside> MeasureBeside() const = 0;
  // Waits until all operations are done.
  virtual llvm::Error Wait() = 0;

  virtual llvm::Expected<std::unique_ptr<DeviceMemory>> Allocate(MemoryKind kind, int64_t bytes) = 0;

  virtual llvm::Error Upload(DevicePointer to, std::span<const std::byte> from) = 0;
  virtual llvm::Error Download(std::span<std::byte> to, DevicePointer from) = 0;
  // The bytes at `from`, for the host to read. They are valid until the next call of any function
  // of this device. Where the host sees the device's memory, nothing is copied.
  virtual llvm::Expected<std::span<const std::byte>> Read(DevicePointer from, int64_t bytes) = 0;
  virtual llvm::Error FillBytes(DevicePointer to, std::byte value, int64_t bytes) = 0;
  virtual llvm::Error FillFloats(DevicePointer to, float value, int64_t count) = 0;

  // An input of a step. The host writes `bytes` to the memory that Stage returns, then Commit moves
  // them to `to`. Where the host sees the device's memory, that memory is `to` itself.
  virtual llvm::Expected<std::span<std::byte>> Stage(DevicePointer to, int64_t bytes) = 0;
  virtual llvm::Error Commit(DevicePointer to, std::span<const std::byte> staged) = 0;

  // Makes the kernels of this device that have been created since the last call ready to run.
  virtual llvm::Error Prepare() = 0;
  // The state of the step to which the kernels belong that run from now on. It is copied.
  virtual llvm::Error BeginStep(const StepState& state) = 0;
  // Runs a kernel of this device. Returns the kernel's error, or an empty string. Adds the kernel's time to
  // *seconds, by the next Wait at the latest, if the device measures it.
  virtual std::string Run(Kernel& kernel, const KernelArgs& args, double* seconds) = 0;
  // sum[i] += part[i], for `count` floats.
  virtual llvm::Error AddFloats(DevicePointer sum, DevicePointer part, int64_t count) = 0;

  // Whether a step can be recorded. If so, what is run between StartRecording and FinishRecording (kernels,
  // AddFloats) does not take effect, but becomes part of the recording. Launch runs it, with the state of the
  // last BeginStep.
  virtual bool Records() const = 0;
  virtual llvm::Error StartRecording() = 0;
  virtual llvm::Expected<std::unique_ptr<Recording>> FinishRecording() = 0;
  virtual llvm::Error Launch(Recording& recording) = 0;

  // Steps that may have been started and not waited for while the host prepares the next one. 0 where the
  // host does the work.
  virtual int64_t StepsAhead() const = 0;
  // Starts to copy a float to the host, and returns the copy's ticket. At most two tickets for each of
  // StepsAhead() + 1 steps may be open. FinishRead waits for it; it also returns the errors of what ran before the copy.
  virtual llvm::Expected<uint64_t> StartRead(DevicePointer from) = 0;
  virtual llvm::Expected<float> FinishRead(uint64_t ticket) = 0;

  // For checks (--check-memory, the watch over codes).
  // A 64-bit hash of the bytes. Equal bytes have equal hashes on the same device.
  virtual llvm::Expected<uint64_t> Hash(DevicePointer from, int64_t bytes) = 0;
  // The position of the first byte that is not `value`; `bytes` if there is none.
  virtual llvm::Expected<int64_t> FindOther(DevicePointer from, std::byte value, int64_t bytes) = 0;
  // CountNotFinite (runtime/codec/not_finite.h) summed over the codes of `samples` samples, which
  // follow one another and have `elements` elements each.
  virtual llvm::Expected<int64_t> CountNotFinite(const Codec& codec, int64_t elements, int64_t samples,
                                                 DevicePointer codes) = 0;
};

}  // namespace act
