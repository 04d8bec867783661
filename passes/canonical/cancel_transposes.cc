// Makes a network channels-last. It moves transposes down through operators for which the order of
// axes does not matter, until the transposes meet their inverse. The importer writes x ->
// channels-last -> Conv -> channels-first around each spatial operator. After this pass a
// convolutional network has one transpose at its input and none between its layers.
//
// Each value is known as a pair (base, perm): value axis i is base axis perm[i]. Where a reshape
// merges axes that are no neighbours in the base (batch and heads of an attention that was written
// for [T,N,C]), a value's axis is a group of base axes. A transpose only changes the pair. For
// operators that need a particular order the transpose is written out. It is also written out for
// norms of features, which are rows if the features come last.
#include <algorithm>
#include <map>
#include <numeric>

#include "compiler/ir/replace.h"
#include "compiler/ops/graph_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/canonical/axis_view.h"
#include "passes/pass.h"
#include "runtime/base/error.h"

namespace act {
namespace {

// Elementwise, but tied to the places of axes: to the result's own shape,
// or to channels that come last.
bool FollowsPlaces(const OpDef& def) {
  const bool by_channels = def.norm.role != Normalization::Role::kNone && !def.norm.by_rows;
  return def.movement == Movement::kRepeat || by_channels;
}

class Canceller {
 public:
  explicit Canceller(Graph& graph) : graph_(graph), builder_(graph) {}

  llvm::Error Run(Marks& marks) {
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (const Node& node : nodes)
      if (node.op == "Transpose") transposed_.emplace(node.inputs[0], node.attrs.Ints("perm"));
    for (Node& node : nodes) {
      builder_.SetPhase(node.phase);
      ACT_CHECK_OK(Visit(node));
    }
    Replacements outputs(graph_, marks);
    for (const ValueId v : std::vector<ValueId>(graph_.outputs)) {
      ValueId written = v;
      ACT_CHECK_OK(Materialise(written));
      outputs.Replace(v, written);
    }
    return llvm::Error::success();
  }

 private:
  AxisView ViewOf(ValueId v) {
    const auto it = views_.find(v);
    if (it != views_.end()) return it->second;
    return {v, IdentityPerm(graph_.value(v).type.dims.size()), {}};
  }
  bool IsMoved(ValueId v) {
    if (v == kNoValue) return false;
    const AxisView view = ViewOf(v);
    return view.Grouped() || view.perm != IdentityPerm(view.perm.size());
  }
  bool IsGrouped(ValueId v) const {
    const auto it = views_.find(v);
    return it != views_.end() && it->second.Grouped();
  }

  // The base of `v` with its axes in the order `perm`. It is written out once for each order.
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
    const AxisView view = ViewOf(v);
    const Dims dims = graph_.value(v).type.dims;
    ACT_TRY(v, InOrder(view.base, view.perm));
    if (!view.Grouped()) return llvm::Error::success();
    ACT_TRY(v, builder_.Reshape(v, dims, "layout"));
    return llvm::Error::success();
  }

  // Operand `v`, which may be absent, in the order of the base of the result. It broadcasts against
  // a result with view `result`, which has a base if it is not the identity.
  llvm::Expected<ValueId> Operand(ValueId v, const AxisView& result) {
    if (v == kNoValue) return v;
    const AxisView view = ViewOf(v);
    const Dims base = result.base == kNoValue ? Dims{} : graph_.value(result.base).type.dims;
    if (view.SameOrder(result) && (!view.Grouped() || graph_.value(view.base).type.dims == base))
      return view.base;
    ACT_CHECK_OK(Materialise(v));
    Dims dims = graph_.value(v).type.dims;
    if (graph_.value(v).type.Elements() == Dim(1) && dims.size() <= 1) return v;
    const size_t rank = result.Grouped() ? result.groups.size() : result.perm.size();
    dims.insert(dims.begin(), rank - dims.size(), Dim(1));
    if (result.Grouped()) {
      Dims split;
      for (size_t i = 0; i < rank; ++i)
        for (size_t k = 0; k < result.groups[i]; ++k)
          split.push_back(dims[i] == Dim(1) ? Dim(1) : base[static_cast<size_t>(result.perm[split.size()])]);
      dims = split;
    }
    ACT_TRY(const ValueId ranked, builder_.Reshape(v, dims, "layout"));
    return InOrder(ranked, Inverse(result.perm));
  }

