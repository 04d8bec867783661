#include "runtime/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <span>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/train/code_watch.h"
#include "runtime/train/progress.h"
#include "runtime/train/step_dump.h"

namespace act {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// The number of steps of this run if it is known in advance, else 0.
int64_t TotalSteps(const TrainOptions& options, int64_t samples, const Plan& plan, int64_t batch,
                   int64_t position) {
  int64_t total = 0;
  if (options.epochs > 0 && samples > 0) {
    const auto steps_in = [&](int64_t n) {
      const int64_t batches = (n + (plan.fixed_batch ? 0 : batch - 1)) / batch;
      return (batches + plan.accumulate - 1) / plan.accumulate;
    };
    total = steps_in(std::max<int64_t>(0, samples - position)) + (options.epochs - 1) * steps_in(samples);
  }
  return options.steps > 0 && (total == 0 || options.steps < total) ? options.steps : total;
}

std::string Describe(const Evaluation& evaluation) {
  char text[96];
  std::snprintf(text, sizeof text, "epoch %llu  eval loss %.6g",
                static_cast<unsigned long long>(evaluation.epoch), evaluation.loss);
  std::string line = text;
  if (evaluation.accuracy) {
    std::snprintf(text, sizeof text, "  accuracy %.4f", *evaluation.accuracy);
    line += text;
  }
  return line;
}

class Loop {
 public:
  Loop(Executor& executor, BatchSource& data, BatchSource* eval_data, const TrainOptions& options,
       TrainPosition& position)
      : executor_(executor),
        data_(data),
        eval_data_(eval_data),
        options_(options),
        position_(position),
        total_steps_(TotalSteps(options, data.SamplesPerEpoch(), executor.plan(), executor.layout().batch,
                                position.position)),
        end_step_(position.step + static_cast<uint64_t>(total_steps_)),
        progress_(total_steps_) {}

  llvm::Expected<TrainResult> Run() {
    if (data_.SamplesPerEpoch() > 0) data_.StartEpoch(position_.epoch, position_.position);
    ACT_CHECK_OK(BindLastBatches());
    int64_t epochs_ended = 0;
    Warn();
    while (!result_.interrupted) {
      const int64_t batch = data_.Next(executor_.layout().batch);
      if (batch == 0) {
        ACT_CHECK_OK(EndEpoch());
        if (++epochs_ended == options_.epochs || EndsEarly()) break;
        data_.StartEpoch(position_.epoch, 0);
        continue;
      }
      if (options_.steps > 0 && steps_started_ == options_.steps) break;
      if (options_.between) {
        ACT_TRY(const BetweenSteps::Outcome outcome,
                options_.between->Before(executor_, data_, batch, State()));
        if (!outcome.line.empty()) progress_.Say(outcome.line);
        if ((result_.interrupted = outcome.interrupted)) break;
      }
      ACT_CHECK_OK(Step(batch));
      ACT_CHECK_OK(ShowState());
      result_.interrupted = options_.stop && *options_.stop;
      if (EndsEarly()) break;
    }
    ACT_CHECK_OK(Settle());
    return std::move(result_);
  }

 private:
  StepState State() const {
    StepState state{.seed = position_.seed,
                    .step = position_.step * static_cast<uint64_t>(executor_.plan().accumulate),
                    .update = {.hyper = options_.hyper, .updates = position_.step}};
    state.update.hyper.lr = options_.schedule.At(options_.hyper.lr, position_.step, end_step_);
    return state;
  }

  // Whether a follower ends the run.
  bool EndsEarly() {
    for (RunFollower* follower : options_.followers)
      if (result_.end_reason.empty()) result_.end_reason = follower->EndReason();
    return !result_.end_reason.empty();
  }

  llvm::Error ShowState() {
    for (RunFollower* follower : options_.followers) {
      if (!follower->WantsState(position_)) continue;
      ACT_CHECK_OK(Settle());
      ACT_CHECK_OK(follower->AtState(executor_, position_));
    }
    return llvm::Error::success();
  }

