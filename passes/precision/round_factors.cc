#include "passes/precision/round_factors.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "compiler/ops/expr_builder.h"
#include "compiler/ops/op_table.h"
#include "runtime/plan/alias.h"

namespace act {
namespace {

class Rounder {
 public:
  Rounder(Graph& graph, Marks& marks, const std::vector<bool>& narrowed, const ValueMap<bool>& from_inputs)
      : graph_(graph),
        marks_(marks),
        narrowed_(narrowed),
        from_inputs_(from_inputs),
        root_(AliasRoots(graph)) {}

  void Run() {
    const std::set<ValueId> stored = StoredAsCopies();
    std::vector<Node> nodes;
    std::map<ValueId, size_t> made_at;                   // values, by the place in `nodes` that makes them
    std::map<std::pair<ValueId, bool>, ValueId> copies;  // of values, in the forward pass or later
    for (size_t at = 0; at < graph_.nodes.size(); ++at) {
      Node node = graph_.nodes[at];
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (!ReadsCopy(at, i)) continue;
        const ValueId v = node.inputs[i], root = Root(v);
        const auto [copy, is_new] =
            copies.try_emplace({root, node.phase == Phase::kForward || stored.count(root)}, kNoValue);
        if (is_new) copy->second = Round(root, node.phase, made_at, nodes);
        node.inputs[i] = copy->second;
        if (graph_.value(v).type.dims == graph_.value(root).type.dims) continue;
        Node view;
        view.op = kReshape;
        view.name = node.name;
        view.phase = node.phase;
        view.inputs = {copy->second};
        view.outputs = {node.inputs[i] = AddValue(graph_.value(v).name, graph_.value(v).type.dims)};
        nodes.push_back(std::move(view));
      }
      const std::vector<ValueId> made = node.outputs;
      const bool alias = IsAlias(node);
      nodes.push_back(std::move(node));
      for (const ValueId v : made) {
        if (alias) continue;
        made_at[v] = nodes.size() - 1;
        if (stored.count(v)) copies[{v, true}] = Round(v, Phase::kForward, made_at, nodes);
      }
    }
    for (ValueId v = 0; v < static_cast<ValueId>(root_.size()); ++v) {
      if (marks_[v].edges.empty() || !stored.count(Root(v))) continue;
      const std::vector<int32_t> edges = std::exchange(marks_[v].edges, {});
      std::vector<int32_t>& to = marks_[copies.at({Root(v), true})].edges;
      to.insert(to.end(), edges.begin(), edges.end());
    }
    graph_.nodes = std::move(nodes);
    DropUnreadShapes();
  }

 private:
  ValueId Root(ValueId v) const { return root_[static_cast<size_t>(v)]; }

  // Whether operand i of a product is one of its factors, and float32.
  bool IsFactor(const Node& node, size_t i) const {
    return BFloat16Letter(LettersOf(node).operands, i) != '-' && node.inputs[i] != kNoValue &&
           graph_.value(node.inputs[i]).type.dtype == DType::kFloat32;
  }

  // A kernel rounds a factor of a matrix product that follows from parameters alone.
  bool KernelRounds(const Node& node, size_t i) const {
    return OpOf(node).product == Product::kMatrix && !from_inputs_[node.inputs[i]];
  }

  // Whether a product reads a rounded copy of operand i of node `at`.
  bool ReadsCopy(size_t at, size_t i) const {
    const Node& node = graph_.nodes[at];
    return narrowed_[at] && IsFactor(node, i) && !KernelRounds(node, i);
  }

  // The values that are stored for the backward pass and read there as factors alone, by their bytes.
  // A copy is stored in their place.
  std::set<ValueId> StoredAsCopies() const {
    std::set<ValueId> stored, read, otherwise;
    for (ValueId v = 0; v < static_cast<ValueId>(root_.size()); ++v)
      if (!marks_[v].edges.empty()) stored.insert(Root(v));
    for (const ValueId v : graph_.outputs) otherwise.insert(Root(v));
    for (size_t at = 0; at < graph_.nodes.size(); ++at) {
      const Node& node = graph_.nodes[at];
      if (node.phase == Phase::kForward || IsAlias(node)) continue;
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (node.inputs[i] != kNoValue) (ReadsCopy(at, i) ? read : otherwise).insert(Root(node.inputs[i]));
    }
    std::erase_if(stored, [&](ValueId v) { return !read.count(v) || otherwise.count(v); });
    return stored;
  }

  ValueId AddValue(const std::string& name, const Dims& dims) {
    Value value;
    value.name = name;
    value.type = {DType::kBFloat16, dims};
    graph_.values.push_back(std::move(value));
    return static_cast<ValueId>(graph_.values.size()) - 1;
  }

  // Makes a rounded copy of v: in the loop that makes v, or in one of its own at the end of `nodes`.
  ValueId Round(ValueId v, Phase phase, const std::map<ValueId, size_t>& made_at, std::vector<Node>& nodes) {
    const ValueId copy = AddValue(graph_.value(v).name, graph_.value(v).type.dims);
    const auto maker = made_at.find(v);
    if (maker != made_at.end()) {
      Node& loop = nodes[maker->second];
      const auto result = std::find(loop.outputs.begin(), loop.outputs.end(), v) - loop.outputs.begin();
      const bool forward = loop.phase == Phase::kForward;
      if (RunsProgram(loop) && forward == (phase == Phase::kForward) &&
          loop.program.outputs[static_cast<size_t>(result)].kind == OutputKind::kStore) {
        const ProgramOutput store = loop.program.outputs[static_cast<size_t>(result)];
        loop.program.outputs.insert(
            loop.program.outputs.begin() + static_cast<std::ptrdiff_t>(loop.outputs.size()), store);
        loop.outputs.push_back(copy);
        return copy;
      }
    }
    Node loop;
    loop.op = kFused;
    loop.name = graph_.value(v).name + ".round";
    loop.phase = phase;
    loop.inputs = {v};
    loop.outputs = {copy};
    ExprBuilder b;
    b.Output(OutputKind::kStore, b.Input({}));
    loop.program = b.Finish(graph_.value(v).type.dims);
    nodes.push_back(std::move(loop));
    return copy;
  }

  // Shapes that only products read were replaced by shapes of the copies. What is stored is then the
  // operand.
  void DropUnreadShapes() {
    ValueMap<bool> read(graph_);
    for (const ValueId v : graph_.outputs) read[v] = true;
    std::vector<Node> kept;
    for (size_t at = graph_.nodes.size(); at-- > 0;) {
      Node& node = graph_.nodes[at];
      if (IsAlias(node) && !read[node.outputs[0]]) {
        const std::vector<int32_t> edges = std::exchange(marks_[node.outputs[0]].edges, {});
        std::vector<int32_t>& to = marks_[node.inputs[0]].edges;
        to.insert(to.end(), edges.begin(), edges.end());
        continue;
      }
      for (const ValueId v : node.inputs)
        if (v != kNoValue) read[v] = true;
      kept.push_back(std::move(node));
    }
    graph_.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  }

  Graph& graph_;
  Marks& marks_;
  const std::vector<bool>& narrowed_;
  const ValueMap<bool>& from_inputs_;
  const std::vector<ValueId> root_;  // by value: the value whose bytes it has
};

}  // namespace

void RoundFactors(Graph& graph, Marks& marks, const std::vector<bool>& narrowed,
                  const ValueMap<bool>& from_inputs) {
  Rounder(graph, marks, narrowed, from_inputs).Run();
}

}  // namespace act
