#include "passes/storage/saved_values.h"

#include <algorithm>

#include "compiler/ops/op_table.h"

namespace act {
bool OnlyMoves(const Node& node) {
  const Movement movement = OpOf(node).movement;
  return movement == Movement::kReshape || movement == Movement::kPad;
}

void SavedValues::Index() {
  producer_.assign(graph_.values.size(), -1);
  readers_.assign(graph_.values.size(), {});
  fixed_batch_ = std::none_of(graph_.values.begin(), graph_.values.end(),
                              [](const Value& value) { return HasBatchAxis(value.type); });
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    for (ValueId v : graph_.nodes[i].outputs) producer_[static_cast<size_t>(v)] = static_cast<int64_t>(i);
    for (ValueId v : graph_.nodes[i].inputs)
      if (v != kNoValue) readers_[static_cast<size_t>(v)].push_back(i);
  }
}

bool SavedValues::Crosses(ValueId v) const {
  const std::vector<size_t>& readers = Readers(v);
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

bool SavedValues::IsStatistic(ValueId v) const {
  if (context_.statistics.count(v)) return true;
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

EdgeFacts SavedValues::FactsOf(ValueId v) const {
  EdgeFacts facts;
  facts.type = graph_.value(v).type;
  facts.feeds_product = FeedsProduct(v) || context_.from_product_input.count(v) != 0;
  facts.activation = MadeInForward(v);
  facts.fixed_batch = fixed_batch_;
  if (!facts.activation) return facts;
  const Node& from = graph_.nodes[static_cast<size_t>(Producer(v))];
  const OpDef& op = OpOf(from);
  facts.exact_bits = facts.type.dtype == DType::kBool || op.boolean;
  facts.read_exactly = BackwardReadsAs(v, Need::kExactly);
  facts.for_scores = BackwardReadsAs(v, Need::kScores);
  if (facts.for_scores) facts.part = PartOfAttention(v);
  facts.low_frequency = context_.low_frequencies.count(v) != 0;
  facts.statistic = IsStatistic(v);
  facts.sign_is_read = BackwardReadsAs(v, Need::kSign);
  const bool normalized = op.norm.role == Normalization::Role::kNormalize;
  facts.normalized = normalized && !op.norm.by_rows;
  facts.by_rows = normalized && op.norm.by_rows;
  facts.for_statistics = facts.normalized && !facts.feeds_product && !context_.rebuilt_from.count(v);
  facts.anchor = context_.anchors.count(v) != 0;
  facts.sided = op.norm.sided;
  facts.often_zero = op.rectifies;
  facts.of_loss = op.loss;
  if (context_.range_codes.count(v)) {
    facts.fixed_range = true;
    facts.index_bits = context_.policy.range_bits;
  }
  if (op.index_bits && from.outputs.size() > 1 && from.outputs[1] == v)
    facts.index_bits = op.index_bits(from);
  return facts;
}

}  // namespace act
