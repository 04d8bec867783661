// Which pairs of queries and keys take part in attention, by the masks and biases of its scores.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ops/graph_builder.h"
#include "passes/recognize/attention_factors.h"
#include "passes/recognize/match_attention.h"
#include "passes/recognize/visible_keys.h"

namespace act {

class AttentionMasks {
 public:
  // All must outlive this.
  AttentionMasks(GraphBuilder& builder, const AttentionMatcher& nodes, AttentionFactors& factors)
      : builder_(builder), nodes_(nodes), factors_(factors) {}

  // The pairs that take part, as a bool operand, as the attributes `causal` and `window`, or as both. A bias that is a
  // mask is taken out of m.biases.
  llvm::Expected<ValueId> Mask(AttentionMatch& m, Attributes& attrs, const std::string& name);

 private:
  using Terms = std::vector<ScoreTerm>;
  llvm::Expected<ValueId> And(ValueId a, ValueId b, const std::string& name);
  // The terms of a mask without those that hide nothing and those that narrow the band.
  llvm::Expected<Terms> TermsBesideBand(const AttentionMatch& m, const ScoreTerm& mask, KeyBand& band,
                                        const std::string& name);
  // [queries, keys] flags: whether a key comes before its query's limit. The model's own mask may have been computed
  // for each sample.
  llvm::Expected<ValueId> KeysBelow(const std::vector<float>& limits, int64_t keys, const std::string& name);
  // Takes biases as masks if they are 0 for some pairs and far below any score for the others:
  // Where(condition, 0, -large), or a constant. Of a sum of such a mask and another bias, that one remains.
  llvm::Error TakeMasks(AttentionMatch& m, const std::string& name);
  // What v repeats along axes, or v, without reshapes that later ones undo.
  ValueId Inside(ValueId v) const;
  // The terms of which a bias is the sum, before they are repeated.
  llvm::Error AddSummands(ScoreTerm term, int depth, const std::string& name, Terms& summands);
  llvm::Expected<bool> TakeMask(AttentionMatch& m, const ScoreTerm& term, const std::string& name);
  std::optional<std::vector<float>> Floats(ValueId v) const;
  // The negative number in a constant of zeros and one negative number.
  std::optional<double> LowestOfMask(ValueId v) const;
  ValueId BoolMask(ValueId v);

  GraphBuilder& builder_;
  const AttentionMatcher& nodes_;
  AttentionFactors& factors_;
  std::map<std::pair<std::vector<float>, int64_t>, ValueId> keys_below_;  // by limits and the number of keys
};

}  // namespace act
