#include "runtime/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/seconds.h"
#include "runtime/plan/gradient_norm.h"
#include "runtime/train/code_watch.h"
#include "runtime/train/progress.h"
#include "runtime/train/step_dump.h"

namespace act {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// What `limit` (0: none) counts up to, from `begin` where it does not count from the start.
uint64_t EndOf(int64_t limit, bool from_start, uint64_t begin) {
  if (limit == 0) return kNoLimit;
  return (from_start ? 0 : begin) + static_cast<uint64_t>(limit);
}

// The number of steps from `position` to the end.
int64_t StepsUntil(uint64_t last_step, uint64_t last_epoch, int64_t samples, const Plan& plan, int64_t batch,
                   const TrainPosition& position) {
  uint64_t total = last_step == kNoLimit ? kNoLimit : last_step - std::min(last_step, position.step);
  if (last_epoch == kNoLimit || samples == 0) return static_cast<int64_t>(total);
  if (position.epoch >= last_epoch) return 0;
  const auto steps_in = [&](int64_t n) {
    const int64_t batches = (n + (plan.fixed_batch ? 0 : batch - 1)) / batch;
    return static_cast<uint64_t>((batches + plan.accumulate - 1) / plan.accumulate);
  };
  const uint64_t rest = steps_in(std::max<int64_t>(0, samples - position.position));
  total = std::min(total, rest + (last_epoch - position.epoch - 1) * steps_in(samples));
  return static_cast<int64_t>(total);
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
        last_step_(EndOf(options.steps, options.from_start, position.step)),
        last_epoch_(EndOf(options.epochs, options.from_start, position.epoch)),
        total_steps_(StepsUntil(last_step_, last_epoch_, data.SamplesPerEpoch(), executor.plan(),
                                executor.layout().batch, position)),
        end_step_(position.step + static_cast<uint64_t>(total_steps_)),
        progress_(total_steps_) {}

  llvm::Expected<TrainResult> Run() {
    if (data_.SamplesPerEpoch() > 0) data_.StartEpoch(position_.epoch, position_.position);
    ACT_CHECK_OK(BindLastBatches());
    TakeRoomForRecords();
    Warn();
    WarnOfEvaluation();
    if (EndsEarly()) return std::move(result_);
    while (!result_.interrupted && position_.epoch < last_epoch_) {
      const int64_t batch = data_.Next(executor_.layout().batch);
      if (batch == 0) {
        ACT_CHECK_OK(EndEpoch());
        if (EndsEarly()) break;
        if (position_.epoch < last_epoch_) data_.StartEpoch(position_.epoch, 0);
        continue;
      }
      if (position_.step >= last_step_) break;
      if (options_.between) {
        ACT_TRY(const BetweenSteps::Outcome outcome,
                options_.between->Before(executor_, data_, batch, State()));
        if (!outcome.line.empty()) progress_.Say(outcome.line);
        if ((result_.interrupted = outcome.interrupted)) break;
        if (outcome.adaptation) {
          ACT_CHECK_OK(Settle());
          for (RunFollower* follower : options_.followers)
            ACT_CHECK_OK(follower->AfterAdaptation(*outcome.adaptation));
        }
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
  // The memory of a run is what it is after the first steps: the pages of its records are taken at the start. A run
  // of more steps than these 24 MiB hold is one that the user will end.
  void TakeRoomForRecords() {
    constexpr int64_t kMostSteps = int64_t{1} << 20;
    for (std::vector<double>* records : {&result_.losses, &result_.step_seconds, &result_.input_seconds}) {
      records->resize(static_cast<size_t>(std::min(total_steps_, kMostSteps)));
      records->clear();
    }
  }

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
      Tell(*follower);
    }
    return llvm::Error::success();
  }

  void Tell(RunFollower& follower) {
    for (const std::string& warning : follower.TakeWarnings()) progress_.Say("actrun: warning: " + warning);
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

  void WarnOfEvaluation() {
    if (!eval_data_) return;
    for (const std::string& warning : eval_data_->TakeWarnings())
      progress_.Say("actrun: warning: " + warning);
  }

  // Warns once: what follows from the first NaN is of no interest.
  llvm::Error WarnOf(const std::optional<NotFinite>& code) {
    if (!code) return llvm::Error::success();
    told_of_code_ = true;
    progress_.Say("actrun: warning: step " + std::to_string(position_.step) + ": " + code->text);
    for (RunFollower* follower : options_.followers)
      ACT_CHECK_OK(follower->AfterNotFinite(position_.step, *code));
    return llvm::Error::success();
  }

  // A micro-batch that the device has been told to compute, and whose loss has not been read.
  struct InFlight {
    uint64_t ticket = 0;  // of its loss
    std::optional<uint64_t> norm_ticket =
        {};  // of the gradient's norm, where the step ends and the plan has it
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
      next.input_seconds = SecondsBetween(start, next.start);
      if (llvm::Error error = executor_.Run(*graph, state, observers))
        return WithPlace(std::move(error), Place(next.step));
      ACT_TRY(next.ticket, StartReadingLoss(*graph));
      if (next.ends_step && norm_ != kNoValue) {
        ACT_TRY(next.norm_ticket, StartReadingNumber(*graph, norm_));
      }
      Warn();
      if (codes) ACT_CHECK_OK(WarnOf(codes->Found()));
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
    std::optional<double> norm;
    if (done.norm_ticket) {
      ACT_TRY(const float number, executor_.device().FinishRead(*done.norm_ticket));
      norm = number;
    }
    if (!std::isfinite(loss)) {
      // The sign of a NaN says nothing.
      return MakeError(
          Place(done.step), "the loss is " + std::to_string(std::isnan(loss) ? std::abs(loss) : loss),
          data_.IsRandom() ? "the inputs are random numbers, by which a model may divide or choose "
                             "nothing; give --data or --inputs, or lower --lr"
                           : "lower --lr, or look for wrong numbers in the data; this step is not saved");
    }
    const auto end = Clock::now();
    mean_ += done.share * loss;
    input_seconds_ += done.input_seconds;
    step_seconds_ += SecondsBetween(std::max(done.start, last_end_), end);
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
                            .input_seconds = result_.input_seconds.back(),
                            .gradient_norm = norm};
    for (RunFollower* follower : options_.followers) {
      ACT_CHECK_OK(follower->AfterStep(record));
      Tell(*follower);
    }
    return llvm::Error::success();
  }

  llvm::Error EndEpoch() {
    ACT_CHECK_OK(Settle());
    ++position_.epoch;
    position_.position = 0;
    if (!eval_data_) return llvm::Error::success();
    ACT_TRY(Evaluation evaluation, Evaluate(executor_, *eval_data_, State()));
    evaluation.epoch = position_.epoch;
    WarnOfEvaluation();
    progress_.Say(Describe(evaluation));
    result_.evaluations.push_back(evaluation);
    position_.best.Add(evaluation);
    for (RunFollower* follower : options_.followers) {
      ACT_CHECK_OK(follower->AfterEvaluation(executor_, position_, evaluation));
      Tell(*follower);
    }
    return llvm::Error::success();
  }

  Executor& executor_;
  BatchSource& data_;
  BatchSource* eval_data_;
  const TrainOptions& options_;
  TrainPosition& position_;
  const uint64_t last_step_, last_epoch_;  // where the run ends, at the latest
  const int64_t total_steps_;
  const uint64_t end_step_;
  const ValueId norm_ = GradientNormOf(executor_.plan());
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
