#include "tools/compare.h"

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringRef.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "compiler/ops/op_table.h"
#include "compiler/policy/policy.h"
#include "runtime/base/error.h"
#include "runtime/base/size.h"
#include "runtime/memory/layout.h"

namespace act {
namespace {

constexpr char kReference[] = "L0";
constexpr size_t kMostPlans = 8;                      // as many as colours that can be told apart
constexpr int64_t kLargestExtent = int64_t{1} << 30;  // no axis is longer

using Fits = llvm::function_ref<llvm::Expected<bool>(int64_t)>;

// An extent that fits while the next does not. The search goes from `start` in growing strides and then bisects. The
// peak need not grow with the extent, so one beyond may fit, too. 0: none was found.
llvm::Expected<int64_t> LargestExtent(int64_t start, int64_t stride, Fits fits) {
  int64_t low = 0, high = 0;
  ACT_TRY(const bool first, fits(start));
  if (first) {
    for (low = start; high == 0; stride *= 2) {
      if (low > kLargestExtent - stride) return MakeError("--fit", "the peak does not grow with it");
      ACT_TRY(const bool more, fits(low + stride));
      (more ? low : high) = low + stride;
    }
  } else {
    for (high = start; low == 0 && high > 1; stride *= 2) {
      const int64_t next = std::max<int64_t>(1, high - stride);
      ACT_TRY(const bool less, fits(next));
      (less ? low : high) = next;
    }
    if (low == 0) return 0;
  }
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    ACT_TRY(const bool middle_fits, fits(middle));
    (middle_fits ? low : high) = middle;
  }
  return low;
}

class Comparer {
 public:
  Comparer(const std::string& path, const ImportOptions& import, const CompileOptions& compile,
           const CompareRequest& request)
      : path_(path),
        import_(import),
        compile_(compile),
        request_(request),
        arenas_(compile.target == TargetKind::kCpu ? Arenas::kBoth : Arenas::kDevice) {}

  llvm::Expected<Comparison> Run() {
    ACT_TRY(model_, ImportOnnx(path_, import_));
    TakeOptimizer(*model_);
    Comparison comparison{.fit_bytes = request_.fit_bytes,
                          .fit_of = request_.fit_dim.empty() ? "batch" : request_.fit_dim};
    for (const std::string& level : request_.levels) {
      compile_.level = level;
      llvm::Expected<Plan> plan = Compile(*model_, compile_);
      if (!plan) return WithPlace(plan.takeError(), path_ + ": " + level);
      ComparedPlan compared;
      ACT_TRY(compared.report, MakeMemoryReport(*plan, plan->default_batch, compile_.target));
      ACT_CHECK_OK(ValidateLayout(*plan, compared.report.layout));
      for (const Node& node : plan->train.graph.nodes)
        compared.flops += static_cast<double>(CostOf(node, plan->train.graph).flops.At(plan->default_batch));
      if (request_.fit_bytes > 0) {
        ACT_TRY(compared.fits, Largest(*plan, compared.report.layout));
      }
      comparison.plans.push_back(std::move(compared));
    }
    return comparison;
  }

 private:
  void TakeOptimizer(const ImportResult& model) {
    if (!model.optimizer) return;
    compile_.optimizer = model.optimizer->name;
    compile_.hyper = model.optimizer->hyper;
    if (compile_.clip_norm == 0) compile_.clip_norm = model.optimizer->clip_norm;
  }

