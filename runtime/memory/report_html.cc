#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/Format.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>

#include "runtime/base/size.h"
#include "runtime/memory/report.h"

namespace act {
namespace {

constexpr int kWidth = 1000, kHeight = 320;  // of the picture, in SVG units

// From the bottom of the picture upwards: first what stays in memory.
constexpr struct {
  MemoryCategory category;
  const char* color;
} kLayers[] = {
    {MemoryCategory::kParameters, "#4c566a"}, {MemoryCategory::kOptimizer, "#7b88a1"},
    {MemoryCategory::kGradients, "#b48ead"},  {MemoryCategory::kSaved, "#d08770"},
    {MemoryCategory::kTransient, "#ebcb8b"},  {MemoryCategory::kWorkspace, "#8fbcbb"},
};

std::string Escaped(const std::string& text) {
  std::string escaped;
  llvm::raw_string_ostream out(escaped);
  llvm::printHTMLEscaped(text, out);
  return out.str();
}

class Page {
 public:
  explicit Page(const MemoryReport& report) : report_(report), out_(text_) {}

  std::string Render() {
    out_ << "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>"
         << Escaped(ReportTitle(report_)) << "</title>\n"
         << "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:1040px;margin:2em auto;padding:0 1em}"
            "table{border-collapse:collapse}td,th{padding:.15em .8em;text-align:left}"
            "td.n{text-align:right;font-variant-numeric:tabular-nums}svg{width:100%;height:auto}"
            ".key{display:inline-block;width:.8em;height:.8em;margin-right:.5em}"
            ".at{fill:transparent}.at:hover{fill:#0003}</style></head><body>\n"
         << "<h1>" << Escaped(ReportTitle(report_)) << "</h1>\n";
    Summary();
    Timeline();
    Categories();
    Batches();
    Edges();
    out_ << "</body></html>\n";
    return out_.str();
  }

 private:
  void NumberCell(const std::string& text) { out_ << "<td class=\"n\">" << text << "</td>"; }

  void Summary() {
    const StepLayout& train = report_.layout.train;
    out_ << "<p>Peak <b>" << FormatSize(train.peak_bytes) << "</b>";
    if (!report_.ops.empty()) out_ << " at " << Escaped(report_.ops[static_cast<size_t>(train.peak_node)]);
    out_ << "; lower bound " << FormatSize(train.lower_bound_bytes);
    if (report_.layout.host_bytes > 0)
      out_ << "; in addition " << FormatSize(report_.layout.host_bytes)
           << " in the host's memory, for swapped values";
    out_ << ".</p>\n";
  }

  double X(size_t node) const {
    return static_cast<double>(node) * kWidth / static_cast<double>(report_.ops.size());
  }
  double Y(int64_t bytes) const {
    const double top = static_cast<double>(std::max<int64_t>(1, report_.layout.train.lower_bound_bytes));
    return kHeight * (1 - static_cast<double>(bytes) / top);
  }

  // Stacked areas, one unit wide for each node. Over them lies an invisible column for each node,
  // whose tooltip names it.
  void Timeline() {
    const size_t nodes = report_.ops.size();
    if (nodes == 0) return;
    out_ << llvm::format("<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\">\n", kWidth,
                         kHeight);
    std::vector<int64_t> below(nodes, 0);
    for (const auto& layer : kLayers) {
      std::vector<int64_t> above = below;
      for (size_t t = 0; t < nodes; ++t)
        above[t] += report_.by_category[t][static_cast<size_t>(layer.category)];
      out_ << "<path fill=\"" << layer.color << "\" d=\"M";
      for (size_t t = 0; t < nodes; ++t)
        out_ << llvm::format("%.2f %.2f H%.2f L", X(t), Y(above[t]), X(t + 1));
      for (size_t t = nodes; t-- > 0;)
        out_ << llvm::format("%.2f %.2f H%.2f%s", X(t + 1), Y(below[t]), X(t), t > 0 ? " L" : "Z\"/>\n");
      below = std::move(above);
    }
    const double turn = X(static_cast<size_t>(report_.first_backward));
    out_ << llvm::format("<path stroke=\"#000\" stroke-dasharray=\"4\" d=\"M%.2f 0 V%d\"/>\n", turn, kHeight);
    for (size_t t = 0; t < nodes; ++t) {
      out_ << llvm::format("<rect class=\"at\" x=\"%.2f\" y=\"0\" width=\"%.2f\" height=\"%d\"><title>", X(t),
                           X(t + 1) - X(t), kHeight)
           << Escaped(report_.ops[t]) << ": " << FormatSize(report_.layout.train.timeline[t])
           << "</title></rect>\n";
    }
    out_ << "</svg>\n<p>Live bytes from the first node to the last; the backward pass begins at the dashed "
            "line.</p>\n";
  }

  void Categories() {
    const StepLayout& train = report_.layout.train;
    out_ << "<h2>At the peak</h2><table>\n";
    for (const auto& layer : kLayers) {
      const int64_t bytes = train.category_bytes[static_cast<size_t>(layer.category)];
      out_ << "<tr><td><span class=\"key\" style=\"background:" << layer.color << "\"></span>"
           << ToString(layer.category) << "</td>";
      NumberCell(FormatSize(bytes));
      NumberCell(std::to_string(bytes));
      out_ << "</tr>\n";
    }
    out_ << "</table>\n";
  }

  void Batches() {
    out_ << "<h2>Largest batch</h2><table><tr>";
    std::vector<BatchThatFits> fits = report_.max_batch;
    if (report_.card) fits.push_back(*report_.card);
    for (const BatchThatFits& fit : fits) out_ << "<th>" << fit.card << "</th>";
    out_ << "</tr><tr>";
    for (const BatchThatFits& fit : fits) NumberCell(std::to_string(fit.batch));
    out_ << "</tr></table>\n";
  }

  void Edges() {
    out_ << "<h2>Saved activations</h2><p>" << FormatSize(report_.saved_bytes_uncompressed) << " kept in "
         << FormatSize(report_.saved_bytes)
         << llvm::format(", %.2f bits an element.</p>\n", report_.saved_bits)
         << "<table><tr><th>value</th><th>read "
            "by</th><th>form</th><th>bits</th><th>before</th><th>after</th></tr>\n";
    for (const ReportEdge& edge : report_.edges) {
      out_ << "<tr><td>" << Escaped(edge.name) << "</td><td>" << Escaped(llvm::join(edge.consumers, ", "))
           << "</td><td>" << Escaped(edge.form) << "</td>"
           << llvm::format("<td class=\"n\">%.2f</td>", edge.bits);
      NumberCell(FormatSize(edge.bytes_uncompressed));
      NumberCell(FormatSize(edge.bytes));
      out_ << "</tr>\n";
    }
    out_ << "</table>\n";
  }

  const MemoryReport& report_;
  std::string text_;
  llvm::raw_string_ostream out_;
};

}  // namespace

std::string ReportHtml(const MemoryReport& report) { return Page(report).Render(); }

}  // namespace act
