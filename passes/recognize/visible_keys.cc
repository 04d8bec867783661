#include "passes/recognize/visible_keys.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace act {
namespace {

using Ranges = std::optional<std::vector<KeyRange>>;

KeyRange RangeOf(int64_t first, int64_t last) { return first < last ? KeyRange{first, last} : KeyRange{}; }
bool IsEmpty(const KeyRange& range) { return range.first == range.last; }

KeyRange Both(const KeyRange& a, const KeyRange& b) {
  return RangeOf(std::max(a.first, b.first), std::min(a.last, b.last));
}

// Nullopt: there is a gap between them.
std::optional<KeyRange> Either(const KeyRange& a, const KeyRange& b) {
  if (IsEmpty(a)) return b;
  if (IsEmpty(b)) return a;
  if (std::max(a.first, b.first) > std::min(a.last, b.last)) return std::nullopt;
  return KeyRange{std::min(a.first, b.first), std::max(a.last, b.last)};
}

// Nullopt: keys on both sides of the range remain.
std::optional<KeyRange> Others(const KeyRange& range, int64_t keys) {
  if (range.first == 0) return RangeOf(range.last, keys);
  if (range.last == keys) return RangeOf(0, range.first);
  return std::nullopt;
}

// Of each query, by its ranges in a and b.
template <class Join>
Ranges Joined(const Ranges& a, const Ranges& b, const Join& join) {
  if (!a || !b) return std::nullopt;
  std::vector<KeyRange> result;
  result.reserve(a->size());
  for (size_t i = 0; i < a->size(); ++i) {
    const std::optional<KeyRange> range = join((*a)[i], (*b)[i]);
    if (!range) return std::nullopt;
    result.push_back(*range);
  }
  return result;
}

// Of each query, the keys that are not in its range.
Ranges Complement(const Ranges& ranges, int64_t keys) {
  if (!ranges) return std::nullopt;
  std::vector<KeyRange> result;
  result.reserve(ranges->size());
  for (const KeyRange& range : *ranges) {
    const std::optional<KeyRange> others = Others(range, keys);
    if (!others) return std::nullopt;
    result.push_back(*others);
  }
  return result;
}

// The last two axes, with axes of extent 1 in front of fewer. Nullopt: one depends on the batch.
std::optional<std::pair<int64_t, int64_t>> MatrixOf(const Dims& dims) {
  const Dim columns = dims.empty() ? Dim(1) : dims.back();
  const Dim rows = dims.size() < 2 ? Dim(1) : dims[dims.size() - 2];
  if (!rows.IsFixed() || !columns.IsFixed()) return std::nullopt;
  return std::pair{rows.fixed, columns.fixed};
}

bool OnlyMatrix(const Dims& dims) {
  return dims.size() <= 2 || std::all_of(dims.begin(), dims.end() - 2, [](Dim d) { return d == Dim(1); });
}

}  // namespace

void KeyBand::Narrow(const KeyBand& other) {
  if (other.causal_offset)
    causal_offset = std::min(*other.causal_offset, causal_offset.value_or(*other.causal_offset));
  if (other.window_offset)
    window_offset = std::max(*other.window_offset, window_offset.value_or(*other.window_offset));
}

KeyBounds BoundsOf(const std::vector<KeyRange>& of_queries, int64_t keys) {
  KeyBounds bounds;
  const auto queries = static_cast<int64_t>(of_queries.size());
  const int64_t causal_offset = of_queries.empty() ? -1 : of_queries.front().last - 1;
  const int64_t window_offset = of_queries.empty() ? 0 : of_queries.back().first - (queries - 1);
  bool causal = causal_offset >= 0, window = true, from_start = true, to_end = true;
  for (int64_t i = 0; i < queries; ++i) {
    const auto& [first, last] = of_queries[static_cast<size_t>(i)];
    bounds.first.push_back(static_cast<float>(first));
    bounds.last.push_back(static_cast<float>(last));
    from_start = from_start && first == 0;
    to_end = to_end && last == keys;
    causal = causal && last == std::min(i + 1 + causal_offset, keys);
    window = window && first == std::max(i + window_offset, int64_t{0});
  }
  if (from_start || window) bounds.first.clear();
  if (to_end || causal) bounds.last.clear();
  if (causal && !to_end) bounds.band.causal_offset = causal_offset;
  if (window && !from_start) bounds.band.window_offset = window_offset;
  return bounds;
}

