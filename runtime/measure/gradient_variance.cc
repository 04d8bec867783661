#include "runtime/measure/gradient_variance.h"

#include <llvm/Support/GlobPattern.h>

#include <cmath>
#include <optional>
#include <span>

#include "runtime/base/error.h"
#include "runtime/measure/gradient_pass.h"
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
    for (int64_t m = 0; m < options_.batches; ++m) {
      ACT_CHECK_OK(NextBatch());
      state_.step =
          position_.step * static_cast<uint64_t>(executor_.plan().accumulate) + static_cast<uint64_t>(m);
      ACT_TRY(const double gradient_square, RunExactly());
      for (Set& set : sets_) {
        ACT_TRY(BatchErrors errors, RunRepeatedly(set));
        errors.gradient_square = gradient_square;
        // errors_ are now those of all codes together.
        if (&set == sets_.data() && reference_) CompareWithReference(errors);
        set.batches.push_back(std::move(errors));
      }
    }
    result.gradient_norm = NormOf(sets_[0].batches);
    result.total = EstimateGradient(sets_[0].batches, repeats_);
    if (reference_) {
      const Plan& plan = options_.reference.executor->plan();
      result.reference = {.model = plan.model_name,
                          .level = plan.level,
                          .compute = plan.compute,
                          .gradient_norm = NormOf(reference_->all),
                          .without_codes = EstimateGradient(reference_->without_codes, 1),
                          .total = EstimateGradient(reference_->all, repeats_)};
    }
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
  // The gradient of another plan, and what this plan's differ from it by.
  struct Reference {
    GradientPass pass;
    Vector difference;  // of this plan's gradient without codes from the other's, of one mini-batch
    double gradient_square = 0;
    std::vector<BatchErrors> without_codes = {}, all = {};
  };

  double NormOf(const std::vector<BatchErrors>& batches) const {
    double square = 0;
    for (const BatchErrors& batch : batches) square += batch.gradient_square;
    return std::sqrt(square / static_cast<double>(options_.batches));
  }

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
    ACT_TRY(GradientPass pass, GradientPass::Create(executor_));
    pass_.emplace(std::move(pass));
    exact_.resize(pass_->elements());
    errors_.assign(repeats_, exact_);
    if (options_.reference.executor) ACT_CHECK_OK(PrepareReference());
    // Each pass begins a sum of gradients anew, so the sum holds one mini-batch's gradient.
    state_.seed = position_.seed;
    state_.update.keep_sum = 0;
    state_.update.sum_weight = 1;
    state_.updates = false;
    if (samples > 0) data_.StartEpoch(position_.epoch, position_.position);
    epoch_ = position_.epoch;
    progress_.emplace(options_.batches *
                      ((reference_ ? 2 : 1) + static_cast<int64_t>(sets_.size()) * options_.repeats));
    return llvm::Error::success();
  }

  llvm::Error PrepareReference() {
    ACT_TRY(GradientPass pass, GradientPass::Create(*options_.reference.executor));
    ACT_CHECK_OK(pass_->ShareWith(pass));
    for (const SwitchableCode& code : options_.reference.codes->codes) pass.graph().Enable(code.node, false);
    reference_.emplace(Reference{.pass = std::move(pass), .difference = Vector(exact_.size())});
    return llvm::Error::success();
  }

  // Only full batches: |g|^2 of a smaller batch is not comparable.
  llvm::Error NextBatch() {
    const int64_t batch = executor_.layout().batch;
    while (data_.Next(batch) != batch) data_.StartEpoch(++epoch_, 0);
    for (const std::string& warning : data_.TakeWarnings()) progress_->Say("actrun: warning: " + warning);
    return llvm::Error::success();
  }

  llvm::Error RunPass(GradientPass& pass, Vector& gradient) {
    if (options_.stop && *options_.stop) return MakeError("--variance", "interrupted");
    ACT_TRY(const double loss, pass.Run(data_, state_, gradient));
    progress_->Step(++passes_, loss, executor_.layout().batch);
    return llvm::Error::success();
  }

  void SwitchOn(const Set* set) {
    for (size_t c = 0; c < codes_.codes.size(); ++c)
      pass_->graph().Enable(codes_.codes[c].node, set && (!set->alone || *set->alone == c));
  }

  // Leaves the gradient in exact_ and returns its square.
  llvm::Expected<double> RunExactly() {
    SwitchOn(nullptr);
    ACT_CHECK_OK(RunPass(*pass_, exact_));
    if (reference_) {
      Vector& other = reference_->difference;
      ACT_CHECK_OK(RunPass(reference_->pass, other));
      ACT_TRY(reference_->gradient_square, SquareOf(other));
      for (size_t k = 0; k < other.size(); ++k) other[k] = exact_[k] - other[k];
    }
    return SquareOf(exact_);
  }

  static llvm::Expected<double> SquareOf(const Vector& gradient) {
    const double square = Dot(gradient, gradient);
    if (!std::isfinite(square))
      return MakeError("--variance", "the exact gradient is not finite",
                       "look for wrong numbers in the data");
    return square;
  }

  // With e = g - r, the difference of the two exact gradients: g_i - r = d_i + e, so
  //   <g_i - r, g_j - r> = <d_i, d_j> + <d_i, e> + <d_j, e> + |e|^2.
  void CompareWithReference(const BatchErrors& own) {
    Reference& reference = *reference_;
    const double square = Dot(reference.difference, reference.difference);
    std::vector<double> with_difference;
    for (const Vector& error : errors_) with_difference.push_back(Dot(error, reference.difference));
    BatchErrors all{reference.gradient_square, own.products};
    for (size_t i = 0; i < repeats_; ++i)
      for (size_t j = 0; j < repeats_; ++j)
        all.products[i * repeats_ + j] += with_difference[i] + with_difference[j] + square;
    reference.all.push_back(std::move(all));
    reference.without_codes.push_back({reference.gradient_square, {square}});
  }

  llvm::Expected<BatchErrors> RunRepeatedly(const Set& set) {
    SwitchOn(&set);
    BatchErrors result;
    result.products.resize(repeats_ * repeats_);
    for (size_t i = 0; i < repeats_; ++i) {
      state_.rounding = i;
      Vector& error = errors_[i];
      ACT_CHECK_OK(RunPass(*pass_, error));
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
  std::optional<GradientPass> pass_;
  std::optional<Reference> reference_;
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
