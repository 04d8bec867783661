#include "runtime/train/chart_html.h"

#include <llvm/Support/Format.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "runtime/base/html.h"

namespace act {
namespace {

// In SVG units.
constexpr double kWidth = 1000, kHeight = 250, kLeft = 70, kRight = 990, kTop = 10, kBottom = 220;
constexpr int kTicks = 5;

// 1, 2 or 5 times a power of ten, at most `kTicks` of which lie in `range`.
double TickDistance(double range) {
  const double rough = range / kTicks, power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

struct Axis {
  double low = 0, high = 1;
  bool logarithmic = false;
  std::vector<double> ticks = {};

  // From 0 at `low` to 1 at `high`, and not beyond.
  double Part(double value) const {
    if (value >= high) return 1;
    return logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  }
};

Axis LinearAxis(double low, double high) {
  if (high - low <= 1e-12 * std::max(std::fabs(high), std::fabs(low))) {
    const double room = high == 0 ? 1 : std::fabs(high) / 10;
    low -= room;
    high += room;
  }
  Axis axis{.low = low, .high = high};
  const double distance = TickDistance(high - low);
  for (double i = std::ceil(low / distance); i * distance <= high * (1 + 1e-12); ++i)
    axis.ticks.push_back(i * distance);
  return axis;
}

// Ticks at powers of ten; where these are few, at 2 and 5 times them, too.
Axis LogarithmicAxis(double low, double high) {
  Axis axis{.low = low, .high = high, .logarithmic = true};
  const double powers = std::log10(high / low), every = std::max(1.0, std::ceil(powers / kTicks));
  for (double power = std::floor(std::log10(low)); power <= std::log10(high); power += every)
    for (const double factor : {1.0, 2.0, 5.0})
      if (const double tick = factor * std::pow(10.0, power);
          tick >= low && tick <= high && (factor == 1 || powers < 3))
        axis.ticks.push_back(tick);
  return axis;
}

// Linear axes begin at 0 where that costs little. They end where means are readable: a few steps that are far
// above all means are cut off.
Axis ValueAxis(const Chart& chart) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  const auto see = [&](double a, double b) {
    low = std::min(low, a);
    high = std::max(high, b);
  };
  double highest_mean = 0;
  for (const Series::Bucket& bucket : chart.series->buckets()) {
    see(bucket.min, bucket.max);
    highest_mean = std::max(highest_mean, bucket.Mean());
  }
  for (const auto& [step, value] : chart.points)
    if (std::isfinite(value)) see(value, value);
  constexpr double kWide = 100;
  if (chart.may_be_logarithmic && low > 0 && high / low >= kWide) return LogarithmicAxis(low, high);
  if (highest_mean > 0 && high > 4 * highest_mean) high = 2 * highest_mean;
  if (low > 0 && low < high / 2) low = 0;
  return LinearAxis(low, high);
}

class Picture {
 public:
  explicit Picture(const Chart& chart)
      : chart_(chart), buckets_(chart.series->buckets()), values_(ValueAxis(chart)), out_(text_) {
    double first = static_cast<double>(chart.first_step), last = static_cast<double>(chart.last_step);
    const auto see = [&](uint64_t from, uint64_t to) {
      first = std::min(first, static_cast<double>(from));
      last = std::max(last, static_cast<double>(to));
    };
    for (const Series::Bucket& bucket : buckets_) see(bucket.first, bucket.last);
    for (const auto& [step, value] : chart.points) see(step, step);
    steps_ = LinearAxis(first, std::max(first + 1, last));
    std::erase_if(steps_.ticks, [](double tick) { return tick != std::floor(tick); });
  }

  std::string Render() {
    out_ << "<h2>" << HtmlEscaped(chart_.title) << "</h2>\n"
         << llvm::format("<svg viewBox=\"0 0 %g %g\" role=\"img\" font-size=\"14\">\n", kWidth, kHeight);
    Axes();
    Envelope();
    Means(chart_.smoothed && buckets_.size() > 2);
    Points();
    out_ << "</svg>\n";
    Legend();
    return out_.str();
  }

 private:
  double X(double step) const { return kLeft + (kRight - kLeft) * steps_.Part(step); }
  double X(const Series::Bucket& b) const {
    return X((static_cast<double>(b.first) + static_cast<double>(b.last)) / 2);
  }
  double Y(double value) const { return kBottom - (kBottom - kTop) * values_.Part(value); }

  void Axes() {
    for (const double tick : values_.ticks)
      out_ << llvm::format("<path stroke=\"var(--grid)\" d=\"M%g %.1fH%g\"/>", kLeft, Y(tick), kRight)
           << llvm::format("<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\" fill=\"var(--muted)\">", kLeft - 8,
                           Y(tick) + 5)
           << ShortNumber(tick) << HtmlEscaped(chart_.unit) << "</text>\n";
    for (const double tick : steps_.ticks)
      out_ << llvm::format("<path stroke=\"var(--grid)\" d=\"M%.1f %gV%g\"/>", X(tick), kBottom, kBottom + 5)
           << llvm::format("<text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\" fill=\"var(--muted)\">", X(tick),
                           kBottom + 21)
           << ShortNumber(tick) << "</text>\n";
    out_ << llvm::format("<path stroke=\"var(--muted)\" d=\"M%g %gH%g\"/>\n", kLeft, kBottom, kRight)
         << llvm::format("<text x=\"0\" y=\"%g\" fill=\"var(--muted)\">step</text>\n", kBottom + 21);
  }

