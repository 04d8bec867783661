// The gate of device code over files: card_gate KERNEL.cu... compiles what `--dump-kernels` has written
// (the name of a file begins with that of its kernel) for a card of each generation, without one. It
// prints errors, warnings, stack frames and spills, for which its exit status is 1; then how many
// kernels take many registers, and how long it took.
#include <chrono>
#include <cstdio>
#include <fstream>

#include "tests/unit/card_compiler.h"

namespace act {
namespace {

// More than these keep a multiprocessor from holding 1,024 threads, which loops need to hide the latency of
// memory.
constexpr int kManyRegisters = 64;

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

int Run(int argc, char** argv) {
  if (!testing::HasNvidia()) {
    std::fprintf(stderr, "card_gate: libact_cuda.so was not built\n");
    return 1;
  }
  const auto start = std::chrono::steady_clock::now();
  std::vector<testing::CheckedKernel> kernels(static_cast<size_t>(argc));
#pragma omp parallel for schedule(dynamic)
  for (int i = 1; i < argc; ++i) {
    const std::string file = std::filesystem::path(argv[i]).filename();
    kernels[static_cast<size_t>(i)] =
        testing::CheckOnCards({file.substr(0, file.find('.')), Contents(argv[i])});
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::string faults;
  int many = 0, most = 0;
  for (const testing::CheckedKernel& kernel : kernels) {
    faults += kernel.faults;
    many += kernel.registers > kManyRegisters;
    most = std::max(most, kernel.registers);
  }
  std::printf("%s%d kernels for %zu cards in %.1f s; %d take more than %d registers, one %d\n",
              faults.c_str(), argc - 1, std::size(testing::kGateCards), seconds, many, kManyRegisters, most);
  return faults.empty() ? 0 : 1;
}

}  // namespace
}  // namespace act

int main(int argc, char** argv) { return act::Run(argc, argv); }
