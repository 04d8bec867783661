// Turns elementwise operators, sums over leading axes, reductions of rows, encode and decode into fused
// loops, so that a chain of them is one pass over memory. Every such node becomes part of a Fused node, alone
// or with others: loops over the same elements merge, where one reads what the other makes or both read the
// same tensor, and where moving one to the other's place breaks no dependency.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "compiler/ir/alias.h"
#include "compiler/ops/codec_ops.h"
#include "compiler/ops/expr_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/loops.h"
#include "passes/pass.h"

namespace act {
namespace {

// Merging stops here: a program's tiles (4 KiB a register) must stay in the first-level cache.
constexpr size_t kMaxNodesPerLoop = 24;
// Bytes are compared at this batch: all that count grow alike with it.
constexpr int64_t kBytesAt = 16;

class Fuser {
 public:
  explicit Fuser(Graph& graph) : graph_(graph) {}

  void Run() {
    MakeGroups();
    while (MergeOnce()) {
    }
    Emit();
  }

 private:
  const TensorType& type(ValueId v) const { return graph_.value(v).type; }

  Dim SpaceElements(const Dims& dims) const { return TensorType{DType::kFloat32, dims}.Elements(); }

  size_t Root(ValueId v) const { return static_cast<size_t>(root_[static_cast<size_t>(v)]); }

  void Index() {
    producer_.assign(graph_.values.size(), -1);
    readers_.assign(graph_.values.size(), {});
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (ValueId v : graph_.nodes[i].outputs) producer_[static_cast<size_t>(v)] = static_cast<int64_t>(i);
      for (ValueId v : graph_.nodes[i].inputs)
        if (v != kNoValue) readers_[static_cast<size_t>(v)].push_back(i);
    }
    is_output_.assign(graph_.values.size(), false);
    for (ValueId v : graph_.outputs) is_output_[static_cast<size_t>(v)] = true;
    root_ = AliasRoots(graph_);
  }

  // A group of nodes that becomes one node; order_ holds the groups in execution order.
  struct Group {
    std::vector<size_t> nodes;
    bool loop = false;
    Dims space;
    int32_t row_axes = 0;  // see Program
    Phase phase = Phase::kForward;
    std::set<int> before;  // groups that must run earlier
  };

