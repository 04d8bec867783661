#include "compiler/import/core/define_inputs.h"

#include <algorithm>
#include <string>

#include "compiler/import/core/needed_nodes.h"
#include "compiler/import/core/symbols.h"
#include "runtime/base/error.h"
#include "runtime/plan/fixed_batch.h"

namespace act::onnx_import {
namespace {

llvm::Error CheckBatch(const ImportOptions& options, const Graph& graph, int64_t fixed) {
  if (!options.batch || AcceptsFixedBatch(graph, fixed, *options.batch)) return llvm::Error::success();
  return MakeError("--batch=" + std::to_string(*options.batch),
                   "the model's batch size is fixed at " + std::to_string(fixed),
                   options.dims.empty()
                       ? "export the model with a symbolic first axis"
                       : "leave the first axis out of --dim, or export the model with a symbolic one");
}

}  // namespace

llvm::Expected<std::optional<int64_t>> DefineInputs(Importer& importer,
                                                    const std::vector<const onnx::ValueInfoProto*>& inputs,
                                                    const ImportOptions& options) {
  const auto batch = BatchSymbol(inputs, options.dims);
  for (const auto* input : inputs) {
    if (input->name().empty()) return MakeError("", "an input of the model has no name");
    const auto& dims = input->type().tensor_type().shape().dim();
    ACT_TRY(const TensorType type, InputType(*input, batch, options.dims));
    for (int i = 0; i < dims.size(); ++i)
      if (!dims[i].dim_param().empty())
        importer.symbols[dims[i].dim_param()] = type.dims[static_cast<size_t>(i)];
    const ValueId value = importer.builder().Input(input->name(), type, ValueKind::kInput);
    ACT_CHECK_OK(importer.Define(input->name(), Operand{.type = type, .value = value}));
  }
  for (const auto& [name, extent] : options.dims) {
    if (!importer.symbols.count(name)) {
      std::vector<std::string> symbols;
      for (const auto& [symbol, size] : importer.symbols) symbols.push_back(symbol);
      return MakeError(
          "--dim=" + name, "no axis of an input has this name",
          symbols.empty() ? "the model has no symbolic axes" : "the symbolic axes are: " + Join(symbols));
    }
    if (extent.At(1) < 1) return MakeError("--dim=" + name, "the extent must be positive");
  }
  const bool given = std::any_of(options.dims.begin(), options.dims.end(),
                                 [](const auto& dim) { return !dim.second.IsFixed(); });
  if (batch || given) return std::nullopt;
  int64_t fixed = 1;
  if (!inputs.empty() && importer.Find(inputs[0]->name())->type.rank() > 0)
    fixed = std::max<int64_t>(1, importer.Find(inputs[0]->name())->type.dims[0].fixed);
  ACT_CHECK_OK(CheckBatch(options, importer.builder().graph(), fixed));
  return fixed;
}

}  // namespace act::onnx_import
