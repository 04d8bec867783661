// Solve time of the memory planner and, as the counter `ratio`, the height over the lower bound.
// Arguments: max_steps; 0 is what the first greedy heuristic finds.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

#include "runtime/memory/packing.h"
#include "tests/paths.h"

namespace act {
namespace {

constexpr const char* kFiles[] = {
    "A.1048576.csv", "B.1048576.csv", "C.1048576.csv", "D.1048576.csv", "E.1048576.csv", "F.1048576.csv",
    "G.1048576.csv", "H.1048576.csv", "I.1048576.csv", "J.1048576.csv", "K.1048576.csv", "somas_resnet50.csv",
};

// Columns id,lower,upper,size; empty if there is no such file.
PackingProblem ReadProblem(const std::string& name) {
  std::ifstream file(TestDataFolder() + "/packing/" + name);
  std::string header;
  std::getline(file, header);
  PackingProblem problem;
  int64_t id = 0;
  char comma = 0;
  for (Buffer b{.alignment = 1}; file >> id >> comma >> b.lower >> comma >> b.upper >> comma >> b.size;) {
    problem.buffers.push_back(b);
  }
  return problem;
}

void BM_SolvePacking(benchmark::State& state) {
  const char* name = kFiles[state.range(0)];
  const PackingProblem problem = ReadProblem(name);
  if (problem.buffers.empty()) {
    state.SkipWithError("no such file");
    return;
  }
  Packing packing;
  for (auto _ : state) packing = SolvePacking(problem, {.max_steps = state.range(1)});
  state.SetLabel(name);
  state.counters["buffers"] = static_cast<double>(problem.buffers.size());
  state.counters["ratio"] =
      static_cast<double>(packing.height) / static_cast<double>(PackingLowerBound(problem));
}
BENCHMARK(BM_SolvePacking)
    ->ArgNames({"file", "max_steps"})
    ->ArgsProduct({benchmark::CreateDenseRange(0, static_cast<int>(std::size(kFiles)) - 1, 1),
                   {0, 20'000'000, 200'000'000}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace act

BENCHMARK_MAIN();
