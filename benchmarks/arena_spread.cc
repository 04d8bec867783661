// How far the arena of a training step ends above its lower bound, and whether that is luck: the ratio with the seed
// that is built in, and the lowest and the highest over five seeds of the packing search.
//   arena_spread PLAN [--batch=N]
// One line: the three ratios. The batch is the one the plan was compiled for, unless N says another.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "runtime/memory/layout.h"
#include "runtime/plan/plan_io.h"

namespace act {
namespace {

constexpr uint32_t kSeeds[] = {1, 1001, 2001, 3001, 4001};  // the first is the built-in one

llvm::Expected<double> Ratio(const Plan& plan, int64_t batch, uint32_t seed) {
  llvm::Expected<MemoryLayout> layout = LayOut(plan, batch, TargetKind::kCpu, {.seed = seed});
  if (!layout) return layout.takeError();
  return static_cast<double>(layout->train.peak_bytes) /
         static_cast<double>(std::max<int64_t>(1, layout->train.lower_bound_bytes));
}

llvm::Error Print(const std::string& path, int64_t batch) {
  llvm::Expected<Plan> plan = ReadPlan(path);
  if (!plan) return plan.takeError();
  double built_in = 0, lowest = 0, highest = 0;
  for (const uint32_t seed : kSeeds) {
    llvm::Expected<double> ratio = Ratio(*plan, batch > 0 ? batch : plan->default_batch, seed);
    if (!ratio) return ratio.takeError();
    if (seed == kSeeds[0]) built_in = lowest = highest = *ratio;
    lowest = std::min(lowest, *ratio);
    highest = std::max(highest, *ratio);
  }
  std::printf("%.5f %.5f %.5f\n", built_in, lowest, highest);
  return llvm::Error::success();
}

}  // namespace
}  // namespace act

int main(int argc, char** argv) {
  const std::string batch = argc == 3 ? argv[2] : "--batch=0";
  if (argc < 2 || argc > 3 || batch.rfind("--batch=", 0) != 0) {
    std::fprintf(stderr, "usage: arena_spread PLAN [--batch=N]\n");
    return 2;
  }
  if (llvm::Error error = act::Print(argv[1], std::atoll(batch.c_str() + 8))) {
    std::fprintf(stderr, "error: %s\n", llvm::toString(std::move(error)).c_str());
    return 1;
  }
  return 0;
}
