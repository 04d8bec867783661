// The gate of device code over files: card_gate KERNEL.cu... compiles what `--dump-kernels` has written
// (the name of a file begins with that of its kernel) for a card of each generation, without one. A line
// for each kernel says how many registers it takes on the card where it takes most. On stderr: errors,
// warnings, stack frames and spills, for which the exit status is 1; then sums, and how long it took.
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>

#include "tests/unit/card_compiler.h"

namespace act {
namespace {

// Of a thread, where 1,024, 768 or 512 threads share a multiprocessor's 65,536.
constexpr int kRegisters[] = {64, 80, 128};

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
    const testing::CheckedKernel kernel =
        testing::CheckOnCards({file.substr(0, file.find('.')), Contents(argv[i])});
    kernels[static_cast<size_t>(i)] = kernel;
#pragma omp critical
    {
      std::printf("%d %s\n", kernel.registers, argv[i]);
      std::fflush(stdout);
      std::fputs(kernel.faults.c_str(), stderr);
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double busy = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  int faulty = 0, within[std::size(kRegisters)] = {}, most = 0;
  for (int i = 1; i < argc; ++i) {
    const testing::CheckedKernel& kernel = kernels[static_cast<size_t>(i)];
    faulty += !kernel.faults.empty();
    most = std::max(most, kernel.registers);
    for (size_t r = 0; r < std::size(kRegisters); ++r) within[r] += kernel.registers <= kRegisters[r];
  }
  std::fprintf(stderr, "%d kernels for %zu cards in %.0f s, %.0f s of one core; %d with faults.", argc - 1,
               std::size(testing::kGateCards), seconds, busy, faulty);
  std::fprintf(stderr, " Above %d registers: %d;", kRegisters[0], argc - 1 - within[0]);
  for (size_t r = 1; r < std::size(kRegisters); ++r)
    std::fprintf(stderr, " above %d: %d;", kRegisters[r], argc - 1 - within[r]);
  std::fprintf(stderr, " most: %d\n", most);
  return faulty == 0 ? 0 : 1;
}

}  // namespace
}  // namespace act

int main(int argc, char** argv) { return act::Run(argc, argv); }
