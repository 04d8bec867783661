#include "compiler/import/core/importer.h"

#include <cstring>
#include <string_view>

#include "compiler/import/fold/fold_shapes.h"
#include "compiler/import/known/onnx_types.h"

namespace act::onnx_import {
namespace {

// The most elements that all known tensors of an import may have together: 32 times what swin_t
// needs.
constexpr int64_t kMaxKnownTotal = int64_t{1} << 23;

bool IsStandard(const onnx::NodeProto& node) { return node.domain().empty() || node.domain() == "ai.onnx"; }

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

}  // namespace

const Operand* Importer::Find(const std::string& name) const {
  const auto it = operands_.find(name);
  return it == operands_.end() ? nullptr : &it->second;
}

llvm::Error Importer::Define(const std::string& name, Operand operand) {
  operand.counted = operand.known && operand.known->IsCounted();
  if (operand.known) known_elements_ += static_cast<int64_t>(operand.known->elements.size());
  if (known_elements_ > kMaxKnownTotal)
    return MakeError("value '" + name + "'", "the constants of the model are too large to fold");
  if (operand.value != kNoValue) {
    Value& value = builder_.graph().value(operand.value);
    if (value.kind == ValueKind::kActivation && value.name.empty()) value.name = name;
  }
  if (!operands_.emplace(name, std::move(operand)).second)
    return MakeError("value '" + name + "'", "is made twice; every name may have one producer");
  return llvm::Error::success();
}

void Importer::Forget(const std::string& name) {
  const auto it = operands_.find(name);
  if (it == operands_.end() || !it->second.known) return;
  known_elements_ -= static_cast<int64_t>(it->second.known->elements.size());
  it->second.known.reset();
}

llvm::Expected<ValueId> Importer::ConstantOf(const Known& known) {
  if (known.IsCounted()) return MakeError("", "a length that depends on data is used as data");
  for (const Element& e : known.elements)
    if (!e.integer.IsFixed() || e.per_index != 0)
      return MakeError("", "a tensor computed from the batch size is used as data");
  TensorType type = known.type;
  if (IsFloat(type.dtype)) type.dtype = DType::kFloat32;
  type.dims.clear();
  if (!known.IsSplat()) {
    const auto stored = StoredDims(known.type.dims);
    type.dims.assign(stored->begin(), stored->end());
  }
  if (known.IsSplat() && type.dtype == DType::kFloat32)
    return builder_.Scalar(static_cast<float>(known.elements[0].real));
  HostTensor data = Bytes({type, {}}, known.elements);
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

llvm::Expected<ValueId> Importer::Materialize(const Operand& operand) {
  ACT_TRY(const ValueId value, MaterializeToBroadcast(operand));
  return operand.value == kNoValue ? builder_.Expand(value, operand.known->type.dims) : value;
}

llvm::Expected<ValueId> Importer::MaterializeToBroadcast(const Operand& operand) {
  if (operand.value != kNoValue) return operand.value;
  if (operand.uniform) return MakeError("", "random numbers may only be compared with a constant (dropout)");
  if (operand.kept != kNoValue)
    return MakeError("", "only the gradient of the operator that makes this tensor may read it");
  if (!operand.problem.empty()) return MakeError("", operand.problem);
  if (!operand.known) return MakeError("", "a sequence of tensors is used as a tensor");
  return ConstantOf(*operand.known);
}

llvm::Error Importer::ImportNode(const onnx::NodeProto& node) {
  NodeContext context(*this, node);
  llvm::Error error = ReadsSelection(context) ? ImportSelected(context, [&] { return FoldOrImport(context); })
                                              : FoldOrImport(context);
  // This error goes first: another one may follow from the fallback that stood for the attribute.
  if (llvm::Error wrong_type = context.attrs.Check()) {
    llvm::consumeError(std::move(error));
    return wrong_type;
  }
  return error;
}

llvm::Error Importer::FoldOrImport(NodeContext& context) {
  const onnx::NodeProto& node = context.node;
  FoldArgs args{{}, context.attrs, context.outputs()};
  bool all_known = IsStandard(node);
  for (size_t i = 0; i < context.inputs(); ++i) {
    const bool has = context.Has(i);
    args.in.push_back(has && context.In(i).known ? &*context.In(i).known : nullptr);
    all_known = all_known && (!has || args.in.back());
  }
  const FoldFn fold = all_known ? FindFold(node.op_type()) : nullptr;
  if (fold) {
    if (Folded results = fold(args)) {
      for (size_t i = 0; i < results->size() && i < context.outputs(); ++i)
        ACT_CHECK_OK(context.Set(i, KnownOperand(std::move((*results)[i]))));
      return llvm::Error::success();
    }
  }
  llvm::Error error = ImportUnfolded(context);
  const auto type = fold && error ? ElementwiseType(node.op_type(), args) : std::nullopt;
  if (!type) return error;
  // Exporters compute whole tensors, such as the larger of two positions, only to read their shape.
  Operand operand;
  operand.type = *type;
  operand.problem = llvm::toString(std::move(error));
  return context.Set(0, std::move(operand));
}

llvm::Error Importer::ImportUnfolded(NodeContext& context) {
  const onnx::NodeProto& node = context.node;
  const ImportEntry* entry = FindIntegerImport(context);
  if (!entry) entry = FindImport(node);
  if (!entry) {
    return context.Fail(
        "works on data here, or depends on the batch size in another way than as a polynomial",
        "it is supported only where it can be computed when compiling, on shapes and constants");
  }
  const int count = node.input_size();
  if (count < entry->min_inputs || (entry->max_inputs >= 0 && count > entry->max_inputs))
    return context.Fail("has " + std::to_string(count) + " inputs");
  for (int i = 0; i < entry->min_inputs; ++i)
    if (node.input(i).empty()) return context.Fail("input " + std::to_string(i) + " is left out");
  if (node.output_size() == 0) return context.Fail("has no output");
  if (llvm::Error error = entry->import(context)) {
    // Errors of the graph builder name our operator, and those of Materialize have no place at all.
    return llvm::handleErrors(std::move(error), [&](const ActError& e) {
      return e.place().rfind(PlaceOf(node), 0) == 0 ? MakeError(e.place(), e.what(), e.hint())
                                                    : MakeError(PlaceOf(node), e.what(), e.hint());
    });
  }
  return llvm::Error::success();
}

const std::vector<const std::vector<ImportEntry>*>& AllImports() {
  static const std::vector<const std::vector<ImportEntry>*> families = {
      &ElementwiseImports(), &ConstantImports(),      &StructureImports(), &GatherImports(),
      &ControlImports(),     &SequenceImports(),      &EinsumImports(),    &MatMulImports(),
      &AttentionImports(),   &SpatialImports(),       &ResizeImports(),    &ImageImports(),
      &RecurrentImports(),   &NormalizationImports(), &ReductionImports(), &RandomImports(),
      &LossImports(),        &MicrosoftImports(),     &GradientImports(),  &OptimizerImports(),
      &IntegerImports()};
  return families;
}

const ImportEntry* FindImport(const onnx::NodeProto& node) {
  const std::string domain = IsStandard(node) ? "" : node.domain();
  for (const auto* family : AllImports())
    for (const ImportEntry& entry : *family)
      if (node.op_type() == entry.op && domain == entry.domain) return &entry;
  return nullptr;
}

bool IsSupported(const onnx::NodeProto& node) {
  return FindImport(node) || (IsStandard(node) && FindFold(node.op_type()));
}

}  // namespace act::onnx_import
