#include "runtime/train/code_watch.h"

#include <algorithm>

#include "runtime/codec/not_finite.h"

namespace act {

CodeWatch::CodeWatch(const Plan& plan, const BoundGraph& graph) {
  const int64_t batch = graph.batch();
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = *graph.nodes()[n].node;
    for (size_t o = 0; o < node.program.outputs.size() && o < node.outputs.size(); ++o) {
      const ProgramOutput& output = node.program.outputs[o];
      if (output.kind != OutputKind::kEncode || (!output.codec.HasLevels() && !output.codec.IsCast()))
        continue;
      const auto edge = std::find_if(plan.edges.begin(), plan.edges.end(),
                                     [&](const SavedEdge& e) { return e.stored == node.outputs[o]; });
      const SampleShape shape = SamplesOf(node.program.space);
      const int64_t elements = shape.elements.At(batch);
      codes_.push_back({.node = n,
                        .name = edge == plan.edges.end() ? node.name : edge->name,
                        .codec = output.codec,
                        .samples = shape.samples.At(batch),
                        .elements = elements,
                        .data = graph.view(node.outputs[o]).as<uint8_t>(),
                        .sample_bytes = LayoutOf(output.codec, elements).sample_bytes});
    }
  }
}

llvm::Error CodeWatch::AfterNode(size_t position) {
  if (found_) return llvm::Error::success();
  auto code = std::lower_bound(codes_.begin(), codes_.end(), position,
                               [](const Code& c, size_t node) { return c.node < node; });
  for (; code != codes_.end() && code->node == position && !found_; ++code) {
    if (!code->data) continue;
    for (int64_t s = 0; s < code->samples; ++s)
      not_finite_ += CountNotFinite(code->codec, code->elements, code->data + s * code->sample_bytes);
    if (not_finite_ > 0) found_ = &*code;
  }
  return llvm::Error::success();
}

std::string CodeWatch::Found() const {
  if (!found_) return "";
  const bool cast = found_->codec.IsCast();
  const int64_t of = cast ? found_->elements : LayoutOf(found_->codec, found_->elements).groups;
  return "saved activation '" + found_->name + "' (" + ToString(found_->codec) +
         "): " + std::to_string(not_finite_) + " of its " + std::to_string(of * found_->samples) +
         (cast ? " elements are NaN or infinite"
               : " groups hold NaN, infinity or numbers beyond 1e36, and decode to NaN");
}

}  // namespace act
