#include "kernels/cpu/fused.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "kernels/cpu/compiled_run.h"
#include "kernels/cpu/fused_loop.h"
#include "kernels/cpu/fused_run.h"

namespace act {
namespace {

// Below this a second thread costs more than it saves.
constexpr int64_t kTilesPerThread = 16;
constexpr int64_t kPartsOfThread = 4;

// Who computes which part of a loop. A thread begins with its own share, consecutive parts, and so with the same part
// of a tensor in loop after loop: mostly it is in that core's cache. Then it takes over parts of other threads, which
// the machine may have stopped.
class Shares {
 public:
  explicit Shares(int threads) : next_(static_cast<size_t>(threads)) {}
  // Before the threads start.
  void Cut(int64_t parts) {
    parts_ = parts;
    for (size_t t = 0; t < next_.size(); ++t) next_[t].store(Begin(t), std::memory_order_relaxed);
  }
  template <class F>
  void Work(int thread, const F& f) {
    for (size_t i = 0; i < next_.size(); ++i) {
      const size_t t = (static_cast<size_t>(thread) + i) % next_.size();
      for (int64_t part; (part = next_[t].fetch_add(1, std::memory_order_relaxed)) < Begin(t + 1);) f(part);
    }
  }

 private:
  int64_t Begin(size_t thread) const {
    return parts_ * static_cast<int64_t>(thread) / static_cast<int64_t>(next_.size());
  }
  int64_t parts_ = 0;
  std::vector<std::atomic<int64_t>> next_;  // of each thread's share
};

class FusedKernel final : public Kernel {
 public:
  FusedKernel(FusedLoop loop, std::vector<Codec> plugins, int threads)
      : loop_(std::move(loop)),
        plugins_(std::move(plugins)),
        threads_(
            static_cast<int>(std::clamp<int64_t>(loop_.tiles / kTilesPerThread, 1, std::max(threads, 1)))),
        shares_(threads_) {}

  std::string Run(const KernelArgs& args) override {
    // The cut of sums into parts does not depend on who computes them. Nothing else depends on the
    // cut. There are more parts than threads, so that the others can take over from a thread that
    // the machine has stopped.
    const int64_t parts = loop_.parts > 0 ? loop_.parts : threads_ > 1 ? threads_ * kPartsOfThread : 1;
    shares_.Cut(parts);
    const auto first_tile = [this, parts](int64_t part) { return loop_.tiles * part / parts; };
#pragma omp parallel num_threads(threads_) if (threads_ > 1)
    {
      alignas(64) float scratch[kScratchFloats];
      TileWalker walker(loop_, args, scratch);
      shares_.Work(omp_get_thread_num(),
                   [&](int64_t part) { walker.Run(first_tile(part), first_tile(part + 1), part); });
    }
    FinishSums(loop_, args);
    return PluginFaultOf(plugins_);
  }

  int64_t WorkspaceBytes() const override { return loop_.workspace_bytes; }

  std::string Describe() const override {
    size_t compiled = 0;
    for (const CompiledRun& run : loop_.runs) compiled += run.last - run.first;
    return std::to_string(loop_.steps.size()) + " steps a tile, " + std::to_string(compiled) +
           " of them compiled, " + std::to_string(loop_.once.size()) + " once, " + std::to_string(threads_) +
           (threads_ == 1 ? " thread" : " threads");
  }

 private:
  const FusedLoop loop_;
  const std::vector<Codec> plugins_;
  const int threads_;
  Shares shares_;
};

}  // namespace

std::unique_ptr<Kernel> CreateFused(const KernelSite& site, RunIsa isa, std::string* why) {
  const std::optional<FusedShape> shape = FusedShapeOf(site, why);
  if (!shape) return nullptr;
  std::optional<FusedLoop> loop = MakeFusedLoop(site, *shape, why);
  if (!loop) return nullptr;
  CompileRuns(isa, site, *loop);
  return std::make_unique<FusedKernel>(std::move(*loop), PluginCodecsOf(site.node->program), site.threads);
}

void RegisterFusedKernels(KernelRegistry& registry) {
  registry.Add("Fused", {"fused", [](const KernelSite& site, std::string* why) {
                           return CreateFused(site, BestRunIsa(), why);
                         }});
}

}  // namespace act
