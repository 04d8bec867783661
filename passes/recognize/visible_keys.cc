#include "passes/recognize/visible_keys.h"

#include <algorithm>
#include <cmath>
#include <cstring>
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

const Value* ConstantAt(const Value& value) {
  const bool has_data = value.kind == ValueKind::kConstant && value.data.data &&
                        value.type.Elements().IsFixed() && value.data.bytes == value.type.Bytes().fixed;
  return has_data ? &value : nullptr;
}

template <class T>
std::vector<double> Numbers(const HostTensor& data) {
  std::vector<T> stored(static_cast<size_t>(data.bytes) / sizeof(T));
  if (!stored.empty()) std::memcpy(stored.data(), data.data, stored.size() * sizeof(T));
  return {stored.begin(), stored.end()};
}

}  // namespace

std::optional<int64_t> CausalOffset(const std::vector<KeyRange>& of_queries, int64_t keys) {
  if (of_queries.empty() || IsEmpty(of_queries[0])) return std::nullopt;
  const int64_t offset = of_queries[0].last - 1;
  for (size_t i = 0; i < of_queries.size(); ++i)
    if (of_queries[i] != KeyRange{0, std::min(static_cast<int64_t>(i) + 1 + offset, keys)})
      return std::nullopt;
  return offset;
}

bool AllVisible(const std::vector<KeyRange>& of_queries, int64_t keys) {
  return std::all_of(of_queries.begin(), of_queries.end(), [keys](const KeyRange& range) {
    return range == KeyRange{0, keys};
  });
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
  v = Inside(v);
  const Node* const node = nodes_.Maker(v);
  if (!node) return OfConstant(v);
  if (depth == 0 || !IsBool(v)) return std::nullopt;
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
  if (node->op != "Mul" && node->op != "Max") return std::nullopt;
  const Ranges a = WhereOne(node->inputs[0], depth - 1);
  const Ranges b = a ? WhereOne(node->inputs[1], depth - 1) : std::nullopt;
  if (node->op == "Max") return Joined(a, b, Either);
  return Joined(a, b, [](const KeyRange& x, const KeyRange& y) { return std::optional(Both(x, y)); });
}

std::optional<VisibleKeys::Positions> VisibleKeys::PositionsOf(ValueId v) const {
  const Value* const constant = ConstantAt(nodes_.ValueOf(Inside(v)));
  if (!constant || !OnlyMatrix(constant->type.dims)) return std::nullopt;
  const auto matrix = MatrixOf(constant->type.dims);
  if (!matrix) return std::nullopt;
  const int64_t rows = matrix->first, columns = matrix->second;
  const bool fits = (rows == 1 && (columns == 1 || columns == keys_)) || (rows == queries_ && columns == 1);
  if (!fits) return std::nullopt;
  Positions result{.numbers = {}, .of_keys = columns > 1};
  if (constant->type.dtype == DType::kInt64)
    result.numbers = Numbers<int64_t>(constant->data);
  else if (constant->type.dtype == DType::kFloat32)
    result.numbers = Numbers<float>(constant->data);
  else
    return std::nullopt;
  // NaN has no place in an order.
  if (std::any_of(result.numbers.begin(), result.numbers.end(), [](double x) { return std::isnan(x); }))
    return std::nullopt;
  return result;
}

Ranges VisibleKeys::Compared(const Node& node) const {
  std::optional<Positions> a = PositionsOf(node.inputs[0]), b = PositionsOf(node.inputs[1]);
  if (!a || !b || (a->of_keys && b->of_keys)) return std::nullopt;
  // Written as `key op query`.
  bool less = node.op == "Less", greater = node.op == "Greater";
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
  const Value* const constant = ConstantAt(nodes_.ValueOf(v));
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
