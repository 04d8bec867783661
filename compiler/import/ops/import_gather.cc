// Lookup and scatter by data. ONNX has six operators for it. Ours are Gather and Scatter, whose
// index selects along one axis and broadcasts over the others, and FlatIndex, which makes one index
// of a tuple.
#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "compiler/import/fold/lookup.h"
#include "compiler/import/ops/gather_index.h"
#include "compiler/import/ops/integers.h"
#include "compiler/import/ops/scatter_box.h"
#include "compiler/import/ops/slices.h"
#include "compiler/import/ops/strided_view.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;

// The row of an embedding that stands for padding and does not train. The dynamo exporter notes it
// ("aten.embedding.default](args = (%weight, %indices, 0)"). TorchScript's exporter loses it. In
// its files the padding row is the only row that is all zeros: PyTorch sets it so.
std::optional<int64_t> PaddingRow(const NodeContext& c, ValueId table) {
  for (const auto& note : c.node.metadata_props()) {
    constexpr std::string_view kCall = "aten.embedding.default](args = (";
    const size_t call = note.value().find(kCall);
    if (note.key() != "pkg.torch.onnx.fx_node" || call == std::string::npos) continue;
    std::istringstream args(note.value().substr(call + kCall.size()));
    std::string weight, indices;
    int64_t row = -1;
    std::getline(args, weight, ',');
    std::getline(args, indices, ',');
    return args >> row && row >= 0 ? std::optional(row) : std::nullopt;
  }
  const Value& value = c.builder().graph().value(table);
  if (!c.importer.torchscript || value.kind != ValueKind::kParameter || value.type.rank() != 2 ||
      !value.data.data)
    return std::nullopt;
  const auto* data = reinterpret_cast<const float*>(value.data.data);
  const int64_t rows = value.type.dims[0].fixed, columns = value.type.dims[1].fixed;
  std::optional<int64_t> zero;
  for (int64_t row = 0; row < rows; ++row) {
    const float* first = data + row * columns;
    if (std::any_of(first, first + columns, [](float v) { return v != 0; })) continue;
    if (zero) return std::nullopt;
    zero = row;
  }
  return rows > 1 ? zero : std::nullopt;
}

llvm::Error ImportGather(NodeContext& c) {
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis"), c.DimsOf(0).size()));
  ACT_TRY(const ValueId x, c.Value(0));
  Attributes attrs = Along(axis);
  const auto padding = axis == 0 ? PaddingRow(c, x) : std::nullopt;
  if (padding) attrs.Set("padding_index", *padding);
  return c.Return(Gather(c, x, axis, c.In(1), std::move(attrs)));
}

llvm::Error ImportGatherElements(NodeContext& c) {
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis"), c.DimsOf(0).size()));
  ACT_TRY(const ValueId x, c.Value(0));
  if (c.DimsOf(1).size() != c.DimsOf(0).size()) return c.Fail("data and indices have different ranks");
  ACT_TRY(const ValueId index, UnexpandedIndex(c, 1, axis));
  return c.Return(
      c.builder().AddTyped("Gather", {x, index}, {c.TypeOf(x).dtype, c.DimsOf(1)}, Along(axis), c.name()));
}

// Only known tensors are float64. What is computed of them is float32.
DType Computed(DType dtype) { return IsFloat(dtype) ? DType::kFloat32 : dtype; }

// Scatters input 2 into input 0, or into zeros where input 0 is known to be zero. `whole` and
// `part` are the shapes that inputs 0 and 2 have in our operator.
llvm::Error Scatter(NodeContext& c, ValueId index, size_t axis, const Dims& whole, const Dims& part) {
  ACT_TRY(const ValueId given, c.Value(2));
  std::vector<ValueId> inputs{kNoValue, index};
  ACT_TRY(inputs[0], c.Reshape(given, part));
  if (c.Number(0) != 0.0) {
    ACT_TRY(const ValueId into, c.Value(0));
    inputs.push_back(kNoValue);
    ACT_TRY(inputs[2], c.Reshape(into, whole));
  }
  if (c.In(1).selection) {
    inputs.resize(4, kNoValue);
    inputs[3] = c.In(1).selection->live;
  }
  Attributes attrs = Along(axis);
  attrs.Set("reduction", c.attrs.String("reduction", "none"));
  const DType dtype = Computed(c.Type(0).dtype);
  ACT_TRY(const ValueId y,
          c.builder().AddTyped("Scatter", std::move(inputs), {dtype, whole}, attrs, c.name()));
  return c.Return(c.Reshape(y, c.DimsOf(0)));
}

// Known places of a scatter without reduction, if nothing is left out.
std::optional<Places> KnownPlaces(const NodeContext& c, std::optional<size_t> axis) {
  if (!c.In(1).known || c.attrs.String("reduction", "none") != "none" ||
      Computed(c.Type(0).dtype) != Computed(c.Type(2).dtype))
    return std::nullopt;
  return axis ? PlacesAlong(*c.In(1).known, *axis, c.DimsOf(0)) : PlacesOfTuples(*c.In(1).known, c.DimsOf(0));
}

