#include "runtime/train/code_watch.h"

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/codec/code_samples.h"
#include "runtime/plan/runtime_op.h"

namespace act {

CodeWatch::CodeWatch(const Plan& plan, const BoundGraph& graph, bool values) : graph_(graph) {
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = *graph.nodes()[n].node;
    for (size_t o = 0; values && !IsAlias(node) && o < node.outputs.size(); ++o) {
      const Value& value = plan.train.graph.value(node.outputs[o]);
      if (value.type.dtype != DType::kBFloat16) continue;
      const std::string name = value.name.empty() ? node.name : value.name;
      codes_.push_back({n, o, name, Codec::Cast(kBFloat16), 0, 0, true});
    }
    for (size_t o = 0; o < node.program.outputs.size() && o < node.outputs.size(); ++o) {
      const ProgramOutput& output = node.program.outputs[o];
      if (output.kind != OutputKind::kEncode || output.codec.IsExact()) continue;
      const auto edge = std::find_if(plan.edges.begin(), plan.edges.end(),
                                     [&](const SavedEdge& e) { return e.stored == node.outputs[o]; });
      const int64_t elements = CodeSamplesOf(node.program.space).elements.At(graph.batch());
      codes_.push_back({.node = n,
                        .output = o,
                        .name = edge == plan.edges.end() ? node.name : edge->name,
                        .codec = output.codec,
                        .elements = elements,
                        .sample_bytes = LayoutOf(output.codec, elements).sample_bytes});
    }
  }
}

llvm::Error CodeWatch::AfterNode(size_t position) {
  if (found_) return llvm::Error::success();
  auto code = std::lower_bound(codes_.begin(), codes_.end(), position,
                               [](const Code& c, size_t node) { return c.node < node; });
  for (; code != codes_.end() && code->node == position && !found_; ++code) {
    // What the node has just written: all samples, or those of a tile.
    const TensorView& view = graph_.nodes()[position].outputs[code->output];
    if (!view.data || (code->sample_bytes == 0 && !code->value)) continue;
    const int64_t elements = code->value ? view.elements : code->elements;
    const int64_t samples = code->value ? 1 : view.bytes / code->sample_bytes;
    ACT_TRY(not_finite_, graph_.device().CountNotFinite(code->codec, elements, samples, view.data));
    seen_ = samples * (code->codec.IsCast() ? elements : LayoutOf(code->codec, elements).groups);
    if (not_finite_ > 0) found_ = &*code;
  }
  return llvm::Error::success();
}

std::optional<NotFinite> CodeWatch::Found() const {
  if (!found_) return std::nullopt;
  const bool cast = found_->codec.IsCast();
  const std::string text = (found_->value ? "value '" : "saved activation '") + found_->name + "' (" +
                           ToString(found_->codec) + "): " + std::to_string(not_finite_) + " of its " +
                           std::to_string(seen_) +
                           (cast ? " elements are NaN or infinite"
                                 : " groups hold NaN, infinity or numbers beyond 1e36, and decode to NaN");
  return NotFinite{found_->name, text};
}

}  // namespace act
