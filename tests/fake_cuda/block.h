// Runs the threads of a kernel's blocks, each on a fiber of its own if it has to wait for others.
//
// A thread runs until it waits for others. Then one that can run is chosen by the seed. So all threads
// that share nothing run one after the other on one fiber, without a switch, and a race is decided one
// way or the other.
#pragma once

#include <array>
#include <boost/context/fiber.hpp>
#include <memory>
#include <string>
#include <vector>

#include "tests/fake_cuda/accesses.h"
#include "tests/fake_cuda/machine.h"
#include "tests/fake_cuda/memory.h"
#include "tests/fake_cuda/random.h"
#include "tests/fake_cuda/stacks.h"

namespace act::fake {

// A kernel of a loaded image.
struct LoadedKernel {
  std::string name;
  const KernelEntryPoint* entry = nullptr;
  Machine** machine = nullptr;  // of the image
};

struct LaunchShape {
  Index3 grid, block;
  int64_t shared_bytes = 0;
};

// One line that names the kernel, the block and the thread, or an empty string.
using Fault = std::string;

// "0xff"
std::string Hex(uint64_t number);
// "Ballot"
const char* NameOf(Collective what);

class BlockRunner final : public Machine {
 public:
  BlockRunner(Memory& memory, Random& random);
  ~BlockRunner();
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  // Runs all blocks of a launch, in an order by the seed.
  Fault Run(const LoadedKernel& kernel, const LaunchShape& shape, const void* parameter);

  void SyncThreads(int line) override;
  uint32_t Meet(Collective what, uint32_t mask, uint32_t value, uint32_t argument) override;
  void AddShared(void* address, uint64_t bytes) override {
    shared_.push_back({static_cast<std::byte*>(address), bytes});
  }

  // A fault of the running thread, which never continues.
  [[noreturn]] void Fail(const std::string& what);
  bool in_thread() const { return current_ != nullptr; }

  // Counts of accesses, where they are asked for.
  bool watch_accesses = false;
  AccessStatistics statistics;

 private:
  static constexpr uint32_t kLanes = 32;

  // Runs threads, one at a time.
  struct Worker {
    boost::context::fiber fiber;  // where it waits
    StackBounds stack;
  };
  struct Thread {
    Worker* worker = nullptr;  // null until it has begun
    Index3 index = {};
    uint32_t number = 0;  // in the block
  };
  // Lanes that wait for the rest of a mask.
  struct Meeting {
    Collective what;
    uint32_t mask, arrived;
  };
  struct Warp {
    uint32_t lanes = 0, ready = 0, exited = 0;  // `ready` lanes may run
    std::vector<Meeting> meetings;
    uint32_t value[kLanes], argument[kLanes];
  };
  struct Range {
    const std::byte* begin = nullptr;
    uint64_t bytes = 0;
  };

  void RunBlock();
  void WorkerLoop();
  void RunThread(Thread& thread);
  void AbandonWorkers();
  // Lets other threads run until this one may again.
  void WaitForTurn();
  // One that is ready, no longer marked so. A fault if none is.
  Thread& Pick();
  void SetReady(uint32_t warp, uint32_t lanes);
  void SwitchTo(Worker& worker);
  Worker& IdleWorker();
  std::string Deadlock() const;
  static void Finish(Warp& warp, const Meeting& meeting);

  void* Find(const void* address, uint32_t bytes, uint32_t alignment, Access access) override;
  void Preempt() override;

  Memory& memory_;
  Random& random_;
  const LoadedKernel* kernel_ = nullptr;
  const void* parameter_ = nullptr;
  SharedMemory shared_memory_;
  std::vector<Range> shared_;    // arrays of the running block
  std::array<Range, 8> recent_;  // allocations that the launch has used
  size_t oldest_ = 0;

  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  uint32_t runnable_ = 0;  // warps with ready lanes
  uint32_t last_warp_ = 0;
  uint32_t at_barrier_ = 0, exited_ = 0;
  int barrier_line_ = 0;

  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_;
  Worker main_;
  Worker *running_ = &main_, *before_ = nullptr;
  Thread *current_ = nullptr, *next_ = nullptr;
  Fault fault_;
  std::vector<WarpAccesses> accesses_;  // by warp
};

}  // namespace act::fake
