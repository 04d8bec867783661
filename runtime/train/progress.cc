#include "runtime/train/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "runtime/base/seconds.h"

namespace act {
namespace {

// 75 -> "1:15", 3675 -> "1:01:15".
std::string FormatSeconds(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  char text[48];
  if (whole >= 3600) {
    std::snprintf(text, sizeof text, "%lld:%02d:%02d", static_cast<long long>(whole / 3600),
                  static_cast<int>(whole / 60 % 60), static_cast<int>(whole % 60));
  } else {
    std::snprintf(text, sizeof text, "%d:%02d", static_cast<int>(whole / 60), static_cast<int>(whole % 60));
  }
  return text;
}

std::string Bar(double part) {
  constexpr int kWidth = 24;
  const int full = static_cast<int>(part * kWidth);
  return "[" + std::string(static_cast<size_t>(full), '#') +
         std::string(static_cast<size_t>(kWidth - full), '.') + "] ";
}

}  // namespace

Progress::Progress(int64_t total_steps) : terminal_(isatty(STDERR_FILENO) != 0), total_steps_(total_steps) {}

void Progress::Step(int64_t done, double loss, int64_t samples) {
  samples_ += samples;
  const auto now = Clock::now();
  const bool ends = done == 1 || done == total_steps_;
  if (!ends && SecondsBetween(shown_, now) < (terminal_ ? 0.1 : 5.0)) return;
  shown_ = now;

  const double seconds = std::max(1e-9, SecondsBetween(start_, now));
  std::string line = "step " + std::to_string(done);
  if (total_steps_ > 0) line += "/" + std::to_string(total_steps_);
  char numbers[80];
  std::snprintf(numbers, sizeof numbers, "  loss %.6g  %.4g samples/s", loss,
                static_cast<double>(samples_) / seconds);
  line += numbers;
  if (total_steps_ > 0) {
    const auto left = static_cast<double>(total_steps_ - done);
    line += "  " + FormatSeconds(left * seconds / static_cast<double>(done)) + " left";
  }
  if (terminal_) {
    const std::string bar =
        total_steps_ > 0 ? Bar(static_cast<double>(done) / static_cast<double>(total_steps_)) : "";
    std::fprintf(stderr, "\r%s%s\x1b[K", bar.c_str(), line.c_str());
    drawn_ = true;
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
}

void Progress::Say(const std::string& line) {
  if (drawn_) std::fprintf(stderr, "\r\x1b[K");
  drawn_ = false;
  std::fprintf(stderr, "%s\n", line.c_str());
}

void Progress::Finish() {
  if (drawn_) std::fprintf(stderr, "\n");
  drawn_ = false;
}

}  // namespace act
