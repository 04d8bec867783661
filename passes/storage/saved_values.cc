#include "passes/storage/saved_values.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "compiler/ops/equal_parts.h"
#include "compiler/ops/op_table.h"
#include "compiler/policy/large_loss.h"
#include "passes/storage/cut_forward.h"
#include "passes/storage/recipes.h"

namespace act {
bool OnlyMoves(const Node& node) {
  const Movement movement = OpOf(node).movement;
  return movement == Movement::kReshape || movement == Movement::kPad;
}

void SavedValues::Index() {
  fixed_batch_ = std::none_of(graph_.values.begin(), graph_.values.end(),
                              [](const Value& value) { return HasSamples(value.type); });
  FindNormalizedRows();
  FindScoreSizes();
}

bool SavedValues::Crosses(ValueId v) const {
  const std::span<const size_t> readers = Readers(v);
  return MadeInForward(v) &&
         std::any_of(readers.begin(), readers.end(), [this](size_t r) { return !InForward(r); });
}

bool SavedValues::BackwardReadsAs(ValueId v, Need need) const {
  for (size_t r : Readers(v)) {
    if (InForward(r)) continue;
    const Node& reader = graph_.nodes[r];
    const OpDef& op = OpOf(reader);
    for (size_t i = 0; i < reader.inputs.size(); ++i)
      if (reader.inputs[i] == v && op.Reads(i, need)) return true;
    if (OnlyMoves(reader) && BackwardReadsAs(reader.outputs[0], need)) return true;
  }
  return false;
}

// Where scores are enlarged from a smaller image, say, they exist whole, and so do their probabilities.
ValueId SavedValues::ProductBehind(ValueId v) const {
  while (MadeInForward(v)) {
    const Node& node = graph_.nodes[static_cast<size_t>(Producer(v))];
    const OpDef& op = OpOf(node);
    if (op.product != Product::kNone) return v;
    if (!op.expr && op.movement == Movement::kNone) return kNoValue;
    // Others are broadcast.
    const Dim elements = graph_.value(v).type.Elements();
    const auto from = std::find_if(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
      return id != kNoValue && MadeInForward(id) &&
             (!op.expr || graph_.value(id).type.Elements() == elements);
    });
    if (from == node.inputs.end()) return kNoValue;
    v = *from;
  }
  return kNoValue;
}

bool SavedValues::OnlyLossReads(ValueId scores) const {
  std::vector<ValueId> open{scores};
  std::set<size_t> seen;
  bool loss = false;
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    for (const size_t r : Readers(v)) {
      if (!InForward(r) || !seen.insert(r).second) continue;
      const Node& node = graph_.nodes[r];
      const OpDef& op = OpOf(node);
      if (op.product != Product::kNone) return false;
      loss |= op.loss;
      open.insert(open.end(), node.outputs.begin(), node.outputs.end());
    }
  }
  return loss;
}

bool SavedValues::IsStatistic(ValueId v) const {
  if (context_.marks[v].statistic) return true;
  for (size_t r : Readers(v)) {
    const Node& reader = graph_.nodes[r];
    const OpDef& op = OpOf(reader);
    for (size_t i = 0; i < reader.inputs.size(); ++i)
      if (reader.inputs[i] == v && op.Reads(i, Need::kStatistics)) return true;
  }
  return false;
}

int64_t SavedValues::PartOfAttention(ValueId v) const {
  for (size_t r : Readers(v)) {
    const Node& reader = graph_.nodes[r];
    if (OnlyMoves(reader))
      if (const int64_t part = PartOfAttention(reader.outputs[0])) return part;
    if (InForward(r) || !reader.attrs.Has("packed") || reader.inputs[1] != v ||
        !OpOf(reader).Reads(1, Need::kScores))
      continue;
    Dim part(1);
    const Dims& dims = graph_.value(v).type.dims;
    for (auto axis = static_cast<size_t>(reader.attrs.Int("packed")) + 1; axis < dims.size(); ++axis)
      part = part * dims[axis];
    if (part.IsFixed()) return part.fixed;
  }
  return 0;
}

// In the order of the nodes: what makes an operand comes first.
void SavedValues::FindNormalizedRows() {
  for (const Node& node : graph_.nodes) {
    if (node.phase != Phase::kForward) continue;
    const OpDef& op = OpOf(node);
    const bool made = op.norm.by_rows && (IsNormalize(node) || IsApply(node));
    const bool passed = (op.expr || op.movement != Movement::kNone) &&
                        std::any_of(node.inputs.begin(), node.inputs.end(),
                                    [this](ValueId in) { return normalized_rows_[in]; });
    if (made || passed)
      for (const ValueId v : node.outputs) normalized_rows_[v] = true;
  }
}

