// Repeats cheap nodes that read at most one full-size tensor (a decode, a mask, a normalization) in
// each of their readers, if all of these are loops over the same elements. The results of the cheap
// nodes then never lie in memory.
#include <map>

#include "compiler/ir/uses.h"
#include "compiler/ops/op_table.h"
#include "compiler/policy/compared_batches.h"
#include "passes/loops/loops.h"
#include "passes/pass.h"
#include "runtime/plan/alias.h"

namespace act {
namespace {

class Repeater {
 public:
  Repeater(Graph& graph, Marks& marks)
      : graph_(graph),
        marks_(marks),
        uses_(graph),
        root_(AliasRoots(graph)),
        is_mutated_(graph.values.size(), false) {
    for (const Node& node : graph_.nodes)
      for (int32_t m : node.mutates) is_mutated_[Root(node.inputs[static_cast<size_t>(m)])] = true;
  }

  void Run() {
    // The memory that repeating a node reads, in full-size f32 tensors. A node is repeated if that
    // is at most one.
    ValueMap<double> reads(graph_, -1);
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
        const double known = reads[v];
        sum += known >= 0 ? known
               : full > 0 ? static_cast<double>(graph_.value(v).type.Bytes().At(kComparedBatch)) / full
                          : 0;
      }
      // A node is repeated only within one phase: a forward node repeated in the backward pass
      // would change what is saved, and an update's gradient is a tensor. Also, no update may
      // overwrite its operands in between.
      bool all_loops = !uses_.IsOutput(out) && !uses_.Readers(out).empty();
      for (size_t r : uses_.Readers(out)) {
        const Node& reader = graph_.nodes[r];
        all_loops &= IsLoop(reader, graph_) && LoopSpace(reader, graph_) == LoopSpace(node, graph_) &&
                     InOnePass(reader.phase, node.phase);
      }
      for (ValueId v : node.inputs) all_loops &= !is_mutated_[Root(v)];
      if (sum > 1.3 || !all_loops) continue;
      reads[out] = sum;
      repeat[i] = true;
    }
    // Each reader gets copies of its own, made right before it.
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
  size_t Root(ValueId v) const { return static_cast<size_t>(root_[static_cast<size_t>(v)]); }

  // The value as one reader gets it: made anew before the reader, with all nodes that are repeated
  // for it.
  ValueId Copy(ValueId v, const std::vector<bool>& repeat, std::map<ValueId, ValueId>& copies,
               std::vector<Node>& nodes, Phase phase) {
    const int64_t p = uses_.Producer(v);
    if (p < 0 || !repeat[static_cast<size_t>(p)]) return v;
    const auto it = copies.find(v);
    if (it != copies.end()) return it->second;
    Node node = graph_.nodes[static_cast<size_t>(p)];
    for (ValueId& in : node.inputs) in = Copy(in, repeat, copies, nodes, phase);
    const auto made = static_cast<ValueId>(graph_.values.size());
    graph_.values.push_back(graph_.value(v));
    marks_[made].precision = marks_[v].precision;
    node.outputs = {made};
    node.phase = phase;
    nodes.push_back(std::move(node));
    return copies[v] = made;
  }

  Graph& graph_;
  Marks& marks_;
  const Uses uses_;
  const std::vector<ValueId> root_;
  std::vector<bool> is_mutated_;  // by root
};

}  // namespace

llvm::Error RepeatCheapNodes(Graph& graph, PassContext& context) {
  Repeater(graph, context.marks).Run();
  return llvm::Error::success();
}

}  // namespace act
