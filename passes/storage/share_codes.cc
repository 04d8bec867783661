// Stores one code for a number and its sign. If a ReLU's mask and a number with the same sign both
// cross to the backward pass, the number is stored in a code that holds its sign exactly. The mask
// is read from that code, which saves the bit that a mask of its own would take.
//
// * A BatchNorm that a ReLU follows: v = sign(gamma) (xhat - tau) is stored instead of xhat. tau =
//   -beta / gamma is the xhat at which the ReLU begins, so v > 0 where the ReLU passes. Backward
//   computes xhat as tau + sign(gamma) v. If gamma is near 0, tau is far outside of all xhat. A
//   code's group holds several channels, and would have no levels left for the others. So tau is
//   clamped to just outside of the channel's own range, which changes no sign. Only the channel's
//   largest |xhat| is stored for it: gamma and beta still have their values of the forward pass
//   when backward computes tau from them again.
// * A BatchNorm whose result is a summand of a ReLU's operand (the end of a residual block): the
//   mask says nothing about xhat, so v = +- (xhat + shift), with the sign of the mask and a shift
//   beyond all |xhat|. The levels of each side lie over the range of that side (Metadata::kSides).
//   Where the mask is 0, the gradient is 0, and xhat enters the gradients of other elements only
//   through a mean. So a few levels are enough there.
// * A ReLU's result that is stored itself is above 0 where its mask is 1.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/ops/graph_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "passes/storage/saved_values.h"
#include "runtime/base/error.h"

namespace act {
namespace {

using Role = Normalization::Role;

// Whether the node has this role in a BatchNorm.
bool IsOfBatch(const Node& node, Role role) {
  const Normalization& norm = OpOf(node).norm;
  return norm.role == role && !norm.by_rows;
}

class Sharer {
 public:
  Sharer(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), saved_(graph, context), builder_(graph) {}

  llvm::Error Run() {
    FindPairs();
    ACT_CHECK_OK(AddDistances());
    return RedirectReaders();
  }

 private:
  // A BatchNorm and the ReLU after it, by the nodes' places.
  struct Pair {
    size_t normalize, relu, stats, apply;
    ValueId mask;
    bool summand;  // the ReLU gets a sum
  };
  // The values from which backward computes xhat.
  struct Shared {
    ValueId distance, largest;
    std::vector<ValueId> affine = {};  // gamma and beta, for the threshold; empty for a summand
    std::vector<ValueId> scale = {};   // maps the distance to xhat, once backward has it
    std::string name = "";
  };

  const Node& node(size_t i) const { return graph_.nodes[i]; }
  const Node* ProducerOf(ValueId v) const {
    const int64_t p = saved_.Producer(v);
    return p < 0 ? nullptr : &node(static_cast<size_t>(p));
  }

  // (x, mean, rstd) to the Normalize node whose result crosses to the backward pass
  using Normalized = std::map<std::vector<ValueId>, size_t>;

  // Pairs the ReLU with the BatchNorm that makes its operand, or else with one that makes a summand
  // of it.
  void PairWith(size_t relu, ValueId mask, Normalized& normalized) {
    const ValueId operand = node(relu).inputs[0];
    const Node* made = ProducerOf(operand);
    const bool summand = made && OpOf(*made).arithmetic == Arithmetic::kSum;
    for (ValueId v : summand ? made->inputs : std::vector<ValueId>{operand}) {
      const Node* apply = ProducerOf(v);
      if (!apply || !IsOfBatch(*apply, Role::kApply)) continue;
      const auto it = normalized.find({apply->inputs.begin(), apply->inputs.begin() + 3});
      const int64_t stats = saved_.Producer(apply->inputs[1]);
      if (it == normalized.end() || stats < 0 ||
          !IsOfBatch(node(static_cast<size_t>(stats)), Role::kStatistics) ||
          graph_.value(v).type != graph_.value(operand).type)
        continue;
      pairs_.push_back({it->second, relu, static_cast<size_t>(stats), static_cast<size_t>(saved_.Producer(v)),
                        mask, summand});
      normalized.erase(it);  // its sign is that of one ReLU only
      return;
    }
  }

  void FindPairs() {
    Normalized normalized;
    for (size_t i = 0; i < graph_.nodes.size() && saved_.InForward(i); ++i)
      if (IsOfBatch(node(i), Role::kNormalize) && saved_.Crosses(node(i).outputs[0]) &&
          saved_.CodesLossily(node(i).outputs[0]))
        normalized[node(i).inputs] = i;
    for (size_t i = 0; i < graph_.nodes.size() && saved_.InForward(i); ++i) {
      if (!IsSignMask(OpOf(node(i))) || !saved_.Crosses(node(i).outputs[0])) continue;
      const ValueId result = node(i).inputs[0], mask = node(i).outputs[0];
      const Node* relu = ProducerOf(result);
      if (!relu || !OpOf(*relu).rectifies) continue;
      if (saved_.Crosses(result) && saved_.CodesLossily(result)) {
        positive_[mask] = result;
        continue;
      }
      PairWith(static_cast<size_t>(saved_.Producer(result)), mask, normalized);
    }
  }

  // The largest |xhat| of each channel, as a third result of the statistics.
  ValueId LargestOf(Node& stats) {
    if (stats.outputs.size() > 2) return stats.outputs[2];
    Value value = graph_.value(stats.outputs[1]);
    value.name.clear();
    graph_.values.push_back(std::move(value));
    stats.outputs.push_back(static_cast<ValueId>(graph_.values.size() - 1));
    return stats.outputs[2];
  }

