#include "runtime/train/gradient_capture.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/plan/row_update.h"

namespace act {
namespace {

constexpr char kGradient[] = "grad.";

}  // namespace

int64_t GradientBytesOf(const Plan& plan, int64_t batch) {
  const Graph& graph = plan.train.graph;
  const auto bytes_of = [&](ValueId id) { return graph.value(id).type.Bytes().At(batch); };
  int64_t bytes = 0;
  for (const Updated& updated : UpdatesOf(graph))
    bytes += bytes_of(graph.nodes[updated.node].inputs[updated.gradient]);
  for (const RowUpdateNode& update : RowUpdatesOf(graph))
    bytes += bytes_of(graph.nodes[update.node].inputs[update.at.table]);
  for (const ValueId output : graph.outputs)
    if (graph.value(output).name.starts_with(kGradient)) bytes += bytes_of(output);
  return bytes;
}

GradientWatch::GradientWatch(const BoundGraph& bound)
    : device_(bound.device()), nodes_(bound.nodes().size()) {
  const Graph& graph = bound.step().graph;
  for (const Updated& updated : UpdatesOf(graph)) {
    const BoundNode& node = bound.nodes()[updated.node];
    const TensorView& view = node.inputs[updated.gradient];
    sources_.push_back({.name = graph.value(node.node->inputs[updated.parameter]).name,
                        .dims = node.inputs[updated.parameter].dims,
                        .before = updated.node,
                        .dtype = view.dtype,
                        .bytes = view.bytes,
                        .view = &view});
  }
  for (const RowUpdateNode& update : RowUpdatesOf(graph)) {
    const BoundNode& node = bound.nodes()[update.node];
    const TensorView &table = node.inputs[update.at.table], &rows = node.inputs[update.at.rows],
                     &index = node.inputs[update.at.index];
    const TensorView* live = update.at.live ? &node.inputs[*update.at.live] : nullptr;
    sources_.push_back({.name = graph.value(node.node->inputs[update.at.table]).name,
                        .dims = table.dims,
                        .before = update.node,
                        .dtype = table.dtype,
                        .bytes = table.bytes,
                        .view = &rows,
                        .index = &index,
                        .live = live});
    const auto make_room = [](std::vector<std::byte>& bytes, const TensorView& view) {
      bytes.resize(std::max(bytes.size(), static_cast<size_t>(view.bytes)));
    };
    make_room(whole_, table);
    make_room(rows_, rows);
    make_room(index_, index);
    if (live) make_room(live_, *live);
  }
  std::ranges::stable_sort(sources_, {}, &Source::before);
  // The loss is the first output.
  for (size_t i = 1; i < graph.outputs.size(); ++i) {
    const std::string& name = graph.value(graph.outputs[i]).name;
    if (!name.starts_with(kGradient)) continue;
    const TensorView& view = bound.view(graph.outputs[i]);
    sources_.push_back({.name = name.substr(sizeof kGradient - 1),
                        .dims = view.dims,
                        .before = nodes_,
                        .dtype = view.dtype,
                        .bytes = view.bytes,
                        .view = &view});
  }
}

llvm::Error GradientWatch::BeforeNode(size_t position) {
  const auto before = [](const Source& source, size_t node) { return source.before < node; };
  auto it = std::lower_bound(sources_.begin(), sources_.end(), position, before);
  for (; it != sources_.end() && it->before == position; ++it)
    ACT_CHECK_OK(See(static_cast<size_t>(it - sources_.begin())));
  return llvm::Error::success();
}

llvm::Error GradientWatch::AfterNode(size_t position) {
  return position + 1 == nodes_ ? BeforeNode(nodes_) : llvm::Error::success();
}

llvm::Expected<std::span<const std::byte>> GradientWatch::Read(size_t i) {
  const Source& source = sources_[i];
  if (!source.index) return device_.Read(source.view->data, source.bytes);
  ACT_CHECK_OK(AddRows(source));
  return std::span(whole_).first(static_cast<size_t>(source.bytes));
}

// In the order in which the update adds them. An index outside the table ends the step in its update.
llvm::Error GradientWatch::AddRows(const Source& source) {
  const auto copy = [this](const TensorView& view, std::vector<std::byte>& to) {
    return device_.Download(std::span(to).first(static_cast<size_t>(view.bytes)), view.data);
  };
  ACT_CHECK_OK(copy(*source.view, rows_));
  ACT_CHECK_OK(copy(*source.index, index_));
  if (source.live) ACT_CHECK_OK(copy(*source.live, live_));
  std::fill_n(whole_.begin(), source.bytes, std::byte{});
  const int64_t table_rows = source.dims[0], count = source.index->elements;
  const int64_t length = count > 0 ? source.view->elements / count : 0;
  auto* const whole = reinterpret_cast<float*>(whole_.data());
  const auto* const rows = reinterpret_cast<const float*>(rows_.data());
  for (int64_t i = 0; i < count; ++i) {
    const auto at = [i](const std::vector<std::byte>& bytes, auto type) {
      std::memcpy(&type, bytes.data() + static_cast<size_t>(i) * sizeof type, sizeof type);
      return type;
    };
    if (source.live &&
        (source.live->dtype == DType::kFloat32 ? at(live_, 0.0f) == 0 : at(live_, uint8_t{}) == 0))
      continue;
    int64_t row =
        source.index->dtype == DType::kInt64 ? at(index_, int64_t{}) : int64_t{at(index_, int32_t{})};
    if (row < 0) row += table_rows;
    if (row < 0 || row >= table_rows) continue;
    for (int64_t k = 0; k < length; ++k) whole[row * length + k] += rows[i * length + k];
  }
  return llvm::Error::success();
}

GradientCapture::GradientCapture(const BoundGraph& bound) : GradientWatch(bound) {
  for (const Source& source : sources())
    gradients_.push_back({.name = source.name,
                          .dims = source.dims,
                          .dtype = source.dtype,
                          .bytes = std::vector<std::byte>(static_cast<size_t>(source.bytes))});
}

llvm::Error GradientCapture::See(size_t i) {
  if (!sources()[i].index) return device().Download(gradients_[i].bytes, sources()[i].view->data);
  ACT_TRY(const std::span<const std::byte> bytes, Read(i));
  std::ranges::copy(bytes, gradients_[i].bytes.begin());
  return llvm::Error::success();
}

}  // namespace act
