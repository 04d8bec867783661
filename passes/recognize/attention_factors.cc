#include "passes/recognize/attention_factors.h"

#include <numeric>
#include <utility>
#include <vector>

#include "runtime/base/error.h"

namespace act {
namespace {

std::vector<int64_t> LastTwoSwapped(size_t rank) {
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 2], perm.back());
  return perm;
}

bool SwapsLastTwo(const Node& transpose) {
  const std::vector<int64_t> perm = transpose.attrs.Ints("perm");
  return perm.size() >= 2 && perm == LastTwoSwapped(perm.size());
}

}  // namespace

llvm::Expected<ValueId> AttentionFactors::Unscaled(ValueId v, bool swap, double& scale,
                                                   const std::string& name, int depth) {
  const Node* const node = depth > 0 ? nodes_.Maker(v) : nullptr;
  if (!node) return swap ? SwapLastTwo(v, name) : v;
  if (const auto scaled = nodes_.Scaled(*node)) {
    scale *= scaled->second;
    return Unscaled(scaled->first, swap, scale, name, depth - 1);
  }
  if (node->op == "Transpose") {
    if (swap && SwapsLastTwo(*node)) return Unscaled(node->inputs[0], false, scale, name, depth - 1);
    ACT_TRY(const ValueId inner, Unscaled(node->inputs[0], false, scale, name, depth - 1));
    if (inner != node->inputs[0]) {
      ACT_TRY(v, builder_.AddTyped("Transpose", {inner}, nodes_.TypeOf(v), node->attrs, node->name));
    }
  } else if (node->op == "Reshape") {
    Dims dims = nodes_.DimsOf(v);
    const bool swaps = swap && KeepsMatrices(nodes_.DimsOf(node->inputs[0]), dims);
    ACT_TRY(const ValueId inner, Unscaled(node->inputs[0], swaps, scale, name, depth - 1));
    if (swaps) std::swap(dims[dims.size() - 2], dims.back());
    if (inner != node->inputs[0]) {
      ACT_TRY(v, Reshaped(inner, dims, name));
    }
    if (swaps) return v;
  }
  return swap ? SwapLastTwo(v, name) : v;
}

llvm::Expected<ValueId> AttentionFactors::Reshaped(ValueId v, const Dims& dims, const std::string& name) {
  for (const Node* node = nodes_.Maker(v); node && node->op == "Reshape" && nodes_.DimsOf(v) != dims;
       node = nodes_.Maker(v))
    v = node->inputs[0];
  return builder_.Reshape(v, dims, name);
}

llvm::Expected<ValueId> AttentionFactors::SwapLastTwo(ValueId v, const std::string& name) {
  return builder_.Transpose(v, LastTwoSwapped(nodes_.DimsOf(v).size()), name);
}

}  // namespace act
