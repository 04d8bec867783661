#include "compiler/ir/verify.h"

#include <algorithm>
#include <numeric>

#include "compiler/ops/op_table.h"
#include "runtime/base/error.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

TensorType Widened(TensorType type) {
  if (type.dtype == DType::kBFloat16) type.dtype = DType::kFloat32;
  return type;
}

class Verifier {
 public:
  Verifier(const Graph& graph, Stage stage) : graph_(graph), stage_(stage) {}

  llvm::Error Run() {
    const size_t n = graph_.values.size();
    made_.assign(n, false);
    root_.resize(n);
    std::iota(root_.begin(), root_.end(), 0);
    mutated_.assign(n, false);
    backward_.assign(n, false);
    for (size_t v = 0; v < n; ++v) made_[v] = graph_.values[v].kind != ValueKind::kActivation;
    for (const Node& node : graph_.nodes)
      if (llvm::Error error = CheckNode(node))
        return WithPlace(std::move(error), "node '" + node.name + "' (" + node.op + ")");
    for (ValueId v : graph_.inputs)
      if (!InRange(v) || graph_.value(v).kind != ValueKind::kInput)
        return MakeError("", "graph input %" + std::to_string(v) + " is no input");
    for (ValueId v : graph_.outputs)
      if (!InRange(v) || !made_[static_cast<size_t>(v)])
        return MakeError("", "graph output %" + std::to_string(v) + " is not made");
    return llvm::Error::success();
  }

 private:
  size_t Root(ValueId v) const { return static_cast<size_t>(root_[static_cast<size_t>(v)]); }
  bool InRange(ValueId v) const { return v >= 0 && static_cast<size_t>(v) < graph_.values.size(); }

  // Checks the number of operands, on which infer rules rely.
  static llvm::Error CheckArity(const Node& node, const OpDef& def) {
    const auto count = static_cast<int>(node.inputs.size());
    if (!def.operands.Allows(count))
      return MakeError("", "has " + std::to_string(count) + " inputs, takes " + ToString(def.operands));
    for (int i = 0; i < def.operands.least; ++i)
      if (node.inputs[static_cast<size_t>(i)] == kNoValue)
        return MakeError("", "input " + std::to_string(i) + " is missing");
    if (node.outputs.empty() && node.mutates.empty())
      return MakeError("", "has no result and changes nothing");
    return llvm::Error::success();
  }

  llvm::Error CheckNode(const Node& node) {
    const OpDef* def = FindOp(node.op);
    if (!def) return MakeError("", "unknown operator");
    ACT_CHECK_OK(CheckArity(node, *def));
    if (stage_ == Stage::kFused) {
      if (!FindRuntimeOp(node.op)) return MakeError("", "is not an operator that a plan may run");
      if (const auto wrong = WrongCounts(node)) return MakeError("", *wrong);
    }
    const bool forward = node.phase == Phase::kForward;
    std::vector<TensorType> types;
    InferContext context{node, {}, types};
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId v = node.inputs[k];
      context.inputs.push_back(InRange(v) ? &OperandType(graph_, node, k) : nullptr);
      if (v == kNoValue) continue;
      const std::string value = "%" + std::to_string(v);
      if (!InRange(v)) return MakeError("", value + " does not exist");
      const auto i = static_cast<size_t>(v);
      if (!made_[i]) return MakeError("", "reads " + value + " before it is made");
      // A sum of gradients is read once it is complete. Running statistics go on from one normalization to the next if
      // both are of one layer. Any other value would be read too late.
      const ValueKind kind = graph_.value(v).kind;
      const bool goes_on = kind == ValueKind::kBuffer &&
                           std::count(node.mutates.begin(), node.mutates.end(), static_cast<int32_t>(k)) > 0;
      if (mutated_[Root(v)] && kind != ValueKind::kGradientSum && !goes_on)
        return MakeError("", "reads '" + graph_.value(v).name + "' after it was updated");
      if (forward && backward_[i])
        return MakeError("", "is a forward node and reads " + value + " of the backward pass");
    }
    for (int32_t m : node.mutates) {
      if (m < 0 || static_cast<size_t>(m) >= node.inputs.size() ||
          !IsPersistent(graph_.value(node.inputs[static_cast<size_t>(m)]).kind))
        return MakeError("", "writes an input that is not a parameter, buffer or optimizer state");
      mutated_[Root(node.inputs[static_cast<size_t>(m)])] = true;
    }
    for (ValueId v : node.outputs) {
      if (!InRange(v)) return MakeError("", "makes %" + std::to_string(v) + ", which does not exist");
      if (made_[static_cast<size_t>(v)])
        return MakeError("", "makes %" + std::to_string(v) + " a second time");
      made_[static_cast<size_t>(v)] = true;
      if (IsAlias(node)) root_[static_cast<size_t>(v)] = static_cast<ValueId>(Root(node.inputs[0]));
      backward_[static_cast<size_t>(v)] = node.phase == Phase::kBackward || node.phase == Phase::kUpdate;
      types.push_back(graph_.value(v).type);
    }
    if (stage_ == Stage::kFused) {
      if (const auto wrong = WrongBFloat16(graph_, node)) return MakeError("", *wrong);
    }
    if (RunsProgram(node)) {
      if (const auto wrong = CheckProgram(node.program)) return MakeError("", *wrong);
      if (node.program.outputs.size() != node.outputs.size() + node.mutates.size())
        return MakeError("", "its program has another number of outputs");
      return llvm::Error::success();
    }
    // The rows of RuntimeOps say where a plan has bfloat16. The rules of the op table know f32 alone.
    std::vector<TensorType> operands(node.inputs.size());
    if (stage_ == Stage::kFused) {
      for (size_t i = 0; i < operands.size(); ++i)
        if (context.inputs[i]) context.inputs[i] = &(operands[i] = Widened(*context.inputs[i]));
      for (TensorType& type : types) type = Widened(type);
    }
    const std::vector<TensorType> declared = types;
    ACT_CHECK_OK(def->infer(context));
    for (size_t i = 0; i < types.size(); ++i)
      if (types[i] != declared[i])
        return MakeError("", "result " + std::to_string(i) + " is " + ToString(declared[i]) + ", should be " +
                                 ToString(types[i]));
    return llvm::Error::success();
  }

  const Graph& graph_;
  const Stage stage_;
  std::vector<bool> made_, mutated_, backward_;
  std::vector<ValueId> root_;  // the value whose memory a value uses
};

}  // namespace

llvm::Error Verify(const Graph& graph, Stage stage) { return Verifier(graph, stage).Run(); }

}  // namespace act
