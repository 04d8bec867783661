// Lets loops go over the equal parts of tensors whose samples do not come first (compiler/ops/equal_parts.h),
// where codes of such tensors are. The code of [T,N,C] is laid out as [N,T,C]. Encode and decode can then be
// in one loop with what makes and reads the numbers only if that goes over [N,T,C] too. Reshapes of its
// operands and results, which copy nothing, see to it.
//
// A node may change so if it reads each operand alike in every part: all of the operand's elements in order,
// some for each row, or the same ones along the axes up to that of N.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/ops/equal_parts.h"
#include "compiler/ops/graph_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/loops/loops.h"
#include "passes/pass.h"
#include "runtime/base/error.h"

namespace act {
namespace {

// The axes up to that of N.
size_t LeadingAxes(const Dims& space) {
  return static_cast<size_t>(
             std::find_if(space.begin(), space.end(), [](const Dim& d) { return !d.IsFixed(); }) -
             space.begin()) +
         1;
}

class Changer {
 public:
  Changer(Graph& graph, Marks& marks) : graph_(graph), marks_(marks), builder_(graph) {}

  llvm::Error Run() {
    FindSpaces();
    if (spaces_.empty()) return llvm::Error::success();
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : nodes) {
      const bool forward = InForward(node);
      builder_.SetPhase(node.phase);
      for (ValueId& v : node.inputs)
        if (const auto it = same_.find({v, forward}); it != same_.end()) v = it->second;
      if (MayChange(node)) {
        ACT_CHECK_OK(Change(std::move(node)));
        continue;
      }
      if (MakesEqualParts(graph_, node)) {
        const auto [it, fresh] = parts_.try_emplace({node.inputs[0], forward}, node.outputs[0]);
        // dead-code removes the reshape then
        if (!fresh) same_[{node.outputs[0], forward}] = it->second;
      } else if (JoinsEqualParts(node)) {
        parts_[{node.outputs[0], forward}] = node.inputs[0];
      }
      graph_.nodes.push_back(std::move(node));
    }
    PlaceReshapes();
    return llvm::Error::success();
  }

 private:
  static bool InForward(const Node& node) { return node.phase == Phase::kForward; }
  const Dims& dims(ValueId v) const { return graph_.value(v).type.dims; }

  bool JoinsEqualParts(const Node& node) const {
    return OpOf(node).movement == Movement::kReshape &&
           InEqualParts(dims(node.outputs[0])) == dims(node.inputs[0]);
  }

  // The shapes of values that have codes of their parts.
  void FindSpaces() {
    std::set<ValueId> coded;
    for (const Node& node : graph_.nodes) {
      if (OpOf(node).coding == Coding::kEncode) coded.insert(node.inputs[0]);
      if (OpOf(node).coding == Coding::kDecode) coded.insert(node.outputs[0]);
    }
    for (const Node& node : graph_.nodes) {
      if (MakesEqualParts(graph_, node) && coded.count(node.outputs[0]))
        spaces_.push_back(dims(node.inputs[0]));
      if (JoinsEqualParts(node) && coded.count(node.inputs[0])) spaces_.push_back(dims(node.outputs[0]));
    }
  }

  // Of the elements, or of rows of them.
  bool IsSpace(const Dims& space) const {
    return std::any_of(spaces_.begin(), spaces_.end(), [&](const Dims& coded) {
      bool same = space.size() == coded.size();
      for (size_t i = 0; same && i < space.size(); ++i)
        same = space[i] == coded[i] || (i >= LeadingAxes(coded) && space[i] == Dim(1));
      return same;
    });
  }
  bool IsWhole(ValueId v, const Dims& space) const {
    const size_t leading = LeadingAxes(space);
    return dims(v).size() == space.size() &&
           std::equal(space.begin(), space.begin() + static_cast<std::ptrdiff_t>(leading), dims(v).begin());
  }
  bool IsSameInAll(ValueId v, const Dims& space) const {
    const size_t trailing = space.size() - LeadingAxes(space), rank = dims(v).size();
    return rank <= trailing ||
           std::all_of(dims(v).begin(), dims(v).end() - static_cast<std::ptrdiff_t>(trailing),
                       [](const Dim& d) { return d == Dim(1); });
  }

