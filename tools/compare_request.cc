#include "tools/compare_request.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringRef.h>

#include <algorithm>
#include <set>

#include "compiler/policy/policy.h"
#include "runtime/base/error.h"
#include "runtime/base/size.h"

namespace act {
namespace {

constexpr char kReference[] = "L0";
constexpr char kAuto[] = "auto";
constexpr char kSizes[] = "sizes are written as 64MiB, 1.5GB or 4096";
constexpr size_t kMostPlans = 8;    // as many as colours that can be told apart
constexpr size_t kMostColumns = 8;  // of micro-batches

llvm::SmallVector<llvm::StringRef> Split(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',');
  return parts;
}

// A size above 0.
std::optional<int64_t> SizeIn(llvm::StringRef text) {
  const std::optional<int64_t> bytes = ParseSize(text.str());
  return bytes && *bytes > 0 ? bytes : std::nullopt;
}

llvm::Expected<ComparedEntry> ParseEntry(llvm::StringRef text) {
  ComparedEntry entry{.name = text.str()};
  const auto [name, size] = text.split(':');
  if (name == kAuto) {
    const std::optional<int64_t> bytes = SizeIn(size);
    if (!bytes) return MakeError("--compare", "expected auto:SIZE, found '" + text.str() + "'", kSizes);
    entry.limit_bytes = *bytes;
  } else if (llvm::Error error = MakePolicy(entry.name, 0, kDefaultGroupSize).takeError()) {
    return WithPlace(std::move(error), "--compare");
  }
  return entry;
}

llvm::Error ParseEntries(const std::string& levels, CompareRequest& request) {
  std::set<std::string> seen;
  request.entries = {{.name = kReference}};
  for (const llvm::StringRef name : Split(levels)) {
    if (name.empty())
      return MakeError("--compare", "a level is missing", "name them as in --compare=L0,L3,L4");
    if (!seen.insert(name.str()).second)
      return MakeError("--compare", name.str() + " is there twice", "name each level once");
    ACT_TRY(const ComparedEntry entry, ParseEntry(name));
    if (name != kReference) request.entries.push_back(entry);
  }
  if (request.entries.size() > kMostPlans)
    return MakeError("--compare", "more than " + std::to_string(kMostPlans) + " plans, L0 included",
                     "compare fewer at a time");
  return llvm::Error::success();
}

llvm::Error ParseFit(const std::string& fit, const ImportOptions& import, CompareRequest& request) {
  const auto [size, dim] = llvm::StringRef(fit).split(':');
  const std::optional<int64_t> bytes = SizeIn(size);
  if (!bytes || fit.back() == ':')
    return MakeError("--fit", "expected SIZE or SIZE:DIM, found '" + fit + "'", kSizes);
  request.fit_bytes = *bytes;
  request.fit_dim = dim.str();
  const auto start = import.dims.find(dim.str());
  if (start != import.dims.end() && !start->second.IsFixed())
    return MakeError("--fit", "'" + dim.str() + "' is the batch", "--fit=SIZE searches over it");
  if (!dim.empty() && start == import.dims.end())
    return MakeError("--fit", "the search over '" + dim.str() + "' has no start",
                     "give one: --dim=" + dim.str() + "=EXTENT");
  return llvm::Error::success();
}

llvm::Error ParseShare(const std::string& share, TargetKind target, CompareRequest& request) {
  const std::optional<int64_t> bytes = SizeIn(share);
  if (!bytes) return MakeError("--gpu-share", "'" + share + "' is not a size", kSizes);
  if (target != TargetKind::kCuda)
    return MakeError("--gpu-share", "is what a GPU's driver and libraries take", "give --target=cuda");
  request.share_bytes = *bytes;
  const auto too_large = [&](const std::string& than) {
    return MakeError("--gpu-share", FormatSize(*bytes) + " leave nothing of " + than,
                     "a CUDA context and its libraries take some hundred MiB");
  };
  if (request.fit_bytes > 0 && *bytes >= request.fit_bytes)
    return too_large("--fit, " + FormatSize(request.fit_bytes));
  for (const ComparedEntry& entry : request.entries)
    if (entry.limit_bytes > 0 && *bytes >= entry.limit_bytes) return too_large(entry.name);
  return llvm::Error::success();
}

llvm::Error ParseMicroBatches(const std::string& text, const CompileOptions& compile,
                              CompareRequest& request) {
  const std::string flag = "--micro-batches";
  if (compile.accumulate > 1)
    return MakeError(flag, "tries numbers of micro-batches, and --accumulate gives one", "give one of them");
  if (compile.optimizer == "none")
    return MakeError(flag, "needs an optimizer: without one gradients are outputs");
  for (const llvm::StringRef part : Split(text)) {
    int64_t count = 0;
    if (part.getAsInteger(10, count) || count < 1 || count > kMostMicroBatches)
      return MakeError(flag, "expected numbers of micro-batches, found '" + part.str() + "'",
                       "write them as in --micro-batches=1,2,4");
    if (compile.batch % count != 0)
      return MakeError(flag,
                       std::to_string(count) + " do not divide the batch of " + std::to_string(compile.batch),
                       "micro-batches have the same number of samples; --batch=N sets that of the whole");
    request.micro_batches.push_back(count);
  }
  std::sort(request.micro_batches.begin(), request.micro_batches.end());
  request.micro_batches.erase(std::unique(request.micro_batches.begin(), request.micro_batches.end()),
                              request.micro_batches.end());
  if (request.micro_batches.size() > kMostColumns)
    return MakeError(flag, "more than " + std::to_string(kMostColumns) + " numbers", "give fewer at a time");
  return llvm::Error::success();
}

llvm::Error ParseRates(const std::string& text, TargetKind target, CompareRequest& request) {
  if (text == "measured") {
    if (target != TargetKind::kCpu)
      return MakeError("--rates", "measured are those of the processor",
                       "give --rates=GFLOPS,GBPS of the card");
    request.measure_rates = true;
    request.rates_of = "measured on this machine";
    return llvm::Error::success();
  }
  const auto [products, bytes] = llvm::StringRef(text).split(',');
  double gflops = 0, gigabytes = 0;
  // Not NaN.
  const auto is_rate = [](double rate) { return rate > 0 && rate < 1e9; };
  if (products.getAsDouble(gflops) || bytes.getAsDouble(gigabytes) || !is_rate(gflops) || !is_rate(gigabytes))
    return MakeError("--rates", "expected measured or GFLOPS,GBPS, found '" + text + "'",
                     "two numbers above 0: 10^9 operations of products a second, and 10^9 bytes a second, as "
                     "140,12");
  request.rates = {.product_flops = 1e9 * gflops, .rounded_flops = 1e9 * gflops, .bytes = 1e9 * gigabytes};
  request.rates_of = "given";
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<CompareRequest> ParseCompare(const CompareTexts& texts, const ImportOptions& import,
                                            const CompileOptions& compile) {
  CompareRequest request;
  ACT_CHECK_OK(ParseEntries(texts.levels, request));
  if (!texts.fit.empty()) ACT_CHECK_OK(ParseFit(texts.fit, import, request));
  if (!texts.share.empty()) ACT_CHECK_OK(ParseShare(texts.share, compile.target, request));
  if (!texts.micro_batches.empty()) ACT_CHECK_OK(ParseMicroBatches(texts.micro_batches, compile, request));
  if (!texts.rates.empty()) {
    ACT_CHECK_OK(ParseRates(texts.rates, compile.target, request));
  } else if (compile.target == TargetKind::kCpu) {
    request.rates = StepRates{};
    request.rates_of = "of two cores with AVX-512";
  }
  return request;
}

}  // namespace act
