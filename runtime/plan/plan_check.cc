#include "runtime/plan/plan_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "runtime/base/error.h"
#include "runtime/plan/attribute_types.h"
#include "runtime/plan/loop_check.h"
#include "runtime/plan/operand_writes.h"
#include "runtime/plan/optimizer.h"
#include "runtime/plan/row_update.h"
#include "runtime/plan/runtime_op.h"
#include "runtime/plan/sample_loops.h"
#include "runtime/plan/swap.h"

namespace act {
namespace {

std::string Place(const Node& node) { return "node '" + node.name + "' (" + node.op + ")"; }
std::string Place(const Value& value) { return "value '" + value.name + "'"; }

// What is wrong with a parameter that lies in the arena as a code.
std::optional<std::string> WrongCode(const Value& value) {
  const auto& [codec, numbers] = *value.coded;
  if (value.kind != ValueKind::kParameter && value.kind != ValueKind::kBuffer)
    return "coded, and neither parameter nor buffer";
  if (numbers.rank() > kMostAxes || !std::all_of(numbers.dims.begin(), numbers.dims.end(), IsPossible) ||
      !numbers.Elements().IsFixed() || numbers.Bytes().TooLarge())
    return "an impossible shape of a coded parameter: " + ToString(numbers);
  if (value.type != value.coded->ArenaType())
    return ToString(value.type) + " is not the code " + ToString(codec) + " of " + ToString(numbers);
  return std::nullopt;
}

llvm::Error CheckValue(const Value& value) {
  const auto fail = [&](const std::string& what) { return MakeError(Place(value), what); };
  if (value.type.rank() > kMostAxes) return fail("more than 16 axes");
  for (const Dim& dim : value.type.dims)
    if (!IsPossible(dim)) return fail("an impossible extent in " + ToString(value.type));
  const Dim bytes = value.type.Bytes();
  if (bytes.TooLarge()) return fail("too large: " + ToString(value.type));
  if (IsPersistent(value.kind) && !bytes.IsFixed())
    return fail("its size varies with the batch: " + ToString(value.type));
  if (value.coded)
    if (const auto wrong = WrongCode(value)) return fail(*wrong);
  if (!value.data.data) return llvm::Error::success();
  if (!IsPersistent(value.kind) || value.kind == ValueKind::kOptimizer ||
      value.kind == ValueKind::kGradientSum)
    return fail("data where it has none");
  if (value.data.bytes != value.FileType().Bytes().fixed)
    return fail(std::to_string(value.data.bytes) + " bytes of data for " + ToString(value.FileType()));
  return llvm::Error::success();
}

// An operator of plans with as many operands and results as it takes, ids in range, inputs made
// before, outputs made once. `made`: of each value, whether it exists before this node.
llvm::Error CheckNode(const StepGraph& step, const Node& node, std::vector<bool>& made) {
  const Graph& graph = step.graph;
  const auto count = static_cast<ValueId>(graph.values.size());
  const auto fail = [&](const std::string& what) { return MakeError(Place(node), what); };
  const auto has_storage = [&](ValueId id) { return step.storage_of[static_cast<size_t>(id)] >= 0; };

  if (!FindRuntimeOp(node.op)) return fail("not an operator of plans");
  if (const auto wrong = WrongCounts(node)) return fail(*wrong);
  if (const auto wrong = WrongType(node.attrs)) return fail(*wrong);
  for (const ValueId id : node.inputs) {
    if (id < kNoValue || id >= count) return fail("an input is no value");
    if (id == kNoValue) continue;
    if (!made[static_cast<size_t>(id)]) return fail("reads " + Place(graph.value(id)) + " before it is made");
    if (!has_storage(id)) return fail("reads " + Place(graph.value(id)) + ", which has no storage");
  }
  for (const ValueId id : node.outputs) {
    if (id < 0 || id >= count) return fail("an output is no value");
    if (made[static_cast<size_t>(id)])
      return fail("makes " + Place(graph.value(id)) + ", which exists already");
    if (!has_storage(id)) return fail("writes " + Place(graph.value(id)) + ", which has no storage");
    made[static_cast<size_t>(id)] = true;
  }
  if (const auto wrong = WrongBFloat16(graph, node)) return fail(*wrong);
  if (const auto wrong = WrongMutates(graph, node)) return fail(*wrong);
  const std::vector<int64_t> gradients = node.attrs.Ints("gradients");
  const auto is_operand = [&node](int64_t at) {
    return at >= 0 && at < static_cast<int64_t>(node.inputs.size()) &&
           node.inputs[static_cast<size_t>(at)] != kNoValue;
  };
  if (gradients.size() % 2 != 0 || !std::all_of(gradients.begin(), gradients.end(), is_operand))
    return fail("names a gradient that it does not have");
  for (const TargetKind target : kTargets) {
    const CappedDim& bound = node.workspace_bytes[target];
    if (!IsPossible(bound.size) || bound.most < 0 || bound.most > kTooLarge)
      return fail("an impossible workspace for " + std::string(ToString(target)) + ": " + ToString(bound));
  }
  if (RunsProgram(node) == node.program.Empty()) {
    return fail(node.program.Empty() ? "no program" : "a program on an operator that runs none");
  }
  const auto wrong = IsRowUpdate(node)   ? WrongRowUpdate(graph, node)
                     : RunsProgram(node) ? WrongLoop(graph, node)
                                         : std::nullopt;
  if (wrong) return fail(*wrong);
  return llvm::Error::success();
}

// An alias does nothing at run time: its result is its operand's bytes.
llvm::Error CheckAlias(const StepGraph& step, const Node& node) {
  const ValueId in = node.inputs[0], out = node.outputs[0];
  if (step.storage_of[static_cast<size_t>(in)] != step.storage_of[static_cast<size_t>(out)]) {
    return MakeError(Place(node), "its output does not share its input's storage");
  }
  if (!(step.graph.value(in).type.Bytes() == step.graph.value(out).type.Bytes())) {
    return MakeError(Place(node), ToString(step.graph.value(in).type) + " is not the size of " +
                                      ToString(step.graph.value(out).type));
  }
  return llvm::Error::success();
}

// A node's results lie where operands lie only if its kernels can write there.
llvm::Error CheckInPlace(const StepGraph& step, const Node& node) {
  const auto storage = [&](ValueId id) { return step.storage_of[static_cast<size_t>(id)]; };
  if (IsAlias(node)) return llvm::Error::success();
  for (size_t o = 0; o < node.outputs.size(); ++o)
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue || storage(node.inputs[i]) != storage(node.outputs[o])) continue;
      if (!MayOverwrite(step.graph, node, o, i))
        return MakeError(Place(node), "cannot write its result " + std::to_string(o) + " over its operand " +
                                          std::to_string(i));
    }
  return llvm::Error::success();
}

