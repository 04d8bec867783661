#include "compiler/ops/equal_parts.h"

#include <algorithm>

#include "compiler/ops/op_table.h"
#include "runtime/base/error.h"

namespace act {

std::optional<Dims> InEqualParts(const Dims& dims) {
  const auto grows = [](const Dim& dim) { return !dim.IsFixed(); };
  if (dims.empty() || grows(dims[0]) || std::count_if(dims.begin(), dims.end(), grows) != 1)
    return std::nullopt;
  Dims parts = dims;
  const auto axis = std::find_if(parts.begin(), parts.end(), grows);
  if (axis->fixed != 0 || axis->per_batch < 1 || axis->per_batch2 != 0) return std::nullopt;
  std::rotate(parts.begin(), axis, std::next(axis));
  return parts;
}

bool HasSamples(const TensorType& type) { return HasBatchAxis(type) || InEqualParts(type.dims); }

bool MakesEqualParts(const Graph& graph, const Node& node) {
  return OpOf(node).movement == Movement::kReshape &&
         InEqualParts(graph.value(node.inputs[0]).type.dims) == graph.value(node.outputs[0]).type.dims;
}

llvm::Expected<ValueId> AddCompress(GraphBuilder& builder, ValueId v, const Attributes& attrs,
                                    const std::string& name) {
  if (const std::optional<Dims> parts = InEqualParts(builder.type(v).dims)) {
    ACT_TRY(v, builder.Reshape(v, *parts, name));
  }
  return builder.Add1("Compress", {v}, attrs, name);
}

llvm::Expected<ValueId> AddDecompress(GraphBuilder& builder, ValueId code, const TensorType& type,
                                      const Attributes& attrs, const std::string& name) {
  const std::optional<Dims> parts = InEqualParts(type.dims);
  if (!parts) return builder.AddTyped("Decompress", {code}, type, attrs, name);
  ACT_TRY(const ValueId made, builder.AddTyped("Decompress", {code}, {type.dtype, *parts}, attrs, name));
  return builder.Reshape(made, type.dims, name);
}

}  // namespace act
