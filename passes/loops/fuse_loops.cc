// Turns elementwise operators, sums over leading axes, reductions of rows, encode and decode into
// fused loops, so that a chain of them is one pass over memory. Every such node becomes part of a
// Fused node, alone or with others. Two loops over the same elements merge if one reads what the
// other makes or both read the same tensor, and if moving one to the
// other's place breaks no dependency.
#include <algorithm>
#include <iterator>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "compiler/ir/replace.h"
#include "compiler/ir/uses.h"
#include "compiler/ops/codec_ops.h"
#include "compiler/ops/op_table.h"
#include "compiler/policy/compared_batches.h"
#include "passes/loops/loops.h"
#include "passes/loops/make_loop.h"
#include "passes/pass.h"
#include "runtime/plan/alias.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

class Fuser {
 public:
  Fuser(Graph& graph, bool least_peak)
      : graph_(graph), least_peak_(least_peak), uses_(graph), root_(AliasRoots(graph)) {
    for (const Value& value : graph_.values) elements_.push_back(value.type.Elements());
  }

  void Run() {
    MakeGroups();
    next_ = order_.begin();
    while (MergeOnce()) {
    }
    Emit();
  }

 private:
  const TensorType& type(ValueId v) const { return graph_.value(v).type; }

  size_t Root(ValueId v) const { return static_cast<size_t>(root_[static_cast<size_t>(v)]); }

  // A group of nodes that becomes one node.
  struct Group {
    LoopNodes members;  // a node that is no loop is alone in its group
    bool loop = false;
    size_t place = 0;                  // ascends along order_
    std::vector<ValueId> full_inputs;  // values that it reads element by element, as its own; ascending
    std::set<int> before, behind;      // groups that must run earlier, and groups that must run later
  };

  // A place in order_.
  using At = std::list<int>::iterator;

  const Group& group(At at) const { return groups_[static_cast<size_t>(*at)]; }

  // The group that makes the value. -1: no group does.
  int MakerOf(ValueId v) const {
    const int64_t p = uses_.Producer(v);
    return p < 0 ? -1 : group_of_[static_cast<size_t>(p)];
  }

  std::vector<ValueId> FullInputs(const LoopNodes& loop) const {
    std::vector<ValueId> inputs;
    const Dim elements = TensorType{DType::kFloat32, loop.space}.Elements();
    for (size_t i : loop.nodes)
      for (ValueId v : graph_.nodes[i].inputs)
        if (v != kNoValue && elements_[static_cast<size_t>(v)] == elements && !elements.TooLarge())
          inputs.push_back(v);
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    return inputs;
  }

  void RunBefore(int earlier, size_t later) {
    groups_[later].before.insert(earlier);
    groups_[static_cast<size_t>(earlier)].behind.insert(static_cast<int>(later));
  }

