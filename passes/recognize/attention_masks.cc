#include "passes/recognize/attention_masks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "runtime/base/error.h"

namespace act {
namespace {

// A number that hides a pair when it is added to a score. It is far below any score, so that the
// score is lost.
constexpr double kHides = -1e12;
// Positions up to this are exact as float32.
constexpr int64_t kExactPositions = int64_t{1} << 24;

Dims WithoutLeadingOnes(Dims dims) {
  while (!dims.empty() && dims.front() == Dim(1)) dims.erase(dims.begin());
  return dims;
}

}  // namespace

llvm::Expected<ValueId> AttentionMasks::Mask(AttentionMatch& m, Attributes& attrs, const std::string& name) {
  ACT_CHECK_OK(TakeMasks(m, name));
  if (m.masks.empty()) return kNoValue;
  KeyBand band;
  if (attrs.Int("causal") != 0) band.causal_offset = attrs.Int("causal_offset");
  if (attrs.Int("window") != 0) band.window_offset = attrs.Int("window_offset");
  std::vector<ScoreTerm> terms;
  for (const ScoreTerm& mask : m.masks) {
    KeyBand with_this = band;
    ACT_TRY(const std::vector<ScoreTerm> parts, TermsBesideBand(m, mask, with_this, name));
    const bool fit = std::all_of(parts.begin(), parts.end(),
                                 [&](const ScoreTerm& t) { return nodes_.Fitted(t, m).has_value(); });
    if (fit) band = with_this;
    if (fit)
      terms.insert(terms.end(), parts.begin(), parts.end());
    else
      terms.push_back(mask);
  }
  if (terms.empty() && !band.causal_offset && !band.window_offset)
    return kNoValue;  // every query sees all keys
  // A query that sees no key: if all its scores are equal and finite, its result is the mean of
  // the values. If they are -infinity, its result is NaN, which is the default, or what stands in place of NaN.
  const bool finite = std::isfinite(m.hidden_score);
  if (finite) attrs.Set("empty_row", std::string("mean"));
  if (m.hidden_gradient && (finite || !m.zero_for_nan)) attrs.Set("hidden_gradient", int64_t{1});
  if (band.causal_offset) {
    attrs.Set("causal", int64_t{1});
    attrs.Set("causal_offset", *band.causal_offset);
  }
  if (band.window_offset) {
    attrs.Set("window", int64_t{1});
    attrs.Set("window_offset", *band.window_offset);
  }
  ValueId mask = kNoValue;
  for (ScoreTerm& t : terms) {
    t.value = nodes_.Unexpanded(t.value);
    ACT_TRY(ValueId visible, builder_.Reshape(t.value, *nodes_.Fitted(t, m), name));
    if (t.hides_where_true) {
      ACT_TRY(visible, builder_.Add1("Equal", {visible, builder_.Scalar(0)}, {}, name));
    }
    if (mask != kNoValue) {
      ACT_TRY(visible, And(mask, visible, name));
    }
    mask = visible;
  }
  return mask;
}

llvm::Expected<ValueId> AttentionMasks::And(ValueId a, ValueId b, const std::string& name) {
  Attributes to_float;
  to_float.Set("to", static_cast<int64_t>(DType::kFloat32));
  ACT_TRY(const ValueId x, builder_.Add1("Cast", {a}, to_float, name));
  ACT_TRY(const ValueId y, builder_.Add1("Cast", {b}, to_float, name));
  ACT_TRY(const ValueId both, builder_.Add1("Mul", {x, y}, {}, name));
  return builder_.Add1("Greater", {both, builder_.Scalar(0)}, {}, name);
}

llvm::Expected<std::vector<ScoreTerm>> AttentionMasks::TermsBesideBand(const AttentionMatch& m,
                                                                       const ScoreTerm& mask, KeyBand& band,
                                                                       const std::string& name) {
  const Dim queries = m.widest[m.widest.size() - 2], keys = m.widest.back();
  if (!queries.IsFixed() || !keys.IsFixed()) return std::vector{mask};
  const VisibleKeys visible(nodes_, queries.fixed, keys.fixed);
  std::vector<ScoreTerm> others;
  for (const MaskTerm& term : visible.TermsOf({mask.value, mask.hides_where_true})) {
    const auto ranges = visible.Of(term);
    if (!ranges || keys.fixed > kExactPositions) {
      others.push_back(mask);
      others.back().value = term.value;
      others.back().hides_where_true = term.hides_where_true;
      continue;
    }
    const KeyBounds bounds = BoundsOf(*ranges, keys.fixed);
    band.Narrow(bounds.band);
    for (const bool hides : {true, false}) {
      const std::vector<float>& limits = hides ? bounds.first : bounds.last;
      if (limits.empty()) continue;
      others.push_back(mask);
      others.back().hides_where_true = hides;
      ACT_TRY(others.back().value, KeysBelow(limits, keys.fixed, name));
    }
  }
  return others;
}

llvm::Expected<ValueId> AttentionMasks::KeysBelow(const std::vector<float>& limits, int64_t keys,
                                                  const std::string& name) {
  ValueId& flags = keys_below_.try_emplace({limits, keys}, kNoValue).first->second;
  if (flags == kNoValue) {
    std::vector<float> positions(static_cast<size_t>(keys));
    std::iota(positions.begin(), positions.end(), 0.0f);
    const auto constant = [this](Dims dims, const std::vector<float>& x) {
      return builder_.Constant("", {DType::kFloat32, std::move(dims)},
                               HostTensor::Copy(x.data(), static_cast<int64_t>(x.size() * sizeof(float))));
    };
    const ValueId key = constant({1, keys}, positions);
    const ValueId limit = constant({static_cast<int64_t>(limits.size()), 1}, limits);
    ACT_TRY(flags, builder_.Add1("Less", {key, limit}, {}, name));
  }
  return flags;
}

llvm::Error AttentionMasks::TakeMasks(AttentionMatch& m, const std::string& name) {
  Terms rest;
  for (const ScoreTerm& bias : std::exchange(m.biases, {})) {
    Terms summands, left;
    ACT_CHECK_OK(AddSummands(bias, kDeepest, name, summands));
    for (const ScoreTerm& term : summands) {
      ACT_TRY(const bool taken, TakeMask(m, term, name));
      if (!taken) left.push_back(term);
    }
    if (left.size() == summands.size()) left = {bias};
    rest.insert(rest.end(), left.begin(), left.end());
  }
  m.biases = rest;
  return llvm::Error::success();
}

ValueId AttentionMasks::Inside(ValueId v) const {
  for (bool found = true; found;) {
    v = nodes_.Unexpanded(v);
    found = false;
    const Node* node = nodes_.Maker(v);
    for (; node && node->op == "Reshape" && !found; node = nodes_.Maker(node->inputs[0]))
      if (nodes_.DimsOf(node->inputs[0]) == nodes_.DimsOf(v)) {
        v = node->inputs[0];
        found = true;
      }
  }
  return v;
}

// PyTorch's MultiheadAttention adds masks with batch and heads in one axis, and reshapes the sum.
llvm::Error AttentionMasks::AddSummands(ScoreTerm term, int depth, const std::string& name, Terms& summands) {
  const ValueId at = Inside(term.value);
  const Node *const made = nodes_.Maker(at), *node = made;
  while (node && node->op == "Reshape") node = nodes_.Maker(node->inputs[0]);
  const Dims& dims = nodes_.DimsOf(at);
  if (depth == 0 || !node || node->op != "Add" || !KeepsMatrices(nodes_.DimsOf(node->outputs[0]), dims)) {
    summands.push_back(term);
    return llvm::Error::success();
  }
  const Dims lead = LeadingAxes(nodes_.DimsOf(node->outputs[0]));
  const ScoreTerm whole = term;
  Terms operands;
  for (const ValueId operand : node->inputs) {
    const Dims& own = nodes_.DimsOf(operand);
    term.value = operand;
    if (made != node) {
      if (own.size() >= 2 && LeadingAxes(own) == lead) {
        Dims moved = LeadingAxes(dims);
        moved.insert(moved.end(), own.end() - 2, own.end());
        ACT_TRY(term.value, factors_.Reshaped(operand, moved, name));
      } else if (own.size() > 2 && LeadingAxes(own) != Dims(own.size() - 2, Dim(1))) {
        summands.push_back(whole);
        return llvm::Error::success();
      }
    }
    operands.push_back(term);
  }
  for (const ScoreTerm& operand : operands) ACT_CHECK_OK(AddSummands(operand, depth - 1, name, summands));
  return llvm::Error::success();
}

llvm::Expected<bool> AttentionMasks::TakeMask(AttentionMatch& m, const ScoreTerm& term,
                                              const std::string& name) {
  const ValueId at = Inside(term.value);
  const Node* node = nodes_.Maker(at);
  while (node && node->op == "Reshape") node = nodes_.Maker(node->inputs[0]);
  ScoreTerm mask = term;
  mask.value = kNoValue;
  double hidden = 0;
  if (node && node->op == "Where" && nodes_.TypeOf(node->inputs[0]).dtype == DType::kBool) {
    const auto a = nodes_.Number(node->inputs[1]), b = nodes_.Number(node->inputs[2]);
    // A reshape of the result is one of the condition.
    const bool same =
        nodes_.Maker(at) == node || nodes_.DimsOf(node->inputs[0]) == nodes_.DimsOf(node->outputs[0]);
    if (!a || !b || std::max(*a, *b) != 0 || !same) return false;
    mask.value = node->inputs[0];
    mask.hides_where_true = *b == 0;
    hidden = std::min(*a, *b) * term.factor;
  } else if (const auto lowest = LowestOfMask(at)) {
    hidden = *lowest * term.factor;
  }
  // Beside pairs that -infinity hides, others that a number hides may be all that a query sees.
  const bool alone = m.masks.empty() && m.attrs.Int("causal") == 0 && m.attrs.Int("window") == 0;
  if (!(hidden <= kHides) || (!alone && (std::isfinite(hidden) || std::isfinite(m.hidden_score))))
    return false;
  if (mask.value == kNoValue) mask.value = BoolMask(at);
  if (nodes_.Maker(at) != node &&
      WithoutLeadingOnes(nodes_.DimsOf(at)) != WithoutLeadingOnes(nodes_.DimsOf(mask.value))) {
    ACT_TRY(mask.value, builder_.Reshape(mask.value, nodes_.DimsOf(at), name));
  }
  m.masks.push_back(mask);
  m.hidden_score = hidden;
  m.hidden_gradient = true;
  return true;
}

std::optional<std::vector<float>> AttentionMasks::Floats(ValueId v) const {
  const Value& value = builder_.graph().value(v);
  if (value.kind != ValueKind::kConstant || value.type.dtype != DType::kFloat32 || !value.data.data ||
      !value.type.Elements().IsFixed() || value.data.bytes != value.type.Bytes().fixed)
    return std::nullopt;
  std::vector<float> numbers(static_cast<size_t>(value.data.bytes) / sizeof(float));
  if (!numbers.empty()) std::memcpy(numbers.data(), value.data.data, numbers.size() * sizeof(float));
  return numbers;
}

std::optional<double> AttentionMasks::LowestOfMask(ValueId v) const {
  const auto numbers = Floats(v);
  if (!numbers || numbers->empty()) return std::nullopt;
  const float lowest = *std::min_element(numbers->begin(), numbers->end());
  const bool is_mask =
      std::all_of(numbers->begin(), numbers->end(), [lowest](float x) { return x == 0 || x == lowest; });
  return is_mask && lowest < 0 ? std::optional<double>(lowest) : std::nullopt;
}

ValueId AttentionMasks::BoolMask(ValueId v) {
  const std::vector<float> numbers = *Floats(v);
  std::vector<uint8_t> takes_part;
  takes_part.reserve(numbers.size());
  for (float x : numbers) takes_part.push_back(x == 0);
  return builder_.Constant("", {DType::kBool, nodes_.DimsOf(v)},
                           HostTensor::Copy(takes_part.data(), static_cast<int64_t>(takes_part.size())));
}

}  // namespace act
