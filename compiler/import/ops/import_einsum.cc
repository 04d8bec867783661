// Einsum: any equation as diagonals, sums, transposes and products of two operands at a time.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/import/ops/integers.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;
using Labels = std::string;  // one character per axis; those of an ellipsis are '0', '1', .. from the right

struct Term {
  ValueId value = kNoValue;
  Labels labels;
};

bool In(const Labels& labels, char label) { return labels.find(label) != Labels::npos; }

Dims DimsOf(const NodeContext& c, const Term& t, const Labels& labels) {
  Dims dims;
  for (const char label : labels) dims.push_back(c.TypeOf(t.value).dims[t.labels.find(label)]);
  return dims;
}

Dim Product(const Dims& dims) { return TensorType{DType::kFloat32, dims}.Elements(); }

// The labels of one term of the equation, for a tensor of this rank.
llvm::Expected<Labels> ExpandEllipsis(const NodeContext& c, const std::string& term, size_t rank) {
  const size_t dots = term.find("...");
  if (dots == std::string::npos) return term;
  const size_t named = term.size() - 3;
  if (named > rank || rank - named > 10)
    return c.Fail("term '" + term + "' does not fit a tensor of rank " + std::to_string(rank));
  Labels middle;
  for (size_t i = rank - named; i-- > 0;) middle += static_cast<char>('0' + i);
  return term.substr(0, dots) + middle + term.substr(dots + 3);
}

struct Equation {
  std::vector<Labels> inputs;
  Labels output;
};

llvm::Expected<Equation> Parse(const NodeContext& c) {
  std::string text = c.attrs.String("equation", "");
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const auto wrong = [&] {
    return c.Fail("cannot read the equation '" + c.attrs.String("equation", "") + "'");
  };
  const size_t arrow = text.find("->");
  std::vector<std::string> terms{""};
  for (const char ch : text.substr(0, arrow)) {
    if (ch == ',')
      terms.emplace_back();
    else
      terms.back() += ch;
  }
  if (terms.size() != c.inputs()) return wrong();
  Equation e;
  std::map<char, int> uses;
  std::set<char> dots;
  const auto is_term = [](std::string term) {
    if (const size_t at = term.find("..."); at != std::string::npos) term.erase(at, 3);
    return std::all_of(term.begin(), term.end(), [](unsigned char ch) { return std::isalpha(ch); });
  };
  size_t ellipsis = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (!is_term(terms[i])) return wrong();
    ACT_TRY(Labels labels, ExpandEllipsis(c, terms[i], c.DimsOf(i).size()));
    if (labels.size() != c.DimsOf(i).size())
      return c.Fail("term '" + terms[i] + "' does not fit " + ToString(c.Type(i)));
    for (const char label : labels) {
      if (std::isalpha(static_cast<unsigned char>(label)))
        ++uses[label];
      else
        ellipsis = std::max(ellipsis, static_cast<size_t>(label - '0') + 1);
    }
    e.inputs.push_back(std::move(labels));
  }
  if (arrow != std::string::npos) {
    const std::string output = text.substr(arrow + 2);
    if (!is_term(output)) return wrong();
    const size_t named = output.find("...") == std::string::npos ? output.size() : output.size() - 3;
    ACT_TRY(e.output, ExpandEllipsis(c, output, named + ellipsis));
  } else {  // the ellipsis, then what occurs once, in alphabetical order
    for (size_t i = ellipsis; i-- > 0;) e.output += static_cast<char>('0' + i);
    for (const auto& [label, count] : uses)
      if (count == 1) e.output += label;
  }
  std::set<char> seen;
  for (const char label : e.output)
    if (!seen.insert(label).second ||
        std::none_of(e.inputs.begin(), e.inputs.end(), [label](const Labels& l) { return In(l, label); }))
      return wrong();
  return e;
}

// The axes in the order of `labels`, which are the term's.
llvm::Expected<Term> Ordered(const NodeContext& c, const Term& t, const Labels& labels) {
  Ints perm;
  for (const char label : labels) perm.push_back(static_cast<int64_t>(t.labels.find(label)));
  if (std::is_sorted(perm.begin(), perm.end())) return t;
  ACT_TRY(const ValueId y, c.Transpose(t.value, perm));
  return Term{y, labels};
}

// Replaces two axes of one label by their diagonal: steps of n + 1 through their n x n elements.
llvm::Expected<Term> Diagonals(const NodeContext& c, Term t) {
  for (size_t i = 0; i < t.labels.size(); ++i) {
    const size_t k = t.labels.find(t.labels[i], i + 1);
    if (k == Labels::npos) continue;
    Dims dims = c.TypeOf(t.value).dims;
    if (dims[i] != dims[k] || !dims[i].IsFixed())
      return c.Fail("axes of label '" + t.labels.substr(i, 1) + "' are not equal and fixed");
    Ints perm;
    for (size_t a = 0; a < dims.size(); ++a)
      if (a != i && a != k) perm.push_back(static_cast<int64_t>(a));
    perm.insert(perm.end(), {static_cast<int64_t>(i), static_cast<int64_t>(k)});
    const int64_t n = dims[i].fixed;
    const char label = t.labels[i];
    t.labels.erase(k, 1);
    t.labels.erase(i, 1);
    t.labels += label;
    ACT_TRY(t.value, c.Transpose(t.value, perm));
    Dims flat = DimsOf(c, {t.value, t.labels.substr(0, t.labels.size() - 1)},
                       t.labels.substr(0, t.labels.size() - 1));
    flat.push_back(SaturatingMul(n, n));
    ACT_TRY(t.value, c.Reshape(t.value, flat));
    flat.back() = n;
    Ints steps(flat.size(), 1);
    steps.back() = n + 1;
    ACT_TRY(t.value, c.builder().Slice(t.value, Ints(flat.size(), 0), flat, steps, c.name()));
    i = static_cast<size_t>(-1);  // again from the first
  }
  return t;
}