  // Sets the view of the result of an operator that ran on bases: value axis
  // i is axis perm[i] of `made`.
  void SetView(const Node& node, ValueId made, const Perm& perm, const std::vector<size_t>& groups = {}) {
    views_[node.outputs[0]] = {made, perm, groups};
  }

  llvm::Error Visit(Node& node) {
    if (node.op == "Transpose") {
      views_[node.outputs[0]] = Transposed(ViewOf(node.inputs[0]), node.attrs.Ints("perm"));
      return llvm::Error::success();
    }
    const bool moved =
        std::any_of(node.inputs.begin(), node.inputs.end(), [this](ValueId v) { return IsMoved(v); });
    const OpDef& def = OpOf(node);
    if (node.op == "Attention") return VisitAttention(node);
    if (moved && node.outputs.size() == 1) {
      if (node.op == "Reshape") return VisitReshape(node);
      if (node.op == "MatMul") return VisitMatMul(node);
      if (def.expr && !FollowsPlaces(def)) return VisitElementwise(node);
      if (std::any_of(node.inputs.begin(), node.inputs.end(), [this](ValueId v) { return IsGrouped(v); }))
        return VisitPlain(node);
      if (node.op == "LayerNorm" && !WantsRows(node)) return VisitLayerNorm(node);
      if (node.op == "Concat") return VisitConcat(node);
      if (node.op == "Pad" || node.op == "Slice") return VisitPerAxis(node);
      if (def.reduction != Reduction::kNone) return VisitReduce(node);
    }
    return VisitPlain(node);
  }

  llvm::Error VisitPlain(Node& node) {
    for (ValueId& v : node.inputs) ACT_CHECK_OK(Materialise(v));
    graph_.nodes.push_back(std::move(node));
    return llvm::Error::success();
  }

  // Attention takes heads wherever they lie, as long as the elements of one head are neighbours.
  // Its result lies as the queries do or, if these are in order, as the
  // transpose after it asks for.
  llvm::Error VisitAttention(Node& node) {
    for (size_t i = 3; i < node.inputs.size(); ++i) ACT_CHECK_OK(Materialise(node.inputs[i]));
    constexpr const char* kPerms[] = {"perm_q", "perm_k", "perm_v"};
    for (size_t i = 0; i < 3; ++i) {
      AxisView view = ViewOf(node.inputs[i]);
      if (node.attrs.Has(kPerms[i]) || view.Grouped() || !LastStays(view.perm)) {
        ACT_CHECK_OK(Materialise(node.inputs[i]));
        continue;
      }
      node.inputs[i] = view.base;
      if (view.perm != IdentityPerm(view.perm.size())) node.attrs.Set(kPerms[i], view.perm);
    }
    const auto wanted = transposed_.find(node.outputs[0]);
    Perm perm = node.attrs.Ints("perm_q");
    if (perm.empty() && wanted != transposed_.end() && LastStays(wanted->second))
      perm = Inverse(wanted->second);
    if (perm.empty() || node.attrs.Has("perm_o")) {
      graph_.nodes.push_back(std::move(node));
      return llvm::Error::success();
    }
    node.attrs.Set("perm_o", perm);
    ACT_TRY(const ValueId made, builder_.Add1("Attention", node.inputs, node.attrs, node.name));
    SetView(node, made, perm);
    return llvm::Error::success();
  }

