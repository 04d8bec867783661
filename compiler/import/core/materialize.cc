// Known tensors as values of the graph: constants, and nodes that compute what varies with the batch
// size.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "compiler/import/core/importer.h"

namespace act::onnx_import {
namespace {

// Elements of a known tensor as the bytes of its type.
HostTensor Bytes(const Known& known, const std::vector<Element>& elements) {
  const auto size = static_cast<size_t>(ByteSize(known.type.dtype));
  std::vector<std::byte> bytes(elements.size() * size);
  for (size_t i = 0; i < elements.size(); ++i) {
    std::byte* to = bytes.data() + i * size;
    if (IsFloat(known.type.dtype)) {
      const auto value = static_cast<float>(elements[i].real);
      std::memcpy(to, &value, sizeof value);
    } else {
      const int64_t value = elements[i].integer.fixed;  // little-endian: the low bytes come first
      std::memcpy(to, &value, size);
    }
  }
  return HostTensor::Copy(bytes.data(), static_cast<int64_t>(bytes.size()));
}

// The numbers of which an element is made: fixed + per_batch N + per_batch2 N^2 + per_index i.
using Coefficient = int64_t (*)(const Element&);
constexpr Coefficient kCoefficients[] = {
    [](const Element& e) { return e.integer.fixed; },
    [](const Element& e) { return e.integer.per_batch; },
    [](const Element& e) { return e.integer.per_batch2; },
    [](const Element& e) { return e.per_index; },
};
constexpr size_t kPerIndex = 3;

}  // namespace

// Coefficients that all elements share need no memory: one Range has them all. Each of the others is
// a constant, which N (or the position) multiplies.
llvm::Expected<ValueId> Importer::ComputedFromBatch(const Known& known) {
  const bool one_of_many = known.IsSplat() && known.type.Elements() != Dim(1);
  const auto varying = one_of_many ? std::nullopt : VaryingAxis(known.type.dims);
  Dims stored;
  if (!one_of_many) {
    const auto dims = *StoredDims(known.type.dims);
    stored.assign(dims.begin(), dims.end());
  }
  const auto range = [&](const std::vector<int64_t>& coefficients) -> llvm::Expected<ValueId> {
    Attributes attrs;
    attrs.Set("start", std::vector<int64_t>(coefficients.begin(), coefficients.begin() + kPerIndex));
    attrs.Set("step", coefficients[kPerIndex]);
    Dims dims(stored.size(), Dim(1));
    if (coefficients[kPerIndex] != 0) dims[*varying] = known.type.dims[*varying];
    const TensorType vector{DType::kInt64, {TensorType{DType::kInt64, dims}.Elements()}};
    ACT_TRY(const ValueId made, builder_.AddTyped("Range", {}, vector, attrs));
    return builder_.Reshape(made, dims);
  };
  const auto integer = [&](const char* op, std::vector<ValueId> x) {
    Attributes attrs;
    attrs.Set("op", std::string(op));
    if (x.size() == 1) attrs.Set("to", static_cast<int64_t>(known.type.dtype));
    return builder_.Add1("Integer", std::move(x), attrs);
  };
  std::vector<int64_t> shared(std::size(kCoefficients), 0);
  std::vector<ValueId> terms;
  for (size_t k = 0; k < shared.size(); ++k) {
    Known numbers{{DType::kInt64, stored}, {}};
    for (const Element& e : known.elements) numbers.elements.push_back({Dim(kCoefficients[k](e))});
    const Element& first = numbers.elements[0];
    if (std::all_of(numbers.elements.begin(), numbers.elements.end(),
                    [&first](const Element& e) { return e == first; })) {
      shared[k] = first.integer.fixed;
      continue;
    }
    ACT_TRY(ValueId term, ConstantOf(numbers));
    if (k > 0) {
      std::vector<int64_t> one(shared.size(), 0);
      one[k] = 1;
      ACT_TRY(const ValueId factor, range(one));
      ACT_TRY(term, integer("mul", {term, factor}));
    }
    terms.push_back(term);
  }
  if (std::any_of(shared.begin(), shared.end(), [](int64_t c) { return c != 0; })) {
    ACT_TRY(const ValueId term, range(shared));
    terms.push_back(term);
  }
  ValueId sum = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    ACT_TRY(sum, integer("add", {sum, terms[i]}));
  }
  return known.type.dtype == DType::kInt64 ? llvm::Expected<ValueId>(sum) : integer("cast", {sum});
}

