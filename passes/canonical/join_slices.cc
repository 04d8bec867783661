// Makes one Concat of gradients of slices that together are the whole: pad(a) + pad(b) = concat(a, b). A tensor that is
// split (halves of a gated unit, q, k and v of one product) or read half by half (rotary embeddings) has such a sum as
// its gradient. As a sum, each part was filled with zeros to the size of the whole, and all of these were added. The
// result has the same bits, but for the sign of a zero, where nothing else is added.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "compiler/ir/uses.h"
#include "compiler/ops/graph_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "runtime/base/error.h"

namespace act {
namespace {

// Gradients of slices along one axis, by the axis and the begin of its range.
struct Part {
  size_t summand = 0;  // its position in the sum
  int64_t end = 0;     // of the range
};
using Parts = std::multimap<std::pair<size_t, int64_t>, Part>;

// A value, and what it will be made of if that is not what made it so far.
struct Summand {
  ValueId value = kNoValue;
  std::vector<ValueId> parts = {};
  size_t axis = 0;
};

class Joiner {
 public:
  Joiner(Graph& graph, Marks& marks)
      : graph_(graph),
        builder_(graph),
        marks_(marks),
        nodes_(std::exchange(graph.nodes, {})),
        uses_(graph, nodes_),
        gone_(nodes_.size()) {}

  llvm::Error Run() {
    std::vector<std::vector<Summand>> sums(nodes_.size());  // of the nodes that add others now
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (IsSum(nodes_[i]) && !AddsToAnother(nodes_[i])) sums[i] = Joined(i);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!sums[i].empty()) {
        ACT_CHECK_OK(Add(nodes_[i], sums[i]));
      } else if (!gone_[i]) {
        graph_.nodes.push_back(std::move(nodes_[i]));
      }
    }
    return llvm::Error::success();
  }

 private:
  const Dims& DimsOf(ValueId v) const { return graph_.value(v).type.dims; }

  bool IsSum(const Node& node) const {
    return OpOf(node).arithmetic == Arithmetic::kSum && node.inputs.size() == 2 &&
           DimsOf(node.inputs[0]) == DimsOf(node.outputs[0]) &&
           DimsOf(node.inputs[1]) == DimsOf(node.outputs[0]);
  }
  bool AddsToAnother(const Node& sum) const {
    const ValueId v = sum.outputs[0];
    return uses_.Reads(v) == 1 && uses_.OnlyReader(v) >= 0 &&
           IsSum(nodes_[static_cast<size_t>(uses_.OnlyReader(v))]);
  }
  // The node that makes v for one reader alone. Null: there is none.
  const Node* OwnMaker(ValueId v) const { return uses_.Reads(v) == 1 ? uses_.ProducerNode(v) : nullptr; }
  size_t PositionOf(const Node& node) const { return static_cast<size_t>(&node - nodes_.data()); }

  // What a sum of sums adds, in order. `adds`: the nodes that do.
  std::vector<Summand> SummandsOf(const Node& sum, std::vector<size_t>& adds) const {
    std::vector<Summand> summands;
    std::vector<ValueId> waiting;
    const auto open = [&](const Node& add) {
      adds.push_back(PositionOf(add));
      waiting.insert(waiting.end(), {add.inputs[1], add.inputs[0]});
    };
    for (open(sum); !waiting.empty();) {
      const ValueId v = waiting.back();
      waiting.pop_back();
      const Node* const maker = OwnMaker(v);
      if (maker && IsSum(*maker))
        open(*maker);
      else
        summands.push_back({v});
    }
    return summands;
  }

  // The gradients of slices that nothing else reads.
  Parts PartsOf(const std::vector<Summand>& summands) const {
    Parts parts;
    for (size_t i = 0; i < summands.size(); ++i) {
      const Node* const maker = OwnMaker(summands[i].value);
      if (!maker || OpOf(*maker).movement != Movement::kPlace) continue;
      const Dims &part = DimsOf(maker->inputs[0]), &whole = DimsOf(summands[i].value);
      const std::vector<int64_t> starts = maker->attrs.Ints("starts"), steps = maker->attrs.Ints("steps");
      std::vector<size_t> cut;  // axes
      for (size_t axis = 0; axis < whole.size(); ++axis)
        if (part[axis] != whole[axis] || starts[axis] != 0 || steps[axis] != 1) cut.push_back(axis);
      if (cut.size() != 1 || steps[cut[0]] != 1 || part[cut[0]] == Dim(0)) continue;
      const int64_t first = starts[cut[0]];
      parts.insert({{cut[0], first}, {i, first + part[cut[0]].fixed}});
    }
    return parts;
  }

