// What NVRTC makes of device code for cards that need not be there: the gate that every kernel passes. Its
// log says registers, stack and spills.
#pragma once

#include <algorithm>
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

struct CheckedKernel {
  std::string faults;  // errors, warnings, stack frames and spills, a line each
  int registers = 0;   // of a thread
};

inline CheckedKernel CheckKernel(cuda::Toolkit& toolkit, const cuda::KernelSource& source) {
  const std::string place = source.name + " on " + toolkit.driver().card().name + ": ";
  std::vector<std::byte> image;
  std::string log;
  const cuda::Status status = toolkit.compiler().Compile(source, cuda::EmbeddedHeaders(), &image, &log);
  if (!status.empty()) return {place + status + "\n"};
  CheckedKernel checked;
  if (log.find("warning") != std::string::npos) checked.faults += place + log + "\n";
  const std::vector<KernelResources> kernels = ResourcesIn(log);
  if (kernels.empty()) checked.faults += place + "the log tells of no kernel: " + log + "\n";
  for (const KernelResources& kernel : kernels) {
    if (kernel.stack_bytes)
      checked.faults += place + std::to_string(kernel.stack_bytes) + " bytes of stack\n";
    if (kernel.spilled_bytes)
      checked.faults += place + std::to_string(kernel.spilled_bytes) + " bytes spilled\n";
    checked.registers = std::max(checked.registers, kernel.registers);
  }
  return checked;
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

// The faults on all of kGateCards, and the most registers on one of them.
inline CheckedKernel CheckOnCards(const cuda::KernelSource& source) {
  CheckedKernel all;
  for (const auto& toolkit : GateToolkits()) {
    const CheckedKernel one = CheckKernel(*toolkit, source);
    all.faults += one.faults;
    all.registers = std::max(all.registers, one.registers);
  }
  return all;
}

// The faults on all of kGateCards, and that a kernel takes more than `most_registers`.
inline std::string FaultsOnCards(const cuda::KernelSource& source, int most_registers = 64) {
  const CheckedKernel checked = CheckOnCards(source);
  if (checked.registers <= most_registers) return checked.faults;
  return checked.faults + source.name + ": " + std::to_string(checked.registers) + " registers\n";
}

}  // namespace act::testing
