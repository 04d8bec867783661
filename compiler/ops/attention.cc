// Attention: softmax(scale q k^T + bias, masked) v for each head. The backward pass recomputes the
// probabilities from q and k, block by block, so that no tensor of queries times keys exists.
//
// In their logical order of axes q is [B.., H, Tq, D], k [B.., Hkv, Tk, D], v [B.., Hkv, Tk, Dv]
// and the result [B.., H, Tq, Dv]. Hkv divides H: query head h reads head h Hkv / H of k and v. The
// attributes perm_q, perm_k, perm_v and perm_o say where these axes lie in the tensors, as the perm
// of a Transpose that makes the logical order. With the attribute `packed` all three operands are
// one tensor with an additional axis of extent 3. q, k and v are its slices, as one product makes
// them. Their gradient is one tensor in the same form.
#include <algorithm>
#include <array>
#include <numeric>

#include "compiler/ops/grad_context.h"
#include "compiler/ops/op_table.h"
#include "runtime/plan/operand_extents.h"

namespace act {
namespace {

constexpr std::array kPerms = {"perm_q", "perm_k", "perm_v", "perm_o"};

std::vector<int64_t> PermOf(const Attributes& attrs, const char* name, size_t rank) {
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  return attrs.Ints(name, perm);
}

// Dims of an operand without the axis that packs q, k and v.
Dims OperandDims(const Attributes& attrs, const TensorType& type) {
  Dims dims = type.dims;
  const int64_t axis = attrs.Int("packed", -1);
  if (axis >= 0 && axis < static_cast<int64_t>(dims.size())) dims.erase(dims.begin() + axis);
  return dims;
}

// Dims of queries, keys and values in their logical order.
struct Extents {
  Dims q, k, v;
};

llvm::Error ReadExtents(InferContext& c, size_t first, Extents& e) {
  const Attributes& attrs = c.node.attrs;
  if (attrs.Has("packed")) {
    const auto axis = static_cast<size_t>(attrs.Int("packed"));
    const bool one =
        c.node.inputs[first] == c.node.inputs[first + 1] && c.node.inputs[first] == c.node.inputs[first + 2];
    if (!one || axis >= c.in(first).dims.size() || c.in(first).dims[axis] != Dim(3))
      return c.Fail("packed queries, keys and values must be one tensor with an axis of extent 3, not " +
                    ToString(c.in(first)));
  }
  const size_t rank = OperandDims(attrs, c.in(first)).size();
  if (rank < 3) return c.Fail("queries " + ToString(c.in(first)) + " need rank 3 at least");
  Dims* const logical[] = {&e.q, &e.k, &e.v};
  for (size_t i = 0; i < kPerms.size(); ++i) {
    const std::vector<int64_t> perm = PermOf(c.node.attrs, kPerms[i], rank);
    std::vector<int64_t> sorted = perm, all(rank);
    std::sort(sorted.begin(), sorted.end());
    std::iota(all.begin(), all.end(), 0);
    if (sorted != all) return c.Fail(std::string(kPerms[i]) + " is not a permutation of the axes");
    if (i == 3) continue;
    const TensorType& type = c.in(first + i);
    const Dims dims = OperandDims(attrs, type);
    if (type.dtype != DType::kFloat32 || dims.size() != rank)
      return c.Fail("queries, keys and values must be f32 tensors of one rank, operand " +
                    std::to_string(first + i) + " is " + ToString(type));
    for (int64_t axis : perm) logical[i]->push_back(dims[static_cast<size_t>(axis)]);
  }
  const size_t head = rank - 3;
  const Dim h = e.q[head], kv = e.k[head];
  const bool grouped = h == kv || (h.IsFixed() && kv.IsFixed() && kv.fixed > 0 && h.fixed % kv.fixed == 0);
  const bool same_batch =
      std::equal(e.q.begin(), e.q.begin() + static_cast<std::ptrdiff_t>(head), e.k.begin());
  const bool same_keys = std::equal(e.k.begin(), e.k.end() - 1, e.v.begin());
  if (!grouped || !same_batch || !same_keys || e.q.back() != e.k.back())
    return c.Fail("queries " + ToString(e.q) + ", keys " + ToString(e.k) + " and values " + ToString(e.v) +
                  " do not fit");
  return llvm::Error::success();
}

// Operands `first` + 3 and + 4: an additive bias and a bool mask, broadcast to [B.., H, Tq, Tk].
llvm::Error CheckBroadcast(InferContext& c, size_t first, const Extents& e) {
  Dims scores = e.q;
  scores.back() = e.k[e.k.size() - 2];
  for (size_t i : {first + 3, first + 4}) {
    if (!c.Has(i)) continue;
    const std::optional<Dims> joint = Broadcast(c.in(i).dims, scores);
    const bool is_bias = i == first + 3;
    if (!joint || *joint != scores || c.in(i).dtype != (is_bias ? DType::kFloat32 : DType::kBool))
      return c.Fail(std::string(is_bias ? "bias " : "mask ") + ToString(c.in(i)) + " does not broadcast to " +
                    (is_bias ? "f32" : "bool") + ToString(scores));
  }
  return llvm::Error::success();
}

llvm::Error Infer(InferContext& c) {
  Extents e;
  if (llvm::Error error = ReadExtents(c, 0, e)) return error;
  Dims logical = e.q;
  logical.back() = e.v.back();
  const std::vector<int64_t> perm = PermOf(c.node.attrs, "perm_o", logical.size());
  Dims dims(logical.size());
  for (size_t i = 0; i < perm.size(); ++i) dims[static_cast<size_t>(perm[i])] = logical[i];
  c.outputs[0] = {DType::kFloat32, dims};
  return CheckBroadcast(c, 0, e);
}

// do, q, k, v, bias?, mask? -> dq, dk, dv, dbias?. With packed operands: d(qkv), dbias?
llvm::Error InferGrad(InferContext& c) {
  Extents e;
  if (llvm::Error error = ReadExtents(c, 1, e)) return error;
  const std::vector<int64_t> perm = PermOf(c.node.attrs, "perm_o", e.q.size());
  Dims d_out;
  for (int64_t axis : perm)
    if (static_cast<size_t>(axis) < c.in(0).dims.size())
      d_out.push_back(c.in(0).dims[static_cast<size_t>(axis)]);
  Dims want = e.q;
  want.back() = e.v.back();
  if (c.in(0).dims.size() != want.size() || d_out != want || c.in(0).dtype != DType::kFloat32)
    return c.Fail("the result's gradient " + ToString(c.in(0)) + " does not fit");
  const size_t of_bias = c.node.attrs.Has("packed") ? 1 : 3;
  for (size_t i = 0; i < c.outputs.size() && i < of_bias; ++i) c.outputs[i] = c.in(1 + i);
  if (c.outputs.size() > of_bias + 1 || (c.outputs.size() > of_bias && !c.Has(4)))
    return c.Fail("has more results than operands with a gradient");
  if (c.outputs.size() > of_bias) c.outputs[of_bias] = c.in(4);
  return CheckBroadcast(c, 1, e);
}

// Flops of `products` matrix products of all queries with the keys that a window leaves to each.
Dim ProductFlops(const Node& node, const Graph& graph, size_t first, int64_t products) {
  const Dims q = OperandDims(node.attrs, graph.value(node.inputs[first]).type),
             k = OperandDims(node.attrs, graph.value(node.inputs[first + 1]).type);
  const std::vector<int64_t> perm = PermOf(node.attrs, "perm_k", q.size());
  Dim keys = k[static_cast<size_t>(perm[perm.size() - 2])];
  if (keys.IsFixed()) keys = Dim(VisibleKeysAtMost(node.attrs, keys.fixed));
  return TensorType{DType::kFloat32, q}.Elements() * keys * Dim(2 * products);
}

void Grad(GradContext& g) {
  std::vector<ValueId> inputs{g.dout(), g.Save(g.in(0)), g.Save(g.in(1)), g.Save(g.in(2))};
  for (size_t i : {size_t{3}, size_t{4}})
    if (i < g.node().inputs.size()) inputs.push_back(g.in(i) == kNoValue ? kNoValue : g.Save(g.in(i)));
  const size_t of_bias = g.attrs().Has("packed") ? 1 : 3, results = of_bias + (g.Wants(3) ? 1 : 0);
  const std::vector<ValueId> grads = g.EmitMany("AttentionGrad", inputs, results, g.attrs());
  for (size_t i = 0; i < of_bias; ++i)
    if (g.Wants(i)) g.SetGrad(i, grads[i]);
  if (g.Wants(3)) g.SetGrad(3, grads[of_bias]);
}

}  // namespace

void AddAttentionOps(std::vector<OpDef>& ops) {
  ops.push_back({.name = "Attention",
                 .infer = Infer,
                 .grad = Grad,
                 .flops = [](const Node& n, const Graph& g) { return ProductFlops(n, g, 0, 2); },
                 .random = true,
                 .product = Product::kAttention});
  // For do, q, k, v, bias, mask. The probabilities are recomputed from q and k. A bias may hold
  // infinities beside numbers.
  constexpr Need scores = Need::kProduct | Need::kScores, exact = Need::kProduct | Need::kStatistics;
  ops.push_back({.name = "AttentionGrad",
                 .infer = InferGrad,
                 .flops = [](const Node& n, const Graph& g) { return ProductFlops(n, g, 1, 5); },
                 .in_place = {{0, 1}, {1, 2}, {2, 3}},
                 .gradient = true,
                 .random = true,
                 .product = Product::kAttentionGradient,
                 .squares = Squares::kAttention,
                 .needs = {Need::kProduct, scores, scores, Need::kProduct, exact | Need::kExactly, exact}});
}

}  // namespace act