  void MakeGroups() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      Group group;
      group.place = i;
      group.loop = IsLoop(node, graph_);
      group.members.nodes = {i};
      group.members.phase = node.phase;
      if (group.loop) {
        group.members.space = LoopSpace(node, graph_);
        group.members.row_axes = RowAxesOf(node, graph_);
        group.full_inputs = FullInputs(group.members);
      }
      groups_.push_back(std::move(group));
      group_of_.push_back(static_cast<int>(i));
      order_.push_back(static_cast<int>(i));
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      for (ValueId v : node.inputs)
        if (MakerOf(v) >= 0) RunBefore(MakerOf(v), i);
    }
    // A node that writes in place runs after everything that reads the old value, in any shape, and
    // before everything that reads the new one.
    std::vector<std::vector<size_t>> readers(graph_.values.size());
    std::vector<int> writer(graph_.values.size(), -1);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      for (ValueId v : node.inputs)
        if (v != kNoValue && writer[Root(v)] >= 0) RunBefore(writer[Root(v)], i);
      for (int32_t m : node.mutates) {
        const size_t written = Root(node.inputs[static_cast<size_t>(m)]);
        writer[written] = static_cast<int>(i);
        // What writes it next runs after this node, and so after these readers.
        for (const size_t r : std::exchange(readers[written], {})) RunBefore(static_cast<int>(r), i);
      }
      for (ValueId v : node.inputs)
        if (v != kNoValue) readers[Root(v)].push_back(i);
    }
  }

  // Whether group `b` reads a sum that group `a` makes. Then they cannot be one loop.
  bool ReadsSumOf(const Group& b, int a) const {
    for (size_t i : b.members.nodes)
      for (ValueId v : graph_.nodes[i].inputs) {
        if (MakerOf(v) != a) continue;
        const Node& from = *uses_.ProducerNode(v);
        if (IsLeadingSum(from, graph_) || OpOf(from).coding == Coding::kEncode ||
            RoundsWhenStored(from, graph_))
          return true;
      }
    return false;
  }

  // Whether the group computes one number for each row of the loops over `space`. It must be
  // elementwise arithmetic alone, for which it does not matter whether it is done once or for each
  // element of the row.
  bool IsByRow(const LoopNodes& g, const Dims& space, int32_t row_axes) const {
    Dims rows = space;
    std::fill(rows.end() - row_axes, rows.end(), Dim(1));
    return row_axes > 0 && g.row_axes == 0 && g.space == rows &&
           std::all_of(g.nodes.begin(), g.nodes.end(), [this](size_t i) {
             const OpDef* def = FindOp(graph_.nodes[i].op);
             return def->expr && !def->random && type(graph_.nodes[i].outputs[0]).dtype == DType::kFloat32;
           });
  }

  // The loop over both groups. nullopt: there is none.
  std::optional<LoopNodes> Joined(const LoopNodes& a, const LoopNodes& b) const {
    LoopNodes joined;
    joined.phase = a.phase;
    if (a.space == b.space) {
      if (a.row_axes > 0 && b.row_axes > 0 && a.row_axes != b.row_axes) return std::nullopt;
      joined.space = a.space;
      joined.row_axes = std::max(a.row_axes, b.row_axes);
    } else {
      const LoopNodes* whole = IsByRow(a, b.space, b.row_axes)   ? &b
                               : IsByRow(b, a.space, a.row_axes) ? &a
                                                                 : nullptr;
      if (!whole) return std::nullopt;
      joined.space = whole->space;
      joined.row_axes = whole->row_axes;
    }
    Program tiled;
    tiled.space = joined.space;
    tiled.row_axes = joined.row_axes;
    for (const LoopNodes* g : {&a, &b})
      for (size_t i : g->nodes) {
        const Node& node = graph_.nodes[i];
        const OpDef& def = OpOf(node);
        if (def.coding != Coding::kNone) tiled.inputs.push_back({CodecOf(node.attrs), 0});
        // it takes whole blocks of random numbers
        if (def.random) tiled.instrs.push_back({Opcode::kDropout});
      }
    if (!TileElements(tiled)) return std::nullopt;
    std::merge(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(),
               std::back_inserter(joined.nodes));
    return joined;
  }

  // Whether group `b` reads what group `a` makes, or both read the same tensor.
  bool Related(const Group& b, const std::vector<int>& makers_of_b, int a) const {
    if (std::find(makers_of_b.begin(), makers_of_b.end(), a) != makers_of_b.end()) return true;
    const std::vector<ValueId>& read = groups_[static_cast<size_t>(a)].full_inputs;
    for (auto x = read.begin(), y = b.full_inputs.begin(); x != read.end() && y != b.full_inputs.end();) {
      if (*x == *y) return true;
      *x < *y ? ++x : ++y;
    }
    return false;
  }

  // The groups that make what the group reads.
  std::vector<int> MakersOf(const Group& group) const {
    std::vector<int> makers;
    for (size_t i : group.members.nodes)
      for (ValueId v : graph_.nodes[i].inputs)
        if (const int maker = MakerOf(v); maker >= 0) makers.push_back(maker);
    return makers;
  }

  // Merges the first pair that may be merged. Returns false if there is none.
  bool MergeOnce() {
    for (At b = next_; b != order_.end(); ++b) {
      const Group& y = group(b);
      if (!y.loop) continue;
      const std::vector<int> makers = MakersOf(y);
      // Tries the nearest earlier loops first. The window keeps tensors from living on for a
      // distant reader.
      size_t looked = 0;
      for (At a = b; a != order_.begin() && looked < 64; ++looked) {
        --a;
        const Group& x = group(a);
        if (!x.loop || x.members.nodes.size() + y.members.nodes.size() > kMostNodesPerLoop) continue;
        if (x.members.row_axes == 0 && y.members.row_axes == 0 && x.members.space != y.members.space)
          continue;
        if (!InOnePass(x.members.phase, y.members.phase)) continue;
        if (!Related(y, makers, *a) || ReadsSumOf(y, *a)) continue;
        std::optional<LoopNodes> joined = Joined(x.members, y.members);
        if (!joined) continue;
        const bool up = CanMoveUp(a, b);
        if (!up && (!CanMoveDown(a, b) || HoldsMore(a, b))) continue;
        const bool first = a == order_.begin();
        const At before = first ? a : std::prev(a);
        Merge(a, b, up ? a : b, *std::move(joined));
        next_ = first ? order_.begin() : before;
        return true;
      }
    }
    return false;
  }

  bool CanMoveUp(At a, At b) const {  // whether b needs nothing in between
    const std::set<int>& before = group(b).before;
    return std::none_of(std::next(a), b, [&](int g) { return before.count(g) != 0; });
  }
  bool CanMoveDown(At a, At b) const {  // whether nothing in between needs a
    const std::set<int>& behind = group(a).behind;
    return std::none_of(std::next(a), b, [&](int g) { return behind.count(g) != 0; });
  }

  // Whether more bytes would live in between if loop a moved to the place of b. That happens if it
  // adds up gradients as they come: a sum of many would wait for the last one while all the others
  // stay alive.
  bool HoldsMore(At a, At b) const {
    if (std::all_of(a, b, [this](int g) { return groups_[static_cast<size_t>(g)].loop; })) return false;
    const auto lives_on = [&](ValueId v) {
      // The last readers are the likeliest to be later than the loop.
      const std::span<const size_t> readers = uses_.Readers(v);
      return uses_.IsOutput(v) || std::any_of(readers.rbegin(), readers.rend(), [&](size_t r) {
               return groups_[static_cast<size_t>(group_of_[r])].place > group(a).place;
             });
    };
    std::set<ValueId> made, read;
    for (size_t i : group(a).members.nodes) {
      made.insert(graph_.nodes[i].outputs.begin(), graph_.nodes[i].outputs.end());
      read.insert(graph_.nodes[i].inputs.begin(), graph_.nodes[i].inputs.end());
    }
    // A result counts once, however many repetitions of its maker (repeat-cheap-nodes) are in the loop. One that is
    // made of another result that lives on (a sum under a mask) does not count: whoever reads it can make it again.
    std::set<ValueId> again;
    if (least_peak_) {
      const std::vector<size_t>& nodes = group(a).members.nodes;
      std::map<ValueId, ValueId> equal_to;  // of equal results, the first
      const auto same = [&](ValueId v) { return equal_to.count(v) ? equal_to.at(v) : v; };
      std::set<ValueId> counted;
      for (auto n = nodes.begin(); n != nodes.end(); ++n) {
        const Node& node = graph_.nodes[*n];
        if (node.outputs.empty()) continue;  // an update
        const auto equal = std::find_if(nodes.begin(), n, [&](size_t i) {
          const Node& other = graph_.nodes[i];
          return other.op == node.op && other.attrs == node.attrs &&
                 std::equal(node.inputs.begin(), node.inputs.end(), other.inputs.begin(), other.inputs.end(),
                            [&](ValueId x, ValueId y) { return same(x) == same(y); });
        });
        const ValueId result = node.outputs[0];
        if (equal != n) equal_to[result] = same(graph_.nodes[*equal].outputs[0]);
        const bool of_living = std::any_of(node.inputs.begin(), node.inputs.end(),
                                           [&](ValueId v) { return made.count(v) && lives_on(v); });
        if (of_living || (lives_on(result) && !counted.insert(same(result)).second)) again.insert(result);
      }
    }
    int64_t more = 0;
    for (ValueId v : made)
      if (lives_on(v) && !again.count(v)) more -= type(v).Bytes().At(kComparedBatch);
    for (ValueId v : read)
      if (v != kNoValue && !made.count(v) && !IsPersistent(graph_.value(v).kind) && !lives_on(v))
        more += type(v).Bytes().At(kComparedBatch);
    return more > 0;
  }

  // The two groups become the first of them, at `place`, the place of one of them.
  void Merge(At a, At b, At place, LoopNodes joined) {
    const int ga = *a, gb = *b;
    Group &x = groups_[static_cast<size_t>(ga)], &y = groups_[static_cast<size_t>(gb)];
    for (size_t i : y.members.nodes) group_of_[i] = ga;
    const auto take = [&](std::set<int> Group::*these, std::set<int> Group::*others) {
      for (int g : y.*these) {
        std::set<int>& back = groups_[static_cast<size_t>(g)].*others;
        back.erase(gb);
        back.insert(ga);
      }
      (x.*these).insert((y.*these).begin(), (y.*these).end());
    };
    take(&Group::before, &Group::behind);
    take(&Group::behind, &Group::before);
    for (std::set<int>* own : {&x.before, &x.behind}) {
      own->erase(ga);
      own->erase(gb);
    }
    x.members = std::move(joined);
    x.full_inputs = FullInputs(x.members);
    x.place = group(place).place;
    *place = ga;
    order_.erase(place == b ? a : b);
  }

  void Emit() {
    std::vector<Node> nodes;
    for (int g : order_) {
      const Group& group = groups_[static_cast<size_t>(g)];
      const auto read_outside = [&](ValueId v) {
        const std::span<const size_t> readers = uses_.Readers(v);
        return uses_.IsOutput(v) ||
               std::any_of(readers.begin(), readers.end(), [&](size_t r) { return group_of_[r] != g; });
      };
      nodes.push_back(group.loop ? MakeLoop(graph_, group.members, read_outside)
                                 : graph_.nodes[group.members.nodes[0]]);
    }
    graph_.nodes = std::move(nodes);
  }

  Graph& graph_;
  const bool least_peak_;  // Policy::least_peak
  const Uses uses_;
  const std::vector<ValueId> root_;
  std::vector<Dim> elements_;  // of each value
  std::vector<Group> groups_;
  std::vector<int> group_of_;  // of each node
  std::list<int> order_;       // the groups in execution order
  At next_;                    // the first that may be the later group of a pair
};

