#include "compiler/ops/op_table.h"

#include <algorithm>
#include <unordered_map>

#include "runtime/base/error.h"

namespace act {

llvm::Error InferContext::Fail(const std::string& what) const { return MakeError("", what); }

llvm::Error InferContext::CheckFloats() const {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (Has(i) && in(i).dtype != DType::kFloat32)
      return Fail("computes in f32, operand " + std::to_string(i) + " is " + ToString(in(i)));
  return llvm::Error::success();
}

bool OpDef::Reads(size_t i, Need need) const {
  if (needs.empty()) return false;
  const auto all = static_cast<uint8_t>(needs[std::min(i, needs.size() - 1)]);
  return (all & static_cast<uint8_t>(need)) != 0;
}

bool IsLinearProduct(const OpDef& op) {
  return op.product == Product::kConvolution || op.product == Product::kTransposedConvolution ||
         op.product == Product::kMatrix;
}

OnnxTwin SameInOnnx(const Node&) { return OnnxTwin::kSame; }

bool IsSignMask(const OpDef& op) { return op.boolean && op.Reads(0, Need::kSign); }

const std::vector<OpDef>& AllOps() {
  static const std::vector<OpDef> ops = [] {
    std::vector<OpDef> all;
    AddElementwiseOps(all);
    AddStructureOps(all);
    AddGatherOps(all);
    AddSequenceOps(all);
    AddIntegerOps(all);
    AddReductionOps(all);
    AddSpatialOps(all);
    AddMatMulOps(all);
    AddDeterminantOps(all);
    AddAttentionOps(all);
    AddSoftmaxOps(all);
    AddRecurrentOps(all);
    AddNormalizationOps(all);
    AddLossOps(all);
    AddUpdateOps(all);
    AddCodecOps(all);
    for (OpDef& op : all)
      if (const RuntimeOp* in_plans = FindRuntimeOp(op.name)) op.operands = in_plans->operands;
    return all;
  }();
  return ops;
}

const OpDef* FindOp(const std::string& name) {
  static const std::unordered_map<std::string, const OpDef*> index = [] {
    std::unordered_map<std::string, const OpDef*> map;
    for (const OpDef& op : AllOps()) map.emplace(op.name, &op);
    return map;
  }();
  const auto it = index.find(name);
  return it == index.end() ? nullptr : it->second;
}

const OpDef& OpOf(const Node& node) { return *FindOp(node.op); }

Cost CostOf(const Node& node, const Graph& graph) {
  Cost cost;
  for (ValueId id : node.inputs)
    if (id != kNoValue) cost.bytes = cost.bytes + graph.value(id).type.Bytes();
  for (ValueId id : node.outputs) cost.bytes = cost.bytes + graph.value(id).type.Bytes();
  const OpDef* def = FindOp(node.op);
  if (def && def->flops) {
    cost.flops = def->flops(node, graph);
  } else if (!node.outputs.empty()) {
    cost.flops = graph.value(node.outputs[0]).type.Elements();
  }
  return cost;
}

std::optional<Dims> Broadcast(const Dims& a, const Dims& b) {
  Dims result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {  // axes are counted from the last
    const Dim x = i < a.size() ? a[a.size() - 1 - i] : Dim(1);
    const Dim y = i < b.size() ? b[b.size() - 1 - i] : Dim(1);
    if (x != y && x != Dim(1) && y != Dim(1)) return std::nullopt;
    result[result.size() - 1 - i] = x == Dim(1) ? y : x;
  }
  return result;
}

std::vector<int64_t> BroadcastAxes(const Dims& from, const Dims& to) {
  std::vector<int64_t> axes;
  const size_t extra = to.size() - std::min(from.size(), to.size());
  for (size_t i = 0; i < to.size(); ++i)
    if (i < extra || (from[i - extra] == Dim(1) && to[i] != Dim(1))) axes.push_back(static_cast<int64_t>(i));
  return axes;
}

}  // namespace act
