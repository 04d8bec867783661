#include "kernels/cpu/fused.h"

#include <algorithm>
#include <memory>

#include "kernels/cpu/compiled_run.h"
#include "kernels/cpu/fused_loop.h"
#include "kernels/cpu/fused_run.h"

namespace act {
namespace {

// Below this a second thread costs more than it saves.
constexpr int64_t kTilesPerThread = 16;
constexpr int64_t kPartsOfThread = 4;

class FusedKernel final : public Kernel {
 public:
  FusedKernel(FusedLoop loop, std::vector<Codec> plugins, int threads)
      : loop_(std::move(loop)), plugins_(std::move(plugins)) {
    threads_ = static_cast<int>(std::clamp<int64_t>(loop_.tiles / kTilesPerThread, 1, std::max(threads, 1)));
  }

  std::string Run(const KernelArgs& args) override {
    // The cut of sums into parts does not depend on who computes them. Nothing else depends on the
    // cut. There are more parts than threads, so that the others can take over from a thread that
    // the machine has stopped.
    const int64_t parts = loop_.parts > 0 ? loop_.parts : threads_ > 1 ? threads_ * kPartsOfThread : 1;
    const auto first_tile = [this, parts](int64_t part) { return loop_.tiles * part / parts; };
#pragma omp parallel num_threads(threads_) if (threads_ > 1)
    {
      alignas(64) float scratch[kScratchFloats];
      TileWalker walker(loop_, args, scratch);
#pragma omp for schedule(dynamic, 1)
      for (int64_t part = 0; part < parts; ++part) walker.Run(first_tile(part), first_tile(part + 1), part);
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
  int threads_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> CreateFused(const KernelSite& site, RunIsa isa, std::string* why) {
  const std::optional<FusedShape> shape = FusedShapeOf(site, why);
  if (!shape) return nullptr;
  std::optional<FusedLoop> loop = MakeFusedLoop(site, *shape, why);
  if (!loop) return nullptr;
  loop->runs = CompileRuns(isa, site, *loop);
  return std::make_unique<FusedKernel>(std::move(*loop), PluginCodecsOf(site.node->program), site.threads);
}

void RegisterFusedKernels(KernelRegistry& registry) {
  registry.Add("Fused", {"fused", [](const KernelSite& site, std::string* why) {
                           return CreateFused(site, BestRunIsa(), why);
                         }});
}

}  // namespace act