  // Takes parts that follow each other from the begin to the end of an axis. Empty: there are none. A part that begins
  // none is dropped, so that many of them take no time again.
  static std::vector<Part> TakeCover(Parts& parts, size_t axis, const Dim& end) {
    for (auto start = parts.find({axis, 0}); start != parts.end(); start = parts.find({axis, 0})) {
      std::vector<Parts::iterator> cover;
      for (auto next = start; next != parts.end(); next = parts.find({axis, next->second.end})) {
        cover.push_back(next);
        if (Dim(next->second.end) == end) break;
      }
      const bool complete = Dim(cover.back()->second.end) == end;
      if (!complete) cover.resize(1);
      std::vector<Part> taken;
      for (const auto& part : cover) {
        taken.push_back(part->second);
        parts.erase(part);
      }
      if (complete) return taken;
    }
    return {};
  }

  // What node `sum` adds once parts are joined. Empty: nothing is.
  std::vector<Summand> Joined(size_t sum) {
    std::vector<size_t> adds;
    std::vector<Summand> summands = SummandsOf(nodes_[sum], adds);
    Parts parts = PartsOf(summands);
    const Dims& dims = DimsOf(nodes_[sum].outputs[0]);
    bool joined = false;
    for (size_t axis = 0; axis < dims.size(); ++axis)
      for (std::vector<Part> cover = TakeCover(parts, axis, dims[axis]); !cover.empty();
           cover = TakeCover(parts, axis, dims[axis])) {
        joined = true;
        Summand whole{.value = summands[cover[0].summand].value, .axis = axis};
        for (const Part& part : cover) {
          const Node& place = *uses_.ProducerNode(summands[part.summand].value);
          whole.parts.push_back(place.inputs[0]);
          gone_[PositionOf(place)] = true;
          summands[part.summand].value = kNoValue;
        }
        summands[cover[0].summand] = std::move(whole);
      }
    if (!joined) return {};
    for (const size_t add : adds) gone_[add] = true;
    std::erase_if(summands, [](const Summand& s) { return s.value == kNoValue; });
    return summands;
  }

  llvm::Error Add(const Node& sum, const std::vector<Summand>& summands) {
    builder_.SetPhase(sum.phase);
    ValueId total = kNoValue;
    for (const Summand& summand : summands) {
      if (!summand.parts.empty()) {
        Attributes attrs;
        attrs.Set("axis", static_cast<int64_t>(summand.axis));
        ACT_TRY(const ValueId made, builder_.Add1("Concat", summand.parts, attrs, sum.name));
        Rename(made, summand.value);
      }
      if (total == kNoValue) {
        total = summand.value;
        continue;
      }
      ACT_TRY(const ValueId added, builder_.Add1("Add", {total, summand.value}, {}, sum.name));
      const ValueMarks marks = marks_[sum.outputs[0]];  // a copy, because the map grows
      marks_[added] = marks;
      total = added;
    }
    Rename(total, sum.outputs[0]);
    return llvm::Error::success();
  }

  // The last node makes `to` instead of `from`.
  void Rename(ValueId from, ValueId to) {
    std::vector<ValueId>& made = graph_.nodes.back().outputs;
    std::replace(made.begin(), made.end(), from, to);
  }

  Graph& graph_;
  GraphBuilder builder_;
  Marks& marks_;
  std::vector<Node> nodes_;
  const Uses uses_;
  std::vector<bool> gone_;  // nodes that others replace
};

}  // namespace

llvm::Error JoinSlices(Graph& graph, PassContext& context) { return Joiner(graph, context.marks).Run(); }

}  // namespace act
