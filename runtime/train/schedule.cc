#include "runtime/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <optional>
#include <vector>

#include "runtime/base/error.h"

namespace act {
namespace {

std::vector<std::string> SplitAtCommas(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::optional<double> Number(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0' || !std::isfinite(number) || number < 0) return std::nullopt;
  return number;
}

// A whole number of steps, at least 1.
std::optional<uint64_t> Steps(const std::string& text) {
  const auto number = Number(text);
  if (!number || *number < 1 || *number > 1e15 || *number != std::floor(*number)) return std::nullopt;
  return static_cast<uint64_t>(*number);
}

// From `from` to `to` along half a cosine; `part` is how much of the way is done.
double Anneal(double from, double to, double part) {
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * part));
}

}  // namespace

llvm::Expected<LearningRateSchedule> LearningRateSchedule::Parse(const std::string& text,
                                                                 const std::string& warmup) {
  const auto wrong = [&](const std::string& what) {
    return MakeError("--lr-schedule=" + text, what,
                     "constant, step,EVERY,FACTOR, cosine[,MIN[,STEPS]] or "
                     "onecycle[,PEAK[,STEPS[,RISE[,DIV[,FINAL_DIV]]]]]");
  };
  const std::vector<std::string> parts = SplitAtCommas(text);
  const auto number = [&](size_t i, double otherwise) {
    return parts.size() > i ? Number(parts[i]) : otherwise;
  };
  const auto steps = [&](size_t i) { return parts.size() > i ? Steps(parts[i]) : uint64_t{0}; };
  LearningRateSchedule schedule;
  ACT_CHECK_OK(schedule.ParseWarmup(warmup));
  if (parts[0] == "constant") {
    if (parts.size() > 1) return wrong("constant takes nothing more");
  } else if (parts[0] == "step") {
    schedule.kind_ = Kind::kStep;
    const auto every = parts.size() == 3 ? Steps(parts[1]) : std::nullopt;
    const auto factor = parts.size() == 3 ? Number(parts[2]) : std::nullopt;
    if (!every || !factor) return wrong("step takes a number of steps and a factor");
    schedule.every_ = *every;
    schedule.factor_ = *factor;
  } else if (parts[0] == "cosine") {
    schedule.kind_ = Kind::kCosine;
    const auto minimum = number(1, 0);
    const auto length = steps(2);
    if (!minimum || !length || parts.size() > 3)
      return wrong("cosine takes a lowest rate and a number of steps");
    if (*length > 0 && *length <= schedule.warmup_) return wrong("it ends before --warmup does");
    schedule.minimum_ = *minimum;
    schedule.steps_ = *length;
  } else if (parts[0] == "onecycle") {
    schedule.kind_ = Kind::kOneCycle;
    const auto peak = number(1, 1), rise = number(3, 0.3), div = number(4, 25), last = number(5, 1e4);
    const auto length = steps(2);
    if (!peak || !length || !rise || !div || !last || parts.size() > 6)
      return wrong("onecycle takes a factor of --lr, a number of steps, a part and two divisors");
    if (*rise > 1) return wrong("RISE is a part of the steps, at most 1");
    if (*div == 0 || *last == 0) return wrong("a divisor is 0");
    if (schedule.warmup_ > 0) return wrong("it rises by itself, and takes no --warmup");
    schedule.peak_ = *peak;
    schedule.steps_ = *length;
    schedule.rise_ = *rise;
    schedule.div_ = *div;
    schedule.final_div_ = *last;
  } else {
    return wrong("no such schedule");
  }
  return schedule;
}

llvm::Error LearningRateSchedule::ParseWarmup(const std::string& text) {
  if (text.empty()) return llvm::Error::success();
  const std::vector<std::string> parts = SplitAtCommas(text);
  const auto steps = Steps(parts[0]);
  const auto start = parts.size() > 1 ? Number(parts[1]) : 0.0;
  const auto wrong = [&](const char* what) {
    return MakeError("--warmup=" + text, what,
                     "STEPS or STEPS,START, as 1000 or 1000,0.1; without the flag there is no warm-up");
  };
  if (!steps) return wrong("expected a number of steps, at least 1");
  if (!start || *start > 1) return wrong("START is a factor of --lr, from 0 to 1");
  if (parts.size() > 2) return wrong("expected no more than STEPS and START");
  warmup_ = *steps;
  warmup_start_ = *start;
  return llvm::Error::success();
}

double LearningRateSchedule::At(double base, uint64_t step, uint64_t end_step) const {
  if (step < warmup_) {
    const double part = static_cast<double>(step) / static_cast<double>(warmup_);
    return base * (warmup_start_ + (1 - warmup_start_) * part);
  }
  const uint64_t end = steps_ > 0 ? steps_ : end_step;
  switch (kind_) {
    case Kind::kConstant:
      return base;
    case Kind::kStep: {
      const uint64_t drops = (step - warmup_) / every_;
      return base * std::pow(factor_, static_cast<double>(drops));
    }
    case Kind::kCosine:
      if (end == 0) return base;
      if (step >= end) return minimum_;
      return Anneal(base, minimum_, static_cast<double>(step - warmup_) / static_cast<double>(end - warmup_));
    case Kind::kOneCycle:
      break;
  }
  return end == 0 ? base : OneCycle(base, std::min(step, end - 1), end);
}

// The rise ends at step `turn`, which need not be whole; the fall ends with the last step.
double LearningRateSchedule::OneCycle(double base, uint64_t step, uint64_t steps) const {
  const double highest = peak_ * base, first = highest / div_, last = first / final_div_;
  const double at = static_cast<double>(step), turn = rise_ * static_cast<double>(steps) - 1;
  if (turn > 0 && at <= turn) return Anneal(first, highest, at / turn);
  const double fall = static_cast<double>(steps - 1) - turn;
  return fall > 0 ? Anneal(highest, last, (at - turn) / fall) : highest;
}

}  // namespace act