// Against the order of the nodes: what reads a result comes first.
void SavedValues::FindScoreSizes() {
  for (auto reader = graph_.nodes.rbegin(); reader != graph_.nodes.rend(); ++reader) {
    if (reader->phase == Phase::kForward) continue;
    const OpDef& op = OpOf(*reader);
    double made = 1;
    if (op.expr || op.movement != Movement::kNone)
      for (const ValueId v : reader->outputs) made = std::max(made, score_size_[v]);
    for (size_t i = 0; i < reader->inputs.size(); ++i) {
      const ValueId read = reader->inputs[i];
      if (read == kNoValue) continue;
      score_size_[read] = std::max({score_size_[read], made, ScoreSizeOfRead(*reader, i)});
    }
  }
}

double SavedValues::ScoreSizeOfRead(const Node& reader, size_t operand) const {
  if (reader.attrs.Has("packed") || !OpOf(reader).Reads(operand, Need::kScores)) return 1;
  const Dims& dims = graph_.value(reader.inputs[operand]).type.dims;
  const char* order = operand == 1 ? "perm_q" : "perm_k";
  const size_t axis =
      reader.attrs.Has(order) ? static_cast<size_t>(reader.attrs.Ints(order).back()) : dims.size() - 1;
  return std::abs(reader.attrs.Float("scale", 1)) * std::sqrt(static_cast<double>(dims[axis].At(1)));
}

int SavedValues::ScoreBitsOf(ValueId v) const {
  return normalized_rows_[v] ? static_cast<int>(std::lround(std::log2(score_size_[v]))) : 0;
}

bool SavedValues::OftenZero(ValueId v) const {
  if (v == kNoValue || !MadeInForward(v)) return false;
  const Node& node = graph_.nodes[static_cast<size_t>(Producer(v))];
  switch (OpOf(node).movement) {
    case Movement::kNone:
      return OpOf(node).rectifies;
    case Movement::kConcat:
      return std::all_of(node.inputs.begin(), node.inputs.end(),
                         [this](ValueId id) { return OftenZero(id); });
    default:
      return OftenZero(node.inputs[0]);
  }
}

EdgeFacts SavedValues::FactsOf(ValueId v) const {
  EdgeFacts facts;
  const ValueMarks& marks = context_.marks[v];
  facts.type = graph_.value(v).type;
  // The policy's samples are those of the code.
  if (std::optional<Dims> parts = InEqualParts(facts.type.dims)) facts.type.dims = *std::move(parts);
  facts.feeds_product = FeedsProduct(v) || marks.from_product_input;
  facts.activation = MadeInForward(v);
  facts.fixed_batch = fixed_batch_;
  if (!facts.activation) return facts;
  const Node& from = graph_.nodes[static_cast<size_t>(Producer(v))];
  const OpDef& op = OpOf(from);
  facts.exact_bits = facts.type.dtype == DType::kBool || op.boolean;
  facts.read_exactly = BackwardReadsAs(v, Need::kExactly);
  facts.for_scores = BackwardReadsAs(v, Need::kScores);
  if (facts.for_scores) facts.part = PartOfAttention(v);
  facts.score_bits = ScoreBitsOf(v);
  facts.low_frequency = marks.low_frequency;
  facts.statistic = IsStatistic(v);
  facts.kept_exactly = marks.kept_exactly;
  facts.of_steep_loss = marks.of_steep_loss && !op.loss;
  facts.sign_is_read = BackwardReadsAs(v, Need::kSign);
  const bool normalized = op.norm.role == Normalization::Role::kNormalize;
  facts.normalized = normalized && !op.norm.by_rows;
  facts.by_rows = normalized && op.norm.by_rows;
  facts.for_statistics = facts.normalized && !facts.feeds_product && !marks.rebuilt_from;
  facts.anchor = marks.anchor;
  facts.kept_finely = marks.kept_finely;
  facts.sided = op.norm.sided;
  facts.often_zero = OftenZero(v);
  const bool bounded = op.slope_is_bounded && op.slope_is_bounded(graph_, from);
  facts.unbounded = (op.values == Values::kUnbounded && !bounded) || marks.near_steep;
  // What a normalization makes is as large as before the loss.
  facts.of_loss = op.loss || (marks.of_loss && !normalized && context_.policy.IsLevel());
  if (IsLargeLoss(facts.type)) {
    const ValueId scores = ProductBehind(op.loss ? from.inputs[0] : v);
    facts.large_loss = scores != kNoValue && OnlyLossReads(scores);
  }
  if (marks.range_code) {
    facts.fixed_range = true;
    facts.index_bits = context_.policy.range_bits;
  }
  if (op.index_bits && from.outputs.size() > 1 && from.outputs[1] == v)
    facts.index_bits = op.index_bits(from);
  return facts;
}

}  // namespace act
