#include "passes/planning/assign_storage.h"

#include <algorithm>
#include <span>

#include "compiler/ir/uses.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "runtime/base/dtype_kind.h"
#include "runtime/plan/operand_writes.h"
#include "runtime/plan/runtime_op.h"
#include "runtime/plan/sample_loops.h"
#include "runtime/plan/workspace.h"

namespace act {
namespace {

// Renumbers values so that only those remain that a node or the graph's interface names.
void DropUnusedValues(Graph& graph, Marks& marks) {
  ValueMap<bool> used(graph);
  const auto use = [&used](ValueId v) {
    if (v != kNoValue) used[v] = true;
  };
  for (const Node& node : graph.nodes) {
    std::for_each(node.inputs.begin(), node.inputs.end(), use);
    std::for_each(node.outputs.begin(), node.outputs.end(), use);
  }
  std::for_each(graph.inputs.begin(), graph.inputs.end(), use);
  std::for_each(graph.outputs.begin(), graph.outputs.end(), use);
  ValueMap<ValueId> number(graph, kNoValue);
  std::vector<Value> values;
  for (ValueId v = 0; v < static_cast<ValueId>(graph.values.size()); ++v) {
    if (!used[v]) continue;
    number[v] = static_cast<ValueId>(values.size());
    values.push_back(std::move(graph.value(v)));
  }
  const auto renumber = [&number](ValueId& v) {
    if (v != kNoValue) v = number[v];
  };
  graph.values = std::move(values);
  for (Node& node : graph.nodes) {
    std::for_each(node.inputs.begin(), node.inputs.end(), renumber);
    std::for_each(node.outputs.begin(), node.outputs.end(), renumber);
  }
  std::for_each(graph.inputs.begin(), graph.inputs.end(), renumber);
  std::for_each(graph.outputs.begin(), graph.outputs.end(), renumber);
  marks.Renumber(number);
}

class Assigner {
 public:
  Assigner(StepGraph& step, bool over_scores)
      : step_(step),
        graph_(step.graph),
        over_scores_(over_scores),
        loop_of_(LoopOfValues(step.graph)),
        reader_of_(step.graph, -1) {}

  void Run() {
    const auto count = static_cast<ValueId>(graph_.values.size());
    step_.storage_of.assign(graph_.values.size(), -1);
    step_.storages = 0;
    FindReaders();
    for (ValueId v = 0; v < count; ++v)
      if (graph_.value(v).kind != ValueKind::kActivation) NewStorage(v);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) Place(i);
  }

 private:
  StorageId& storage(ValueId v) { return step_.storage_of[static_cast<size_t>(v)]; }

  void NewStorage(ValueId v) {
    storage(v) = step_.storages++;
    const bool overwritable = graph_.value(v).kind == ValueKind::kActivation;
    last_reader_.push_back(-1);
    overwritable_.push_back(overwritable);
    TakeReaders(v);
  }
  void Share(ValueId v, StorageId s) {
    storage(v) = s;
    TakeReaders(v);
  }
  // A storage is in use as long as any value in it is read.
  void TakeReaders(ValueId v) {
    int64_t& last = last_reader_[static_cast<size_t>(storage(v))];
    last = std::max(last, reader_of_[v]);
  }

  void FindReaders() {
    const Uses uses(graph_);
    for (ValueId v = 0; v < static_cast<ValueId>(graph_.values.size()); ++v) {
      const std::span<const size_t> readers = uses.Readers(v);
      if (uses.IsOutput(v))
        reader_of_[v] = static_cast<int64_t>(graph_.nodes.size());
      else if (!readers.empty())
        reader_of_[v] = static_cast<int64_t>(readers.back());
    }
    // A reshape's readers also read the storage that it shares. In reverse order, so that chains of
    // reshapes add up.
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = graph_.nodes[i];
      if (!IsAlias(node)) continue;
      int64_t& last = reader_of_[node.inputs[0]];
      last = std::max(last, reader_of_[node.outputs[0]]);
    }
  }

