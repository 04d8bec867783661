// Channels-last everywhere: moves transposes down through the operators that do not care about the order of
// axes until they meet their inverse. The importer writes x -> channels-last -> Conv -> channels-first around
// each spatial operator; behind this pass a convolutional network has one transpose at its input and none
// between its layers.
//
// Each value is known as a pair (base, perm): value axis i is base axis perm[i]. A transpose only changes the
// pair; operators that need a particular order get the transpose written out, as do norms of features, which
// are rows where these come last.
#include <algorithm>
#include <map>
#include <numeric>

#include "compiler/ir/graph_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "runtime/base/error.h"

namespace act {
namespace {

using Perm = std::vector<int64_t>;

Perm IdentityPerm(size_t rank) {
  Perm perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  return perm;
}

Perm Inverse(const Perm& perm) {
  Perm inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return inverse;
}

template <class T>
std::vector<T> Permute(const std::vector<T>& base, const Perm& perm) {
  std::vector<T> result;
  for (int64_t axis : perm) result.push_back(base[static_cast<size_t>(axis)]);
  return result;
}

// Moves only axes of extent 1: the elements stay in order, so a reshape does it.
bool KeepsOrder(const Dims& base, const Perm& perm) {
  int64_t last = -1;
  for (int64_t axis : perm) {
    if (base[static_cast<size_t>(axis)] == Dim(1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

class Canceller {
 public:
  explicit Canceller(Graph& graph) : graph_(graph), builder_(graph) {}

  llvm::Error Run(PassContext& context) {
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (const Node& node : nodes)
      if (node.op == "Transpose") transposed_.emplace(node.inputs[0], node.attrs.Ints("perm"));
    for (Node& node : nodes) {
      builder_.SetPhase(node.phase);
      ACT_CHECK_OK(Visit(node));
    }
    for (ValueId& v : graph_.outputs) ACT_CHECK_OK(Materialise(v));
    if (context.loss != kNoValue) ACT_CHECK_OK(Materialise(context.loss));
    return llvm::Error::success();
  }

 private:
  struct View {
    ValueId base;
    Perm perm;
  };

  View ViewOf(ValueId v) {
    const auto it = views_.find(v);
    if (it != views_.end()) return it->second;
    return {v, IdentityPerm(graph_.value(v).type.dims.size())};
  }
  bool IsMoved(ValueId v) {
    if (v == kNoValue) return false;
    const View view = ViewOf(v);
    return view.perm != IdentityPerm(view.perm.size());
  }

  // The base of `v` with its axes in the order `perm`: written out once for each order.
  llvm::Expected<ValueId> InOrder(ValueId base, const Perm& perm) {
    if (perm == IdentityPerm(perm.size())) return base;
    const auto key = std::make_pair(base, perm);
    const auto it = written_.find(key);
    if (it != written_.end()) return it->second;
    const Dims dims = graph_.value(base).type.dims;
    llvm::Expected<ValueId> moved = KeepsOrder(dims, perm)
                                        ? builder_.Reshape(base, Permute(dims, perm), "layout")
                                        : builder_.Transpose(base, perm, "layout");
    if (moved) written_[key] = *moved;
    return moved;
  }

  llvm::Error Materialise(ValueId& v) {
    if (v == kNoValue) return llvm::Error::success();
    const View view = ViewOf(v);
    ACT_TRY(v, InOrder(view.base, view.perm));
    return llvm::Error::success();
  }

  // Operand `v`, which broadcasts against a result of this rank, in the axis order of the result's base:
  // value axis i of the result is base axis perm[i].
  llvm::Expected<ValueId> Operand(ValueId v, const Perm& perm) {
    const View view = ViewOf(v);
    if (view.perm == perm) return view.base;
    ACT_CHECK_OK(Materialise(v));
    Dims dims = graph_.value(v).type.dims;
    if (graph_.value(v).type.Elements() == Dim(1) && dims.size() <= 1) return v;
    dims.insert(dims.begin(), perm.size() - dims.size(), Dim(1));
    ACT_TRY(const ValueId ranked, builder_.Reshape(v, dims, "layout"));
    return InOrder(ranked, Inverse(perm));
  }

  // The result of an operator that ran on bases: value axis i is axis perm[i] of what it made.
  void SetView(const Node& node, ValueId made, const Perm& perm) { views_[node.outputs[0]] = {made, perm}; }

  llvm::Error Visit(Node& node) {
    if (node.op == "Transpose") {
      const View view = ViewOf(node.inputs[0]);
      views_[node.outputs[0]] = {view.base, Permute(view.perm, node.attrs.Ints("perm"))};
      return llvm::Error::success();
    }
    const bool moved =
        std::any_of(node.inputs.begin(), node.inputs.end(), [this](ValueId v) { return IsMoved(v); });
    const OpDef* def = FindOp(node.op);
    if (node.op == "Attention") return VisitAttention(node);
    if (moved && node.outputs.size() == 1) {
      if (node.op == "Reshape") return VisitReshape(node);
      if (node.op == "MatMul") return VisitMatMul(node);
      if (def->expr && node.op != "Expand" && node.op != "BatchNormApply") return VisitElementwise(node);
      if (node.op == "LayerNorm" && !WantsRows(node)) return VisitLayerNorm(node);
      if (node.op == "Concat") return VisitConcat(node);
      if (node.op == "Pad" || node.op == "Slice") return VisitPerAxis(node);
      if (node.op.rfind("Reduce", 0) == 0) return VisitReduce(node);
    }
    return VisitPlain(node);
  }

  llvm::Error VisitPlain(Node& node) {
    for (ValueId& v : node.inputs) ACT_CHECK_OK(Materialise(v));
    graph_.nodes.push_back(std::move(node));
    return llvm::Error::success();
  }

  // Attention takes heads wherever they lie, as long as the elements of one are neighbours. Its result gets
  // the order that the transpose behind it asks for.
  llvm::Error VisitAttention(Node& node) {
    for (size_t i = 3; i < node.inputs.size(); ++i) ACT_CHECK_OK(Materialise(node.inputs[i]));
    constexpr const char* kPerms[] = {"perm_q", "perm_k", "perm_v"};
    for (size_t i = 0; i < 3; ++i) {
      View view = ViewOf(node.inputs[i]);
      if (node.attrs.Has(kPerms[i]) || view.perm.back() + 1 != static_cast<int64_t>(view.perm.size())) {
        ACT_CHECK_OK(Materialise(node.inputs[i]));
        continue;
      }
      node.inputs[i] = view.base;
      if (view.perm != IdentityPerm(view.perm.size())) node.attrs.Set(kPerms[i], view.perm);
    }
    const auto wanted = transposed_.find(node.outputs[0]);
    if (wanted == transposed_.end() || node.attrs.Has("perm_o") ||
        wanted->second.back() + 1 != static_cast<int64_t>(wanted->second.size())) {
      graph_.nodes.push_back(std::move(node));
      return llvm::Error::success();
    }
    const Perm perm = Inverse(wanted->second);
    node.attrs.Set("perm_o", perm);
    ACT_TRY(const ValueId made, builder_.Add1("Attention", node.inputs, node.attrs, node.name));
    SetView(node, made, perm);
    return llvm::Error::success();
  }

  // A product takes matrices either way round: a transposed weight (Linear layers of three axes) is no copy.
  void TakeMatrix(Node& node, size_t i, const char* flag) {
    const View view = ViewOf(node.inputs[i]);
    Perm swapped = IdentityPerm(view.perm.size());
    std::swap(swapped[swapped.size() - 2], swapped.back());
    if (view.perm != swapped) return;
    node.inputs[i] = view.base;
    node.attrs.Set(flag, int64_t{node.attrs.Int(flag) == 0});
  }

  // The rows of a product with one matrix may have any order.
  llvm::Error VisitMatMul(Node& node) {
    TakeMatrix(node, 0, "trans_a");
    TakeMatrix(node, 1, "trans_b");
    const View view = ViewOf(node.inputs[0]);
    if (node.attrs.Int("trans_a") != 0 || graph_.value(node.inputs[1]).type.rank() != 2 ||
        view.perm.back() + 1 != static_cast<int64_t>(view.perm.size()))
      return VisitPlain(node);
    ACT_CHECK_OK(Materialise(node.inputs[1]));
    ACT_TRY(const ValueId made, builder_.Add1("MatMul", {view.base, node.inputs[1]}, node.attrs, node.name));
    SetView(node, made, view.perm);
    return llvm::Error::success();
  }

  // A reshape splits and merges runs of axes. Where the axes of each run are neighbours in the base, in their
  // order, the base is reshaped in place of the value.
  llvm::Error VisitReshape(Node& node) {
    const View view = ViewOf(node.inputs[0]);
    const Dims base = graph_.value(view.base).type.dims, to = graph_.value(node.outputs[0]).type.dims;
    struct Run {
      std::vector<size_t> from, to;  // axes of the value and of the result, without those of extent 1
    };
    std::vector<size_t> rest_from, rest_to;
    for (size_t i = 0; i < view.perm.size(); ++i)
      if (base[static_cast<size_t>(view.perm[i])] != Dim(1)) rest_from.push_back(i);
    for (size_t i = 0; i < to.size(); ++i)
      if (to[i] != Dim(1)) rest_to.push_back(i);
    // Products are compared by their value at one batch size first; a coincidence there fails the test for
    // equality.
    constexpr int64_t kSomeBatch = 10007;
    std::vector<Run> runs;
    for (size_t i = 0, j = 0; i < rest_from.size() || j < rest_to.size();) {
      Run run;
      Dim a(1), b(1);
      do {
        const bool take_from = run.from.empty() || a.At(kSomeBatch) < b.At(kSomeBatch);
        if (take_from ? i == rest_from.size() : j == rest_to.size()) return VisitPlain(node);
        if (take_from) {
          a = a * base[static_cast<size_t>(view.perm[rest_from[i]])];
          run.from.push_back(rest_from[i++]);
        } else {
          b = b * to[rest_to[j]];
          run.to.push_back(rest_to[j++]);
        }
      } while (a != b);
      runs.push_back(run);
    }
    // The base's axes of extent other than 1, in order: each run must be there in one piece.
    std::vector<int64_t> order;
    for (size_t axis = 0; axis < base.size(); ++axis)
      if (base[axis] != Dim(1)) order.push_back(static_cast<int64_t>(axis));
    Dims dims;
    Perm perm(to.size(), -1);
    for (size_t i = 0; i < to.size(); ++i)
      if (to[i] == Dim(1)) {
        perm[i] = static_cast<int64_t>(dims.size());
        dims.push_back(Dim(1));
      }
    for (size_t at = 0; at < order.size();) {
      const auto run = std::find_if(runs.begin(), runs.end(),
                                    [&](const Run& r) { return view.perm[r.from.front()] == order[at]; });
      if (run == runs.end()) return VisitPlain(node);
      for (size_t axis : run->from)
        if (at == order.size() || view.perm[axis] != order[at++]) return VisitPlain(node);
      for (size_t axis : run->to) {
        perm[axis] = static_cast<int64_t>(dims.size());
        dims.push_back(to[axis]);
      }
    }
    ACT_TRY(const ValueId made, builder_.Reshape(view.base, dims, node.name));
    SetView(node, made, perm);
    return llvm::Error::success();
  }

  llvm::Error VisitElementwise(const Node& node) {
    const TensorType type = graph_.value(node.outputs[0]).type;
    Perm perm;
    for (ValueId v : node.inputs)
      if (perm.empty() && IsMoved(v) && graph_.value(v).type.dims.size() == type.dims.size())
        perm = ViewOf(v).perm;
    if (perm.empty()) perm = IdentityPerm(type.dims.size());
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) {
      ACT_TRY(const ValueId operand, Operand(v, perm));
      inputs.push_back(operand);
    }
    ACT_TRY(const ValueId made, builder_.Add1(node.op, inputs, node.attrs, node.name));
    SetView(node, made, perm);
    return llvm::Error::success();
  }

  // The norm of features (no groups of channels) wants these last, where the model has them: as rows.
  bool WantsRows(const Node& node) {
    const int64_t rank = static_cast<int64_t>(ViewOf(node.inputs[0]).perm.size());
    std::vector<int64_t> last(node.attrs.Ints("axes").size());
    std::iota(last.begin(), last.end(), rank - static_cast<int64_t>(last.size()));
    return !node.attrs.Has("groups") && node.attrs.Ints("axes") == last;
  }

  // Its axes and its group axis move with those of x; scale and bias broadcast against it.
  llvm::Error VisitLayerNorm(const Node& node) {
    const View view = ViewOf(node.inputs[0]);
    std::vector<ValueId> inputs{view.base};
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue) {
        inputs.push_back(kNoValue);
        continue;
      }
      ACT_TRY(const ValueId operand, Operand(node.inputs[i], view.perm));
      inputs.push_back(operand);
    }
    Attributes attrs = node.attrs;
    std::vector<int64_t> axes;
    for (int64_t axis : attrs.Ints("axes")) axes.push_back(view.perm[static_cast<size_t>(axis)]);
    std::sort(axes.begin(), axes.end());
    attrs.Set("axes", axes);
    if (attrs.Has("group_axis"))
      attrs.Set("group_axis", view.perm[static_cast<size_t>(attrs.Int("group_axis"))]);
    ACT_TRY(const ValueId made, builder_.Add1("LayerNorm", inputs, attrs, node.name));
    SetView(node, made, view.perm);
    return llvm::Error::success();
  }

  llvm::Error VisitConcat(const Node& node) {
    Perm perm;
    for (ValueId v : node.inputs)
      if (perm.empty() && IsMoved(v)) perm = ViewOf(v).perm;
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) {
      const View view = ViewOf(v);
      if (view.perm == perm) {
        inputs.push_back(view.base);
        continue;
      }
      ValueId plain = v;
      ACT_CHECK_OK(Materialise(plain));
      ACT_TRY(const ValueId ordered, InOrder(plain, Inverse(perm)));
      inputs.push_back(ordered);
    }
    Attributes attrs = node.attrs;
    attrs.Set("axis", perm[static_cast<size_t>(attrs.Int("axis"))]);
    ACT_TRY(const ValueId made, builder_.Add1("Concat", inputs, attrs, node.name));
    SetView(node, made, perm);
    return llvm::Error::success();
  }

  // Attributes with one entry (or a begin and an end) per axis move with their axes.
  llvm::Error VisitPerAxis(const Node& node) {
    const View view = ViewOf(node.inputs[0]);
    const Perm inverse = Inverse(view.perm);
    Attributes attrs = node.attrs;
    for (const char* name : {"starts", "steps"})
      if (attrs.Has(name)) attrs.Set(name, Permute(attrs.Ints(name), inverse));
    if (attrs.Has("pads")) {
      const std::vector<int64_t> pads = attrs.Ints("pads");
      const auto half = static_cast<std::ptrdiff_t>(pads.size() / 2);
      std::vector<int64_t> both = Permute<int64_t>({pads.begin(), pads.begin() + half}, inverse);
      const std::vector<int64_t> ends = Permute<int64_t>({pads.begin() + half, pads.end()}, inverse);
      both.insert(both.end(), ends.begin(), ends.end());
      attrs.Set("pads", both);
    }
    const TensorType type = graph_.value(node.outputs[0]).type;
    ACT_TRY(
        const ValueId made,
        builder_.AddTyped(node.op, {view.base}, {type.dtype, Permute(type.dims, inverse)}, attrs, node.name));
    SetView(node, made, view.perm);
    return llvm::Error::success();
  }

  llvm::Error VisitReduce(const Node& node) {
    const View view = ViewOf(node.inputs[0]);
    std::vector<bool> gone(view.perm.size(), false);
    std::vector<int64_t> axes;
    for (int64_t axis : node.attrs.Ints("axes")) {
      axes.push_back(view.perm[static_cast<size_t>(axis)]);
      gone[static_cast<size_t>(axis)] = true;
    }
    std::sort(axes.begin(), axes.end());
    Attributes attrs = node.attrs;
    attrs.Set("axes", axes);
    ACT_TRY(const ValueId made, builder_.Add1(node.op, {view.base}, attrs, node.name));
    Perm perm;
    if (node.attrs.Int("keepdims", 1) != 0) {
      perm = view.perm;
    } else {  // the axes that stay, renumbered
      for (size_t i = 0; i < view.perm.size(); ++i)
        if (!gone[i])
          perm.push_back(view.perm[i] - std::count_if(axes.begin(), axes.end(),
                                                      [&](int64_t axis) { return axis < view.perm[i]; }));
    }
    SetView(node, made, perm);
    return llvm::Error::success();
  }

  Graph& graph_;
  GraphBuilder builder_;
  std::map<ValueId, View> views_;
  std::map<ValueId, Perm> transposed_;  // values that a transpose reads, and its perm
  std::map<std::pair<ValueId, Perm>, ValueId> written_;
};

}  // namespace

llvm::Error CancelTransposes(Graph& graph, PassContext& context) { return Canceller(graph).Run(context); }

}  // namespace act
