// Repeats cheap nodes that read at most one full-size tensor (a decode, a mask, a normalization) in each of
// their readers, where all of these are loops over the same elements: then what they make never lies in
// memory.
#include <map>

#include "compiler/ops/op_table.h"
#include "compiler/policy/compared_batches.h"
#include "passes/loops/loops.h"
#include "passes/pass.h"
#include "runtime/plan/alias.h"

namespace act {
namespace {

class Repeater {
 public:
  explicit Repeater(Graph& graph) : graph_(graph) {}

  void Run() {
    Index();
    // Memory that repeating a node reads, in full-size f32 tensors; a node is repeated when it is at most
    // one.
    std::vector<double> reads(graph_.values.size(), -1);
    std::vector<bool> repeat(graph_.nodes.size(), false);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (!IsLoop(node, graph_) || OpOf(node).coding == Coding::kEncode || !IsCheapLoop(node) ||
          RoundsWhenStored(node, graph_))
        continue;
      const ValueId out = node.outputs[0];
      const auto full = static_cast<double>(graph_.value(out).type.Bytes().At(kComparedBatch));
      double sum = 0;
      for (ValueId v : node.inputs) {
        const double known = reads[static_cast<size_t>(v)];
        sum += known >= 0 ? known
               : full > 0 ? static_cast<double>(graph_.value(v).type.Bytes().At(kComparedBatch)) / full
                          : 0;
      }
      // Only within one phase: a forward node repeated in the backward pass would change what is saved, and
      // an update's gradient is a tensor. And only what no update overwrites in between.
      bool all_loops = !is_output_[static_cast<size_t>(out)] && !readers_[static_cast<size_t>(out)].empty();
      for (size_t r : readers_[static_cast<size_t>(out)]) {
        const Node& reader = graph_.nodes[r];
        all_loops &= IsLoop(reader, graph_) && LoopSpace(reader, graph_) == LoopSpace(node, graph_) &&
                     InOnePass(reader.phase, node.phase);
      }
      for (ValueId v : node.inputs) all_loops &= !is_mutated_[Root(v)];
      if (sum > 1.3 || !all_loops) continue;
      reads[static_cast<size_t>(out)] = sum;
      repeat[i] = true;
    }
    // Each reader gets copies of its own, made right in front of it.
    std::vector<Node> nodes;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (repeat[i]) continue;
      Node node = graph_.nodes[i];
      std::map<ValueId, ValueId> copies;
      for (ValueId& v : node.inputs) v = Copy(v, repeat, copies, nodes, node.phase);
      nodes.push_back(std::move(node));
    }
    graph_.nodes = std::move(nodes);
  }

 private:
  void Index() {
    const size_t n = graph_.values.size();
    producer_.assign(n, -1);
    readers_.assign(n, {});
    is_output_.assign(n, false);
    is_mutated_.assign(n, false);
    root_ = AliasRoots(graph_);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      for (ValueId v : node.outputs) producer_[static_cast<size_t>(v)] = static_cast<int64_t>(i);
      for (ValueId v : node.inputs)
        if (v != kNoValue) readers_[static_cast<size_t>(v)].push_back(i);
      for (int32_t m : node.mutates) is_mutated_[Root(node.inputs[static_cast<size_t>(m)])] = true;
    }
    for (ValueId v : graph_.outputs) is_output_[static_cast<size_t>(v)] = true;
  }
  size_t Root(ValueId v) const { return static_cast<size_t>(root_[static_cast<size_t>(v)]); }

  // The value as one reader gets it: made anew, with all that is repeated for it, in front of the reader.
  ValueId Copy(ValueId v, const std::vector<bool>& repeat, std::map<ValueId, ValueId>& copies,
               std::vector<Node>& nodes, Phase phase) {
    if (v == kNoValue) return v;
    const int64_t p = producer_[static_cast<size_t>(v)];
    if (p < 0 || !repeat[static_cast<size_t>(p)]) return v;
    const auto it = copies.find(v);
    if (it != copies.end()) return it->second;
    Node node = graph_.nodes[static_cast<size_t>(p)];
    for (ValueId& in : node.inputs) in = Copy(in, repeat, copies, nodes, phase);
    const auto made = static_cast<ValueId>(graph_.values.size());
    graph_.values.push_back(graph_.value(v));
    node.outputs = {made};
    node.phase = phase;
    nodes.push_back(std::move(node));
    return copies[v] = made;
  }

  Graph& graph_;
  std::vector<int64_t> producer_;
  std::vector<std::vector<size_t>> readers_;
  std::vector<bool> is_output_, is_mutated_;
  std::vector<ValueId> root_;
};

}  // namespace

llvm::Error RepeatCheapNodes(Graph& graph, PassContext&) {
  Repeater(graph).Run();
  return llvm::Error::success();
}

}  // namespace act
