// The gate of device code: compiles it for a card of each generation, without one.
//   card_gate KERNEL.cu...        what --dump-kernels has written; a file's name begins with that of its kernel
//   card_gate PLAN:BATCH...       all kernels of plans, and what an H200 would run for each
// It prints errors, warnings, stack frames and spills, for which its exit status is 1; then how many kernels
// take many registers, and how long it took.
#include <llvm/Support/Path.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>

#include "kernels/cpu/registry.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/host_work.h"
#include "kernels/cuda/registry.h"
#include "runtime/base/error.h"
#include "runtime/executor/bound_graph.h"
#include "runtime/memory/layout.h"
#include "runtime/plan/plan_io.h"
#include "tests/unit/card_compiler.h"

namespace act {
namespace {

using cuda::KernelSource;

// More than these keep a multiprocessor from holding 1,024 threads, which loops need to hide the latency of
// memory.
constexpr int kManyRegisters = 64;

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// "120 cudnn.conv, 3 cuda.host": the kernels of a step, by name, most first.
std::string CountsOf(const std::vector<BoundNode>& nodes) {
  std::map<std::string, int> counts;
  for (const BoundNode& node : nodes)
    if (node.kernel) ++counts[node.kernel_name];
  std::multimap<int, std::string, std::greater<>> sorted;
  for (const auto& [name, count] : counts) sorted.emplace(count, name);
  std::string text;
  for (const auto& [count, name] : sorted)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + name;
  return text;
}

// Adds the kernels that a card compiles for a plan. Prints which kernels its nodes get.
llvm::Error AddKernelsOf(const std::string& path, int64_t batch, cuda::Toolkit& card,
                         std::vector<KernelSource>& sources) {
  ACT_TRY(const Plan plan, ReadPlan(path));
  if (plan.fixed_batch) batch = plan.default_batch;
  ACT_TRY(const MemoryLayout layout, LayOut(plan, batch, TargetKind::kCuda));
  cuda::KernelCache cache(card.driver(), card.compiler());
  cuda::FaultSites sites;
  cuda::HostWork host_work(card.driver());
  const cuda::CudaContext context{
      .toolkit = card, .cache = cache, .fault_sites = sites, .host_work = host_work};
  KernelRegistry host, kernels;
  RegisterCpuKernels(host);
  cuda::RegisterCudaKernels(kernels, context, host);
  ACT_TRY(const std::vector<BoundNode> train, ChooseKernels(plan.train, layout.train, batch, kernels, 1));
  std::printf("%s at batch %lld: %s\n", path.c_str(), static_cast<long long>(batch), CountsOf(train).c_str());
  if (!plan.eval.graph.nodes.empty()) {
    ACT_TRY(const std::vector<BoundNode> eval, ChooseKernels(plan.eval, layout.eval, batch, kernels, 1));
  }
  const std::vector<KernelSource> requested = cache.Sources();
  sources.insert(sources.end(), requested.begin(), requested.end());
  return llvm::Error::success();
}

llvm::Expected<std::vector<KernelSource>> SourcesOf(const std::vector<std::string>& arguments) {
  std::vector<KernelSource> all;
  ACT_TRY(const std::unique_ptr<cuda::Toolkit> card, cuda::LoadCard("h200"));
  for (const std::string& argument : arguments) {
    const std::string file = llvm::sys::path::filename(argument).str();
    const size_t colon = argument.rfind(':');
    if (file.ends_with(".cu")) {
      all.push_back({file.substr(0, file.find('.')), Contents(argument)});
    } else if (colon == std::string::npos) {
      return MakeError("argument '" + argument + "'", "is neither KERNEL.cu nor PLAN:BATCH");
    } else {
      const std::string path = argument.substr(0, colon);
      if (llvm::Error error = AddKernelsOf(path, std::stoll(argument.substr(colon + 1)), *card, all))
        return WithPlace(std::move(error), path);
    }
  }
  std::vector<KernelSource> distinct;
  std::set<std::string> seen;
  for (KernelSource& source : all)
    if (seen.insert(source.text).second) distinct.push_back(std::move(source));
  return distinct;
}

llvm::Expected<bool> Run(const std::vector<std::string>& arguments) {
  ACT_TRY(const std::vector<KernelSource> sources, SourcesOf(arguments));
  const auto start = std::chrono::steady_clock::now();
  std::vector<testing::CheckedKernel> kernels(sources.size());
#pragma omp parallel for schedule(dynamic)
  for (size_t i = 0; i < sources.size(); ++i) kernels[i] = testing::CheckOnCards(sources[i]);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::string faults;
  int many = 0, most = 0;
  for (const testing::CheckedKernel& kernel : kernels) {
    faults += kernel.faults;
    many += kernel.registers > kManyRegisters;
    most = std::max(most, kernel.registers);
  }
  std::printf("%s%zu kernels for %zu cards in %.1f s; %d take more than %d registers, one %d\n",
              faults.c_str(), sources.size(), std::size(testing::kGateCards), seconds, many, kManyRegisters,
              most);
  return faults.empty();
}

}  // namespace
}  // namespace act

int main(int argc, char** argv) {
  llvm::Expected<bool> passed = act::Run({argv + 1, argv + argc});
  if (!passed) {
    act::PrintError("card_gate", passed.takeError());
    return 1;
  }
  return *passed ? 0 : 1;
}