llvm::Error ImportScatterElements(NodeContext& c) {
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis"), c.DimsOf(0).size()));
  if (c.DimsOf(1) != c.DimsOf(2)) return c.Fail("indices and updates have different shapes");
  if (c.DimsOf(1).size() != c.DimsOf(0).size()) return c.Fail("data and indices have different ranks");
  if (const auto places = KnownPlaces(c, axis)) return c.Return(ScatterBox(c, *places));
  ACT_TRY(const ValueId index, UnexpandedIndex(c, 1, axis));
  return Scatter(c, index, axis, c.DimsOf(0), c.DimsOf(2));
}

// Known tuples become known indices of the one axis that joins the axes they index.
llvm::Expected<std::optional<ValueId>> GatherOfKnownTuples(NodeContext& c) {
  const Dims &from = c.DimsOf(0), &index = c.DimsOf(1);
  if (!c.In(1).known || c.attrs.Int("batch_dims") != 0 || index.empty() || !index.back().IsFixed() ||
      index.back().fixed < 1 || index.back().fixed > c.Type(0).rank())
    return std::optional<ValueId>();
  const auto end = static_cast<size_t>(index.back().fixed);
  const auto linear = LinearIndex(*c.In(1).known, Range(from, 0, end));
  if (!linear) return std::optional<ValueId>();
  ACT_TRY(ValueId x, c.Value(0));
  ACT_TRY(x, c.Reshape(x, Joined({Product(Range(from, 0, end))}, Range(from, end, from.size()))));
  ACT_TRY(x, Gather(c, x, 0, KnownOperand(*linear), Along(0)));
  return std::optional(x);
}

llvm::Error ImportGatherND(NodeContext& c) {
  ACT_TRY(const std::optional<ValueId> known, GatherOfKnownTuples(c));
  if (known) return c.Set(0, *known);
  ACT_TRY(const Tuples t, TuplesOf(c, c.DimsOf(0), 1, c.attrs.Int("batch_dims")));
  ACT_TRY(const ValueId index, FlatIndexOf(c, 1, t));
  ACT_TRY(const ValueId given, c.Value(0));
  ACT_TRY(const ValueId x, c.Reshape(given, t.Whole()));
  const TensorType part{c.TypeOf(x).dtype, t.Part()};
  ACT_TRY(const ValueId y, c.builder().AddTyped("Gather", {x, index}, part, Along(1), c.name()));
  return c.Return(c.Reshape(y, Joined(Joined(t.batch, t.outer), t.slice)));
}

llvm::Error ImportScatterND(NodeContext& c) {
  ACT_TRY(const Tuples t, TuplesOf(c, c.DimsOf(0), 1, 0));
  if (c.DimsOf(2) != Joined(t.outer, t.slice))
    return c.Fail("updates " + ToString(c.Type(2)) + " do not fit the slices " +
                  ToString(Joined(t.outer, t.slice)) + " that are named");
  if (const auto places = KnownPlaces(c, std::nullopt)) return c.Return(ScatterBox(c, *places));
  ACT_TRY(const ValueId index, FlatIndexOf(c, 1, t));
  return Scatter(c, index, 1, t.Whole(), t.Part());
}

// Whether float32 has each of the known integers.
bool ValuesFitFloat(const Operand& values) {
  constexpr int64_t kExact = int64_t{1} << 24;
  return values.known &&
         std::all_of(values.known->elements.begin(), values.known->elements.end(), [](const Element& e) {
           return e.integer.IsFixed() && e.per_index == 0 && e.integer.fixed >= -kExact &&
                  e.integer.fixed <= kExact;
         });
}