// In one storage, a value may be written only after the earlier values have been read for the last
// time. The node that makes the last read may write in place if its kernels can. A Reshape's result is
// the same bytes as its operand.
llvm::Error CheckStorages(const StepGraph& step) {
  const Graph& graph = step.graph;
  const auto end = static_cast<int64_t>(graph.nodes.size());
  struct Range {
    int64_t made = -1, last_read = -1;
  };
  std::vector<ValueId> root(graph.values.size());
  std::vector<Range> range(graph.values.size());  // of roots
  for (size_t v = 0; v < root.size(); ++v) {
    root[v] = static_cast<ValueId>(v);
    if (IsPersistent(graph.values[v].kind)) range[v].last_read = end;
  }
  std::vector<ValueId> order;  // roots, in the order in which they are written
  for (size_t v = 0; v < root.size(); ++v)
    if (graph.values[v].kind != ValueKind::kActivation && step.storage_of[v] >= 0)
      order.push_back(static_cast<ValueId>(v));
  for (int64_t t = 0; t < end; ++t) {
    const Node& node = graph.nodes[static_cast<size_t>(t)];
    for (const ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      int64_t& last_read = range[static_cast<size_t>(root[static_cast<size_t>(id)])].last_read;
      last_read = std::max(last_read, t);
    }
    for (const ValueId id : node.outputs) {
      if (IsAlias(node)) {
        root[static_cast<size_t>(id)] = root[static_cast<size_t>(node.inputs[0])];
      } else {
        range[static_cast<size_t>(id)].made = t;
        order.push_back(id);
      }
    }
  }
  for (const ValueId id : graph.outputs)
    range[static_cast<size_t>(root[static_cast<size_t>(id)])].last_read = end;

  std::vector<ValueId> latest(static_cast<size_t>(step.storages),
                              kNoValue);  // for each storage, the value that is read last
  for (const ValueId id : order) {
    ValueId& before = latest[static_cast<size_t>(step.storage_of[static_cast<size_t>(id)])];
    const Range& mine = range[static_cast<size_t>(id)];
    if (before != kNoValue) {
      const Range& other = range[static_cast<size_t>(before)];
      // Two values that exist before the first node, or that one node makes, cannot share bytes at
      // all.
      if (other.last_read > mine.made || other.made == mine.made) {
        return MakeError(Place(graph.value(id)),
                         "overwrites " + Place(graph.value(before)) + " in their storage before it is read");
      }
    }
    if (before == kNoValue || mine.last_read >= range[static_cast<size_t>(before)].last_read) before = id;
  }
  for (const Node& node : graph.nodes) ACT_CHECK_OK(CheckInPlace(step, node));
  return llvm::Error::success();
}

// By name: a checkpoint, the evaluation graph and the user's files find values by their names.
llvm::Expected<std::map<std::string, const Value*>> NamedValues(const Graph& graph) {
  std::map<std::string, const Value*> named;
  for (const Value& value : graph.values) {
    if (value.kind == ValueKind::kActivation) continue;
    if (value.name.empty()) return MakeError("", "a value that keeps its place has no name");
    if (!named.emplace(value.name, &value).second)
      return MakeError(Place(value), "two values have this name");
  }
  return named;
}

