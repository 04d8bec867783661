#include <llvm/Support/Format.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>

#include "runtime/base/size.h"
#include "runtime/memory/report.h"

namespace act {
namespace {

constexpr int kColumns = 72;
constexpr int kRows = 10;

double Ratio(int64_t a, int64_t b) { return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b); }

// Draws the step from left to right. Each column shows the highest of its nodes. From the bottom
// up: what stays, what is saved, the rest.
void DrawTimeline(const MemoryReport& report, llvm::raw_ostream& out) {
  const std::vector<int64_t>& timeline = report.layout.train.timeline;
  const auto nodes = static_cast<int64_t>(timeline.size());
  const int64_t columns = std::min<int64_t>(kColumns, nodes);
  if (columns == 0) return;
  std::vector<size_t> shown;  // of each column, its highest node
  for (int64_t c = 0; c < columns; ++c) {
    const auto first = timeline.begin() + c * nodes / columns,
               last = timeline.begin() + (c + 1) * nodes / columns;
    shown.push_back(static_cast<size_t>(std::max_element(first, last) - timeline.begin()));
  }
  const int64_t highest = report.layout.train.lower_bound_bytes;
  out << "  live bytes, node by node (. parameters and optimizer, o saved, # the rest)\n";
  for (int row = kRows - 1; row >= 0; --row) {
    const double level = (row + 0.5) / kRows * static_cast<double>(highest);
    out << llvm::right_justify(row == kRows - 1 ? FormatSize(highest) : "", 12) << " |";
    std::string line;
    for (const size_t node : shown) {
      const CategoryBytes& bytes = report.by_category[node];
      const auto of = [&](MemoryCategory c) { return static_cast<double>(bytes[static_cast<size_t>(c)]); };
      const double kept = of(MemoryCategory::kParameters) + of(MemoryCategory::kOptimizer);
      const double saved = kept + of(MemoryCategory::kSaved);
      line += level < kept                                  ? '.'
              : level < saved                               ? 'o'
              : level < static_cast<double>(timeline[node]) ? '#'
                                                            : ' ';
    }
    out << line.substr(0, line.find_last_not_of(' ') + 1) << "\n";
  }
  const auto turn = static_cast<size_t>(report.first_backward * columns / nodes);
  std::string axis(static_cast<size_t>(columns), '-');
  if (turn < axis.size()) axis[turn] = '^';
  out << llvm::right_justify("0", 12) << " +" << axis << "\n";
  if (turn < axis.size()) out << std::string(14 + turn, ' ') << "backward begins\n";
  out << "\n";
}

}  // namespace

std::string ReportText(const MemoryReport& report) {
  const StepLayout& train = report.layout.train;
  std::string text;
  llvm::raw_string_ostream out(text);
  const auto row = [&out](llvm::StringRef name) -> llvm::raw_ostream& {
    return out << "  " << llvm::left_justify(name, 20);
  };
  const auto size = [](int64_t bytes) { return FormatSize(bytes); };

  out << ReportTitle(report) << "\n\n";
  row("peak") << llvm::right_justify(size(train.peak_bytes), 10);
  if (!report.ops.empty()) out << "  at " << report.ops[static_cast<size_t>(train.peak_node)];
  out << "\n";
  row("lower bound") << llvm::right_justify(size(train.lower_bound_bytes), 10)
                     << llvm::format("  the arena is %.3f times as large\n",
                                     Ratio(train.peak_bytes, train.lower_bound_bytes));
  if (report.layout.eval.peak_bytes > train.peak_bytes) {
    row("evaluation") << llvm::right_justify(size(report.layout.eval.peak_bytes), 10)
                      << "  is higher and sets the arena's size\n";
  }

  if (report.layout.host_bytes > 0) {
    row("host's memory") << llvm::right_justify(size(report.layout.host_bytes), 10)
                         << "  in addition to the peak, for swapped values; on a CPU both are RAM\n";
  }

  if (report.card) {
    row(report.card->card) << llvm::right_justify(size(report.card_bytes), 10) << "  for the arena, which "
                           << (report.layout.arena_bytes <= report.card_bytes ? "fits" : "does not fit")
                           << "; largest batch " << report.card->batch << "\n";
  }

  out << "\n";
  row("at the peak") << "     bytes   share\n";
  for (int c = 0; c < kMemoryCategories; ++c) {
    row(ToString(static_cast<MemoryCategory>(c)))
        << llvm::right_justify(size(train.category_bytes[c]), 10)
        << llvm::format("  %5.1f %%\n", 100 * Ratio(train.category_bytes[c], train.peak_bytes));
  }

  out << "\n";
  if (report.kept_gradients_bytes > 0)
    row("gradients kept") << llvm::right_justify(size(report.kept_gradients_bytes), 10)
                          << "  all at the same time, for clipping or accumulation\n";
  const auto less = [&](llvm::StringRef name, int64_t before, int64_t after) {
    row(name) << llvm::right_justify(size(before), 10) << " -> " << size(after);
    if (after > 0) out << llvm::format(" (%.1f times less)", Ratio(before, after));
  };
  if (report.frozen_bytes > 0) {
    less("frozen weights", report.frozen_bytes_uncompressed, report.frozen_bytes);
    out << "\n";
  }
  less("saved activations", report.saved_bytes_uncompressed, report.saved_bytes);
  out << ", " << report.edges.size() << (report.edges.size() == 1 ? " edge" : " edges")
      << llvm::format(", %.2f bits an element\n\n", report.saved_bits);

  DrawTimeline(report, out);
  row("memory");
  for (const BatchThatFits& fit : report.max_batch) out << llvm::right_justify(fit.card, 12);
  out << "\n";
  row("largest batch");
  for (const BatchThatFits& fit : report.max_batch) out << llvm::right_justify(std::to_string(fit.batch), 12);
  out << "\n";
  return out.str();
}

}  // namespace act