  // From the smallest to the largest value of each bucket, where buckets have more than one.
  void Envelope() {
    if (!HasExtremes()) return;
    out_ << "<path fill=\"var(--band)\" d=\"";
    for (size_t i = 0; i < buckets_.size(); ++i)
      out_ << llvm::format("%c%.1f %.1f", i == 0 ? 'M' : 'L', X(buckets_[i]), Y(buckets_[i].max));
    for (size_t i = buckets_.size(); i-- > 0;)
      out_ << llvm::format("L%.1f %.1f", X(buckets_[i]), Y(buckets_[i].min));
    out_ << "Z\"/>\n";
  }

  void Means(bool smoothed) {
    if (buckets_.size() == 1) {
      out_ << llvm::format("<circle fill=\"var(--line)\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n", X(buckets_[0]),
                           Y(buckets_[0].Mean()));
      return;
    }
    Line([](const Series::Bucket& b) { return b.Mean(); }, smoothed ? 0.45 : 1, smoothed ? 1 : 1.6);
    if (!smoothed) return;
    // The weight of a bucket falls to 1/e over a twenty-fifth of the run, and no faster than over 3 buckets.
    // The sum of weights is kept beside, so that the first buckets do not count more than others.
    const double keep = std::exp(-1 / std::max(3.0, static_cast<double>(buckets_.size()) / 25));
    // On a logarithmic axis it is the logarithms that are averaged, so the line stays amid the others.
    const bool logarithmic = values_.logarithmic;
    double sum = 0, weight = 0;
    Line(
        [&](const Series::Bucket& b) {
          sum = keep * sum + (logarithmic ? std::log(b.Mean()) : b.Mean());
          weight = keep * weight + 1;
          return logarithmic ? std::exp(sum / weight) : sum / weight;
        },
        1, 2.6);
  }

  template <typename Value>
  void Line(Value value, double opacity, double width) {
    if (buckets_.empty()) return;
    out_ << llvm::format(
        "<path fill=\"none\" stroke=\"var(--line)\" stroke-opacity=\"%g\" stroke-width=\"%g\" d=\"", opacity,
        width);
    for (size_t i = 0; i < buckets_.size(); ++i)
      out_ << llvm::format("%c%.1f %.1f", i == 0 ? 'M' : 'L', X(buckets_[i]), Y(value(buckets_[i])));
    out_ << "\"/>\n";
  }

  void Points() {
    // A page stays small, however many evaluations there are.
    constexpr size_t kMost = 500;
    const size_t every = (chart_.points.size() + kMost - 1) / kMost;
    std::string line, dots;
    llvm::raw_string_ostream path(line), points(dots);
    for (size_t i = 0; i < chart_.points.size(); ++i) {
      const auto& [step, value] = chart_.points[i];
      if (!std::isfinite(value) || (i % every != 0 && i + 1 != chart_.points.size())) continue;
      const double x = X(static_cast<double>(step)), y = Y(value);
      path << llvm::format("%c%.1f %.1f", line.empty() ? 'M' : 'L', x, y);
      points << llvm::format("<circle fill=\"var(--mark)\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>", x, y)
             << llvm::format("step %llu: %.6g", static_cast<unsigned long long>(step), value)
             << "</title></circle>\n";
    }
    if (!line.empty())
      out_ << "<path fill=\"none\" stroke=\"var(--mark)\" stroke-width=\"1.2\" d=\"" << line << "\"/>\n"
           << dots;
  }

  void Legend() {
    std::string text;
    if (!chart_.points_name.empty() && !chart_.points.empty())
      text += "<span class=\"key\" style=\"background:var(--mark);border-radius:50%\"></span>" +
              HtmlEscaped(chart_.points_name) + ". ";
    if (chart_.smoothed && buckets_.size() > 2) text += "The thick line is smoothed. ";
    if (HasExtremes()) text += "The band goes from the lowest to the highest of neighbouring steps. ";
    if (values_.logarithmic) text += "The axis is logarithmic. ";
    double highest = -std::numeric_limits<double>::infinity();
    for (const Series::Bucket& bucket : buckets_) highest = std::max(highest, bucket.max);
    if (highest > values_.high && !values_.logarithmic)
      text += "The highest, " + ShortNumber(highest) + HtmlEscaped(chart_.unit) + ", is cut off.";
    if (!text.empty()) out_ << "<p class=\"muted\">" << text << "</p>\n";
  }

  bool HasExtremes() const {
    return std::any_of(buckets_.begin(), buckets_.end(),
                       [](const Series::Bucket& b) { return b.min < b.max; });
  }

  const Chart& chart_;
  const std::vector<Series::Bucket>& buckets_;
  const Axis values_;
  Axis steps_;
  std::string text_;
  llvm::raw_string_ostream out_;
};

}  // namespace

std::string ChartHtml(const Chart& chart) {
  if (chart.series->buckets().empty() && chart.points.empty()) return "";
  return Picture(chart).Render();
}

std::string ShortNumber(double value) {
  const char* suffix = "";
  for (const auto& [size, name] : {std::pair{1e9, "G"}, {1e6, "M"}, {1e4, "k"}}) {
    if (std::fabs(value) < size) continue;
    value /= *name == 'k' ? 1e3 : size;
    suffix = name;
    break;
  }
  char text[40];
  std::snprintf(text, sizeof text, "%.4g%s", value, suffix);
  return text;
}

}  // namespace act
