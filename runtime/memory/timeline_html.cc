#include "runtime/memory/timeline_html.h"

#include <llvm/Support/Format.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>

#include "runtime/base/html.h"
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

// The node that each column shows.
std::vector<size_t> Columns(const StepPicture& picture, size_t most) {
  const size_t nodes = picture.ops.size(), columns = std::min(nodes, std::max<size_t>(1, most));
  const auto& bytes = picture.live_bytes;
  std::vector<size_t> shown;
  for (size_t c = 0; c < columns; ++c) {
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(c * nodes / columns);
    const auto end = bytes.begin() + static_cast<std::ptrdiff_t>((c + 1) * nodes / columns);
    shown.push_back(static_cast<size_t>(std::max_element(begin, end) - bytes.begin()));
  }
  return shown;
}

}  // namespace

StepPicture PictureOf(const Plan& plan, const MemoryLayout& layout) {
  const std::vector<Node>& nodes = plan.train.graph.nodes;
  const auto is_backward = [](const Node& node) { return node.phase == Phase::kBackward; };
  StepPicture picture{.by_category = CategoryTimeline(plan.train, layout.train, layout.persistent_bytes),
                      .live_bytes = layout.train.timeline,
                      .first_backward = std::find_if(nodes.begin(), nodes.end(), is_backward) - nodes.begin(),
                      .top_bytes = layout.train.peak_bytes};
  for (const Node& node : nodes) picture.ops.push_back(NodeLabel(node));
  return picture;
}

// An invisible column for each node lies over the areas. Its tooltip names the node.
std::string StepPictureSvg(const StepPicture& picture, size_t most_columns) {
  const std::vector<size_t> shown = Columns(picture, most_columns);
  const size_t columns = shown.size();
  if (columns == 0) return "";
  const auto x = [&](size_t column) {
    return static_cast<double>(column) * kWidth / static_cast<double>(columns);
  };
  const auto y = [&](int64_t bytes) {
    return kHeight *
           (1 - static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(1, picture.top_bytes)));
  };
  std::string text;
  llvm::raw_string_ostream out(text);
  out << llvm::format("<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\">\n", kWidth,
                      kHeight);
  std::vector<int64_t> below(columns, 0);
  for (const auto& layer : kLayers) {
    std::vector<int64_t> above = below;
    for (size_t c = 0; c < columns; ++c)
      above[c] += picture.by_category[shown[c]][static_cast<size_t>(layer.category)];
    out << "<path fill=\"" << layer.color << "\" d=\"M";
    for (size_t c = 0; c < columns; ++c)
      out << llvm::format("%.2f %.2f H%.2f L", x(c), y(above[c]), x(c + 1));
    for (size_t c = columns; c-- > 0;)
      out << llvm::format("%.2f %.2f H%.2f%s", x(c + 1), y(below[c]), x(c), c > 0 ? " L" : "Z\"/>\n");
    below = std::move(above);
  }
  const double turn = static_cast<double>(picture.first_backward) * kWidth /
                      static_cast<double>(std::max<size_t>(1, picture.ops.size()));
  out << llvm::format("<path stroke=\"var(--fg)\" stroke-dasharray=\"4\" d=\"M%.2f 0 V%d\"/>\n", turn,
                      kHeight);
  for (size_t c = 0; c < columns; ++c) {
    out << llvm::format("<rect class=\"at\" x=\"%.2f\" y=\"0\" width=\"%.2f\" height=\"%d\"><title>", x(c),
                        x(c + 1) - x(c), kHeight)
        << HtmlEscaped(picture.ops[shown[c]]) << ": " << FormatSize(picture.live_bytes[shown[c]])
        << "</title></rect>\n";
  }
  out << "</svg>\n";
  return out.str();
}

const char* ColorOf(MemoryCategory category) {
  for (const auto& layer : kLayers)
    if (layer.category == category) return layer.color;
  return "none";
}

std::vector<MemoryCategory> LayersOfPicture() {
  std::vector<MemoryCategory> layers;
  for (const auto& layer : kLayers) layers.push_back(layer.category);
  return layers;
}

}  // namespace act
