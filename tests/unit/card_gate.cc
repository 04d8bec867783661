// The gate of device code over files: card_gate KERNEL.cu... compiles what `actrun --dump-kernels` has written (the name
// of a file is that of its kernel) for a card of each generation. It prints what is wrong, and how long it took; its exit
// status is 1 if anything is wrong.
#include <chrono>
#include <cstdio>
#include <fstream>

#include "tests/unit/card_compiler.h"

namespace act {
namespace {

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
  std::string faults;
#pragma omp parallel for schedule(dynamic)
  for (int i = 1; i < argc; ++i) {
    const std::string name = std::filesystem::path(argv[i]).stem();
    const std::string of_one = testing::FaultsOnCards({name, Contents(argv[i])});
#pragma omp critical
    faults += of_one;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%s%d kernels for %zu cards in %.1f s\n", faults.c_str(), argc - 1, std::size(testing::kGateCards), seconds);
  return faults.empty() ? 0 : 1;
}

}  // namespace
}  // namespace act

int main(int argc, char** argv) { return act::Run(argc, argv); }
