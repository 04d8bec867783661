// What device code asks of the machine that runs it: the only thing that a kernel's image and the fake share.
// It is part of the text of every kernel, so it includes little.
#pragma once

#include <cstddef>
#include <cstdint>

namespace act::fake {

struct Index3 {
  uint32_t x, y, z;
};

enum class Access : uint8_t { kLoad, kStore, kAtomic };

// What the lanes of a warp do together.
enum class Collective : uint8_t { kSync, kBallot, kShuffle, kReduceMin, kReduceMax, kReduceAdd };

// The thread that runs now, and what it may do. A function that finds a fault does not return: the
// launch ends.
class Machine {
 public:
  Index3 thread = {}, block = {}, block_dim = {}, grid_dim = {};
  unsigned char* dynamic_shared = nullptr;
  int64_t dynamic_shared_bytes = 0;
  uint64_t block_serial = 0;     // another one for each block: shared arrays start anew
  uint32_t preempt_after = ~0u;  // this many stores from now, another thread gets its turn

  // Where the machine sees `bytes` bytes of global memory at `address`.
  __attribute__((always_inline)) void* At(const void* address, uint32_t bytes, uint32_t alignment,
                                          Access access) {
    const uint64_t from = reinterpret_cast<uint64_t>(address) - range_begin_;
    if (watch_ || from >= range_bytes_ || bytes > range_bytes_ - from || from % alignment != 0)
      return Find(address, bytes, alignment, access);
    return reinterpret_cast<void*>(reinterpret_cast<uint64_t>(address) + to_alias_);
  }
  __attribute__((always_inline)) void BeforeStore() {
    if (--preempt_after == 0) Preempt();
  }

  virtual void SyncThreads(int line) = 0;
  // The lanes of `mask` meet. `value`, `argument` and what comes back: kBallot: bit; unused; the bits.
  // kShuffle: value; the lane to read; its value. kReduce: value; unused; the result.
  virtual uint32_t Meet(Collective what, uint32_t mask, uint32_t value, uint32_t argument) = 0;
  // The running block has a shared array there. Atomics may name it.
  virtual void AddShared(void* address, uint64_t bytes) = 0;

 protected:
  ~Machine() = default;

  // The allocation of the last access, or an empty range. Allocations are aligned to more than any access.
  uint64_t range_begin_ = 0, range_bytes_ = 0, to_alias_ = 0;
  bool watch_ = false;  // Find sees every access

 private:
  virtual void* Find(const void* address, uint32_t bytes, uint32_t alignment, Access access) = 0;
  virtual void Preempt() = 0;
};

// What an image exports of its kernel, as act_fake_kernel_NAME. The machine's address goes to
// act_fake_machine.
struct KernelEntryPoint {
  void (*run)(const void* parameter);
  uint32_t threads;  // at most, of a block
  uint32_t parameter_bytes, parameter_alignment;
};

}  // namespace act::fake
