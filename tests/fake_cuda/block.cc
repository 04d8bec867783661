#include "tests/fake_cuda/block.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

#include "tests/fake_cuda/hardware_fault.h"

namespace act::fake {
namespace {

constexpr uint32_t kMeanStoresBetweenPreemptions = 512;
constexpr uint32_t kTurnsInAWarp =
    32;  // a warp goes on for about as many turns before another one gets its chance

std::string Text(Index3 at) {
  return "(" + std::to_string(at.x) + "," + std::to_string(at.y) + "," + std::to_string(at.z) + ")";
}

Index3 IndexOf(uint64_t number, Index3 dims) {
  return {static_cast<uint32_t>(number % dims.x), static_cast<uint32_t>(number / dims.x % dims.y),
          static_cast<uint32_t>(number / dims.x / dims.y)};
}

}  // namespace

std::string Hex(uint64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

BlockRunner::BlockRunner(Memory& memory, Random& random) : memory_(memory), random_(random) {
  to_alias_ = static_cast<uint64_t>(memory.to_alias());
}

BlockRunner::~BlockRunner() = default;

Fault BlockRunner::Run(const LoadedKernel& kernel, const LaunchShape& shape, const void* parameter) {
  const HardwareFaultsOfKernels faults(*this);
  kernel_ = &kernel;
  parameter_ = parameter;
  *kernel.machine = this;
  block_dim = shape.block;
  grid_dim = shape.grid;
  dynamic_shared_bytes = shape.shared_bytes;
  dynamic_shared = shared_memory_.End(shape.shared_bytes);
  range_bytes_ = 0;  // allocations may have come and gone
  recent_.fill({});
  watch_ = watch_accesses;
  preempt_after = 1 + random_.Below(2 * kMeanStoresBetweenPreemptions);
  threads_.assign(uint64_t{block_dim.x} * block_dim.y * block_dim.z, {});
  for (uint32_t t = 0; t < threads_.size(); ++t) threads_[t] = {nullptr, IndexOf(t, block_dim), t};
  warps_.resize((threads_.size() + kLanes - 1) / kLanes);

  if (watch_) ++statistics[kernel.name].launches;
  const uint64_t blocks = uint64_t{grid_dim.x} * grid_dim.y * grid_dim.z;
  const uint64_t first = random_.Below(static_cast<uint32_t>(blocks));
  uint64_t step = 1 + random_.Below(static_cast<uint32_t>(blocks));
  while (std::gcd(step, blocks) != 1) ++step;
  for (uint64_t i = 0; i < blocks && fault_.empty(); ++i) {
    block = IndexOf((first + i * step) % blocks, grid_dim);
    RunBlock();
  }
  return std::exchange(fault_, {});
}

void BlockRunner::RunBlock() {
  ++block_serial;
  shared_.clear();
  if (dynamic_shared_bytes > 0) std::memset(dynamic_shared, 0xff, static_cast<size_t>(dynamic_shared_bytes));
  for (Thread& t : threads_) t.worker = nullptr;
  runnable_ = 0;
  for (uint32_t w = 0; w < warps_.size(); ++w) {
    const uint32_t lanes = std::min(kLanes, static_cast<uint32_t>(threads_.size()) - w * kLanes);
    warps_[w].lanes = lanes == kLanes ? ~0u : (1u << lanes) - 1;
    warps_[w].exited = warps_[w].ready = 0;
    warps_[w].meetings.clear();
    SetReady(w, warps_[w].lanes);
  }
  at_barrier_ = exited_ = 0;
  next_ = &Pick();
  SwitchTo(IdleWorker());
  current_ = nullptr;
  if (!fault_.empty()) AbandonWorkers();
  if (watch_)
    for (WarpAccesses& accesses : accesses_) accesses.CountInto(statistics[kernel_->name]);
}

void BlockRunner::AbandonWorkers() {
  // Their frames are those of kernels, and own at most the texts of the fault. Unwinding them might end in the very
  // fault.
  static auto* abandoned = new std::vector<boost::context::fiber>;
  for (const auto& worker : workers_) {
    if (std::find(idle_.begin(), idle_.end(), worker.get()) != idle_.end()) continue;
    KeepStack(worker->stack);
    abandoned->push_back(std::move(worker->fiber));
  }
  std::erase_if(workers_, [this](const auto& worker) {
    return std::find(idle_.begin(), idle_.end(), worker.get()) == idle_.end();
  });
}

void BlockRunner::WorkerLoop() {
  Worker& self = *running_;
  for (;;) {
    RunThread(*next_);
    next_ = exited_ == threads_.size() ? nullptr : &Pick();
    if (next_ && !next_->worker) continue;
    idle_.push_back(&self);
    SwitchTo(next_ ? *next_->worker : main_);
  }
}

void BlockRunner::RunThread(Thread& t) {
  t.worker = running_;
  current_ = &t;
  thread = t.index;
  kernel_->entry->run(parameter_);
  Warp& warp = warps_[t.number / kLanes];
  const uint32_t bit = 1u << t.number % kLanes;
  if (at_barrier_ > 0)
    Fail("exits while others wait in SyncThreads at line " + std::to_string(barrier_line_));
  for (const Meeting& meeting : warp.meetings)
    if (meeting.mask & bit)
      Fail("exits while lanes " + Hex(meeting.arrived) + " wait for it in " + NameOf(meeting.what));
  warp.exited |= bit;
  ++exited_;
  current_ = nullptr;
}

void BlockRunner::WaitForTurn() {
  Thread* self = current_;
  next_ = &Pick();
  if (next_ != self) SwitchTo(next_->worker ? *next_->worker : IdleWorker());
  current_ = self;
  thread = self->index;
}

BlockRunner::Thread& BlockRunner::Pick() {
  if (runnable_ == 0) Fail(Deadlock());
  if (!(runnable_ >> last_warp_ & 1) || random_.Below(kTurnsInAWarp) == 0)
    last_warp_ = random_.BitOf(runnable_);
  Warp& warp = warps_[last_warp_];
  const uint32_t lane = random_.BitOf(warp.ready);
  warp.ready &= ~(1u << lane);
  if (warp.ready == 0) runnable_ &= ~(1u << last_warp_);
  return threads_[last_warp_ * kLanes + lane];
}

void BlockRunner::SetReady(uint32_t warp, uint32_t lanes) {
  warps_[warp].ready |= lanes;
  runnable_ |= 1u << warp;
}

void BlockRunner::SwitchTo(Worker& worker) {
  before_ = running_;
  running_ = &worker;
  void* own = EnterStack(worker.stack);
  boost::context::fiber before = std::move(worker.fiber).resume();
  before_->stack = LeftStack(own);
  before_->fiber = std::move(before);  // of whoever switched back
}

BlockRunner::Worker& BlockRunner::IdleWorker() {
  if (idle_.empty()) {
    Worker* worker = workers_.emplace_back(std::make_unique<Worker>()).get();
    worker->fiber = boost::context::fiber(std::allocator_arg, FiberStacks(workers_.size(), &worker->stack),
                                          [this](boost::context::fiber&& before) {
                                            before_->stack = LeftStack(nullptr);
                                            before_->fiber = std::move(before);
                                            WorkerLoop();
                                            return boost::context::fiber();
                                          });
    return *worker;
  }
  Worker* worker = idle_.back();
  idle_.pop_back();
  return *worker;
}

void BlockRunner::Fail(const std::string& what) {
  fault_ = "kernel " + kernel_->name + ", block " + Text(block) +
           (current_ ? ", thread " + Text(current_->index) : "") + ": " + what;
  SwitchTo(main_);
  std::abort();  // nobody switches back
}

void* BlockRunner::Find(const void* address, uint32_t bytes, uint32_t alignment, Access access) {
  static constexpr const char* kNames[] = {"Load", "Store", "atomic operation"};
  const auto refuse = [&](const std::string& why) {
    Fail(std::string(kNames[static_cast<size_t>(access)]) + " of " + std::to_string(bytes) + " bytes at " +
         Hex(reinterpret_cast<uint64_t>(address)) + ": " + why);
  };
  if (reinterpret_cast<uint64_t>(address) % alignment != 0)
    refuse("not aligned to " + std::to_string(alignment) + " bytes");
  const auto inside = [&](const void* begin, uint64_t size) {
    const uint64_t from = reinterpret_cast<uint64_t>(address) - reinterpret_cast<uint64_t>(begin);
    return from < size && bytes <= size - from;
  };
  const auto found = std::find_if(recent_.begin(), recent_.end(),
                                  [&](const Range& range) { return inside(range.begin, range.bytes); });
  if (found != recent_.end()) {
    range_begin_ = reinterpret_cast<uint64_t>(found->begin);
    range_bytes_ = found->bytes;
  } else {
    bool shared = inside(dynamic_shared, static_cast<uint64_t>(dynamic_shared_bytes));
    for (const Range& range : shared_) shared = shared || inside(range.begin, range.bytes);
    if (shared) {
      if (access != Access::kAtomic) refuse("that is shared memory");
      return const_cast<void*>(address);
    }
    if (const std::string why = memory_.Check(address, bytes); !why.empty()) refuse(why);
    const Allocation& a = *memory_.Find(address);
    recent_[oldest_++ % recent_.size()] = {a.begin, static_cast<uint64_t>(a.bytes)};
    range_begin_ = reinterpret_cast<uint64_t>(a.begin);
    range_bytes_ = static_cast<uint64_t>(a.bytes);
  }
  if (watch_ && access != Access::kAtomic) {
    accesses_.resize(warps_.size());
    accesses_[current_->number / kLanes].Add(current_->number % kLanes, __builtin_return_address(0), address,
                                             bytes);
  }
  return memory_.Alias(address);
}

void BlockRunner::Preempt() {
  preempt_after = 1 + random_.Below(2 * kMeanStoresBetweenPreemptions);
  SetReady(current_->number / kLanes, 1u << current_->number % kLanes);
  WaitForTurn();
}

}  // namespace act::fake