// Nodes that were repeated for each reader and then met in one loop make the same tensor twice.
// Keeps one of them.
void DropEqualResults(Graph& graph, Marks& marks) {
  Replacements replacements(graph, marks);
  const std::set<ValueId> kept(graph.outputs.begin(), graph.outputs.end());
  for (Node& node : graph.nodes) {
    replacements.Update(node);
    std::vector<ProgramOutput>& outputs = node.program.outputs;
    for (size_t b = RunsProgram(node) ? node.outputs.size() : 0; b-- > 1;) {
      for (size_t a = 0; a < b; ++a) {
        if (outputs[a].kind == OutputKind::kEncode || !(outputs[a] == outputs[b]) ||
            kept.count(node.outputs[b]) ||
            !(graph.value(node.outputs[a]).type == graph.value(node.outputs[b]).type))
          continue;
        replacements.Replace(node.outputs[b], node.outputs[a]);
        node.outputs.erase(node.outputs.begin() + static_cast<std::ptrdiff_t>(b));
        outputs.erase(outputs.begin() + static_cast<std::ptrdiff_t>(b));
        break;
      }
    }
  }
}

}  // namespace

llvm::Error FuseLoops(Graph& graph, PassContext& context) {
  Fuser(graph, context.policy.least_peak).Run();
  DropEqualResults(graph, context.marks);
  return llvm::Error::success();
}

}  // namespace act
