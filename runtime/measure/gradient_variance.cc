#include "runtime/measure/gradient_variance.h"

#include <llvm/Support/GlobPattern.h>

#include <cmath>
#include <optional>
#include <span>

#include "runtime/base/error.h"
#include "runtime/train/evaluate.h"
#include "runtime/train/gradient_capture.h"
#include "runtime/train/progress.h"

namespace act {
namespace {

using Vector = std::vector<float>;  // all gradients, one after another

double Dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

class Measurement {
 public:
  Measurement(Executor& executor, const SwitchablePlan& codes, BatchSource& data,
              const TrainPosition& position, const VarianceOptions& options)
      : executor_(executor),
        codes_(codes),
        data_(data),
        position_(position),
        options_(options),
        repeats_(static_cast<size_t>(options.repeats)) {}

  llvm::Expected<GradientVariance> Run() {
    ACT_CHECK_OK(Prepare());
    GradientVariance result;
    result.batches = options_.batches;
    result.rounded_products = codes_.rounded_products;
    result.batch = executor_.layout().batch;
    result.repeats = options_.repeats;
    result.parameters = static_cast<int64_t>(exact_.size());
    result.saved_edges = codes_.saved_edges;
    for (const SwitchableCode& code : codes_.codes)
      ++(code.edge < codes_.saved_edges ? result.codes : result.rerun_codes);
    double square = 0;
    for (int64_t m = 0; m < options_.batches; ++m) {
      ACT_CHECK_OK(NextBatch());
      state_.step =
          position_.step * static_cast<uint64_t>(executor_.plan().accumulate) + static_cast<uint64_t>(m);
      ACT_TRY(const double gradient_square, RunExactly());
      square += gradient_square;
      for (Set& set : sets_) {
        ACT_TRY(BatchErrors errors, RunRepeatedly(set));
        errors.gradient_square = gradient_square;
        set.batches.push_back(std::move(errors));
      }
    }
    result.gradient_norm = std::sqrt(square / static_cast<double>(options_.batches));
    result.total = EstimateGradient(sets_[0].batches, repeats_);
    for (size_t s = 1; s < sets_.size(); ++s)
      result.edges.push_back(
          {codes_.codes[*sets_[s].alone].edge, EstimateGradient(sets_[s].batches, repeats_)});
    return result;
  }

 private:
  // Codes that are switched on together: one code, or all.
  struct Set {
    std::optional<size_t> alone;  // position in SwitchablePlan::codes
    std::vector<BatchErrors> batches;
  };

  llvm::Error Prepare() {
    const int64_t batch = executor_.layout().batch, samples = data_.SamplesPerEpoch();
    if (samples > 0 && samples < batch)
      return MakeError(
          "--data",
          "has " + std::to_string(samples) + " samples, less than one batch of " + std::to_string(batch),
          "give a smaller --batch");
    sets_.push_back({});
    if (!options_.edges.empty()) {
      llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(options_.edges);
      if (!glob) return MakeError("--variance-edges", llvm::toString(glob.takeError()));
      for (size_t c = 0; c < codes_.codes.size(); ++c)
        if (glob->match(codes_.plan.edges[codes_.codes[c].edge].name) &&
            (options_.rerun || codes_.codes[c].edge < codes_.saved_edges))
          sets_.push_back({c, {}});
    }
    ACT_TRY(graph_, executor_.Train(batch));
    capture_.emplace(*graph_);
    size_t elements = 0;
    for (const auto& gradient : capture_->gradients()) {
      if (gradient.dtype != DType::kFloat32)
        return MakeError("gradient of '" + gradient.name + "'", "is not float32");
      elements += gradient.bytes.size() / sizeof(float);
    }
    if (elements == 0) return MakeError("plan", "trains no parameter: there is no gradient");
    exact_.resize(elements);
    errors_.assign(repeats_, Vector(elements));
    // Each pass begins a sum of gradients anew, so the sum holds one mini-batch's gradient.
    state_.seed = position_.seed;
    state_.update.keep_sum = 0;
    state_.update.sum_weight = 1;
    state_.updates = false;
    if (samples > 0) data_.StartEpoch(position_.epoch, position_.position);
    epoch_ = position_.epoch;
    progress_.emplace(options_.batches * (1 + static_cast<int64_t>(sets_.size()) * options_.repeats));
    return llvm::Error::success();
  }

