#include <llvm/Support/Format.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <iterator>

#include "runtime/base/html.h"
#include "runtime/base/size.h"
#include "runtime/memory/comparison.h"

namespace act {
namespace {

constexpr int kWidth = 1000, kHeight = 320;  // of the picture, in SVG units
constexpr int kGridLines = 4;

// Of the curves. The first plan, to which the others compare, is grey. All can be seen on white and on black.
constexpr const char* kColors[] = {"#8b93a1", "#3b82f6", "#ea580c", "#16a34a",
                                   "#a855f7", "#db2777", "#0891b2", "#ca8a04"};

// The labels of the picture are text of the page, so that a narrow page does not shrink them.
constexpr char kStyle[] =
    "<style>.plot{position:relative;margin:.6em 0}.plot svg{display:block;height:340px}"
    ".plot span{position:absolute;left:.2em;font-size:.8em;line-height:1.2;color:var(--muted)}"
    ".plot path{fill:none;vector-effect:non-scaling-stroke}.legend "
    "span{margin-right:1.4em;white-space:nowrap}"
    ".legend i{display:inline-block;width:.8em;height:.8em;margin-right:.4em}.wide{overflow-x:auto}"
    ".wide td{white-space:nowrap}</style>\n";

class Page {
 public:
  explicit Page(const Comparison& comparison)
      : comparison_(comparison), first_(comparison.plans.front()), out_(text_) {
    for (const ComparedPlan& plan : comparison_.plans) top_ = std::max(top_, comparison_.PeakOf(plan));
  }

  std::string Render() {
    const std::string title = ComparisonTitle(comparison_);
    out_ << HtmlHead(title) << kStyle << "<h1>" << HtmlEscaped(title) << "</h1>\n";
    Legend();
    Picture();
    Table();
    MicroBatches();
    if (comparison_.share_bytes == 0) Batches();
    out_ << "</body></html>\n";
    return out_.str();
  }

 private:
  static const char* ColorOfPlan(size_t plan) { return kColors[plan % std::size(kColors)]; }

  double Y(int64_t bytes) const {
    return kHeight * (1 - static_cast<double>(bytes) / static_cast<double>(top_));
  }

  void Legend() {
    out_ << "<p class=\"legend\">";
    for (size_t p = 0; p < comparison_.plans.size(); ++p) {
      const ComparedPlan& plan = comparison_.plans[p];
      out_ << "<span><i style=\"background:" << ColorOfPlan(p) << "\"></i>" << HtmlEscaped(plan.name)
           << " <b>" << FormatSize(comparison_.PeakOf(plan)) << "</b></span>\n";
    }
    out_ << "</p>\n";
  }

  // Forward passes share the part of the axis that the first plan's takes, and backward passes the rest:
  // plans have different numbers of nodes.
  void Curve(size_t p) {
    const MemoryReport& report = comparison_.plans[p].report;
    const std::vector<int64_t>& live = report.layout.train.timeline;
    const auto nodes = static_cast<double>(live.size());
    const auto forward = static_cast<double>(report.first_backward);
    const auto x = [&](size_t node) {
      const auto n = static_cast<double>(node);
      if (n < forward) return kWidth * turn_ * n / forward;
      return kWidth * (turn_ + (1 - turn_) * (n - forward) / std::max(1.0, nodes - forward));
    };
    out_ << "<path stroke=\"" << ColorOfPlan(p) << "\" stroke-width=\"2\" d=\"";
    for (size_t n = 0; n < live.size(); ++n)
      out_ << llvm::format(n == 0 ? "M%.1f %.1f" : "H%.1fV%.1f", x(n), Y(live[n] + comparison_.share_bytes));
    out_ << "H" << kWidth << "\"><title>" << HtmlEscaped(comparison_.plans[p].name) << "</title></path>\n";
  }

  void Picture() {
    const MemoryReport& first = first_.report;
    if (first.ops.empty()) return;
    turn_ = static_cast<double>(first.first_backward) / static_cast<double>(first.ops.size());
    out_ << llvm::format(
        "<div class=\"plot\"><svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\">\n", kWidth,
        kHeight);
    for (int line = 0; line <= kGridLines; ++line)
      out_ << llvm::format("<path stroke=\"var(--grid)\" d=\"M0 %dH%d\"/>\n", line * kHeight / kGridLines,
                           kWidth);
    out_ << llvm::format("<path stroke=\"var(--muted)\" stroke-dasharray=\"4\" d=\"M%.1f 0V%d\"/>\n",
                         turn_ * kWidth, kHeight);
    if (comparison_.fit_bytes > 0 && comparison_.fit_bytes <= top_)
      out_ << llvm::format(
          "<path stroke=\"var(--mark)\" stroke-dasharray=\"8 4\" d=\"M0 "
          "%.1fH%d\"><title>--fit</title></path>\n",
          Y(comparison_.fit_bytes), kWidth);
    for (size_t p = 0; p < comparison_.plans.size(); ++p) Curve(p);
    out_ << "</svg>\n";
    for (int line = 0; line < kGridLines; ++line)
      out_ << llvm::format("<span style=\"top:%d%%\">", 100 * line / kGridLines)
           << FormatSize(top_ / kGridLines * (kGridLines - line)) << "</span>\n";
    out_ << "</div>\n<p class=\"muted\">Live bytes from the first node of a step to the last. The backward "
            "passes of all plans begin at the dashed line.</p>\n";
  }

  void Pair(const std::string& value, const std::string& relative, bool is_first) {
    out_ << "<td class=\"n\">" << value << "</td><td class=\"muted\">" << (is_first ? "" : relative)
         << "</td>";
  }

