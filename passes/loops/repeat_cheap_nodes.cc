// Repeats cheap nodes that read at most one full-size tensor (a decode, a mask, a normalization) in
// each of their readers, if all of these are loops over the same elements. The results of the cheap
// nodes then never lie in memory. A chain of them ends where it would fill a loop, since copies that
// are in no loop with their reader would lie in memory after all.
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
    ValueMap<size_t> nodes_of(graph_, 0);  // copies that repeating a node takes, its own among them
    std::vector<bool> repeat(graph_.nodes.size(), false);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (!IsLoop(node, graph_) || OpOf(node).coding == Coding::kEncode || !IsCheapLoop(node) ||
          RoundsWhenStored(node, graph_))
        continue;
      const ValueId out = node.outputs[0];
      const auto full = static_cast<double>(graph_.value(out).type.Bytes().At(kComparedBatch));
      double sum = 0;
      size_t taken = 1;
      for (ValueId v : node.inputs) {
        taken += nodes_of[v];
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
      if (sum > 1.3 || !all_loops || taken >= kMostNodesPerLoop) continue;
      reads[out] = sum;
      nodes_of[out] = taken;
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

  bool IsRepeated(ValueId v, const std::vector<bool>& repeat) const {
    const int64_t producer = uses_.Producer(v);
    return producer >= 0 && repeat[static_cast<size_t>(producer)];
  }

  // The value as one reader gets it: made anew before the reader, with all nodes that are repeated
  // for it. Chains of them are as long as a model makes them, so this function does not call itself.
  ValueId Copy(ValueId v, const std::vector<bool>& repeat, std::map<ValueId, ValueId>& copies,
               std::vector<Node>& nodes, Phase phase) {
    struct Pending {
      ValueId value;
      Node node;        // its producer's copy
      size_t next = 0;  // operands before this one are those that the copy reads
    };
    if (!IsRepeated(v, repeat)) return v;
    const auto begin = [this](ValueId value) -> Pending {
      return {value, graph_.nodes[static_cast<size_t>(uses_.Producer(value))]};
    };
    std::vector<Pending> stack;
    if (!copies.contains(v)) stack.push_back(begin(v));
    while (!stack.empty()) {
      auto& [value, node, next] = stack.back();
      if (next < node.inputs.size()) {
        ValueId& in = node.inputs[next];
        const auto known = copies.find(in);
        if (known == copies.end() && IsRepeated(in, repeat)) {
          stack.push_back(begin(in));
          continue;
        }
        if (known != copies.end()) in = known->second;
        ++next;
        continue;
      }
      const auto made = static_cast<ValueId>(graph_.values.size());
      graph_.values.push_back(graph_.value(value));
      marks_[made].precision = marks_[value].precision;
      node.outputs = {made};
      node.phase = phase;
      copies[value] = made;
      nodes.push_back(std::move(node));
      stack.pop_back();
    }
    return copies.at(v);
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