bool VisibleKeys::IsBool(ValueId v) const { return nodes_.TypeOf(v).dtype == DType::kBool; }

ValueId VisibleKeys::Inside(ValueId v) const {
  for (const Node* node = nodes_.Maker(v); node; node = nodes_.Maker(v)) {
    const ValueId x = node->inputs.empty() ? kNoValue : node->inputs[0];
    // A Reshape may only add or remove axes of extent 1 in front.
    const bool repeats =
        node->op == "Expand" || node->op == "Identity" ||
        (node->op == "Reshape" && OnlyMatrix(nodes_.DimsOf(x)) && OnlyMatrix(nodes_.DimsOf(v)) &&
         MatrixOf(nodes_.DimsOf(x)) == MatrixOf(nodes_.DimsOf(v)));
    if (!repeats) break;
    v = x;
  }
  return v;
}

std::vector<MaskTerm> VisibleKeys::TermsOf(const MaskTerm& mask) const {
  std::vector<MaskTerm> terms;
  AddTerms(mask, kDeepest, terms);
  return terms;
}

// The importer writes `a and b` as a b > 0, `a or b` as max(a, b) > 0 and `not a` as a = 0.
void VisibleKeys::AddTerms(const MaskTerm& mask, int depth, std::vector<MaskTerm>& terms) const {
  const Node* const node = nodes_.Maker(Inside(mask.value));
  const bool tests_zero = node && depth > 0 && (node->op == "Greater" || node->op == "Equal") &&
                          nodes_.Number(node->inputs[1]) == 0;
  if (!tests_zero) {
    terms.push_back(mask);
    return;
  }
  const ValueId x = Inside(node->inputs[0]);
  const bool hides = mask.hides_where_true != (node->op == "Equal");
  if (IsBool(x)) return AddTerms({x, hides}, depth - 1, terms);
  const Node* const both = nodes_.Maker(x);
  // Where `a or b` hides a pair, either of them does.
  if (both && both->op == (hides ? "Max" : "Mul")) {
    const Node *const a = nodes_.Maker(both->inputs[0]), *const b = nodes_.Maker(both->inputs[1]);
    if (a && b && a->op == "Cast" && b->op == "Cast" && IsBool(a->inputs[0]) && IsBool(b->inputs[0])) {
      AddTerms({a->inputs[0], hides}, depth - 1, terms);
      AddTerms({b->inputs[0], hides}, depth - 1, terms);
      return;
    }
  }
  terms.push_back(mask);
}

Ranges VisibleKeys::Of(const MaskTerm& term) const {
  const Ranges ranges = WhereTrue(term.value, kDeepest);
  return term.hides_where_true ? Complement(ranges, keys_) : ranges;
}

Ranges VisibleKeys::WhereTrue(ValueId v, int depth) const {
  if (depth == 0 || !IsBool(v)) return std::nullopt;
  if (Ranges ranges = OfConstant(v)) return ranges;
  v = Inside(v);
  const Node* const node = nodes_.Maker(v);
  if (!node) return std::nullopt;
  if (node->op == "Integer") {
    const std::string computes = node->attrs.String("op");
    if (computes == "select") return Selected(*node, depth);
    return computes == "less" || computes == "greater" || computes == "equal" ? Compared(*node)
                                                                              : std::nullopt;
  }
  if (node->op != "Less" && node->op != "Greater" && node->op != "Equal") return std::nullopt;
  if (node->op != "Less" && nodes_.Number(node->inputs[1]) == 0) {
    const Ranges ones = WhereOne(node->inputs[0], depth - 1);
    if (ones) return node->op == "Greater" ? ones : Complement(ones, keys_);
  }
  return Compared(*node);
}

