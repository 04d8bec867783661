#include "tools/compare.h"

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/FormatVariadic.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "compiler/ops/op_table.h"
#include "passes/pipeline/memory_limit.h"
#include "runtime/base/error.h"
#include "runtime/base/size.h"
#include "runtime/memory/layout.h"

namespace act {
namespace {

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
    if (model_->fixed_batch && !request_.micro_batches.empty())
      return MakeError("--micro-batches", "the model's batch is fixed");
    Comparison comparison{.fit_bytes = request_.fit_bytes,
                          .fit_of = request_.fit_dim.empty() ? "batch" : request_.fit_dim,
                          .share_bytes = request_.share_bytes,
                          .micro_batches = request_.micro_batches,
                          .rates = RatesText(),
                          .warnings = model_->warnings};
    for (const ComparedEntry& entry : request_.entries) {
      ACT_TRY(ComparedPlan compared, CompareEntry(entry));
      comparison.plans.push_back(std::move(compared));
    }
    return comparison;
  }

 private:
  std::string RatesText() const {
    if (!request_.rates) return "";
    const StepRates& rates = *request_.rates;
    const auto number = [](double rate) { return llvm::formatv("{0:F0}", rate / 1e9).str(); };
    return number(rates.product_flops) + " GFLOP/s of products" +
           (rates.rounded_flops != rates.product_flops
                ? ", " + number(rates.rounded_flops) + " of those that may be rounded"
                : "") +
           " and " + number(rates.bytes) + " GB/s, " + request_.rates_of;
  }

  void TakeOptimizer(const ImportResult& model) {
    if (!model.optimizer) return;
    compile_.optimizer = model.optimizer->name;
    compile_.hyper = model.optimizer->hyper;
    if (compile_.clip_norm == 0) compile_.clip_norm = model.optimizer->clip_norm;
  }

  llvm::Expected<ComparedPlan> CompareEntry(const ComparedEntry& entry) {
    ComparedPlan compared{.name = entry.name};
    options_ = compile_;
    options_.level = entry.name;
    options_.bits = 0;
    if (entry.limit_bytes > 0) {
      llvm::Expected<RankedStep> step = Choose(entry);
      if (!step) return WithPlace(step.takeError(), path_ + ": " + entry.name);
      step->SetIn(options_);
      compared.step = step->Name();
    }
    llvm::Expected<Plan> compiled = Compile(*model_, options_, nullptr, &compared.variance);
    if (!compiled) return WithPlace(compiled.takeError(), path_ + ": " + entry.name);
    const Plan& plan = *compiled;
    ACT_TRY(compared.report, MakeMemoryReport(plan, plan.default_batch, options_.target, request_.card));
    ACT_CHECK_OK(ValidateLayout(plan, compared.report.layout));
    for (const Node& node : plan.train.graph.nodes)
      compared.flops += static_cast<double>(CostOf(node, plan.train.graph).flops.At(plan.default_batch));
    if (request_.rates) compared.seconds = ExpectedSeconds(plan, plan.default_batch, *request_.rates);
    if (request_.fit_bytes > 0) {
      ACT_TRY(compared.fits, Largest(plan, compared.report.layout));
    }
    for (const int64_t count : request_.micro_batches) {
      ACT_TRY(const int64_t peak, PeakOfMicroBatches(count));
      compared.micro_batch_peaks.push_back(peak);
    }
    return compared;
  }

  // The step that a memory limit leaves.
  llvm::Expected<RankedStep> Choose(const ComparedEntry& entry) {
    if (!model_->fixed_batch && !request_.has_batch)
      return MakeError("--compare", "a step is chosen for a batch, and none is given", "give --batch=N");
    if (!steps_) steps_.emplace(*model_, compile_, request_.choices);
    ACT_TRY(const StepChoice choice, steps_->Choose(entry.limit_bytes - request_.share_bytes));
    return choice.chosen;
  }

  // Of the whole batch as so many micro-batches.
  llvm::Expected<int64_t> PeakOfMicroBatches(int64_t count) {
    CompileOptions options = options_;
    options.batch /= count;
    options.accumulate = count;
    ACT_TRY(const Plan plan, Compile(*model_, options));
    ACT_TRY(const MemoryLayout layout, LayOut(plan, options.batch, options.target));
    return layout.train.peak_bytes;
  }

  int64_t FitBytes() const { return request_.fit_bytes - request_.share_bytes; }

  llvm::Expected<int64_t> Largest(const Plan& plan, const MemoryLayout& layout) {
    if (layout.persistent_bytes > FitBytes())
      return MakeError("--fit",
                       FormatSize(FitBytes()) + (request_.share_bytes > 0 ? " beside --gpu-share" : "") +
                           " are less than parameters and the optimizer's state alone take: " +
                           FormatSize(layout.persistent_bytes),
                       "give more, or use an optimizer with less state (--optimizer)");
    if (!request_.fit_dim.empty()) {
      const int64_t start = import_.dims.at(request_.fit_dim).fixed;
      return LargestExtent(start, std::max<int64_t>(1, start / 8),
                           [this](int64_t extent) { return FitsAtExtent(extent); });
    }
    if (plan.fixed_batch)
      return MakeError("--fit", "the model's batch is fixed",
                       "--fit=SIZE:DIM searches over another axis that has a name");
    // Plans may change with the batch, so those around this one's largest are compiled.
    ACT_TRY(const int64_t near, LargestBatch(plan, FitBytes(), arenas_, options_.target));
    return LargestExtent(std::max<int64_t>(1, near), 1, [this](int64_t batch) {
      CompileOptions options = options_;
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
    CompileOptions options = options_;
    options.reruns.clear();  // their bounds are extents of this model's tensors
    return FitsCompiled(*model, options);
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
    return BytesOf(*layout, arenas_) <= FitBytes();
  }

  const std::string& path_;
  const ImportOptions& import_;
  CompileOptions compile_;
  const CompareRequest& request_;
  const Arenas arenas_;
  std::optional<ImportResult> model_;
  CompileOptions options_;            // of the entry at hand
  std::optional<RankedSteps> steps_;  // measured for all entries that are limits
};

}  // namespace

llvm::Expected<Comparison> Compare(const std::string& model, const ImportOptions& import,
                                   const CompileOptions& compile, const CompareRequest& request) {
  return Comparer(model, import, compile, request).Run();
}

}  // namespace act
