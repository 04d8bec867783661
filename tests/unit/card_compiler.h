// What NVRTC makes of device code for cards that need not be there: the gate that every kernel passes. Its log says
// registers, stack and spills.
#pragma once

#include <filesystem>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "kernels/cuda/embedded.h"
#include "kernels/cuda/toolkit.h"

namespace act::testing {

// One of each generation that we build for: sm_80, sm_90a, sm_100.
inline constexpr const char* kGateCards[] = {"a100", "h200", "b200"};

// Whether libact_cuda.so was built: it stands beside the test program.
inline bool HasNvidia() {
  return std::filesystem::exists(std::filesystem::read_symlink("/proc/self/exe").parent_path() /
                                 "libact_cuda.so");
}

struct KernelResources {
  int registers = 0, stack_bytes = 0, spilled_bytes = 0;
};

// Of the kernels that ptxas tells of in a log, in its order.
inline std::vector<KernelResources> ResourcesIn(const std::string& log) {
  static const std::regex frame(
      R"((\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads)");
  static const std::regex used(R"(Used (\d+) registers)");
  std::vector<KernelResources> kernels;
  const auto number = [](const std::smatch& match, int i) { return std::stoi(match[i]); };
  for (std::sregex_iterator at(log.begin(), log.end(), frame), end; at != end; ++at)
    kernels.push_back({0, number(*at, 1), number(*at, 2) + number(*at, 3)});
  size_t i = 0;
  for (std::sregex_iterator at(log.begin(), log.end(), used), end; at != end && i < kernels.size(); ++at)
    kernels[i++].registers = number(*at, 1);
  return kernels;
}

// What is wrong with a kernel on a card, a line each: an error, a warning, a stack frame, spills, or more than
// `most_registers`. 64 let two blocks of 512 threads, or eight of 128, be on a multiprocessor at once.
inline std::string FaultsOfKernel(cuda::Toolkit& toolkit, const cuda::KernelSource& source,
                                  int most_registers) {
  const std::string place = source.name + " on " + toolkit.driver().card().name + ": ";
  std::vector<std::byte> image;
  std::string log;
  const cuda::Status status = toolkit.compiler().Compile(source, cuda::EmbeddedHeaders(), &image, &log);
  if (!status.empty()) return place + status + "\n";
  std::string faults;
  if (log.find("warning") != std::string::npos) faults += place + log + "\n";
  const std::vector<KernelResources> kernels = ResourcesIn(log);
  if (kernels.empty()) faults += place + "the log tells of no kernel: " + log + "\n";
  for (const KernelResources& kernel : kernels) {
    if (kernel.stack_bytes) faults += place + std::to_string(kernel.stack_bytes) + " bytes of stack\n";
    if (kernel.spilled_bytes) faults += place + std::to_string(kernel.spilled_bytes) + " bytes spilled\n";
    if (kernel.registers > most_registers)
      faults += place + std::to_string(kernel.registers) + " registers\n";
  }
  return faults;
}

// Of kGateCards; none where libact_cuda.so was not built.
inline const std::vector<std::unique_ptr<cuda::Toolkit>>& GateToolkits() {
  static const auto* const toolkits = [] {
    auto* opened = new std::vector<std::unique_ptr<cuda::Toolkit>>;
    if (HasNvidia())
      for (const char* card : kGateCards) opened->push_back(llvm::cantFail(cuda::LoadCard(card)));
    return opened;
  }();
  return *toolkits;
}

// The faults on all of kGateCards.
inline std::string FaultsOnCards(const cuda::KernelSource& source, int most_registers = 64) {
  std::string faults;
  for (const auto& toolkit : GateToolkits()) faults += FaultsOfKernel(*toolkit, source, most_registers);
  return faults;
}

}  // namespace act::testing