// 1 (values[1]) where the position along a new axis is the index, else 0 (values[0]). Indices from
// -depth on count from the end; an index outside selects nothing.
llvm::Error ImportOneHot(NodeContext& c) {
  const auto real = c.Number(1).value_or(0);
  const std::vector<Element> depths = c.In(1).known ? c.In(1).known->elements : std::vector<Element>();
  const Dim depth = depths.size() != 1 ? Dim(0)
                    : IsFloat(c.Type(1).dtype)
                        ? Dim(real >= 1 && real <= kMaxKnownElements ? static_cast<int64_t>(real) : 0)
                        : depths[0].integer;
  if (SignsOf(depth).low < 1 || (depth.IsFixed() && depth.fixed > kMaxKnownElements))
    return c.Fail("the depth must be known when compiling, at most " + std::to_string(kMaxKnownElements));
  if (c.Type(2).Elements() != Dim(2)) return c.Fail("values are not [off, on]");
  const Dims& from = c.DimsOf(0);
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis", -1), from.size() + 1));
  ACT_TRY(ValueId given, c.Value(0));
  if (IsFloat(c.TypeOf(given).dtype)) {
    ACT_TRY(given, c.Cast(given, DType::kInt64));
  }
  Dims dims = from;
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), Dim(1));
  ACT_TRY(const ValueId index, c.Reshape(given, dims));
  Known front{{DType::kInt64, Dims(dims.size(), Dim(1))}, {}}, end = front;
  front.type.dims[axis] = end.type.dims[axis] = depth;
  ForEachStored(front.type.dims, *StoredDims(front.type.dims), [&](const Position& at, size_t) {
    front.elements.push_back(at[axis]);
    end.elements.push_back({at[axis].integer - depth, 0, at[axis].per_index});
  });
  ACT_TRY(const ValueId from_front, c.importer.Materialize(KnownOperand(std::move(front))));
  ACT_TRY(const ValueId from_end, c.importer.Materialize(KnownOperand(std::move(end))));
  ACT_TRY(const ValueId values, c.Value(2));
  const bool in_float = IsFloat(c.Type(2).dtype) || ValuesFitFloat(c.In(2));
  ValueId value[2];
  for (int64_t i = 0; i < 2; ++i) {
    ACT_TRY(const ValueId one, c.builder().Slice(values, {i}, {1}, {1}, c.name()));
    ACT_TRY(value[i], !in_float || c.TypeOf(one).dtype == DType::kFloat32 ? llvm::Expected<ValueId>(one)
                                                                          : c.Cast(one, DType::kFloat32));
  }
  ACT_TRY(const ValueId is_front, c.Emit("Equal", {index, from_front}));
  ACT_TRY(const ValueId is_end, c.Emit("Equal", {index, from_end}));
  if (!in_float) {
    ACT_TRY(const ValueId rest, Integer(c, "select", {is_end, value[1], value[0]}));
    return c.Return(Integer(c, "select", {is_front, value[1], rest}));
  }
  ACT_TRY(const ValueId rest, c.Emit("Where", {is_end, value[1], value[0]}));
  ACT_TRY(const ValueId hot, c.Emit("Where", {is_front, value[1], rest}));
  if (IsFloat(c.Type(2).dtype)) return c.Set(0, hot);
  return c.Return(c.Cast(hot, c.Type(2).dtype));
}

// NonZero: the places where the data is not zero, in order. Their number is known only at run time,
// so the result has room for all. Data that is computed in the same way selects the same places: exporters write a
// NonZero for each tensor that a mask indexes.
llvm::Error ImportNonZero(NodeContext& c) {
  if (c.Type(0).rank() == 0 || c.Type(0).Elements() == Dim(1))
    return c.Fail("needs more than one element of data, has " + ToString(c.Type(0)));
  ACT_TRY(const ValueId x, c.Value(0));
  ACT_TRY(const std::vector<ValueId> results, c.builder().Add("NonZero", {x}, {}, c.name(), 2));
  const auto first = [&c](ValueId v) { return c.importer.numbers.FirstLike(c.builder().graph(), v); };
  Operand found{.type = c.TypeOf(results[0]), .value = first(results[0])};
  found.selection = Selection{1, first(results[1])};
  return c.Set(0, std::move(found));
}

// Compress: the elements where a condition holds. A Gather where the condition is known.
llvm::Error ImportCompress(NodeContext& c) {
  const auto flags = c.In(1).known ? AsIntegers(*c.In(1).known) : std::nullopt;
  if (!flags)
    return c.Fail("the condition depends on data, and so would the result's shape",
                  "make the condition a constant");
  ACT_TRY(ValueId x, c.Value(0));
  size_t axis = 0;
  if (c.attrs.Has("axis")) {
    ACT_TRY(axis, c.Axis(c.attrs.Int("axis"), c.DimsOf(0).size()));
  } else {
    ACT_TRY(x, c.Reshape(x, {c.Type(0).Elements()}));
  }
  TensorType type = c.TypeOf(x);
  Known index{{DType::kInt64, Dims(type.dims.size(), Dim(1))}, {}};
  for (size_t i = 0; i < flags->size(); ++i)
    if ((*flags)[i] != 0) index.elements.push_back({Dim(static_cast<int64_t>(i)), 0});
  type.dims[axis] = index.type.dims[axis] = static_cast<int64_t>(index.elements.size());
  if (!c.TypeOf(x).dims[axis].IsFixed() || static_cast<int64_t>(flags->size()) > c.TypeOf(x).dims[axis].fixed)
    return c.Fail("the condition is longer than the axis, or the axis varies with the batch size");
  ACT_TRY(const ValueId positions, c.importer.Materialize(KnownOperand(std::move(index))));
  return c.Return(c.builder().AddTyped("Gather", {x, positions}, type, Along(axis), c.name()));
}

}  // namespace

const std::vector<ImportEntry>& GatherImports() {
  static const std::vector<ImportEntry> entries = {
      {"Gather", 2, 2, ImportGather},           {"GatherElements", 2, 2, ImportGatherElements},
      {"GatherND", 2, 2, ImportGatherND},       {"ScatterElements", 3, 3, ImportScatterElements},
      {"Scatter", 3, 3, ImportScatterElements},  // its name before opset 11
      {"ScatterND", 3, 3, ImportScatterND},     {"OneHot", 3, 3, ImportOneHot},
      {"Compress", 2, 2, ImportCompress},       {"NonZero", 1, 1, ImportNonZero},
  };
  return entries;
}

}  // namespace act::onnx_import