  void Place(size_t i) {
    const Node& node = graph_.nodes[i];
    if (IsAlias(node)) return Share(node.outputs[0], storage(node.inputs[0]));
    std::vector<Overwrite> overwrites;
    if (over_scores_ || !IsOfLoss(node)) overwrites = OverwritesOf(graph_, node);
    std::vector<StorageId> taken;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const auto may = std::find_if(overwrites.begin(), overwrites.end(), [&](const Overwrite& overwrite) {
        return overwrite.result == o && MayTake(i, overwrite, taken);
      });
      if (may == overwrites.end()) {
        NewStorage(node.outputs[o]);
      } else {
        taken.push_back(storage(node.inputs[may->operand]));
        Share(node.outputs[o], taken.back());
      }
    }
  }

  // Whether the result of node `i` may overwrite the operand's storage: this node must be the last to read it.
  bool MayTake(size_t i, const Overwrite& overwrite, const std::vector<StorageId>& taken) {
    const Node& node = graph_.nodes[i];
    const ValueId operand = node.inputs[overwrite.operand], result = node.outputs[overwrite.result];
    const StorageId s = storage(operand);
    const auto in_storage = [&](ValueId v) { return v != kNoValue && storage(v) == s; };
    return loop_of_[static_cast<size_t>(operand)] == loop_of_[static_cast<size_t>(result)] &&
           overwritable_[static_cast<size_t>(s)] &&
           last_reader_[static_cast<size_t>(s)] == static_cast<int64_t>(i) &&
           MayOverwriteAll(graph_, node, overwrite.result, in_storage) &&
           std::find(taken.begin(), taken.end(), s) == taken.end();
  }

  StepGraph& step_;
  Graph& graph_;
  const bool over_scores_;
  // The loop over samples inside which a value lives, if there is one.
  const std::vector<int32_t> loop_of_;
  // The last node that reads a value or a reshape of it. nodes.size(): it lives to the end.
  ValueMap<int64_t> reader_of_;
  std::vector<int64_t> last_reader_;  // the same, of a storage
  std::vector<bool> overwritable_;
};

}  // namespace

bool MayOverwriteAll(const Graph& graph, const Node& node, size_t result,
                     llvm::function_ref<bool(ValueId)> lies_there) {
  if (RunsProgram(node)) return std::count_if(node.inputs.begin(), node.inputs.end(), lies_there) == 1;
  for (size_t k = 0; k < node.inputs.size(); ++k)
    if (lies_there(node.inputs[k]) && !MayOverwrite(graph, node, result, k)) return false;
  return true;
}

std::vector<Overwrite> OverwritesOf(const Graph& graph, const Node& node) {
  std::vector<Overwrite> overwrites;
  const auto add = [&](size_t o, size_t k) {
    const TensorType &operand = graph.value(node.inputs[k]).type, &result = graph.value(node.outputs[o]).type;
    if (result.dtype == operand.dtype && IsFloat(result.dtype) && operand.Elements() == result.Elements())
      overwrites.push_back({o, k});
  };
  // Each tile of a loop is read before it is written, so operand and result must have the same elements, at full size.
  if (RunsProgram(node)) {
    for (size_t o = 0; o < node.outputs.size(); ++o)
      for (size_t k = 0; k < node.inputs.size() && node.program.outputs[o].kind == OutputKind::kStore; ++k)
        if (node.program.inputs[k].codec.kind == CodecKind::kNone) add(o, k);
    return overwrites;
  }
  // The op table says which operand's storage the result of any other node may take. The operand may be left out.
  const OpDef* def = FindOp(node.op);
  for (size_t o = 0; def && o < node.outputs.size(); ++o)
    for (const auto& [result, operand] : def->in_place) {
      const auto k = static_cast<size_t>(operand);
      if (static_cast<size_t>(result) == o && k < node.inputs.size() && node.inputs[k] != kNoValue) add(o, k);
    }
  return overwrites;
}

void AssignStorages(StepGraph& step, bool over_scores) { Assigner(step, over_scores).Run(); }

bool IsOfLoss(const Node& node) { return OpOf(node).loss || OpOf(node).loss_gradient; }

void AssignWorkspace(const Graph& graph, Node& node, int64_t tokens, int64_t limit_bytes) {
  const std::optional<Graph> alone = tokens == 1 ? std::nullopt : TokenGraph(graph, node, tokens);
  for (const TargetKind target : kTargets)
    node.workspace_bytes[target] =
        WorkspaceBound(alone ? alone->nodes[0] : node, alone ? *alone : graph, TargetOf(target), limit_bytes);
}

llvm::Error AssignStorage(StepGraph& step, PassContext& context) {
  DropUnusedValues(step.graph, context.marks);
  AssignStorages(step);
  for (Node& node : step.graph.nodes) AssignWorkspace(step.graph, node, 1, context.workspace_limit);
  return llvm::Error::success();
}

StepGraph AssignStorage(Graph graph, int64_t workspace_limit) {
  StepGraph step;
  step.graph = std::move(graph);
  PassContext context;
  context.workspace_limit = workspace_limit;
  llvm::cantFail(AssignStorage(step, context));
  return step;
}

}  // namespace act