llvm::Expected<ValueId> Importer::ConstantOf(const Known& known) {
  TensorType type = known.type;
  if (IsFloat(type.dtype)) type.dtype = DType::kFloat32;
  type.dims.clear();
  if (!known.IsSplat()) {
    const auto stored = StoredDims(known.type.dims);
    type.dims.assign(stored->begin(), stored->end());
  }
  if (known.IsSplat() && type.dtype == DType::kFloat32)
    return builder_.Scalar(static_cast<float>(known.elements[0].real));
  return SharedConstant(type, Bytes({type, {}}, known.elements));
}

ValueId Importer::SharedConstant(const TensorType& type, HostTensor data) {
  const std::string_view bytes(reinterpret_cast<const char*>(data.data), static_cast<size_t>(data.bytes));
  const size_t hash = std::hash<std::string_view>()(bytes);
  const auto [first, last] = constants_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Value& value = builder_.graph().value(it->second);
    if (value.type == type && std::memcmp(value.data.data, bytes.data(), bytes.size()) == 0)
      return it->second;
  }
  const ValueId constant = builder_.Constant("", type, std::move(data));
  constants_.emplace(hash, constant);
  return constant;
}

llvm::Expected<ValueId> Importer::Drawn(RandomDraw& draw, double shift) {
  if (draw.value == kNoValue) {
    Attributes attrs;
    attrs.Set("distribution", "uniform");
    attrs.Set("offset", draw.low);
    attrs.Set("scale", draw.high - draw.low);
    ACT_TRY(draw.value, builder_.AddTyped("Random", {}, draw.type, attrs));
  }
  if (shift == 0) return draw.value;
  return builder_.Add1("Add", {draw.value, builder_.Scalar(static_cast<float>(shift))});
}

// How many places of a selection exist, where one element is that number.
llvm::Expected<ValueId> Importer::CountOf(const Known& known) {
  const ValueId live = known.elements[0].live;
  if (known.type.Elements() != Dim(1) || known.type.dtype != DType::kInt64 || live == kNoValue ||
      builder_.type(live).Elements() != known.elements[0].integer)
    return MakeError("", "a length that depends on data is used as data");
  Attributes cast, sum;
  cast.Set("op", std::string("cast"));
  cast.Set("to", static_cast<int64_t>(DType::kInt64));
  ACT_TRY(const ValueId flags, builder_.Add1("Integer", {live}, cast));
  sum.Set("op", std::string("add"));
  sum.Set("axes", std::vector<int64_t>{0});
  sum.Set("keepdims", int64_t{0});
  ACT_TRY(const ValueId count, builder_.Add1("IntegerReduce", {flags}, sum));
  return builder_.Reshape(count, known.type.dims);
}

llvm::Expected<ValueId> Importer::Materialize(const Operand& operand) {
  ACT_TRY(const ValueId value, MaterializeToBroadcast(operand));
  return operand.value == kNoValue ? builder_.Expand(value, operand.type.dims) : value;
}

llvm::Expected<ValueId> Importer::MaterializeToBroadcast(const Operand& operand) {
  if (operand.value != kNoValue) return operand.value;
  if (operand.random) return Drawn(*operand.random, operand.random_shift);
  if (operand.kept != kNoValue)
    return MakeError("", "only the gradient of the operator that makes this tensor may read it");
  if (!operand.known) return MakeError("", "a sequence of tensors is used as a tensor");
  const Known& known = *operand.known;
  if (known.IsCounted()) return CountOf(known);
  const bool varies = std::any_of(known.elements.begin(), known.elements.end(),
                                  [](const Element& e) { return !e.integer.IsFixed() || e.per_index != 0; });
  return varies ? ComputedFromBatch(known) : ConstantOf(known);
}

}  // namespace act::onnx_import
