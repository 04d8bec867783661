#include "passes/storage/saved_values.h"

#include <algorithm>

#include "compiler/ops/op_table.h"

namespace act {
namespace {

bool IsProduct(const Node& node, size_t) {
  return node.op == "ConvGradWeight" || node.op == "ConvGradInput" || node.op == "Conv" ||
         node.op == "MatMul" || node.op == "AttentionGrad";
}

// A softmax's gradient is quadratic in its result; an additive mask holds infinities beside numbers.
bool ReadsExactly(const Node& node, size_t operand) {
  return (node.op == "SoftmaxGrad" && operand == 1) || (node.op == "AttentionGrad" && operand == 4);
}

// q and k, from which the probabilities are computed again.
bool ReadsForScores(const Node& node, size_t operand) {
  return node.op == "AttentionGrad" && (operand == 1 || operand == 2);
}

bool ReadsSign(const Node& node, size_t) { return node.op == "ReluDerivative"; }

int64_t BitsFor(int64_t count) {
  int64_t bits = 1;
  while ((int64_t{1} << bits) < count) ++bits;
  return bits;
}

}  // namespace

bool OnlyMoves(const Node& node) { return node.op == "Reshape" || node.op == "Pad"; }

void SavedValues::Index() {
  uses_ = Uses(graph_);
  fixed_batch_ = std::none_of(graph_.values.begin(), graph_.values.end(),
                              [](const Value& value) { return HasBatchAxis(value.type); });
}

bool SavedValues::Crosses(ValueId v) const {
  const std::span<const size_t> readers = Readers(v);
  return MadeInForward(v) &&
         std::any_of(readers.begin(), readers.end(), [this](size_t r) { return !InForward(r); });
}

bool SavedValues::AnyBackwardRead(ValueId v, bool (*is)(const Node&, size_t)) const {
  for (size_t r : Readers(v)) {
    if (InForward(r)) continue;
    const Node& reader = graph_.nodes[r];
    for (size_t i = 0; i < reader.inputs.size(); ++i)
      if (reader.inputs[i] == v && is(reader, i)) return true;
    if (OnlyMoves(reader) && AnyBackwardRead(reader.outputs[0], is)) return true;
  }
  return false;
}

int64_t SavedValues::PartOfAttention(ValueId v) const {
  for (size_t r : Readers(v)) {
    const Node& reader = graph_.nodes[r];
    if (OnlyMoves(reader))
      if (const int64_t part = PartOfAttention(reader.outputs[0])) return part;
    if (InForward(r) || reader.op != "AttentionGrad" || !reader.attrs.Has("packed") || reader.inputs[1] != v)
      continue;
    Dim part(1);
    const Dims& dims = graph_.value(v).type.dims;
    for (auto axis = static_cast<size_t>(reader.attrs.Int("packed")) + 1; axis < dims.size(); ++axis)
      part = part * dims[axis];
    if (part.IsFixed()) return part.fixed;
  }
  return 0;
}

bool SavedValues::FeedsProduct(ValueId v) const { return AnyBackwardRead(v, IsProduct); }

EdgeFacts SavedValues::FactsOf(ValueId v) const {
  EdgeFacts facts;
  const ValueMarks& marks = context_.marks[v];
  facts.type = graph_.value(v).type;
  facts.feeds_product = FeedsProduct(v) || marks.from_product_input;
  facts.activation = MadeInForward(v);
  facts.fixed_batch = fixed_batch_;
  if (!facts.activation) return facts;
  const Node& from = graph_.nodes[static_cast<size_t>(Producer(v))];
  facts.exact_bits = facts.type.dtype == DType::kBool || FindOp(from.op)->boolean;
  facts.read_exactly = AnyBackwardRead(v, ReadsExactly);
  facts.for_scores = AnyBackwardRead(v, ReadsForScores);
  if (facts.for_scores) facts.part = PartOfAttention(v);
  facts.low_frequency = marks.low_frequency;
  facts.statistic = marks.statistic;
  facts.sign_is_read = AnyBackwardRead(v, ReadsSign);
  facts.for_statistics = from.op == "Normalize" && !facts.feeds_product && !marks.rebuilt_from;
  facts.anchor = marks.anchor;
  facts.sided = from.op == "SidedDistance";
  facts.often_zero = from.op == "Relu";
  facts.of_loss = from.op == "SoftmaxCrossEntropy";
  facts.by_rows = from.op == "Standardize";
  if (marks.range_code) {
    facts.fixed_range = true;
    facts.index_bits = context_.policy.range_bits;
  }
  facts.normalized = from.op == "Normalize";
  if (from.op == "MaxPool" && from.outputs.size() > 1 && from.outputs[1] == v) {
    int64_t window = 1;
    for (int64_t k : from.attrs.Ints("kernel_shape")) window *= k;
    facts.index_bits = BitsFor(window);
  }
  return facts;
}

}  // namespace act
