// Times the executor itself by a step of nodes that do nothing, with and without the dump and the
// memory check. Times are for each node.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "runtime/base/error.h"
#include "runtime/executor/executor.h"
#include "tests/unit/test_device.h"

namespace act {
namespace {

class EmptyKernel : public Kernel {
 public:
  std::string Run(const KernelArgs&) override { return ""; }
};

// A chain of `nodes` nodes over tensors of 1,024 floats.
Plan Chain(int64_t nodes) {
  Plan plan;
  StepGraph& step = plan.train;
  for (int64_t i = 0; i <= nodes; ++i) {
    Value value{.name = "v" + std::to_string(i),
                .type = {DType::kFloat32, {Dim::Batch(), 1024}},
                .kind = ValueKind::kActivation,
                .data = {}};
    if (i == 0) value.kind = ValueKind::kInput;
    step.graph.values.push_back(std::move(value));
    step.storage_of.push_back(step.storages++);
    if (i == 0) continue;
    Node node;
    node.op = "Empty";
    node.name = "n" + std::to_string(i);
    node.inputs = {static_cast<ValueId>(i - 1)};
    node.outputs = {static_cast<ValueId>(i)};
    step.graph.nodes.push_back(std::move(node));
  }
  step.graph.inputs = {0};
  step.graph.outputs = {static_cast<ValueId>(nodes)};
  return plan;
}

void RunSteps(benchmark::State& state, bool check_memory) {
  const Plan plan = Chain(state.range(0));
  KernelRegistry registry;
  registry.Add("Empty",
               {"empty", [](const KernelSite&, std::string*) { return std::make_unique<EmptyKernel>(); }});
  const auto executor =
      llvm::cantFail(Executor::Create(plan, llvm::cantFail(LayOut(plan, 1)), TestDevice(), registry,
                                      {.threads = 1, .check_memory = check_memory}));
  BoundGraph* graph = llvm::cantFail(executor->Train(1));
  for (auto _ : state) {
    llvm::cantFail(executor->BeginStep());
    llvm::cantFail(executor->Run(*graph, {}));
  }
  state.counters["ns_per_node"] =
      benchmark::Counter(static_cast<double>(state.iterations() * state.range(0)) * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void Step(benchmark::State& state) { RunSteps(state, false); }
void CheckedStep(benchmark::State& state) { RunSteps(state, true); }
// What a run does before its first step: the layout, the choice of kernels and the views of a plan.
void Load(benchmark::State& state) {
  const Plan plan = Chain(state.range(0));
  KernelRegistry registry;
  registry.Add("Empty",
               {"empty", [](const KernelSite&, std::string*) { return std::make_unique<EmptyKernel>(); }});
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        llvm::cantFail(Executor::Create(plan, llvm::cantFail(LayOut(plan, 1)), TestDevice(), registry, {})));
  }
}

BENCHMARK(Step)->Arg(1000);
BENCHMARK(CheckedStep)->Arg(100);
BENCHMARK(Load)->Arg(1000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace act

BENCHMARK_MAIN();