  void MakeGroups() {
    Index();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const bool loop = IsLoop(node, graph_);
      groups_.push_back({{i},
                         loop,
                         loop ? LoopSpace(node, graph_) : Dims{},
                         loop ? RowAxesOf(node, graph_) : 0,
                         node.phase,
                         {}});
      order_.push_back(static_cast<int>(i));
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      for (ValueId v : node.inputs)
        if (v != kNoValue && producer_[static_cast<size_t>(v)] >= 0)
          groups_[i].before.insert(static_cast<int>(producer_[static_cast<size_t>(v)]));
    }
    // What is written in place runs behind everything that reads the old value, under whatever shape, and
    // before what reads the new one.
    std::vector<std::vector<size_t>> readers(graph_.values.size());
    std::vector<int> writer(graph_.values.size(), -1);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      for (ValueId v : node.inputs)
        if (v != kNoValue && writer[Root(v)] >= 0) groups_[i].before.insert(writer[Root(v)]);
      for (int32_t m : node.mutates) writer[Root(node.inputs[static_cast<size_t>(m)])] = static_cast<int>(i);
      for (int32_t m : node.mutates)
        for (size_t r : readers[Root(node.inputs[static_cast<size_t>(m)])])
          groups_[i].before.insert(static_cast<int>(r));
      for (ValueId v : node.inputs)
        if (v != kNoValue) readers[Root(v)].push_back(i);
    }
  }

  // Does group `b` read a sum that group `a` makes? Then they cannot be one loop.
  bool ReadsSumOf(const Group& b, const Group& a) const {
    for (size_t i : b.nodes)
      for (ValueId v : graph_.nodes[i].inputs) {
        const int64_t p = v == kNoValue ? -1 : producer_[static_cast<size_t>(v)];
        if (p < 0) continue;
        const Node& from = graph_.nodes[static_cast<size_t>(p)];
        const bool not_a_register =
            IsLeadingSum(from, graph_) || from.op == "Compress" || RoundsWhenStored(from, graph_);
        if (not_a_register &&
            std::find(a.nodes.begin(), a.nodes.end(), static_cast<size_t>(p)) != a.nodes.end())
          return true;
      }
    return false;
  }

  // One number a row of the loops over `space`: elementwise arithmetic alone, which does not care whether it
  // is done once or for each element of the row.
  bool IsByRow(const Group& g, const Dims& space, int32_t row_axes) const {
    Dims rows = space;
    std::fill(rows.end() - row_axes, rows.end(), Dim(1));
    return row_axes > 0 && g.row_axes == 0 && g.space == rows &&
           std::all_of(g.nodes.begin(), g.nodes.end(), [this](size_t i) {
             const OpDef* def = FindOp(graph_.nodes[i].op);
             return def->expr && !def->random && type(graph_.nodes[i].outputs[0]).dtype == DType::kFloat32;
           });
  }

  // The loop over both groups, without its nodes; nullopt where there is none.
  std::optional<Group> Joined(const Group& a, const Group& b) const {
    Group joined;
    if (a.space == b.space) {
      if (a.row_axes > 0 && b.row_axes > 0 && a.row_axes != b.row_axes) return std::nullopt;
      joined.space = a.space;
      joined.row_axes = std::max(a.row_axes, b.row_axes);
    } else {
      const Group* whole = IsByRow(a, b.space, b.row_axes)   ? &b
                           : IsByRow(b, a.space, a.row_axes) ? &a
                                                             : nullptr;
      if (!whole) return std::nullopt;
      joined.space = whole->space;
      joined.row_axes = whole->row_axes;
    }
    Program tiled;
    tiled.space = joined.space;
    tiled.row_axes = joined.row_axes;
    for (const Group* g : {&a, &b})
      for (size_t i : g->nodes) {
        const Node& node = graph_.nodes[i];
        if (node.op == "Compress" || node.op == "Decompress")
          tiled.inputs.push_back({CodecOf(node.attrs), 0});
        if (node.op == "Dropout") tiled.instrs.push_back({Opcode::kDropout});
      }
    return TileElements(tiled) ? std::optional<Group>(joined) : std::nullopt;
  }

  std::set<ValueId> FullInputs(const Group& g) const {
    std::set<ValueId> inputs;
    const Dim elements = SpaceElements(g.space);
    for (size_t i : g.nodes)
      for (ValueId v : graph_.nodes[i].inputs)
        if (v != kNoValue && type(v).Elements() == elements && !elements.TooLarge()) inputs.insert(v);
    return inputs;
  }

  bool Related(const Group& a, const Group& b) const {
    for (size_t i : b.nodes)
      for (ValueId v : graph_.nodes[i].inputs) {
        const int64_t p = v == kNoValue ? -1 : producer_[static_cast<size_t>(v)];
        if (p >= 0 && std::find(a.nodes.begin(), a.nodes.end(), static_cast<size_t>(p)) != a.nodes.end())
          return true;
      }
    const std::set<ValueId> x = FullInputs(a), y = FullInputs(b);
    return std::any_of(x.begin(), x.end(), [&y](ValueId v) { return y.count(v) != 0; });
  }

  // Merges the first pair that may be merged; false where there is none.
  bool MergeOnce() {
    for (size_t at = next_; at < order_.size(); ++at) {
      Group& b = groups_[static_cast<size_t>(order_[at])];
      if (!b.loop) continue;
      // Nearest earlier loops first; the window keeps tensors from living on for a distant reader.
      size_t looked = 0;
      for (size_t back = at; back-- > 0 && looked < 64; ++looked) {
        Group& a = groups_[static_cast<size_t>(order_[back])];
        if (!a.loop || a.nodes.size() + b.nodes.size() > kMaxNodesPerLoop) continue;
        if (a.space != b.space && a.row_axes == 0 && b.row_axes == 0) continue;
        if (!InOnePass(a.phase, b.phase)) continue;
        if (!Related(a, b) || ReadsSumOf(b, a)) continue;
        const std::optional<Group> joined = Joined(a, b);
        if (!joined) continue;
        if (CanMoveUp(back, at)) {
          Merge(back, at, back);
        } else if (CanMoveDown(back, at) && !HoldsMore(back, at)) {
          Merge(back, at, at);
        } else {
          continue;
        }
        a.space = joined->space;
        a.row_axes = joined->row_axes;
        next_ = back > 0 ? back - 1 : 0;
        return true;
      }
    }
    return false;
  }

  bool CanMoveUp(size_t a, size_t b) const {  // does b need nothing between?
    const std::set<int>& before = groups_[static_cast<size_t>(order_[b])].before;
    for (size_t i = a + 1; i < b; ++i)
      if (before.count(order_[i])) return false;
    return true;
  }
  bool CanMoveDown(size_t a, size_t b) const {  // does nothing between need a?
    for (size_t i = a + 1; i < b; ++i)
      if (groups_[static_cast<size_t>(order_[i])].before.count(order_[a])) return false;
    return true;
  }

  // Would loop a at the place of b let more bytes live in between? So it would where it adds up gradients as
  // they come: a sum of many would wait for the last of them with all the others.
  bool HoldsMore(size_t a, size_t b) const {
    const auto first = order_.begin() + static_cast<std::ptrdiff_t>(a),
               last = order_.begin() + static_cast<std::ptrdiff_t>(b);
    if (std::all_of(first, last, [this](int g) { return groups_[static_cast<size_t>(g)].loop; }))
      return false;
    std::set<size_t> early;  // nodes up to and with the loop
    for (auto g = order_.begin(); g <= first; ++g) {
      const std::vector<size_t>& nodes = groups_[static_cast<size_t>(*g)].nodes;
      early.insert(nodes.begin(), nodes.end());
    }
    const auto lives_on = [&](ValueId v) {
      const std::vector<size_t>& readers = readers_[static_cast<size_t>(v)];
      return is_output_[static_cast<size_t>(v)] ||
             std::any_of(readers.begin(), readers.end(), [&early](size_t r) { return early.count(r) == 0; });
    };
    const std::vector<size_t>& nodes = groups_[static_cast<size_t>(*first)].nodes;
    std::set<ValueId> made, read;
    for (size_t i : nodes) {
      made.insert(graph_.nodes[i].outputs.begin(), graph_.nodes[i].outputs.end());
      read.insert(graph_.nodes[i].inputs.begin(), graph_.nodes[i].inputs.end());
    }
    int64_t more = 0;
    for (ValueId v : made)
      if (lives_on(v)) more -= type(v).Bytes().At(kBytesAt);
    for (ValueId v : read)
      if (v != kNoValue && !made.count(v) && !IsPersistent(graph_.value(v).kind) && !lives_on(v))
        more += type(v).Bytes().At(kBytesAt);
    return more > 0;
  }

  void Merge(size_t a, size_t b, size_t place) {
    const int ga = order_[a], gb = order_[b];
    Group &x = groups_[static_cast<size_t>(ga)], &y = groups_[static_cast<size_t>(gb)];
    x.nodes.insert(x.nodes.end(), y.nodes.begin(), y.nodes.end());
    std::sort(x.nodes.begin(), x.nodes.end());
    x.before.insert(y.before.begin(), y.before.end());
    x.before.erase(ga);
    x.before.erase(gb);
    for (Group& g : groups_)
      if (g.before.erase(gb)) g.before.insert(ga);
    x.before.erase(ga);
    if (place == b) {
      order_[b] = ga;
      order_.erase(order_.begin() + static_cast<std::ptrdiff_t>(a));
    } else {
      order_.erase(order_.begin() + static_cast<std::ptrdiff_t>(b));
    }
  }

  void Emit() {
    std::vector<Node> nodes;
    for (int g : order_) {
      const Group& group = groups_[static_cast<size_t>(g)];
      if (group.loop) {
        nodes.push_back(MakeLoop(group));
      } else {
        nodes.push_back(graph_.nodes[group.nodes[0]]);
      }
    }
    graph_.nodes = std::move(nodes);
  }

  // The scalar constant in `v`, if it is one that is known.
  std::optional<float> ScalarOf(ValueId v) const {
    const Value& value = graph_.value(v);
    if (value.kind != ValueKind::kConstant || value.type.dtype != DType::kFloat32 || !value.data.data ||
        value.type.Elements() != Dim(1) || value.data.bytes != sizeof(float))
      return std::nullopt;
    float f;
    std::memcpy(&f, value.data.data, sizeof f);
    return f;
  }

  Node MakeLoop(const Group& group) const {
    Node loop;
    loop.op = "Fused";
    loop.phase = group.phase;
    ExprBuilder b;
    std::map<ValueId, int> reg;                       // of values made or read in the loop
    std::map<std::pair<ValueId, bool>, int> decoded;  // of codes, and of their masks
    std::vector<std::pair<ValueId, int>> writes;      // operands written in place, and their new registers
    std::vector<ValueId> gradients;                   // a parameter and its gradient, and so on
    std::set<size_t> members(group.nodes.begin(), group.nodes.end());
    const auto operand = [&](ValueId v) {
      const auto it = reg.find(v);
      if (it != reg.end()) return it->second;
      const std::optional<float> scalar = ScalarOf(v);
      if (scalar) return reg[v] = b.Const(*scalar);
      loop.inputs.push_back(v);
      return reg[v] = b.Input({});
    };
    const auto emit = [&](ValueId v, const ProgramOutput& output) {
      loop.outputs.push_back(v);
      b.Output(output);
    };
    for (size_t i : group.nodes) {
      const Node& node = graph_.nodes[i];
      if (!node.name.empty() && loop.name.size() < 160)
        if (loop.name.find(node.name) == std::string::npos)
          loop.name += (loop.name.empty() ? "" : "+") + node.name;
      const OpDef* def = FindOp(node.op);
      if (def->exprs) {
        std::vector<int> operands;
        for (ValueId v : node.inputs) operands.push_back(operand(v));
        const std::vector<int> results = def->exprs(b, node, operands);
        for (size_t o = 0; o < node.outputs.size(); ++o) {
          reg[node.outputs[o]] = results[o];
          emit(node.outputs[o], {OutputKind::kStore, results[o], {}, 0});
        }
        for (size_t m = 0; m < node.mutates.size(); ++m)
          writes.emplace_back(node.inputs[static_cast<size_t>(node.mutates[m])],
                              results[node.outputs.size() + m]);
        if (node.attrs.Has("gradient")) gradients.insert(gradients.end(), {node.inputs[0], node.inputs[1]});
        continue;
      }
      const ValueId out = node.outputs[0];
      const auto stream = static_cast<int32_t>(node.attrs.Int("stream"));
      if (node.op == "Decompress") {
        const auto key = std::make_pair(node.inputs[0], DecodesMask(node));
        if (!decoded.count(key)) {
          loop.inputs.push_back(node.inputs[0]);
          decoded[key] = b.Input({CodecOf(node.attrs), stream, DecodesMask(node)});
        }
        reg[out] = decoded[key];
      } else if (node.op == "Compress") {
        emit(out, {OutputKind::kEncode, operand(node.inputs[0]), CodecOf(node.attrs), stream});
        continue;
      } else if (IsLeadingSum(node, graph_)) {
        emit(out, {OutputKind::kSum, operand(node.inputs[0]), {}, 0});
        continue;
      } else if (RowAxesOf(node, graph_) > 0) {
        const int row = operand(node.inputs[0]);
        reg[out] = b.Unary(node.op == "ReduceMax" ? Opcode::kRowMax : Opcode::kRowSum, row);
        const auto count = static_cast<float>(*RowElements(group.space, group.row_axes));
        if (node.op == "ReduceMean") reg[out] = b.Div(reg[out], b.Const(count));
      } else {
        std::vector<int> operands;
        for (ValueId v : node.inputs) operands.push_back(operand(v));
        reg[out] = def->expr(b, node, operands);
      }
      bool read_outside = is_output_[static_cast<size_t>(out)];
      for (size_t r : readers_[static_cast<size_t>(out)]) read_outside |= members.count(r) == 0;
      const OutputKind kind = type(out).dims == group.space ? OutputKind::kStore : OutputKind::kRowStore;
      if (read_outside) emit(out, {kind, reg[out], {}, 0});
    }
    const auto position = [&loop](ValueId v) {
      return std::find(loop.inputs.begin(), loop.inputs.end(), v) - loop.inputs.begin();
    };
    for (const auto& [v, r] : writes) {
      loop.mutates.push_back(static_cast<int32_t>(position(v)));
      b.Output({OutputKind::kStore, r, {}, 0});
    }
    if (!gradients.empty()) {
      std::vector<int64_t> positions;
      for (ValueId v : gradients) positions.push_back(position(v));
      loop.attrs.Set("gradients", positions);
    }
    loop.program = b.Finish(group.space);
    loop.program.row_axes = group.row_axes;
    return loop;
  }

  Graph& graph_;
  std::vector<int64_t> producer_;
  std::vector<std::vector<size_t>> readers_;
  std::vector<bool> is_output_;
  std::vector<ValueId> root_;
  std::vector<Group> groups_;
  std::vector<int> order_;
  size_t next_ = 0;
};

