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

}  // namespace

llvm::Expected<LearningRateSchedule> LearningRateSchedule::Parse(const std::string& text) {
  const auto wrong = [&](const std::string& what) {
    return MakeError("--lr-schedule=" + text, what, "constant, step,EVERY,FACTOR or cosine[,MIN[,STEPS]]");
  };
  const std::vector<std::string> parts = SplitAtCommas(text);
  LearningRateSchedule schedule;
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
    const auto minimum = parts.size() > 1 ? Number(parts[1]) : 0.0;
    const auto steps = parts.size() > 2 ? Steps(parts[2]) : uint64_t{0};
    if (!minimum || !steps || parts.size() > 3)
      return wrong("cosine takes a lowest rate and a number of steps");
    schedule.minimum_ = *minimum;
    schedule.steps_ = *steps;
  } else {
    return wrong("no such schedule");
  }
  return schedule;
}

double LearningRateSchedule::At(double base, uint64_t step, uint64_t end_step) const {
  switch (kind_) {
    case Kind::kConstant:
      return base;
    case Kind::kStep:
      return base * std::pow(factor_, static_cast<double>(step / every_));
    case Kind::kCosine:
      break;
  }
  const uint64_t steps = steps_ > 0 ? steps_ : end_step;
  if (steps == 0) return base;
  if (step >= steps) return minimum_;
  const double part = static_cast<double>(step) / static_cast<double>(steps);
  return minimum_ + (base - minimum_) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

}  // namespace act
