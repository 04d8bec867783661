#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/Format.h>
#include <llvm/Support/raw_ostream.h>

#include "runtime/base/html.h"
#include "runtime/base/size.h"
#include "runtime/memory/report.h"
#include "runtime/memory/timeline_html.h"

namespace act {
namespace {

class Page {
 public:
  explicit Page(const MemoryReport& report) : report_(report), out_(text_) {}

  std::string Render() {
    out_ << HtmlHead(ReportTitle(report_)) << "<h1>" << HtmlEscaped(ReportTitle(report_)) << "</h1>\n";
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
    if (!report_.ops.empty())
      out_ << " at " << HtmlEscaped(report_.ops[static_cast<size_t>(train.peak_node)]);
    out_ << "; lower bound " << FormatSize(train.lower_bound_bytes);
    if (report_.layout.host_bytes > 0)
      out_ << "; in addition " << FormatSize(report_.layout.host_bytes)
           << " in the host's memory, for swapped values";
    out_ << ".</p>\n";
  }

  void Timeline() {
    if (report_.ops.empty()) return;
    const StepLayout& train = report_.layout.train;
    const StepPicture picture{.ops = report_.ops,
                              .by_category = report_.by_category,
                              .live_bytes = train.timeline,
                              .first_backward = report_.first_backward,
                              .top_bytes = train.lower_bound_bytes};
    out_ << StepPictureSvg(picture, report_.ops.size())
         << "<p>Live bytes from the first node to the last; the backward pass begins at the dashed "
            "line.</p>\n";
  }

  void Categories() {
    const StepLayout& train = report_.layout.train;
    out_ << "<h2>At the peak</h2><table>\n";
    for (const MemoryCategory category : LayersOfPicture()) {
      const int64_t bytes = train.category_bytes[static_cast<size_t>(category)];
      out_ << "<tr><td><span class=\"key\" style=\"background:" << ColorOf(category) << "\"></span>"
           << ToString(category) << "</td>";
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
    for (const BatchThatFits& fit : fits) out_ << "<th>" << HtmlEscaped(fit.card) << "</th>";
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
      out_ << "<tr><td>" << HtmlEscaped(edge.name) << "</td><td>"
           << HtmlEscaped(llvm::join(edge.consumers, ", ")) << "</td><td>" << HtmlEscaped(edge.form)
           << "</td>" << llvm::format("<td class=\"n\">%.2f</td>", edge.bits);
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
