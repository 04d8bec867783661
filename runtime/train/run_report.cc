#include "runtime/train/run_report.h"

#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <numeric>

#include "runtime/base/json.h"
#include "runtime/base/size.h"

namespace act {
namespace {

__attribute__((format(printf, 2, 3))) std::string Line(const char* label, const char* format, ...) {
  char value[1024], line[1100];  // a value may name a file
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(value, sizeof value, format, arguments);
  va_end(arguments);
  std::snprintf(line, sizeof line, "  %-22s %s\n", label, value);
  return line;
}

std::string Bytes(int64_t bytes) { return FormatSize(bytes) + " (" + std::to_string(bytes) + " bytes)"; }

// Over full batches: all steps of an epoch but the last have one.
double SamplesPerSecond(const RunReport& report) {
  const double median = Summarize(report.result->step_seconds).median;
  return median > 0
             ? static_cast<double>(report.executor->layout().batch * report.executor->plan().accumulate) /
                   median
             : 0;
}

// Null where the lists' order decided.
llvm::json::Value KernelsJson(const KernelTuner* tuner) {
  if (!tuner) return nullptr;
  const KernelTuner::Summary summary = tuner->Count();
  return llvm::json::Object{{"timed", summary.timed},
                            {"from_file", summary.from_file},
                            {"differ", summary.differ},
                            {"file", JsonText(tuner->path())}};
}

// The nodes, most expensive first. Null without --profile.
llvm::json::Value ProfileJson(const RunReport& report) {
  if (!report.profiled) return nullptr;
  const double steps = std::max<double>(1, static_cast<double>(report.result->losses.size()));
  llvm::json::Array nodes;
  for (const ProfileRow& row : report.profile.nodes)
    nodes.push_back(llvm::json::Object{{"node", JsonText(row.what)},
                                       {"kernel", row.kernel},
                                       {"library", row.library},
                                       {"seconds", row.seconds / steps},
                                       {"bytes", row.bytes / steps}});
  return nodes;
}

// The section "Adaptation".
std::string DescribeAdaptations(const RunReport& report) {
  int64_t moves = 0;
  double seconds = 0;
  for (const Adaptation& a : report.adaptations) {
    moves += a.moved > 0;
    seconds += a.seconds;
  }
  std::string text = "\n=== Adaptation ===\n";
  text += Line("measured", "%zu times, each %lld steps, %.3f s in all", report.adaptations.size(),
               static_cast<long long>(report.adapt_every), seconds);
  text += Line("levels moved", "%lld times", static_cast<long long>(moves));
  if (!report.adaptations.empty())
    text += Line("sum of the edges' v", "%.3g at the last measurement, %.3g predicted after it",
                 report.adaptations.back().variance_before, report.adaptations.back().variance_after);
  text += Line("outside the arena", "%s", Bytes(report.adaptation_bytes).c_str());
  return text;
}

}  // namespace

StepTimes Summarize(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  const size_t n = seconds.size();
  const double median = n % 2 == 1 ? seconds[n / 2] : (seconds[n / 2 - 1] + seconds[n / 2]) / 2;
  const auto rank = static_cast<size_t>(std::ceil(0.99 * static_cast<double>(n)));  // nearest rank
  return {.median = median, .min = seconds.front(), .p99 = seconds[rank - 1]};
}

std::string DescribeOptimizer(const std::string& name, const Hyperparameters& hyper) {
  std::string text = name;
  const OptimizerInfo* optimizer = FindOptimizer(name);
  for (const HyperparameterInfo& info : AllHyperparameters()) {
    if (!optimizer || !optimizer->Takes(info.member)) continue;
    char number[64];
    std::snprintf(number, sizeof number, ", %s %g", info.name, hyper.*info.member);
    text += number;
  }
  return text;
}

llvm::json::Object OptimizerJson(const std::string& name, const Hyperparameters& hyper) {
  llvm::json::Object json{{"name", name}};
  const OptimizerInfo* optimizer = FindOptimizer(name);
  for (const HyperparameterInfo& info : AllHyperparameters())
    if (optimizer && optimizer->Takes(info.member)) json[info.name] = NumberOrNull(hyper.*info.member);
  return json;
}

double LibraryShare(const RunReport& report) {
  const std::vector<double>& steps = report.result->step_seconds;
  const double all = std::accumulate(steps.begin(), steps.end(), 0.0);
  return all > 0 ? report.profile.library_seconds / all : 0;
}

std::string FormatRunReport(const RunReport& report) {
  const Plan& plan = report.executor->plan();
  const MemoryLayout& layout = report.executor->layout();
  const TrainResult& result = *report.result;
  std::string text = "=== Plan ===\n";
  text += Line("model", "%s", plan.model_name.c_str());
  text += Line("level", "%s", plan.level.c_str());
  text += Line("optimizer", "%s", DescribeOptimizer(plan.optimizer, report.hyper).c_str());
  if (plan.clip_norm > 0) text += Line("gradient norm", "at most %g", plan.clip_norm);
  text += Line("batch", "%lld", static_cast<long long>(layout.batch));
  if (plan.accumulate > 1)
    text += Line("micro-batches a step", "%lld", static_cast<long long>(plan.accumulate));
  text += Line("nodes of a step", "%zu", plan.train.graph.nodes.size());
  text += Line("device", "%s, %d thread%s", report.device.c_str(), report.threads,
               report.threads == 1 ? "" : "s");
  if (report.tuner) text += Line("kernels", "%s", report.tuner->Describe().c_str());
  text += Line("seed", "%llu", static_cast<unsigned long long>(report.seed));

  text += "\n=== Memory ===\n";
  text += Line("peak, planned", "%s", Bytes(report.executor->promised_peak_bytes()).c_str());
  text += Line("peak, measured", "%s", Bytes(report.executor->arena().high_water_bytes()).c_str());
  text += Line("arena", "%s", Bytes(report.executor->arena().bytes()).c_str());
  if (report.executor->host_arena().bytes() > 0) {
    text += Line("host's, planned", "%s", Bytes(report.executor->promised_host_bytes()).c_str());
    text += Line("host's, measured", "%s, for swapped values; on a CPU both are RAM",
                 Bytes(report.executor->host_arena().high_water_bytes()).c_str());
  }
  if (report.beside.device > 0 || report.beside.host > 0) {
    text += Line("beside the arena", "%s of the card, for code, libraries and recorded steps",
                 Bytes(report.beside.device).c_str());
    text += Line("pinned staging", "%s of the host", Bytes(report.beside.host).c_str());
  }
  if (report.staging_bytes > 0)
    text +=
        Line("next step's inputs", "%s of the host, beside the arena", Bytes(report.staging_bytes).c_str());
  text += Line("process, resident", "%s", Bytes(report.resident_peak_bytes).c_str());

  if (report.adapt_every > 0) text += DescribeAdaptations(report);

  const StepTimes step = Summarize(result.step_seconds), input = Summarize(result.input_seconds);
  text += "\n=== Performance ===\n";
  text += Line("steps", "%zu", result.step_seconds.size());
  if (!result.losses.empty())
    text += Line("loss", "%.6g at first, %.6g at last", result.losses.front(), result.losses.back());
  text += Line("step", "median %.3f ms, min %.3f ms, p99 %.3f ms", step.median * 1e3, step.min * 1e3,
               step.p99 * 1e3);
  text += Line("inputs", "median %.3f ms, not counted in the step", input.median * 1e3);
  text += Line("throughput", "%.4g samples/s", SamplesPerSecond(report));
  text += Line("in library calls", "%.1f %% of the steps", 100 * LibraryShare(report));
  return text;
}

std::string RunReportJson(const RunReport& report) {
  const Plan& plan = report.executor->plan();
  const MemoryLayout& layout = report.executor->layout();
  const TrainResult& result = *report.result;
  const StepTimes step = Summarize(result.step_seconds);
  llvm::json::Array evaluations;
  for (const Evaluation& evaluation : result.evaluations) {
    evaluations.push_back(llvm::json::Object{{"epoch", static_cast<int64_t>(evaluation.epoch)},
                                             {"loss", NumberOrNull(evaluation.loss)},
                                             {"accuracy", NumberOrNull(evaluation.accuracy)}});
  }
  llvm::json::Array adaptations;
  for (const Adaptation& a : report.adaptations) {
    adaptations.push_back(llvm::json::Object{{"step", static_cast<int64_t>(a.step)},
                                             {"measured", a.measured},
                                             {"moved", a.moved},
                                             {"sum_of_edges", NumberOrNull(a.variance_before)},
                                             {"predicted", NumberOrNull(a.variance_after)},
                                             {"bytes", a.bytes},
                                             {"peak_bytes", a.peak_bytes},
                                             {"seconds", a.seconds}});
  }
  llvm::json::Value json = llvm::json::Object{
      {"model", JsonText(plan.model_name)},
      {"level", JsonText(plan.level)},
      {"compute", ToString(plan.compute)},
      {"batch", layout.batch},
      {"accumulate", plan.accumulate},
      {"clip_norm", plan.clip_norm},
      {"optimizer", OptimizerJson(plan.optimizer, report.hyper)},
      {"device", report.device},
      {"threads", report.threads},
      {"seed", report.seed},
      {"kernels", KernelsJson(report.tuner)},
      {"peak_bytes", report.executor->arena().high_water_bytes()},
      {"planned_peak_bytes", report.executor->promised_peak_bytes()},
      {"arena_bytes", report.executor->arena().bytes()},
      {"host_bytes", report.executor->host_arena().high_water_bytes()},
      {"planned_host_bytes", report.executor->promised_host_bytes()},
      {"resident_peak_bytes", report.resident_peak_bytes},
      {"device_bytes_beside_arena", report.beside.device},
      {"pinned_bytes", report.beside.host},
      {"staging_bytes", report.staging_bytes},
      {"losses", llvm::json::Array(result.losses)},
      {"evaluations", std::move(evaluations)},
      {"step_seconds", llvm::json::Object{{"median", step.median},
                                          {"min", step.min},
                                          {"p99", step.p99},
                                          {"all", llvm::json::Array(result.step_seconds)}}},
      {"input_seconds", llvm::json::Array(result.input_seconds)},
      {"samples_per_second", SamplesPerSecond(report)},
      {"library_share", LibraryShare(report)},
      {"profile", ProfileJson(report)},
      {"interrupted", result.interrupted},
      {"adapt_every", report.adapt_every},
      {"adaptation_bytes", report.adaptation_bytes},
      {"adaptations", std::move(adaptations)},
  };
  std::string text;
  llvm::raw_string_ostream(text) << llvm::formatv("{0:2}", json) << "\n";
  return text;
}

}  // namespace act