  void NameCell(size_t p) {
    out_ << "<tr><td><span class=\"key\" style=\"background:" << ColorOfPlan(p) << "\"></span>"
         << HtmlEscaped(comparison_.plans[p].name) << "</td>";
  }

  void Table() {
    out_ << "<div class=\"wide\"><table><tr><th>plan</th><th colspan=\"2\">peak</th>"
            "<th colspan=\"2\">saved activations</th><th>expected variance</th>"
         << (first_.seconds ? "<th>expected time</th>" : "<th colspan=\"2\">arithmetic of a step</th>");
    if (comparison_.fit_bytes > 0)
      out_ << "<th colspan=\"2\">largest " << HtmlEscaped(comparison_.fit_of) << " in "
           << FormatSize(comparison_.fit_bytes) << "</th>";
    out_ << "</tr>\n";
    for (size_t p = 0; p < comparison_.plans.size(); ++p) {
      const ComparedPlan& plan = comparison_.plans[p];
      const auto pair = [&](int64_t value, int64_t reference) {
        Pair(FormatSize(value), Relative(static_cast<double>(value), static_cast<double>(reference)), p == 0);
      };
      NameCell(p);
      pair(comparison_.PeakOf(plan), comparison_.PeakOf(first_));
      pair(plan.report.saved_bytes, first_.report.saved_bytes);
      out_ << "<td class=\"n\">" << VarianceText(plan) << "</td>";
      Work(plan, p == 0);
      if (plan.fits)
        Pair(*plan.fits > 0 ? std::to_string(*plan.fits) : "none",
             Relative(static_cast<double>(*plan.fits), static_cast<double>(first_.fits.value_or(0))), p == 0);
      out_ << "</tr>\n";
    }
    out_ << "</table></div>\n";
    Notes();
  }

  // The expected time, relative to the first plan's; where there is none, the arithmetic.
  void Work(const ComparedPlan& plan, bool is_first) {
    if (plan.seconds) {
      out_ << llvm::format("<td class=\"n\">%.2f</td>", *plan.seconds / first_.seconds.value_or(1));
      return;
    }
    std::string flops;
    llvm::raw_string_ostream(flops) << llvm::format("%.4g GFLOP", plan.flops / 1e9);
    Pair(flops, Relative(plan.flops, first_.flops), is_first);
  }

  void Notes() {
    out_ << "<p class=\"muted\">";
    for (const ComparedPlan& plan : comparison_.plans)
      if (!plan.step.empty())
        out_ << HtmlEscaped(plan.name) << " is <b>" << HtmlEscaped(plan.step) << "</b>. ";
    const std::string first = HtmlEscaped(first_.name);
    out_ << "Less and more are relative to " << first
         << ". Variance is what codes add to the gradient, as a part of its square";
    if (first_.seconds) out_ << ", and time is relative to " << first;
    out_ << (first_.seconds ? "; both are estimates." : "; it is an estimate.");
    if (!comparison_.rates.empty()) out_ << " Time is that at " << HtmlEscaped(comparison_.rates) << ".";
    if (comparison_.share_bytes > 0)
      out_ << " All peaks hold the GPU's share of " << FormatSize(comparison_.share_bytes) << ".";
    if (const std::string card = CardText(comparison_); !card.empty())
      out_ << " " << HtmlEscaped(card) << ".";
    out_ << "</p>\n";
  }

  void MicroBatches() {
    if (comparison_.micro_batches.empty()) return;
    out_ << "<h2>Peak in micro-batches</h2><div class=\"wide\"><table><tr><th>plan</th>";
    for (const int64_t count : comparison_.micro_batches)
      out_ << "<th colspan=\"2\">" << MicroBatchesText(comparison_, count) << "</th>";
    out_ << "</tr>\n";
    for (size_t p = 0; p < comparison_.plans.size(); ++p) {
      NameCell(p);
      for (const int64_t peak : comparison_.plans[p].micro_batch_peaks) {
        const int64_t bytes = peak + comparison_.share_bytes;
        Pair(FormatSize(bytes),
             Relative(static_cast<double>(bytes), static_cast<double>(comparison_.PeakOf(first_))), false);
      }
      out_ << "</tr>\n";
    }
    out_ << "</table></div>\n<p class=\"muted\">The whole batch, cut into so many micro-batches of so many "
            "samples, whose gradients are summed for one update. Relative to "
         << HtmlEscaped(first_.name) << " in one piece.</p>\n";
  }

  void Batches() {
    out_ << "<h2>Largest batch</h2><div class=\"wide\"><table><tr><th>plan</th>";
    const auto fits = [](const MemoryReport& report) {
      std::vector<BatchThatFits> all = report.max_batch;
      if (report.card) all.push_back(*report.card);
      return all;
    };
    for (const BatchThatFits& fit : fits(first_.report)) out_ << "<th>" << HtmlEscaped(fit.card) << "</th>";
    out_ << "</tr>\n";
    for (size_t p = 0; p < comparison_.plans.size(); ++p) {
      NameCell(p);
      for (const BatchThatFits& fit : fits(comparison_.plans[p].report))
        out_ << "<td class=\"n\">" << fit.batch << "</td>";
      out_ << "</tr>\n";
    }
    out_ << "</table></div>\n";
  }

  const Comparison& comparison_;
  const ComparedPlan& first_;
  int64_t top_ = 1;
  double turn_ = 0;  // where backward passes begin, as a share of the axis
  std::string text_;
  llvm::raw_string_ostream out_;
};

}  // namespace

std::string ComparisonHtml(const Comparison& comparison) { return Page(comparison).Render(); }

}  // namespace act