  // A product takes matrices in either order, so a transposed weight (Linear layers of three axes)
  // needs no copy.
  void TakeMatrix(Node& node, size_t i, const char* flag) {
    const AxisView view = ViewOf(node.inputs[i]);
    if (view.Grouped()) return;
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
    const AxisView view = ViewOf(node.inputs[0]);
    if (node.attrs.Int("trans_a") != 0 || graph_.value(node.inputs[1]).type.rank() != 2 ||
        !LastStays(view.perm) || (view.Grouped() && view.groups.back() != 1))
      return VisitPlain(node);
    ACT_CHECK_OK(Materialise(node.inputs[1]));
    ACT_TRY(const ValueId made, builder_.Add1("MatMul", {view.base, node.inputs[1]}, node.attrs, node.name));
    SetView(node, made, view.perm, view.groups);
    return llvm::Error::success();
  }

  // A reshape splits and merges axes. If it can be done in the order of the base, the base is
  // reshaped in place of the value.
  llvm::Error VisitReshape(Node& node) {
    const AxisView view = ViewOf(node.inputs[0]);
    const auto reshaped =
        Reshaped(view, graph_.value(view.base).type.dims, graph_.value(node.outputs[0]).type.dims);
    if (!reshaped) return VisitPlain(node);
    ACT_TRY(const ValueId made, builder_.Reshape(view.base, reshaped->dims, node.name));
    SetView(node, made, reshaped->perm, reshaped->groups);
    return llvm::Error::success();
  }

  llvm::Error VisitElementwise(const Node& node) {
    const TensorType type = graph_.value(node.outputs[0]).type;
    AxisView result{kNoValue, IdentityPerm(type.dims.size()), {}};
    for (ValueId v : node.inputs) {
      if (v == kNoValue || !IsMoved(v)) continue;
      const TensorType& operand = graph_.value(v).type;
      // A group is taken from an operand that is not broadcast, since
      // only there its axes are known.
      if (operand.dims.size() != type.dims.size() || (IsGrouped(v) && operand.dims != type.dims)) continue;
      result = ViewOf(v);
      break;
    }
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) {
      ACT_TRY(const ValueId operand, Operand(v, result));
      inputs.push_back(operand);
    }
    ACT_TRY(const ValueId made, builder_.Add1(node.op, inputs, node.attrs, node.name));
    SetView(node, made, result.perm, result.groups);
    return llvm::Error::success();
  }

  // The norm of features (no groups of channels) needs the features last, as rows, if the model has
  // them last.
  bool WantsRows(const Node& node) {
    const int64_t rank = static_cast<int64_t>(ViewOf(node.inputs[0]).perm.size());
    std::vector<int64_t> last(node.attrs.Ints("axes").size());
    std::iota(last.begin(), last.end(), rank - static_cast<int64_t>(last.size()));
    return !node.attrs.Has("groups") && node.attrs.Ints("axes") == last;
  }

  // Its axes and its group axis move with those of x. Scale and bias broadcast against it.
  llvm::Error VisitLayerNorm(const Node& node) {
    const AxisView view = ViewOf(node.inputs[0]);
    std::vector<ValueId> inputs{view.base};
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue) {
        inputs.push_back(kNoValue);
        continue;
      }
      ACT_TRY(const ValueId operand, Operand(node.inputs[i], view));
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
      const AxisView view = ViewOf(v);
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

  // Attributes with one entry (or a begin and an end) for each axis move with their axes.
  llvm::Error VisitPerAxis(const Node& node) {
    const AxisView view = ViewOf(node.inputs[0]);
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
    const AxisView view = ViewOf(node.inputs[0]);
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
  std::map<ValueId, AxisView> views_;
  std::map<ValueId, Perm> transposed_;  // values that a transpose reads, and its perm
  std::map<std::pair<ValueId, Perm>, ValueId> written_;
};

}  // namespace

llvm::Error CancelTransposes(Graph& graph, PassContext& context) {
  return Canceller(graph).Run(context.marks);
}

}  // namespace act
