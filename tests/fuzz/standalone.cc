// Runs a fuzz target without libFuzzer: replays a corpus, then changes its inputs with a seeded generator.
//   NAME_fuzz [--inputs=N] [--seconds=S] [--seed=K] [--keep=FOLDER] [--verbose] [FILE or FOLDER ...]
// Files and folders are the corpus, whose inputs all run first. --inputs and --seconds: how long changed
// inputs follow (neither: none). --keep: where the input lies that runs. It stays there after a fault.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "tests/fuzz/byte_mutator.h"
#include "tests/fuzz/fault_watch.h"
#include "tests/fuzz/fuzz_target.h"

// A target may leave these out.
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int*, char***) { return 0; }
extern "C" __attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t*, size_t, size_t, unsigned int) {
  return SIZE_MAX;  // no such function
}

namespace act::fuzz {
namespace {

constexpr size_t kMostBytes = 1 << 20;

struct Options {
  int64_t inputs = 0, seconds = 0;
  uint64_t seed = 1;
  std::string keep = ".";
  bool verbose = false;
  std::vector<std::string> corpus;
};

// Of the change of bytes that a custom mutator asks for.
std::mt19937_64& MutateGenerator() {
  static std::mt19937_64 random;
  return random;
}

bool Take(std::string_view flag, std::string_view argument, std::string& value) {
  if (argument.rfind(flag, 0) != 0) return false;
  value = argument.substr(flag.size());
  return true;
}

bool Parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    std::string value;
    if (Take("--inputs=", argument, value)) {
      options.inputs = std::atoll(value.c_str());
    } else if (Take("--seconds=", argument, value)) {
      options.seconds = std::atoll(value.c_str());
    } else if (Take("--seed=", argument, value)) {
      options.seed = static_cast<uint64_t>(std::atoll(value.c_str()));
    } else if (Take("--keep=", argument, value)) {
      options.keep = value;
    } else if (argument == "--verbose") {
      options.verbose = true;
    } else if (argument.rfind("--", 0) == 0) {
      std::fprintf(stderr, "error: %s is not a flag: see tests/fuzz/README.md\n", argument.c_str());
      return false;
    } else {
      options.corpus.push_back(argument);
    }
  }
  return true;
}

// In the order of their names, so that the same seed gives the same inputs.
std::vector<std::string> Files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
      if (entry.is_regular_file()) inside.push_back(entry.path().string());
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

Bytes Change(Bytes input, const std::vector<Bytes>& corpus, std::mt19937_64& random) {
  // Room for the largest input, once: to clear a megabyte takes longer than most inputs run.
  static Bytes room(kMostBytes);
  const Bytes& other = corpus[random() % corpus.size()];
  for (uint64_t changes = 1 + random() % 8; changes > 0; --changes) {
    if (random() % 4 != 0) {
      std::copy(input.begin(), input.end(), room.begin());
      MutateGenerator().seed(random());
      const size_t size =
          LLVMFuzzerCustomMutator(room.data(), input.size(), kMostBytes, static_cast<unsigned int>(random()));
      if (size != SIZE_MAX) {
        input.assign(room.begin(), room.begin() + static_cast<ptrdiff_t>(size));
        continue;
      }
    }
    MutateBytes(input, other, kMostBytes, random);
  }
  return input;
}

int Main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, options)) return 2;
  FaultWatch watch(options.keep + "/" + std::filesystem::path(argv[0]).filename().string() + "." +
                   std::to_string(getpid()) + ".input");
  LLVMFuzzerInitialize(&argc, &argv);
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<Bytes> corpus;
  for (const std::string& path : Files(options.corpus)) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "error: %s: cannot be read\n", path.c_str());
      return 2;
    }
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    if (options.verbose) std::printf("%s\n", path.c_str()), std::fflush(stdout);
    watch.Run(corpus.back());
  }
  const size_t replayed = corpus.size();
  if (corpus.empty()) corpus.emplace_back();
  std::mt19937_64 random(options.seed);
  int64_t changed = 0;
  while ((options.inputs > 0 || options.seconds > 0) && (options.inputs <= 0 || changed < options.inputs) &&
         (options.seconds <= 0 || seconds() < static_cast<double>(options.seconds))) {
    watch.Run(Change(corpus[random() % corpus.size()], corpus, random));
    ++changed;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double took = seconds();
  std::printf(
      "%zu inputs of the corpus and %lld changed ones (seed %llu) in %.1f s, %.0f a second, %ld MiB\n",
      replayed, static_cast<long long>(changed), static_cast<unsigned long long>(options.seed), took,
      static_cast<double>(replayed + static_cast<size_t>(changed)) / took, usage.ru_maxrss >> 10);
  watch.Done();
  return 0;
}

}  // namespace
}  // namespace act::fuzz

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size) {
  act::fuzz::Bytes bytes(data, data + size);
  act::fuzz::MutateBytes(bytes, bytes, max_size, act::fuzz::MutateGenerator());
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}

int main(int argc, char** argv) { return act::fuzz::Main(argc, argv); }