  llvm::Expected<int64_t> Largest(const Plan& plan, const MemoryLayout& layout) {
    if (layout.persistent_bytes > request_.fit_bytes)
      return MakeError("--fit",
                       FormatSize(request_.fit_bytes) +
                           " are less than parameters and the optimizer's state alone take: " +
                           FormatSize(layout.persistent_bytes),
                       "give more, or use an optimizer with less state (--optimizer)");
    if (!request_.fit_dim.empty()) {
      const int64_t start = import_.dims.at(request_.fit_dim);
      return LargestExtent(start, std::max<int64_t>(1, start / 8),
                           [this](int64_t extent) { return FitsAtExtent(extent); });
    }
    if (plan.fixed_batch)
      return MakeError("--fit", "the model's batch is fixed",
                       "--fit=SIZE:DIM searches over another axis that has a name");
    // Plans may change with the batch, so those around this one's largest are compiled.
    ACT_TRY(const int64_t near, LargestBatch(plan, request_.fit_bytes, arenas_, compile_.target));
    return LargestExtent(std::max<int64_t>(1, near), 1, [this](int64_t batch) {
      CompileOptions options = compile_;
      options.batch = batch;
      return FitsCompiled(*model_, options);
    });
  }

  // A model may refuse an extent, as one with a table of positions does. Then nothing fits there.
  llvm::Expected<bool> FitsAtExtent(int64_t extent) {
    ImportOptions import = import_;
    import.dims[request_.fit_dim] = extent;
    llvm::Expected<ImportResult> model = ImportOnnx(path_, import);
    if (!model) {
      llvm::consumeError(model.takeError());
      return false;
    }
    return FitsCompiled(*model, compile_);
  }

  // A plan that cannot be laid out is too large.
  llvm::Expected<bool> FitsCompiled(const ImportResult& model, const CompileOptions& options) {
    llvm::Expected<Plan> plan = Compile(model, options);
    if (!plan) {
      llvm::consumeError(plan.takeError());
      return false;
    }
    llvm::Expected<MemoryLayout> layout = LayOut(*plan, plan->default_batch, options.target);
    if (!layout) {
      llvm::consumeError(layout.takeError());
      return false;
    }
    return BytesOf(*layout, arenas_) <= request_.fit_bytes;
  }

  const std::string& path_;
  const ImportOptions& import_;
  CompileOptions compile_;
  const CompareRequest& request_;
  const Arenas arenas_;
  std::optional<ImportResult> model_;
};

}  // namespace

llvm::Expected<CompareRequest> ParseCompare(const std::string& levels, const std::string& fit,
                                            const ImportOptions& import) {
  CompareRequest request{.levels = {kReference}};
  llvm::SmallVector<llvm::StringRef> names;
  llvm::StringRef(levels).split(names, ',');
  std::vector<std::string> seen;
  for (const llvm::StringRef name : names) {
    if (name.empty())
      return MakeError("--compare", "a level is missing", "name them as in --compare=L0,L3,L4");
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      return MakeError("--compare", name.str() + " is there twice", "name each level once");
    seen.push_back(name.str());
    if (llvm::Error error = MakePolicy(name.str(), 0, kDefaultGroupSize).takeError())
      return WithPlace(std::move(error), "--compare");
    if (name != kReference) request.levels.push_back(name.str());
  }
  if (request.levels.size() > kMostPlans)
    return MakeError("--compare", "more than " + std::to_string(kMostPlans) + " plans, L0 included",
                     "compare fewer at a time");
  if (fit.empty()) return request;
  const auto [size, dim] = llvm::StringRef(fit).split(':');
  const std::optional<int64_t> bytes = ParseSize(size.str());
  if (!bytes || *bytes <= 0 || fit.back() == ':')
    return MakeError("--fit", "expected SIZE or SIZE:DIM, found '" + fit + "'",
                     "sizes are written as 64MiB, 1.5GB or 4096");
  request.fit_bytes = *bytes;
  request.fit_dim = dim.str();
  if (!dim.empty() && !import.dims.count(dim.str()))
    return MakeError("--fit", "the search over '" + dim.str() + "' has no start",
                     "give one: --dim=" + dim.str() + "=EXTENT");
  return request;
}

llvm::Expected<Comparison> Compare(const std::string& model, const ImportOptions& import,
                                   const CompileOptions& compile, const CompareRequest& request) {
  return Comparer(model, import, compile, request).Run();
}

}  // namespace act
