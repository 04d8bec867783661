#include "tools/machine_rates.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/FormatVariadic.h>
#include <llvm/Support/Path.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cpu/registry.h"
#include "runtime/base/cache_folder.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/executor/machine.h"
#include "runtime/plan/workspace.h"
#include "tools/tuning.h"

namespace act {
namespace {

constexpr char kHead[] =
    "# Rates that actc has measured on this machine (docs/memory_report.md). To measure anew, delete this "
    "file.\n";
constexpr char kMachine[] = "machine: ";
constexpr double kMostRate = 1e9;  // 10^18 a second: no rate that was measured

struct RateLine {
  const char* key;
  double StepRates::*rate;
};
constexpr RateLine kLines[] = {{"product_gflops: ", &StepRates::product_flops},
                               {"rounded_gflops: ", &StepRates::rounded_flops},
                               {"gbytes: ", &StepRates::bytes}};

// Of the shortest run. Runs are short, so that other programs leave some of them alone. The first one warms caches and
// is not counted.
double SecondsOf(const std::function<void()>& run) {
  constexpr double kEnough = .5;
  constexpr int kLeastRuns = 3;
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto since = [&](auto start) { return std::chrono::duration<double>(now() - start).count(); };
  run();
  double shortest = kMostRate;
  const auto begin = now();
  for (int i = 0; i < kLeastRuns || since(begin) < kEnough; ++i) {
    const auto start = now();
    run();
    shortest = std::min(shortest, since(start));
  }
  return shortest;
}

// Of a product as large as those of layers, by the fastest kernel of the list: the gradient of a weight, which a plan
// may mark as one whose operands may be rounded. Its rows are not a power of two apart, which caches dislike.
llvm::Expected<double> ProductFlops(const KernelRegistry& registry, int threads, bool may_round) {
  constexpr int64_t kTerms = 1024, kRows = 240, kColumns = 960;
  Graph graph;
  Node node;
  node.op = "MatMul";
  node.attrs.Set("trans_a", int64_t{1});
  if (may_round) node.attrs.Set("may_round", int64_t{1});
  std::vector<std::vector<float>> storage;
  std::vector<TensorView> views;
  for (const auto& [rows, columns] : {std::pair(kTerms, kRows), {kTerms, kColumns}, {kRows, kColumns}}) {
    const int64_t elements = rows * columns;
    graph.values.push_back({"", {DType::kFloat32, {Dim(rows), Dim(columns)}}, ValueKind::kActivation, {}});
    storage.emplace_back(static_cast<size_t>(elements), .5f);
    views.push_back({DevicePointer(storage.back().data()),
                     DType::kFloat32,
                     {rows, columns},
                     elements,
                     elements * ByteSize(DType::kFloat32)});
  }
  node.inputs = {0, 1};
  node.outputs = {2};
  const int64_t bound = WorkspaceBound(node, graph, CpuTarget(), 0).At(1);
  const KernelSite site{&node, {views[0], views[1]}, {views[2]}, kTerms, bound, threads, kTerms};
  std::vector<std::byte> workspace(static_cast<size_t>(bound + 64));
  void* aligned = workspace.data();
  size_t space = workspace.size();
  std::align(64, static_cast<size_t>(bound), aligned, space);
  const KernelArgs args{std::span(views).first(2), std::span(views).last(1), {DevicePointer(aligned), bound}};
  double flops = 0;
  std::string why = "there is none";
  for (const KernelEntry& entry : registry.For(node.op)) {
    const std::unique_ptr<Kernel> kernel = entry.is_reference ? nullptr : entry.create(site, &why);
    if (!kernel) continue;
    std::string failed;
    const double seconds = SecondsOf([&] {
      if (std::string error = kernel->Run(args); !error.empty()) failed = std::move(error);
    });
    if (failed.empty()) flops = std::max(flops, 2. * kTerms * kRows * kColumns / seconds);
  }
  if (flops == 0) return MakeError("--rates", "no kernel multiplies: " + why);
  return flops;
}

// That a loop reads and writes, over arrays that no cache holds.
double BytesASecond(int threads) {
  constexpr size_t kElements = size_t{1} << 23;
  std::vector<float> from(kElements, 1), to(kElements, 0);
  const double seconds = SecondsOf([&] {
#pragma omp parallel for simd num_threads(threads) schedule(static)
    for (size_t i = 0; i < kElements; ++i) to[i] += .5f * from[i];
  });
  return 3. * kElements * sizeof(float) / seconds;
}

llvm::Expected<StepRates> Measure(const KernelRegistry& registry, int threads) {
  StepRates rates;
  ACT_TRY(rates.product_flops, ProductFlops(registry, threads, false));
  ACT_TRY(rates.rounded_flops, ProductFlops(registry, threads, true));
  rates.bytes = BytesASecond(threads);
  return rates;
}

llvm::Expected<StepRates> ReadRates(const std::string& path, const TimedMachine& machine) {
  ACT_TRY(const auto file, MappedFile::Open(path));
  const std::span<const std::byte> bytes = file->bytes();
  return ParseRates({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, machine);
}

}  // namespace

std::string FormatRates(const StepRates& rates, const TimedMachine& machine) {
  std::string text = kHead + (kMachine + machine.Text()) + "\n";
  for (const auto& [key, rate] : kLines) text += key + llvm::formatv("{0:F1}\n", rates.*rate / 1e9).str();
  return text;
}

llvm::Expected<StepRates> ParseRates(std::string_view text, const TimedMachine& machine) {
  llvm::StringRef rest(text.data(), text.size());
  int number = 0;
  const auto next = [&]() -> llvm::StringRef {
    const size_t end = rest.find('\n');
    if (end == llvm::StringRef::npos) return rest = "";  // a line that was cut off is none
    const llvm::StringRef line = rest.take_front(end);
    rest = rest.drop_front(end + 1);
    ++number;
    return line.starts_with("#") ? llvm::StringRef("#") : line;
  };
  const auto wrong = [&](const std::string& expected) {
    return MakeError("", "line " + std::to_string(std::max(number, 1)) + " is not '" + expected + "'");
  };
  llvm::StringRef line = next();
  while (line == "#") line = next();
  if (line != kMachine + machine.Text()) return wrong(kMachine + machine.Text());
  StepRates rates;
  for (const auto& [key, rate] : kLines) {
    line = next();
    double value = 0;
    if (!line.consume_front(key) || line.getAsDouble(value) || !(value > 0 && value < kMostRate))
      return wrong(std::string(key) + "NUMBER");
    rates.*rate = 1e9 * value;
  }
  return rates;
}

llvm::Expected<StepRates> RatesOfThisMachine(const std::function<void(const std::string&)>& say) {
  KernelRegistry registry;
  RegisterCpuKernels(registry);
  const int threads = PhysicalCores();
  const TimedMachine machine = ThisMachine(registry, threads);
  const std::string folder = CacheFolder("ACT_TUNE_CACHE");
  const std::string path = folder.empty() ? "" : folder + "/" + machine.FileName("rates");
  if (!path.empty() && llvm::sys::fs::exists(path)) {
    llvm::Expected<StepRates> rates = ReadRates(path, machine);
    if (rates) {
      say("rates of " + path);
      return rates;
    }
    say("warning: " + path + " does not count: " + llvm::toString(rates.takeError()));
  }
  say("measuring this machine's rates, which takes some seconds");
  ACT_TRY(const StepRates rates, Measure(registry, threads));
  if (path.empty()) return rates;
  (void)llvm::sys::fs::create_directories(folder);  // where it fails, so does writing
  if (llvm::Error error = WriteFile(path, FormatRates(rates, machine)))
    say("warning: the rates are not kept: " + llvm::toString(std::move(error)));
  else
    say("kept in " + path);
  return rates;
}

}  // namespace act
