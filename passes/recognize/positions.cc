#include "passes/recognize/positions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

namespace act {
namespace {

// A constant that v: [.., queries, keys] repeats along axes, and those of its axes that are queries and keys of v.
// -1: there it is the same for all.
struct Source {
  ValueId constant = kNoValue;
  int queries = -1, keys = -1;
};

// The axis of `from` that a reshape to `to` makes axis `axis`, which is not of extent 1. -1: it makes it of others.
int BeforeReshape(const Dims& from, const Dims& to, int axis) {
  const auto is_long = [](const Dim& d) { return d != Dim(1); };
  Dims a, b;
  std::copy_if(from.begin(), from.end(), std::back_inserter(a), is_long);
  std::copy_if(to.begin(), to.end(), std::back_inserter(b), is_long);
  if (a != b) return -1;
  auto before = std::count_if(to.begin(), to.begin() + axis, is_long);
  for (size_t i = 0; i < from.size(); ++i)
    if (is_long(from[i]) && before-- == 0) return static_cast<int>(i);
  return -1;
}

template <class T>
std::vector<double> Numbers(const HostTensor& data) {
  std::vector<T> stored(static_cast<size_t>(data.bytes) / sizeof(T));
  if (!stored.empty()) std::memcpy(stored.data(), data.data, stored.size() * sizeof(T));
  return {stored.begin(), stored.end()};
}

std::optional<Source> SourceOf(const AttentionMatcher& nodes, ValueId v) {
  const int rank = static_cast<int>(nodes.DimsOf(v).size());
  Source at{v, rank - 2, rank - 1};
  int* const axes[] = {&at.queries, &at.keys};
  const auto forget_short = [&] {
    for (int* axis : axes)
      if (*axis >= 0 && nodes.DimsOf(at.constant)[static_cast<size_t>(*axis)] == Dim(1)) *axis = -1;
  };
  at.queries = std::max(at.queries, -1);
  forget_short();
  for (const Node* node = nodes.Maker(at.constant); node; node = nodes.Maker(at.constant)) {
    if (node->inputs.empty()) return std::nullopt;
    const Dims& to = nodes.DimsOf(at.constant);
    ValueId x = node->inputs[0];
    if (node->op == "Expand" || (node->op == "Integer" && node->attrs.String("op") == "expand")) {
      const int added = static_cast<int>(to.size()) - static_cast<int>(nodes.DimsOf(x).size());
      for (int* axis : axes) *axis = std::max(*axis - added, -1);
    } else if (node->op == "Transpose") {
      for (int* axis : axes)
        if (*axis >= 0) *axis = static_cast<int>(node->attrs.Ints("perm")[static_cast<size_t>(*axis)]);
    } else if (node->op == "Reshape") {
      // Exporters look up by a batch's and a position's index in one: reshapes that are undone by later ones.
      Source before;
      for (const Node* reshape = node; reshape && reshape->op == "Reshape"; reshape = nodes.Maker(x)) {
        x = reshape->inputs[0];
        Source candidate{x, -1, -1};
        const Dims& from = nodes.DimsOf(x);
        if (at.queries >= 0) candidate.queries = BeforeReshape(from, to, at.queries);
        if (at.keys >= 0) candidate.keys = BeforeReshape(from, to, at.keys);
        if ((candidate.queries < 0) == (at.queries < 0) && (candidate.keys < 0) == (at.keys < 0))
          before = candidate;
      }
      if (before.constant == kNoValue) return std::nullopt;
      at = before;
      continue;
    } else if (node->op != "Identity") {
      return std::nullopt;
    }
    at.constant = x;
    forget_short();
  }
  return at;
}

}  // namespace

const Value* StoredConstant(const Value& value) {
  const bool has_data = value.kind == ValueKind::kConstant && value.data.data &&
                        value.type.Elements().IsFixed() && value.data.bytes == value.type.Bytes().fixed;
  return has_data ? &value : nullptr;
}

std::optional<Positions> PositionsOf(const AttentionMatcher& nodes, ValueId v, int64_t queries,
                                     int64_t keys) {
  const auto source = SourceOf(nodes, v);
  const Value* const constant = source ? StoredConstant(nodes.ValueOf(source->constant)) : nullptr;
  if (!constant || (source->queries >= 0 && source->keys >= 0)) return std::nullopt;
  Positions result{.numbers = {}, .of_keys = source->keys >= 0};
  switch (constant->type.dtype) {
    case DType::kInt64:
      result.numbers = Numbers<int64_t>(constant->data);
      break;
    case DType::kInt32:
      result.numbers = Numbers<int32_t>(constant->data);
      break;
    case DType::kBool:
      result.numbers = Numbers<uint8_t>(constant->data);
      break;
    case DType::kFloat32:
      result.numbers = Numbers<float>(constant->data);
      break;
    default:
      return std::nullopt;
  }
  std::vector<double>& numbers = result.numbers;
  if (numbers.empty()) return std::nullopt;
  if (source->queries < 0 && source->keys < 0) {
    if (std::any_of(numbers.begin(), numbers.end(), [&](double x) { return x != numbers[0]; }))
      return std::nullopt;
    numbers.erase(numbers.begin() + 1, numbers.end());
  } else if (static_cast<int64_t>(numbers.size()) != (result.of_keys ? keys : queries)) {
    return std::nullopt;
  }
  // NaN has no place in an order.
  if (std::any_of(numbers.begin(), numbers.end(), [](double x) { return std::isnan(x); }))
    return std::nullopt;
  return result;
}

}  // namespace act