  // Samples of the current step, whose first micro-batch has been drawn. The last step of a data
  // set's epoch has fewer.
  int64_t SamplesOfStep() const {
    const int64_t batch = executor_.layout().batch, full = batch * executor_.plan().accumulate;
    if (data_.SamplesPerEpoch() == 0) return full;
    const int64_t rest = data_.SamplesPerEpoch() - position_.position;
    return std::min(full, executor_.plan().fixed_batch ? rest / batch * batch : rest);
  }

  // Fails now, and not after hours, if a kernel cannot run the smaller last batch of an epoch.
  llvm::Error BindLastBatches() {
    if (executor_.plan().fixed_batch) return llvm::Error::success();
    const int64_t batch = executor_.layout().batch;
    if (const int64_t rest = data_.SamplesPerEpoch() % batch) ACT_CHECK_OK(executor_.Train(rest).takeError());
    if (!eval_data_) return llvm::Error::success();
    const int64_t samples = eval_data_->SamplesPerEpoch();
    if (samples >= batch) ACT_CHECK_OK(executor_.Eval(batch).takeError());
    return samples % batch == 0 ? llvm::Error::success() : executor_.Eval(samples % batch).takeError();
  }

  void Warn() {
    for (const std::string& warning : data_.TakeWarnings()) progress_.Say("actrun: warning: " + warning);
  }

  // Warns once: what follows from the first NaN is of no interest.
  void WarnOf(const std::string& code) {
    if (code.empty()) return;
    told_of_code_ = true;
    progress_.Say("actrun: warning: step " + std::to_string(position_.step) + ": " + code);
  }

  // A micro-batch that the device has been told to compute, and whose loss has not been read.
  struct InFlight {
    uint64_t ticket = 0;  // of its loss
    uint64_t step = 0, epoch = 0;
    double share = 0;  // of the step's samples
    bool ends_step = false;
    int64_t samples = 0;  // of the step
    double learning_rate = 0;
    double input_seconds = 0;
    Clock::time_point start = {};
  };

  static std::string Place(uint64_t step) { return "step " + std::to_string(step); }

  // Whether the nodes of this step are watched one by one. Where a device records steps, that takes it
  // away from the recording, so not every step is. bfloat16 values take time to look at.
  bool WatchesCodes() const { return !told_of_code_ && (!executor_.device().Records() || WatchesValues()); }
  bool WatchesValues() const {
    constexpr int64_t kWatchEvery = 50;
    return steps_started_ % kWatchEvery == 0;
  }

  // `batch`: the samples of its first micro-batch, at which the source stands.
  llvm::Error Step(int64_t batch) {
    const int64_t samples = SamplesOfStep();
    ACT_TRY(BoundGraph* const first, executor_.Train(batch));
    const bool dumps = steps_started_ == 0 && !options_.dump_step.empty();
    std::optional<GradientCapture> gradients;
    if (dumps) gradients.emplace(*first);

    StepState state = State();
    for (int64_t done = 0; done < samples;) {
      ACT_TRY(BoundGraph* const graph, executor_.Train(batch));
      InFlight next{.step = position_.step, .epoch = position_.epoch, .samples = samples};
      next.learning_rate = state.update.hyper.lr;
      next.share = static_cast<double>(batch) / static_cast<double>(samples);
      next.ends_step = done + batch >= samples;
      state.update.sum_weight = next.share;
      state.updates = next.ends_step;
      std::optional<CodeWatch> codes;
      std::vector<NodeObserver*> observers;
      if (dumps) observers.push_back(&*gradients);
      if (WatchesCodes()) observers.push_back(&codes.emplace(executor_.plan(), *graph, WatchesValues()));
      ACT_CHECK_OK(executor_.BeginStep());
      const auto start = Clock::now();
      ACT_CHECK_OK(FillInputs(*graph, data_));
      data_.FetchNext();
      next.start = Clock::now();
      next.input_seconds = Seconds(start, next.start);
      if (llvm::Error error = executor_.Run(*graph, state, observers))
        return WithPlace(std::move(error), Place(next.step));
      ACT_TRY(next.ticket, StartReadingLoss(*graph));
      Warn();
      if (codes) WarnOf(codes->Found());
      // The device computes this micro-batch while the host looks at the one before.
      ACT_CHECK_OK(Settle());
      in_flight_ = next;
      if (executor_.device().StepsAhead() == 0 || dumps) ACT_CHECK_OK(Settle());
      done += batch;
      if (done < samples) batch = data_.Next(executor_.layout().batch);
      ++state.step;
      state.update.keep_sum = 1;
    }
    if (dumps) ACT_CHECK_OK(WriteStepDump(options_.dump_step, result_.losses.back(), *gradients, executor_));
    ++steps_started_;
    ++position_.step;
    position_.position = data_.SamplesPerEpoch() > 0 ? position_.position + samples : 0;
    return llvm::Error::success();
  }

