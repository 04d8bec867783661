#include "runtime/train/run_page.h"

#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <cstdio>

#include "runtime/base/html.h"
#include "runtime/base/size.h"
#include "runtime/memory/timeline_html.h"
#include "runtime/train/chart_html.h"

namespace act {
namespace {

// So that the page of a step of any length stays small.
constexpr size_t kMostColumns = 600;
// Evaluations in the table: the first and the last ones.
constexpr size_t kMostRows = 50;

std::string Number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string Bytes(int64_t bytes) { return FormatSize(bytes) + " (" + std::to_string(bytes) + " bytes)"; }

class Page {
 public:
  explicit Page(const RunPage& page) : page_(page), curves_(*page.curves), out_(text_) {}

  std::string Render() {
    out_ << HtmlHead(page_.title) << "<h1>" << HtmlEscaped(page_.title) << "</h1>\n<p>"
         << HtmlEscaped(page_.end) << "</p>\n";
    for (const std::string& warning : curves_.warnings)
      out_ << "<p><b>Not finite:</b> " << HtmlEscaped(warning) << "</p>\n";
    Losses();
    Show({.title = "Learning rate", .series = &curves_.learning_rate});
    Show({.title = "Gradient norm",
          .series = &curves_.gradient_norm,
          .smoothed = true,
          .may_be_logarithmic = true});
    Show({.title = "Seconds of a step", .unit = " s", .series = &curves_.seconds});
    Show({.title = "Samples a second", .series = &curves_.samples_per_second});
    Memory();
    Table();
    Evaluations();
    out_ << "</body></html>\n";
    return out_.str();
  }

 private:
  void Row(const std::string& name, const std::string& value) {
    out_ << "<tr><td>" << HtmlEscaped(name) << "</td><td>" << HtmlEscaped(value) << "</td></tr>\n";
  }

  // All pictures have the same axis of steps.
  void Show(Chart chart) {
    const auto& buckets = curves_.loss.buckets();
    if (!buckets.empty()) {
      chart.first_step = buckets.front().first;
      chart.last_step = buckets.back().last;
    }
    if (!curves_.evaluations.empty())
      chart.last_step = std::max(chart.last_step, curves_.evaluations.back().first);
    out_ << ChartHtml(chart);
  }

  void Losses() {
    Chart loss{.title = "Loss", .series = &curves_.loss, .smoothed = true, .may_be_logarithmic = true};
    Series none;
    Chart accuracy{.title = "Accuracy of the evaluation data", .series = &none};
    for (const auto& [step, evaluation] : curves_.evaluations) {
      loss.points.emplace_back(step, evaluation.loss);
      if (evaluation.accuracy) accuracy.points.emplace_back(step, *evaluation.accuracy);
    }
    loss.points_name = "of the evaluation data";
    Show(std::move(loss));
    Show(std::move(accuracy));
  }

  void Memory() {
    const Executor& executor = *page_.executor;
    const StepPicture picture = PictureOf(executor.plan(), executor.layout());
    out_ << "<h2>Memory over a step</h2>\n<p>Peak planned <b>" << Bytes(executor.promised_peak_bytes())
         << "</b>, measured <b>" << Bytes(executor.arena().high_water_bytes()) << "</b>.</p>\n"
         << StepPictureSvg(picture, kMostColumns)
         << "<p class=\"muted\">Live bytes from the first node to the last. The upper edge is the planned "
            "peak; "
            "the backward pass begins at the dashed line.<br>";
    for (const MemoryCategory category : LayersOfPicture())
      out_ << "<span class=\"key\" style=\"background:" << ColorOf(category) << "\"></span>"
           << ToString(category) << " &nbsp; ";
    out_ << "</p>\n";
  }

  void Table() {
    out_ << "<h2>The run</h2>\n<table>\n";
    for (const auto& [name, value] : page_.rows) Row(name, value);
    Row("steps", std::to_string(curves_.steps));
    if (curves_.steps > 0)
      Row("loss", Number(curves_.first_loss) + " at first, " + Number(curves_.last_loss) + " at last");
    Row("end", page_.end);
    out_ << "</table>\n";
  }

  void Evaluations() {
    const auto& all = curves_.evaluations;
    if (all.empty()) return;
    out_ << "<h2>Evaluations</h2>\n<table><tr><th>epochs</th><th>steps</th><th>loss</th>"
            "<th>accuracy</th></tr>\n";
    for (size_t i = 0; i < all.size(); ++i) {
      if (all.size() > kMostRows && i == kMostRows / 2) {
        out_ << "<tr><td colspan=\"4\">" << all.size() - kMostRows << " left out</td></tr>\n";
        i = all.size() - kMostRows / 2;
      }
      const auto& [step, evaluation] = all[i];
      out_ << "<tr><td class=\"n\">" << evaluation.epoch << "</td><td class=\"n\">" << step
           << "</td><td class=\"n\">" << Number(evaluation.loss) << "</td><td class=\"n\">"
           << (evaluation.accuracy ? Number(*evaluation.accuracy) : "") << "</td></tr>\n";
    }
    out_ << "</table>\n";
  }

  const RunPage& page_;
  const RunCurves& curves_;
  std::string text_;
  llvm::raw_string_ostream out_;
};

}  // namespace

std::string RunPageHtml(const RunPage& page) { return Page(page).Render(); }

}  // namespace act