  bool MayChange(const Node& node) const {
    if (!IsLoop(node, graph_) || OpOf(node).coding != Coding::kNone || !node.mutates.empty()) return false;
    const Dims& space = LoopSpace(node, graph_);
    if (!IsSpace(space)) return false;
    if (IsLeadingSum(node, graph_) && node.attrs.Ints("axes").size() < LeadingAxes(space)) return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
      return v == kNoValue || IsWhole(v, space) || IsSameInAll(v, space);
    });
  }

  // The value as [N,T,C]. What the forward pass has made is stored as it is, so the backward pass makes parts
  // of it anew.
  llvm::Expected<ValueId> PartsOf(ValueId v, bool forward) {
    const auto [it, fresh] = parts_.try_emplace({v, forward}, kNoValue);
    if (fresh) {
      ACT_TRY(it->second, builder_.Reshape(v, *InEqualParts(dims(v))));
      reshapes_[{v, forward}] = std::move(graph_.nodes.back());
      graph_.nodes.pop_back();
      marks_[it->second].precision = marks_[v].precision;
    }
    return it->second;
  }

  // Puts them as early as can be: between two loops, one would keep fuse-loops from making one of both.
  void PlaceReshapes() {
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (const bool forward : {true, false}) {
      std::set<ValueId> made;
      for (const Node& node : nodes)
        if (InForward(node) == forward) made.insert(node.outputs.begin(), node.outputs.end());
      for (auto& [key, reshape] : reshapes_)
        if (key.second == forward && !made.count(key.first)) graph_.nodes.push_back(std::move(reshape));
      for (Node& node : nodes) {
        if (InForward(node) != forward) continue;
        const std::vector<ValueId> outputs = node.outputs;
        graph_.nodes.push_back(std::move(node));
        for (const ValueId v : outputs)
          if (const auto it = reshapes_.find({v, forward}); it != reshapes_.end())
            graph_.nodes.push_back(std::move(it->second));
      }
    }
  }

  llvm::Error Change(Node node) {
    const Dims space = LoopSpace(node, graph_);
    const bool forward = InForward(node);
    for (ValueId& v : node.inputs) {
      if (v == kNoValue || !IsWhole(v, space)) continue;
      ACT_TRY(v, PartsOf(v, forward));
    }
    std::vector<std::pair<ValueId, ValueId>> joined;  // a result in its own shape, and in parts
    for (ValueId& v : node.outputs) {
      if (v == kNoValue || !IsWhole(v, space)) continue;
      Value parts = graph_.value(v);
      parts.type.dims = *InEqualParts(parts.type.dims);
      parts.name.clear();
      graph_.values.push_back(std::move(parts));
      const auto made = static_cast<ValueId>(graph_.values.size() - 1);
      marks_[made].precision = marks_[v].precision;
      joined.emplace_back(std::exchange(v, made), made);
    }
    const std::string name = node.name;
    const Phase phase = node.phase;
    graph_.nodes.push_back(std::move(node));
    for (const auto& [v, made] : joined) {
      Node join;
      join.op = "Reshape";
      join.name = name;
      join.phase = phase;
      join.inputs = {made};
      join.outputs = {v};
      graph_.nodes.push_back(std::move(join));
      parts_[{v, forward}] = made;
    }
    return llvm::Error::success();
  }

  Graph& graph_;
  Marks& marks_;
  GraphBuilder builder_;
  std::vector<Dims> spaces_;
  // Of a value that the forward pass reads (true), or what follows it: the same in parts.
  std::map<std::pair<ValueId, bool>, ValueId> parts_;
  std::map<std::pair<ValueId, bool>, Node> reshapes_;  // that this pass adds to make parts
  std::map<std::pair<ValueId, bool>, ValueId> same_;   // of parts that were made twice: the first ones
};

}  // namespace

llvm::Error LoopOverParts(Graph& graph, PassContext& context) { return Changer(graph, context.marks).Run(); }

}  // namespace act