bool SameData(const HostTensor& a, const HostTensor& b) {
  if (a.data == b.data) return a.bytes == b.bytes;
  return a.data && b.data && a.bytes == b.bytes &&
         std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes)) == 0;
}

// A value that keeps its place has the same place in the arena for both graphs.
llvm::Error CheckBoth(const Plan& plan) {
  ACT_TRY(const auto train, NamedValues(plan.train.graph));
  ACT_TRY(const auto eval, NamedValues(plan.eval.graph));
  for (const auto& [name, value] : eval) {
    const auto it = train.find(name);
    if (it == train.end()) continue;
    const bool same_code =
        it->second->coded ? value->coded && *it->second->coded == *value->coded : !value->coded;
    if (it->second->kind != value->kind || !(it->second->type == value->type) || !same_code) {
      return MakeError(Place(*value), "differs between training and evaluation");
    }
    if (!SameData(it->second->data, value->data)) {
      return MakeError(Place(*value), "has other data in training than in evaluation");
    }
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Error CheckStepGraph(const StepGraph& step) {
  const Graph& graph = step.graph;
  const auto count = static_cast<ValueId>(graph.values.size());
  if (step.storage_of.size() != graph.values.size())
    return MakeError("", "storages are not given for all values");
  if (step.storages < 0 || static_cast<size_t>(step.storages) > graph.values.size()) {
    return MakeError("", "an impossible number of storages");
  }
  std::vector<bool> made(graph.values.size());
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    ACT_CHECK_OK(CheckValue(value));
    if (step.storage_of[v] < -1 || step.storage_of[v] >= step.storages)
      return MakeError(Place(value), "no such storage");
    made[v] = IsPersistent(value.kind);
  }
  for (const ValueId id : graph.inputs) {
    if (id < 0 || id >= count || graph.value(id).kind != ValueKind::kInput) {
      return MakeError("", "an input of the graph is no input value");
    }
    if (made[static_cast<size_t>(id)]) return MakeError(Place(graph.value(id)), "is an input twice");
    made[static_cast<size_t>(id)] = true;
  }
  for (const Node& node : graph.nodes) {
    ACT_CHECK_OK(CheckNode(step, node, made));
    if (IsAlias(node)) ACT_CHECK_OK(CheckAlias(step, node));
  }
  for (const ValueId id : graph.outputs) {
    if (id < 0 || id >= count || !made[static_cast<size_t>(id)]) {
      return MakeError("", "an output of the graph is never made");
    }
    if (step.storage_of[static_cast<size_t>(id)] < 0)
      return MakeError(Place(graph.value(id)), "has no storage");
  }
  if (const auto wrong = CheckLoops(step)) return MakeError("", *wrong);
  ACT_CHECK_OK(CheckSwaps(step));
  return CheckStorages(step);
}

llvm::Error CheckPlan(const Plan& plan) {
  if (plan.default_batch < 1 || plan.default_batch >= kTooLarge)
    return MakeError("", "an impossible batch size");
  if (plan.optimizer != "none" && !FindOptimizer(plan.optimizer))
    return MakeError("", "an optimizer that is not known: '" + plan.optimizer + "'");
  ACT_CHECK_OK(CheckHyperparameters(plan.optimizer, plan.hyper));
  if (!std::isfinite(plan.clip_norm) || plan.clip_norm < 0)
    return MakeError("", "an impossible gradient norm");
  if (plan.accumulate < 1 || plan.accumulate > kMostMicroBatches)
    return MakeError("", "an impossible number of micro-batches");
  if (plan.workspace_limit < 0) return MakeError("", "a negative workspace limit");
  if (plan.prepared) ACT_CHECK_OK(CheckPrepared(*plan.prepared));
  if (llvm::Error error = CheckStepGraph(plan.train)) return WithPlace(std::move(error), "training");
  if (llvm::Error error = CheckStepGraph(plan.eval)) return WithPlace(std::move(error), "evaluation");
  ACT_CHECK_OK(CheckBoth(plan));
  for (const SavedEdge& edge : plan.edges) {
    const std::string place = "edge '" + edge.name + "'";
    if (edge.stored < kNoValue || edge.stored >= static_cast<ValueId>(plan.train.graph.values.size())) {
      return MakeError(place, "no such value");
    }
    if (!IsPossible(edge.bytes) || !IsPossible(edge.bytes_uncompressed))
      return MakeError(place, "an impossible size");
    if (edge.stored != kNoValue && !(plan.train.graph.value(edge.stored).type.Bytes() == edge.bytes)) {
      return MakeError(place, "does not have the size of what is stored");
    }
    if (!std::isfinite(edge.bits) || edge.bits < 0) return MakeError(place, "an impossible number of bits");
    if (!std::isfinite(edge.variance) || edge.variance < 0) return MakeError(place, "an impossible variance");
  }
  return llvm::Error::success();
}

}  // namespace act