// Sums over the labels that nothing else needs.
llvm::Expected<Term> Summed(const NodeContext& c, Term t, const Labels& needed) {
  Attributes attrs;
  Ints axes;
  Labels left;
  for (size_t i = 0; i < t.labels.size(); ++i) {
    if (In(needed, t.labels[i]))
      left += t.labels[i];
    else
      axes.push_back(static_cast<int64_t>(i));
  }
  if (axes.empty()) return t;
  attrs.Set("axes", axes);
  attrs.Set("keepdims", int64_t{0});
  ACT_TRY(const ValueId y, IsInteger(c.TypeOf(t.value).dtype) ? ReduceIntegers(c, t.value, "add", axes, false)
                                                              : c.Emit("ReduceSum", {t.value}, attrs));
  return Term{y, left};
}

// Drops axes of extent 1 that are larger in the other term: the product broadcasts them.
llvm::Expected<Term> Narrowed(const NodeContext& c, const Term& t, const Term& other) {
  Labels left;
  for (const char label : t.labels) {
    const Dim own = DimsOf(c, t, {label})[0];
    if (!In(other.labels, label) || own == DimsOf(c, other, {label})[0] || own != Dim(1)) left += label;
  }
  ACT_TRY(const ValueId y, c.Reshape(t.value, DimsOf(c, t, left)));
  return Term{y, left};
}

// [batch, rows, inner] x [batch, inner, columns]; where nothing is summed, [.., rows, 1] x
// [.., 1, columns].
llvm::Expected<ValueId> Product(const NodeContext& c, ValueId x, ValueId y, bool sums) {
  if (!IsInteger(c.TypeOf(x).dtype) || c.TypeOf(x).dtype != c.TypeOf(y).dtype)
    return c.Emit(sums ? "MatMul" : "Mul", {x, y});
  return sums ? MultiplyIntegerMatrices(c, x, y) : Integer(c, "mul", {x, y});
}

// The product of two terms, summed over what is not needed: a matrix product for each element of
// the labels that both have and that stay.
llvm::Expected<Term> Contract(const NodeContext& c, Term a, Term b, const Labels& needed) {
  ACT_TRY(const Term narrow, Narrowed(c, a, b));
  ACT_TRY(b, Narrowed(c, b, narrow));
  a = narrow;
  Labels batch, rows, columns, inner;
  for (const char label : a.labels)
    (!In(b.labels, label) ? rows : In(needed, label) ? batch : inner) += label;
  for (const char label : b.labels)
    if (!In(a.labels, label)) columns += label;
  for (const char label : batch + inner)
    if (DimsOf(c, a, {label}) != DimsOf(c, b, {label}))
      return c.Fail("axes of label '" + Labels{label} + "' have different extents");
  ACT_TRY(const Term left, Ordered(c, a, batch + rows + inner));
  ACT_TRY(const Term right, Ordered(c, b, batch + inner + columns));
  const Dims batch_dims = DimsOf(c, left, batch), row_dims = DimsOf(c, left, rows),
             inner_dims = DimsOf(c, left, inner), column_dims = DimsOf(c, right, columns);
  ACT_TRY(const ValueId x,
          c.Reshape(left.value, {Product(batch_dims), Product(row_dims), Product(inner_dims)}));
  ACT_TRY(const ValueId y,
          c.Reshape(right.value, {Product(batch_dims), Product(inner_dims), Product(column_dims)}));
  ACT_TRY(const ValueId product, Product(c, x, y, !inner.empty()));
  Dims dims = batch_dims;
  dims.insert(dims.end(), row_dims.begin(), row_dims.end());
  dims.insert(dims.end(), column_dims.begin(), column_dims.end());
  ACT_TRY(const ValueId result, c.Reshape(product, dims));
  return Term{result, batch + rows + columns};
}

llvm::Error ImportEinsum(NodeContext& c) {
  ACT_TRY(const Equation e, Parse(c));
  std::vector<Term> terms;
  for (size_t i = 0; i < e.inputs.size(); ++i) {
    ACT_TRY(const ValueId x, c.Value(i));
    ACT_TRY(const Term term, Diagonals(c, {x, e.inputs[i]}));
    terms.push_back(term);
  }
  Term result = terms[0];
  for (size_t i = 0; i < terms.size(); ++i) {
    Labels later = e.output;  // the labels that are still needed after this product
    for (size_t k = i + 1; k < terms.size(); ++k) later += terms[k].labels;
    if (i > 0) {
      ACT_TRY(const Term term, Summed(c, terms[i], later + result.labels));
      ACT_TRY(result, Contract(c, result, term, later));
    }
    ACT_TRY(result, Summed(c, result, later));
  }
  ACT_TRY(result, Ordered(c, result, e.output));
  return c.Set(0, result.value);
}

}  // namespace

const std::vector<ImportEntry>& EinsumImports() {
  static const std::vector<ImportEntry> entries = {{"Einsum", 1, -1, ImportEinsum}};
  return entries;
}

}  // namespace act::onnx_import
