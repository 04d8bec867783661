#include "compiler/import/core/importer.h"

#include "compiler/import/fold/fold_shapes.h"
#include "compiler/import/known/onnx_types.h"

namespace act::onnx_import {
namespace {

// The most elements that all known tensors of an import may have together: 32 times what swin_t
// needs.
constexpr int64_t kMaxKnownTotal = int64_t{1} << 23;

// All that the node reads follows from constants and the batch size. Graphs inside it read more than its
// inputs: what their own nodes make says itself what it follows from.
bool FollowsFromBatch(const NodeContext& c) {
  for (const auto& attribute : c.node.attribute())
    if (attribute.has_g()) return false;
  for (size_t i = 0; i < c.inputs(); ++i)
    if (c.Has(i) && !c.In(i).known && !c.In(i).of_batch) return false;
  return c.inputs() > 0;
}

// The inputs of a node are as many as the operator takes: at least `fewest`, at most `most` (-1: any number), and
// none of the first `fewest` is left out. Where an operator takes any number of them, none at all may be left out.
// Entries that take even no input refuse the node whatever it reads, and say why themselves.
llvm::Error CheckInputCount(const NodeContext& c, int fewest, int most) {
  const int count = c.node.input_size();
  if (count < fewest || (most >= 0 && count > most))
    return c.Fail("has " + std::to_string(count) + " inputs");
  const int needed = most < 0 && fewest > 0 ? count : fewest;
  for (int i = 0; i < needed; ++i)
    if (c.node.input(i).empty()) return c.Fail("input " + std::to_string(i) + " is left out");
  return llvm::Error::success();
}

}  // namespace

const Operand* Importer::Find(const std::string& name) const {
  const auto it = operands_.find(name);
  return it == operands_.end() ? nullptr : &it->second;
}

llvm::Error Importer::Define(const std::string& name, Operand operand) {
  // A plan's file would cut it there.
  if (name.find('\0') != std::string::npos)
    return MakeError("value '" + std::string(name.c_str()) + "'", "its name goes on after a zero byte");
  operand.counted = operand.known && operand.known->IsCounted();
  if (operand.known) {
    const auto count = static_cast<int64_t>(operand.known->elements.size());
    if (known_elements_ + count > kMaxKnownTotal)
      return MakeError("value '" + name + "'", "the constants of the model are too large to fold");
    known_elements_ += count;
  }
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

void Importer::Erase(const std::string& name) {
  Forget(name);
  operands_.erase(name);
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
  const FoldEntry* const fold = IsStandardDomain(node.domain()) ? FindFold(node.op_type()) : nullptr;
  bool all_known = fold != nullptr;
  std::vector<Known> types;
  types.reserve(context.inputs());
  for (size_t i = 0; i < context.inputs() && all_known; ++i) {
    const bool has = context.Has(i), known = has && context.In(i).known;
    if (has && !known && i >= fold->types_from) types.push_back({context.Type(i), {}});
    args.in.push_back(known ? &*context.In(i).known : has && i >= fold->types_from ? &types.back() : nullptr);
    all_known = !has || args.in.back();
  }
  if (all_known) {
    ACT_CHECK_OK(CheckInputCount(context, fold->min_inputs, fold->max_inputs));
    if (Folded results = fold->fold(args)) {
      for (size_t i = 0; i < results->size() && i < context.outputs(); ++i)
        ACT_CHECK_OK(context.Set(i, KnownOperand(std::move((*results)[i]))));
      return llvm::Error::success();
    }
  }
  ACT_CHECK_OK(ImportUnfolded(context));
  if (FollowsFromBatch(context))
    for (const std::string& name : node.output())
      if (Operand* made = Defined(name)) made->of_batch = !made->known;
  return llvm::Error::success();
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
  ACT_CHECK_OK(CheckInputCount(context, entry->min_inputs, entry->max_inputs));
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
      &ElementwiseImports(), &LogicImports(),          &ConstantImports(),  &StructureImports(),
      &PadImports(),         &SliceImports(),          &GatherImports(),    &ControlImports(),
      &SequenceImports(),    &TensorSequenceImports(), &EinsumImports(),    &MatMulImports(),
      &FourierImports(),     &AttentionImports(),      &RotaryImports(),    &SpatialImports(),
      &ResizeImports(),      &ImageImports(),          &GridImports(),      &DeformConvImports(),
      &RecurrentImports(),   &NormalizationImports(),  &ReductionImports(), &RandomImports(),
      &LossImports(),        &MicrosoftImports(),      &GradientImports(),  &OptimizerImports(),
      &IntegerImports()};
  return families;
}

const ImportEntry* FindImport(const onnx::NodeProto& node) {
  const std::string domain = IsStandardDomain(node.domain()) ? "" : node.domain();
  for (const auto* family : AllImports())
    for (const ImportEntry& entry : *family)
      if (node.op_type() == entry.op && domain == entry.domain) return &entry;
  return nullptr;
}

bool IsSupported(const onnx::NodeProto& node) {
  return FindImport(node) || (IsStandardDomain(node.domain()) && FindFold(node.op_type()));
}

}  // namespace act::onnx_import