// Nodes that were repeated for each reader, and then met in one loop, made the same tensor twice: one does.
void DropEqualResults(Graph& graph) {
  std::vector<ValueId> instead(graph.values.size());
  for (size_t v = 0; v < instead.size(); ++v) instead[v] = static_cast<ValueId>(v);
  const std::set<ValueId> kept(graph.outputs.begin(), graph.outputs.end());
  for (Node& node : graph.nodes) {
    for (ValueId& v : node.inputs)
      if (v != kNoValue) v = instead[static_cast<size_t>(v)];
    std::vector<ProgramOutput>& outputs = node.program.outputs;
    for (size_t b = node.op == "Fused" ? node.outputs.size() : 0; b-- > 1;) {
      for (size_t a = 0; a < b; ++a) {
        if (outputs[a].kind == OutputKind::kEncode || !(outputs[a] == outputs[b]) ||
            kept.count(node.outputs[b]) ||
            !(graph.value(node.outputs[a]).type == graph.value(node.outputs[b]).type))
          continue;
        instead[static_cast<size_t>(node.outputs[b])] = node.outputs[a];
        node.outputs.erase(node.outputs.begin() + static_cast<std::ptrdiff_t>(b));
        outputs.erase(outputs.begin() + static_cast<std::ptrdiff_t>(b));
        break;
      }
    }
  }
}

}  // namespace

llvm::Error FuseLoops(Graph& graph, PassContext&) {
  Fuser(graph).Run();
  DropEqualResults(graph);
  return llvm::Error::success();
}

}  // namespace act
