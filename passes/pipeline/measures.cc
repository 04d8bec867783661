#include "passes/pipeline/measures.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "compiler/ops/graph_builder.h"
#include "compiler/ops/loss.h"
#include "passes/recognize/loss_terms.h"
#include "runtime/base/error.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

constexpr size_t kWeight = 2, kDenominator = 3;  // operands of a cross entropy

class Measures {
 public:
  explicit Measures(Graph& graph) : graph_(graph), builder_(graph), terms_(LossTermsOf(graph)) {}

  llvm::Error Add() {
    for (const LossTerm& term : terms_)
      if (term.cross_entropy >= 0) losses_.push_back(term.cross_entropy);
    std::sort(losses_.begin(), losses_.end());
    losses_.erase(std::unique(losses_.begin(), losses_.end()), losses_.end());
    // From the last one to the first, so that positions stay right.
    for (size_t i = losses_.size(); i-- > 0;) ACT_CHECK_OK(AddCounts(losses_[i]));
    const bool counts = std::any_of(terms_.begin(), terms_.end(),
                                    [](const LossTerm& term) { return term.divisor != kNoValue; });
    return counts ? AddTerms() : llvm::Error::success();
  }

 private:
  // They are counted before the loss, whose probabilities may then lie over the scores.
  llvm::Error AddCounts(int64_t loss) {
    const auto before = static_cast<std::ptrdiff_t>(loss),
               end = static_cast<std::ptrdiff_t>(graph_.nodes.size());
    const Node node = graph_.nodes[static_cast<size_t>(loss)];  // a copy: the graph grows
    const ValueId weight = node.inputs.size() > kWeight ? node.inputs[kWeight] : kNoValue;
    const bool has_accuracy = losses_.size() == 1, is_mean = node.attrs.String("reduction", "mean") == "mean";
    const auto sum_of = [&](ValueId weights, const char* name) {
      const int64_t classes = builder_.type(node.inputs[0]).dims.back().fixed;
      return AddLossDenominator(builder_, node.attrs, node.inputs[1], weights, classes, name);
    };
    ValueId labels = kNoValue;
    if (has_accuracy) {
      ACT_TRY(const ValueId correct, builder_.Add1(kCountCorrect, {node.inputs[0], node.inputs[1]},
                                                   Attributes(node.attrs), "correct"));
      ACT_TRY(labels, sum_of(kNoValue, "labels"));
      graph_.outputs.insert(graph_.outputs.end(), {correct, labels});
    }
    if (is_mean) {
      ValueId divisor = weight == kNoValue ? labels : kNoValue;
      if (divisor == kNoValue) {
        ACT_TRY(divisor, sum_of(weight, "counted"));
      }
      for (LossTerm& term : terms_)
        if (term.cross_entropy == loss) term.divisor = term.counted = divisor;
      Node& divided = graph_.nodes[static_cast<size_t>(loss)];  // so that it is computed once
      divided.inputs.resize(kDenominator, kNoValue);
      divided.inputs.push_back(divisor);
    }
    std::rotate(graph_.nodes.begin() + before, graph_.nodes.begin() + end, graph_.nodes.end());
    return llvm::Error::success();
  }

  llvm::Error AddTerms() {
    for (const LossTerm& term : terms_) {
      // A single term, times its factor, is the loss.
      ValueId mean = graph_.outputs[0], weight = term.counted;
      if (weight != kNoValue && builder_.type(weight).dtype != DType::kFloat32) {
        ACT_TRY(weight, ToFloat(weight, "counted"));
      }
      if (terms_.size() > 1) {
        const ValueId factor = builder_.Scalar(static_cast<float>(term.factor));
        ACT_TRY(mean, builder_.Add1("Mul", {term.value, factor}, {}, "term"));
      }
      if (term.divisor != term.counted) {
        ACT_TRY(const ValueId divided, builder_.Add1("Mul", {mean, term.divisor}, {}, "term"));
        ACT_TRY(mean, builder_.Add1("Div", {divided, weight}, {}, "term"));
      }
      if (term.divisor == kNoValue) {
        ACT_TRY(weight, Samples());
      } else if (term.of_means) {
        ACT_TRY(const ValueId samples, Samples());
        ACT_TRY(weight, builder_.Add1("Mul", {weight, samples}, {}, "counted"));
      }
      graph_.outputs.insert(graph_.outputs.end(), {mean, weight});
    }
    return llvm::Error::success();
  }

  // N as f32[1].
  llvm::Expected<ValueId> Samples() {
    if (samples_ != kNoValue) return samples_;
    Attributes range;
    range.Set("start", std::vector<int64_t>{0, 1, 0});
    range.Set("step", int64_t{0});
    ACT_TRY(const ValueId samples,
            builder_.AddTyped("Range", {}, {DType::kInt64, {Dim(1)}}, range, "samples"));
    ACT_TRY(samples_, ToFloat(samples, "samples"));
    return samples_;
  }

  llvm::Expected<ValueId> ToFloat(ValueId v, const char* name) {
    Attributes to_float;
    to_float.Set("to", static_cast<int64_t>(DType::kFloat32));
    return builder_.Add1("Cast", {v}, to_float, name);
  }

  Graph& graph_;
  GraphBuilder builder_;
  std::vector<LossTerm> terms_;
  ValueId samples_ = kNoValue;
  std::vector<int64_t> losses_;  // positions of the cross entropies among the terms
};

}  // namespace

llvm::Error AddMeasures(Graph& graph) { return Measures(graph).Add(); }

}  // namespace act
