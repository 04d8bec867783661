#include "tools/run_log.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/raw_ostream.h>

#include <chrono>
#include <cstdio>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/train/run_page.h"
#include "runtime/train/run_report.h"

namespace act {
namespace {

constexpr int64_t kLogFormat = 1;

int64_t UnixTime() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

llvm::json::Object Header(const RunFlags& f, const RunWatch::Facts& facts) {
  const Plan& plan = facts.plan;
  return llvm::json::Object{{"format", kLogFormat},
                            {"version", ACT_VERSION},
                            {"time", UnixTime()},
                            {"plan", JsonText(f.plan)},
                            {"fingerprint", llvm::utohexstr(FingerprintOf(plan), /*LowerCase=*/true)},
                            {"model", JsonText(plan.model_name)},
                            {"level", JsonText(plan.level)},
                            {"compute", ToString(plan.compute)},
                            {"optimizer", OptimizerJson(plan.optimizer, facts.hyper)},
                            {"lr_schedule", JsonText(f.lr_schedule)},
                            {"warmup", JsonText(f.warmup)},
                            {"clip_norm", plan.clip_norm},
                            {"batch", facts.executor.layout().batch},
                            {"accumulate", plan.accumulate},
                            {"device", JsonText(facts.device)},
                            {"threads", facts.threads},
                            {"seed", facts.start.seed},
                            {"epoch", static_cast<int64_t>(facts.start.epoch)},
                            {"planned_peak_bytes", facts.executor.promised_peak_bytes()},
                            {"arena_bytes", facts.executor.arena().bytes()}};
}

std::vector<std::pair<std::string, std::string>> Rows(const RunFlags& f, const RunWatch::Facts& facts) {
  const Plan& plan = facts.executor.plan();
  std::vector<std::pair<std::string, std::string>> rows = {
      {"plan", f.plan},
      {"model", plan.model_name},
      {"level", plan.level},
      {"compute", ToString(plan.compute)},
      {"optimizer", DescribeOptimizer(plan.optimizer, facts.hyper)},
      {"learning rate over time", f.lr_schedule}};
  if (!f.warmup.empty()) rows.emplace_back("warm-up", f.warmup);
  char norm[40];
  std::snprintf(norm, sizeof norm, "at most %g", plan.clip_norm);
  if (plan.clip_norm > 0) rows.emplace_back("gradient norm", norm);
  rows.emplace_back("batch", std::to_string(facts.executor.layout().batch));
  if (plan.accumulate > 1) rows.emplace_back("micro-batches a step", std::to_string(plan.accumulate));
  if (!f.data.empty()) rows.emplace_back("data", f.data);
  if (!f.eval_data.empty()) rows.emplace_back("evaluation data", f.eval_data);
  rows.emplace_back("device", facts.device + ", " + std::to_string(facts.threads) + " thread" +
                                  (facts.threads == 1 ? "" : "s"));
  rows.emplace_back("seed", std::to_string(facts.start.seed));
  if (facts.start.step > 0)
    rows.emplace_back("continues", "after " + std::to_string(facts.start.step) + " steps of earlier runs");
  rows.emplace_back("actrun", ACT_VERSION);
  return rows;
}

}  // namespace

std::string CheckRunLogUsage(const RunFlags& f) {
  if (f.patience.getNumOccurrences() && f.patience < 1) return "--patience: expected at least 1";
  if (f.patience > 0 && f.eval_data.empty())
    return "--patience: needs --eval-data, whose evaluations it counts";
  if (f.patience_of.getNumOccurrences() && f.patience == 0) return "--patience-of: needs --patience";
  if (f.patience_of != "loss" && f.patience_of != "accuracy")
    return "--patience-of: expected loss or accuracy, found '" + f.patience_of + "'";
  for (const llvm::cl::opt<std::string>* flag : {&f.log, &f.report_html, &f.warmup})
    if (flag->getNumOccurrences() && flag->empty())
      return "--" + flag->ArgStr.str() + ": expected a value, found none";
  return "";
}

llvm::Expected<RunWatch> RunWatch::Open(const RunFlags& f, const Facts& facts) {
  const Plan& plan = facts.executor.plan();
  RunWatch watch;
  watch.executor_ = &facts.executor;
  watch.title_ = "Training of " + plan.model_name + ", level " + plan.level + ", batch " +
                 std::to_string(facts.executor.layout().batch);
  if (f.patience > 0) {
    const Figure figure = f.patience_of == "accuracy" ? Figure::kAccuracy : Figure::kLoss;
    if (figure == Figure::kAccuracy && plan.eval.graph.outputs.size() < 2)
      return MakeError("--patience-of", "the model has no class labels, and so no accuracy",
                       "--patience-of=loss");
    watch.early_stop_ = std::make_unique<EarlyStop>(f.patience, figure, facts.start);
  }
  if (!f.report_html.empty()) {
    watch.page_path_ = f.report_html;
    watch.rows_ = Rows(f, facts);
    watch.curves_ = std::make_unique<RunCurves>();
  }
  if (!f.log.empty()) {
    ACT_TRY(watch.log_, RunLog::Open(f.log, Header(f, facts), facts.start, &facts.executor));
  }
  return watch;
}

void RunWatch::AddTo(std::vector<RunFollower*>& followers) const {
  for (RunFollower* follower :
       std::initializer_list<RunFollower*>{log_.get(), curves_.get(), early_stop_.get()})
    if (follower) followers.push_back(follower);
}

void RunWatch::End(const std::string& why, const std::string& text, uint64_t step) {
  end_ = text;
  if (!log_) return;
  log_->Event("end", step, llvm::json::Object{{"why", why}, {"text", JsonText(text)}, {"time", UnixTime()}});
  if (log_->lost() > 0)
    llvm::errs() << "actrun: warning: " << log_->lost() << " lines of the log could not be written\n";
}

void RunWatch::Ended(const TrainResult& result, const TrainPosition& position) {
  const std::string after = " after step " + std::to_string(position.step);
  if (result.interrupted) return End("interrupted", "interrupted" + after, position.step);
  if (result.end_reason.empty()) return End("done", "done" + after, position.step);
  llvm::errs() << "actrun: ended" << after << ": " << result.end_reason << "\n";
  End("stopped", "ended" + after + ": " + result.end_reason, position.step);
}

llvm::Error RunWatch::Failed(llvm::Error error, const TrainPosition& position) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << error;
  End("error", text, position.step);
  return llvm::joinErrors(std::move(error), WritePage());
}

llvm::Error RunWatch::WritePage() const {
  if (!curves_) return llvm::Error::success();
  return WriteFile(
      page_path_,
      RunPageHtml(
          {.title = title_, .rows = rows_, .end = end_, .executor = executor_, .curves = curves_.get()}));
}

}  // namespace act