  // Only full batches: |g|^2 of a smaller batch is not comparable.
  llvm::Error NextBatch() {
    const int64_t batch = executor_.layout().batch;
    while (data_.Next(batch) != batch) data_.StartEpoch(++epoch_, 0);
    for (const std::string& warning : data_.TakeWarnings()) progress_->Say("actrun: warning: " + warning);
    return llvm::Error::success();
  }

  llvm::Error RunPass(Vector& gradient) {
    if (options_.stop && *options_.stop) return MakeError("--variance", "interrupted");
    ACT_CHECK_OK(executor_.BeginStep());
    ACT_CHECK_OK(FillInputs(*graph_, data_));
    NodeObserver* observer = &*capture_;
    ACT_CHECK_OK(executor_.Run(*graph_, state_, {&observer, 1}));
    auto to = reinterpret_cast<std::byte*>(gradient.data());
    for (const auto& part : capture_->gradients()) to = std::copy(part.bytes.begin(), part.bytes.end(), to);
    ACT_TRY(const double loss, LossOf(*graph_));
    progress_->Step(++passes_, loss, executor_.layout().batch);
    return llvm::Error::success();
  }

  void SwitchOn(const Set* set) {
    for (size_t c = 0; c < codes_.codes.size(); ++c)
      graph_->Enable(codes_.codes[c].node, set && (!set->alone || *set->alone == c));
  }

  // Leaves the gradient in exact_ and returns its square.
  llvm::Expected<double> RunExactly() {
    SwitchOn(nullptr);
    ACT_CHECK_OK(RunPass(exact_));
    const double square = Dot(exact_, exact_);
    if (!std::isfinite(square))
      return MakeError("--variance", "the exact gradient is not finite",
                       "look for wrong numbers in the data");
    return square;
  }

  llvm::Expected<BatchErrors> RunRepeatedly(const Set& set) {
    SwitchOn(&set);
    BatchErrors result;
    result.products.resize(repeats_ * repeats_);
    for (size_t i = 0; i < repeats_; ++i) {
      state_.rounding = i;
      Vector& error = errors_[i];
      ACT_CHECK_OK(RunPass(error));
      for (size_t k = 0; k < error.size(); ++k) error[k] -= exact_[k];
      for (size_t j = 0; j <= i; ++j) {
        const double product = Dot(error, errors_[j]);
        result.products[i * repeats_ + j] = result.products[j * repeats_ + i] = product;
      }
      if (!std::isfinite(result.products[i * repeats_ + i]))
        return MakeError(
            set.alone ? "edge '" + codes_.plan.edges[codes_.codes[*set.alone].edge].name + "'" : "--variance",
            "its codes make the gradient infinite or NaN");
    }
    return result;
  }

  Executor& executor_;
  const SwitchablePlan& codes_;
  BatchSource& data_;
  const TrainPosition position_;
  const VarianceOptions& options_;
  const size_t repeats_;
  BoundGraph* graph_ = nullptr;
  std::optional<GradientCapture> capture_;
  std::optional<Progress> progress_;
  StepState state_;
  uint64_t epoch_ = 0;
  int64_t passes_ = 0;
  Vector exact_;
  std::vector<Vector> errors_;  // g_i - g of the current set
  std::vector<Set> sets_;       // first all codes together
};

}  // namespace

llvm::Expected<GradientVariance> MeasureGradientVariance(Executor& executor, const SwitchablePlan& codes,
                                                         BatchSource& data, const TrainPosition& position,
                                                         const VarianceOptions& options) {
  return Measurement(executor, codes, data, position, options).Run();
}

}  // namespace act