  // Puts each distance, and the value it is measured from, right after the
  // later of Normalize and ReLU.
  llvm::Error AddDistances() {
    std::map<size_t, std::vector<Node>> behind;
    builder_.SetPhase(Phase::kForward);
    const size_t count = graph_.nodes.size();
    for (const Pair& pair : pairs_) {
      const ValueId largest = LargestOf(graph_.nodes[pair.stats]);
      const std::vector<ValueId> in = node(pair.apply).inputs;
      const ValueId xhat = node(pair.normalize).outputs[0], passed = node(pair.relu).outputs[0];
      const std::string name = node(pair.apply).name;
      Shared shared{.distance = kNoValue, .largest = largest, .name = name};
      ValueId from = kNoValue;  // the value from which the distance is measured
      if (pair.summand) {
        ACT_TRY(from, builder_.Add1("ReduceMax", {largest}, Over({0}, false), name + ".shift"));
        shared.largest = from;
        shared.scale = {from};
      } else {
        ACT_TRY(from, builder_.Add1("ReluThreshold", {in[3], in[4], largest}, {}, name + ".threshold"));
        shared.affine = {in[3], in[4]};
      }
      ACT_TRY(shared.distance, builder_.Add1(pair.summand ? "SidedDistance" : "SignedDistance",
                                             {in[0], in[1], in[2], from, passed}, {}, name));
      context_.marks[shared.largest].statistic = true;
      const bool anchor = context_.marks[xhat].anchor, rebuilt_from = context_.marks[xhat].rebuilt_from;
      const bool kept_finely = context_.marks[xhat].kept_finely;
      ValueMarks& marks = context_.marks[shared.distance];
      marks.anchor |= anchor;
      marks.kept_finely |= kept_finely;
      marks.rebuilt_from |= rebuilt_from;
      positive_[pair.mask] = shared.distance;
      for (const ValueId parameter : shared.affine) needs_[parameter].insert(xhat);
      shared_[xhat] = std::move(shared);
      std::move(graph_.nodes.begin() + static_cast<std::ptrdiff_t>(count), graph_.nodes.end(),
                std::back_inserter(behind[std::max(pair.normalize, pair.relu)]));
      graph_.nodes.resize(count);
    }
    std::vector<Node> nodes;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      nodes.push_back(std::move(graph_.nodes[i]));
      const auto it = behind.find(i);
      if (it != behind.end()) std::move(it->second.begin(), it->second.end(), std::back_inserter(nodes));
    }
    graph_.nodes = std::move(nodes);
    return llvm::Error::success();
  }

  // Computes the threshold again, once for all readers, from parameters as
  // they were in the forward pass.
  llvm::Error MakeThreshold(Shared& shared) {
    if (!shared.scale.empty()) return llvm::Error::success();
    ACT_TRY(const ValueId tau,
            builder_.Add1("ReluThreshold", {shared.affine[0], shared.affine[1], shared.largest}, {},
                          shared.name + ".threshold"));
    ACT_TRY(const ValueId side, builder_.Add1("ReluSide", {shared.affine[0]}, {}, shared.name + ".side"));
    shared.scale = {tau, side};
    return llvm::Error::success();
  }

  // Computes, before an update, the thresholds that need the parameters that it will change.
  llvm::Error MakeThresholdsBefore(const Node& update) {
    for (const int32_t m : update.mutates)
      if (const auto it = needs_.find(update.inputs[static_cast<size_t>(m)]); it != needs_.end())
        for (const ValueId xhat : it->second) ACT_CHECK_OK(MakeThreshold(shared_.at(xhat)));
    return llvm::Error::success();
  }

  // Each reader in the backward pass gets its own copy, made right before it.
  llvm::Error RedirectReaders() {
    builder_.SetPhase(Phase::kBackward);
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& reader : nodes) {
      if (reader.phase != Phase::kForward) ACT_CHECK_OK(MakeThresholdsBefore(reader));
      for (ValueId& in : reader.inputs) {
        if (reader.phase == Phase::kForward || in == kNoValue) continue;
        if (const auto it = shared_.find(in); it != shared_.end()) {
          Shared& shared = it->second;
          ACT_CHECK_OK(MakeThreshold(shared));
          std::vector<ValueId> operands{shared.distance};
          operands.insert(operands.end(), shared.scale.begin(), shared.scale.end());
          ACT_TRY(in, builder_.Add1(shared.affine.empty() ? "FromSided" : "FromDistance", operands, {},
                                    reader.name + ".xhat"));
        } else if (const auto mask = positive_.find(in); mask != positive_.end()) {
          ACT_TRY(in, builder_.Add1("ReluDerivative", {mask->second}, {}, reader.name + ".mask"));
        }
      }
      graph_.nodes.push_back(std::move(reader));
    }
    return llvm::Error::success();
  }

  Graph& graph_;
  PassContext& context_;
  const SavedValues saved_;
  GraphBuilder builder_;
  std::vector<Pair> pairs_;
  std::map<ValueId, Shared> shared_;  // xhat that is no longer stored
  // A parameter, and the xhat whose threshold is computed from it.
  std::map<ValueId, std::set<ValueId>> needs_;
  // A mask, and the stored value that is above 0 where the mask is 1.
  std::map<ValueId, ValueId> positive_;
};

}  // namespace

llvm::Error ShareCodes(Graph& graph, PassContext& context) { return Sharer(graph, context).Run(); }

}  // namespace act