Ranges VisibleKeys::WhereOne(ValueId v, int depth) const {
  v = Inside(v);
  if (depth == 0) return std::nullopt;
  if (IsBool(v)) return WhereTrue(v, depth - 1);
  const Node* const node = nodes_.Maker(v);
  if (!node) return std::nullopt;
  if (node->op == "Cast" && IsBool(node->inputs[0])) return WhereTrue(node->inputs[0], depth - 1);
  if (node->op == "Where") return Selected(*node, depth);
  if (node->op != "Mul" && node->op != "Max") return std::nullopt;
  const Ranges a = WhereOne(node->inputs[0], depth - 1);
  const Ranges b = a ? WhereOne(node->inputs[1], depth - 1) : std::nullopt;
  if (node->op == "Max") return Joined(a, b, Either);
  return Joined(a, b, [](const KeyRange& x, const KeyRange& y) { return std::optional(Both(x, y)); });
}

Ranges VisibleKeys::Selected(const Node& node, int depth) const {
  const auto a = PositionsAt(node.inputs[1]), b = PositionsAt(node.inputs[2]);
  if (!a || !b || a->numbers.size() != 1 || b->numbers.size() != 1) return std::nullopt;
  const double if_true = a->numbers[0], if_false = b->numbers[0];
  if (std::min(if_true, if_false) != 0 || std::max(if_true, if_false) != 1) return std::nullopt;
  const Ranges ranges = WhereTrue(node.inputs[0], depth - 1);
  return if_true == 1 ? ranges : Complement(ranges, keys_);
}

Ranges VisibleKeys::Compared(const Node& node) const {
  std::optional<Positions> a = PositionsAt(node.inputs[0]), b = PositionsAt(node.inputs[1]);
  if (!a || !b || (a->of_keys && b->of_keys)) return std::nullopt;
  // Written as `key op query`.
  const std::string computes = node.attrs.String("op");  // of Integer
  bool less = node.op == "Less" || computes == "less",
       greater = node.op == "Greater" || computes == "greater";
  if (b->of_keys) {
    std::swap(a, b);
    std::swap(less, greater);
  }
  const std::vector<double>&keys = a->numbers, &queries = b->numbers;
  if (a->of_keys && !std::is_sorted(keys.begin(), keys.end())) return std::nullopt;
  std::vector<KeyRange> result;
  result.reserve(static_cast<size_t>(queries_));
  for (int64_t i = 0; i < queries_; ++i) {
    const double query = queries[queries.size() == 1 ? 0 : static_cast<size_t>(i)];
    if (!a->of_keys) {
      const double key = keys[keys.size() == 1 ? 0 : static_cast<size_t>(i)];
      const bool sees = less ? key < query : greater ? key > query : key == query;
      result.push_back(RangeOf(0, sees ? keys_ : 0));
      continue;
    }
    const int64_t lower = std::lower_bound(keys.begin(), keys.end(), query) - keys.begin();
    const int64_t upper = std::upper_bound(keys.begin(), keys.end(), query) - keys.begin();
    result.push_back(less ? RangeOf(0, lower) : greater ? RangeOf(upper, keys_) : RangeOf(lower, upper));
  }
  return result;
}

// A bool constant [.., Tq, Tk] whose slices are equal.
Ranges VisibleKeys::OfConstant(ValueId v) const {
  // Axes that are moved are followed for positions alone.
  const Value* const constant = StoredConstant(nodes_.ValueOf(Inside(v)));
  if (!constant || constant->type.dtype != DType::kBool || constant->data.bytes == 0) return std::nullopt;
  const auto matrix = MatrixOf(constant->type.dims);
  if (!matrix) return std::nullopt;
  const int64_t rows = matrix->first, columns = matrix->second;
  if ((rows != 1 && rows != queries_) || (columns != 1 && columns != keys_)) return std::nullopt;
  const int64_t slice = rows * columns;
  const std::byte* const data = constant->data.data;
  if (!std::equal(data, data + constant->data.bytes - slice, data + slice)) return std::nullopt;
  std::vector<KeyRange> result;
  for (int64_t i = 0; i < queries_; ++i) {
    const std::byte* const row = data + (rows == 1 ? 0 : i * columns);
    const auto sees = [&](int64_t j) { return row[columns == 1 ? 0 : j] != std::byte{0}; };
    int64_t first = 0;
    while (first < keys_ && !sees(first)) ++first;
    int64_t last = first;
    while (last < keys_ && sees(last)) ++last;
    for (int64_t j = last; j < keys_; ++j)
      if (sees(j)) return std::nullopt;
    result.push_back(RangeOf(first, last));
  }
  return result;
}

}  // namespace act
