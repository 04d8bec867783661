#include "tools/tuning.h"

#include <cstdlib>
#include <utility>

#include "kernels/cpu/software.h"
#include "runtime/base/cache_folder.h"
#include "runtime/base/error.h"
#include "runtime/executor/machine.h"

namespace act {

llvm::Expected<Tuning> ReadTuning(const std::string& flag) {
  static constexpr std::pair<const char*, Tuning> kNames[] = {
      {"off", Tuning::kOff}, {"on", Tuning::kOn}, {"force", Tuning::kForce}};
  const char* variable = std::getenv("ACT_TUNE");
  const std::string text = !flag.empty() ? flag : variable ? variable : "";
  if (text.empty()) return Tuning::kOn;
  for (const auto& [name, tuning] : kNames)
    if (text == name) return tuning;
  return MakeError(flag.empty() ? "ACT_TUNE" : "--tune", "expected off, on or force, found '" + text + "'",
                   "off: kernels in a fixed order; on: the faster one, timed once on a machine");
}

TimedMachine ThisMachine(const KernelRegistry& registry, int threads) {
  return {.processor = ProcessorName(),
          .threads = threads,
          .software = "actrun " ACT_VERSION ", " + CpuSoftware() + ", " + VersionOf(registry)};
}

std::unique_ptr<KernelTuner> MakeTuner(Tuning tuning, const KernelRegistry& registry, int threads,
                                       std::function<void(const std::string&)> say) {
  if (tuning == Tuning::kOff) return nullptr;
  KernelTunerOptions options{
      .machine = ThisMachine(registry, threads), .force = tuning == Tuning::kForce, .say = std::move(say)};
  if (const std::string folder = CacheFolder("ACT_TUNE_CACHE"); !folder.empty())
    options.path = folder + "/" + options.machine.FileName();
  return std::make_unique<KernelTuner>(std::move(options));
}

std::optional<cuda::EngineTimerOptions> EngineTiming(Tuning tuning, cuda::Toolkit& toolkit,
                                                     std::function<void(const std::string&)> say) {
  if (tuning == Tuning::kOff) return std::nullopt;
  cuda::EngineTimerOptions options{
      .machine = {.processor = toolkit.driver().card().name,
                  .threads = 0,
                  .software = "actrun " ACT_VERSION ", " + toolkit.convolutions().Key()},
      .force = tuning == Tuning::kForce,
      .say = std::move(say)};
  if (const std::string folder = CacheFolder("ACT_TUNE_CACHE"); !folder.empty())
    options.path = folder + "/" + options.machine.FileName("engines");
  return options;
}

}  // namespace act