  // Waits for the micro-batch in flight, if there is one, and counts it.
  llvm::Error Settle() {
    if (!in_flight_) return llvm::Error::success();
    const InFlight done = *std::exchange(in_flight_, std::nullopt);
    llvm::Expected<float> read = executor_.device().FinishRead(done.ticket);
    if (!read) return WithPlace(read.takeError(), Place(done.step));
    const double loss = static_cast<double>(*read);
    if (!std::isfinite(loss)) {
      return MakeError(Place(done.step), "the loss is " + std::to_string(loss),
                       "lower --lr, or look for wrong numbers in the data; nothing was saved");
    }
    const auto end = Clock::now();
    mean_ += done.share * loss;
    input_seconds_ += done.input_seconds;
    step_seconds_ += Seconds(std::max(done.start, last_end_), end);
    last_end_ = end;
    if (!done.ends_step) return llvm::Error::success();
    result_.losses.push_back(std::exchange(mean_, 0));
    result_.input_seconds.push_back(std::exchange(input_seconds_, 0));
    result_.step_seconds.push_back(std::exchange(step_seconds_, 0));
    progress_.Step(static_cast<int64_t>(result_.losses.size()), result_.losses.back(), done.samples);
    const StepRecord record{.step = done.step,
                            .epoch = done.epoch,
                            .samples = done.samples,
                            .loss = result_.losses.back(),
                            .learning_rate = done.learning_rate,
                            .seconds = result_.step_seconds.back(),
                            .input_seconds = result_.input_seconds.back()};
    for (RunFollower* follower : options_.followers) ACT_CHECK_OK(follower->AfterStep(record));
    return llvm::Error::success();
  }

  llvm::Error EndEpoch() {
    ACT_CHECK_OK(Settle());
    ++position_.epoch;
    position_.position = 0;
    if (!eval_data_) return llvm::Error::success();
    ACT_TRY(Evaluation evaluation, Evaluate(executor_, *eval_data_, State()));
    evaluation.epoch = position_.epoch;
    for (const std::string& warning : eval_data_->TakeWarnings())
      progress_.Say("actrun: warning: " + warning);
    progress_.Say(Describe(evaluation));
    result_.evaluations.push_back(evaluation);
    for (RunFollower* follower : options_.followers)
      ACT_CHECK_OK(follower->AfterEvaluation(executor_, position_, evaluation));
    return llvm::Error::success();
  }

  Executor& executor_;
  BatchSource& data_;
  BatchSource* eval_data_;
  const TrainOptions& options_;
  TrainPosition& position_;
  const int64_t total_steps_;
  const uint64_t end_step_;
  Progress progress_;
  bool told_of_code_ = false;
  int64_t steps_started_ = 0;
  std::optional<InFlight> in_flight_;
  // of the step whose last micro-batch has not been counted yet
  double mean_ = 0, input_seconds_ = 0, step_seconds_ = 0;
  Clock::time_point last_end_ = {};
  TrainResult result_;
};

}  // namespace

llvm::Expected<TrainResult> Train(Executor& executor, BatchSource& data, BatchSource* eval_data,
                                  const TrainOptions& options, TrainPosition& position) {
  return Loop(executor, data, eval_data, options, position).Run();
}

}  // namespace act
