#include "tests/fuzz/plan_mutation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "runtime/plan/optimizer.h"
#include "runtime/plan/runtime_op.h"

namespace act::fuzz {
namespace {

template <class T>
T* At(std::vector<T>& list, size_t i) {
  return list.empty() ? nullptr : &list[i % list.size()];
}
template <class T>
void EraseAt(std::vector<T>& list, size_t i) {
  if (!list.empty()) list.erase(list.begin() + static_cast<std::ptrdiff_t>(i % list.size()));
}
template <class T>
void InsertAt(std::vector<T>& list, size_t i, T item) {
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(i % (list.size() + 1)), std::move(item));
}

// Also no value, and values that are not there.
ValueId AnyId(const Graph& graph, size_t choice) {
  return static_cast<ValueId>(choice % (graph.values.size() + 3)) - 1;
}

Dim AnyDim(const Graph& graph, const Choice& choice) {
  switch (choice.b / 8 % 4) {
    case 0:
      return Dim(choice.Number());
    case 1:
      return Dim(0, choice.Number());
    case 2:
      return Dim(static_cast<int64_t>(choice.c % 8), static_cast<int64_t>(choice.c / 8 % 4));
    default: {  // of another value
      if (graph.values.empty()) return Dim(1);
      const Dims& dims = graph.values[choice.c % graph.values.size()].type.dims;
      return dims.empty() ? Dim(1) : dims[choice.c / 7 % dims.size()];
    }
  }
}

void MutateIds(const Graph& graph, std::vector<ValueId>& ids, const Choice& choice) {
  switch (choice.b % 4) {
    case 0:
      EraseAt(ids, choice.b / 4);
      break;
    case 1:
      InsertAt(ids, choice.b / 4, AnyId(graph, choice.c));
      break;
    case 2:
      if (ValueId* id = At(ids, choice.b / 4)) *id = AnyId(graph, choice.c);
      break;
    case 3:
      if (ids.size() > 1) std::swap(ids[choice.b / 4 % ids.size()], ids[choice.c % ids.size()]);
      break;
  }
}

// An extent wherever it stands, so that operands go on fitting one another.
void ReplaceExtent(Graph& graph, const Choice& choice) {
  const Value* value = At(graph.values, choice.a);
  if (!value || value->type.dims.empty()) return;
  const Dim before = value->type.dims[choice.b % value->type.dims.size()], after = AnyDim(graph, choice);
  for (Value& v : graph.values) std::replace(v.type.dims.begin(), v.type.dims.end(), before, after);
  for (Node& node : graph.nodes)
    std::replace(node.program.space.begin(), node.program.space.end(), before, after);
}

void MutateType(Graph& graph, const Choice& choice) {
  Value* const value = At(graph.values, choice.a);
  if (!value) return;
  Dims& dims = value->type.dims;
  switch (choice.b % 8) {
    case 0:
      EraseAt(dims, choice.b / 8);
      break;
    case 1:
      InsertAt(dims, choice.b / 8, AnyDim(graph, choice));
      break;
    case 2:
    case 3:
      if (Dim* dim = At(dims, choice.b / 8)) *dim = AnyDim(graph, choice);
      break;
    case 4:
      value->type.dtype = static_cast<DType>(choice.c % (static_cast<size_t>(kLastDType) + 1));
      break;
    case 5:
      value->type = graph.values[choice.c % graph.values.size()].type;
      break;
    case 6:
      value->kind = static_cast<ValueKind>(choice.c % 7);
      break;
    case 7:
      if (dims.size() > 1) std::swap(dims[choice.b / 8 % dims.size()], dims[choice.c % dims.size()]);
      break;
  }
}

void MutateNodes(Graph& graph, const Choice& choice) {
  if (graph.nodes.empty()) return;
  const size_t at = choice.a % graph.nodes.size();
  Node& node = graph.nodes[at];
  switch (choice.b % 8) {
    case 0:
      EraseAt(graph.nodes, at);
      break;
    case 1:
      InsertAt(graph.nodes, choice.c, Node(node));
      break;
    case 2:
      std::swap(node, graph.nodes[choice.c % graph.nodes.size()]);
      break;
    case 3: {
      const auto ops = RuntimeOps();
      node.op = ops[choice.c % ops.size()].name;
      if (!RunsProgram(node)) node.program = {};
      break;
    }
    case 4:
      node.op = graph.nodes[choice.c % graph.nodes.size()].op;
      break;
    case 5:
      node.phase = static_cast<Phase>(choice.c % 4);
      break;
    case 6:
      InsertAt(node.mutates, choice.c, static_cast<int32_t>(choice.c % 5) - 1);
      break;
    case 7:
      EraseAt(node.mutates, choice.c);
      break;
  }
}

void MutateStorages(StepGraph& step, const Choice& choice) {
  switch (choice.b % 4) {
    case 0:
    case 1:
      if (StorageId* storage = At(step.storage_of, choice.a))
        *storage = static_cast<StorageId>(choice.c % static_cast<size_t>(std::max(step.storages, 1) + 2)) - 1;
      break;
    case 2:
      step.storages += static_cast<int32_t>(choice.c % 3) - 1;
      break;
    case 3: {  // a storage of its own
      if (StorageId* storage = At(step.storage_of, choice.a)) *storage = step.storages++;
      break;
    }
  }
}

void MutateSchedule(Graph& graph, const Choice& choice) {
  switch (choice.b % 4) {
    case 0:
      InsertAt(graph.loops, choice.c,
               SampleLoop{.first = static_cast<int64_t>(choice.a % (graph.nodes.size() + 1)),
                          .last = static_cast<int64_t>(choice.a % (graph.nodes.size() + 1) + choice.c % 6),
                          .tiles = 1 + static_cast<int64_t>(choice.c / 8 % 4),
                          .least_samples = 1});
      break;
    case 1:
      EraseAt(graph.loops, choice.a);
      break;
    case 2:
      if (SampleLoop* loop = At(graph.loops, choice.a))
        (choice.b / 4 % 3 == 0   ? loop->tiles
         : choice.b / 4 % 3 == 1 ? loop->least_samples
                                 : loop->tokens) = choice.Number();
      break;
    case 3:
      if (SampleLoop* loop = At(graph.loops, choice.a))
        (choice.b / 4 % 2 ? loop->first : loop->last) += static_cast<int64_t>(choice.c % 5) - 2;
      break;
  }
}

void MutateWorkspace(Graph& graph, const Choice& choice) {
  Node* const node = At(graph.nodes, choice.a);
  if (!node) return;
  CappedDim& bound = node->workspace_bytes[TargetKind::kCpu];
  switch (choice.b % 4) {
    case 0:
      bound = 0;
      break;
    case 1:
      bound = CappedDim(static_cast<int64_t>(choice.c));
      break;
    case 2:
      bound.size = Dim(choice.Number(), static_cast<int64_t>(choice.c % 64));
      break;
    case 3:
      bound.most = choice.Number();
      break;
  }
}

void MutateWhole(Plan& plan, const Choice& choice) {
  switch (choice.b % 10) {
    case 0:
      plan.default_batch = choice.Number();
      break;
    case 1:
      plan.accumulate = choice.Number();
      break;
    case 2:
      plan.clip_norm = choice.c % 3 == 0 ? NAN : static_cast<double>(choice.c) - 2;
      break;
    case 3:
      plan.optimizer = choice.c % 2 ? "adamw" : choice.c % 4 ? "none" : "?";
      break;
    case 4:
      plan.hyper["beta1"] = static_cast<double>(choice.c) - 2;
      break;
    case 5:
      plan.fixed_batch = !plan.fixed_batch;
      break;
    case 6:
      plan.workspace_limit = choice.Number();
      break;
    case 7:
      plan.compute = static_cast<Compute>(choice.c % 2);
      break;
    case 8:
      if (SavedEdge* edge = At(plan.edges, choice.a)) edge->stored = AnyId(plan.train.graph, choice.c);
      break;
    case 9:
      std::swap(plan.train, plan.eval);
      break;
  }
}

}  // namespace

int64_t Choice::Number() const {
  static constexpr int64_t kNumbers[] = {0,
                                         1,
                                         2,
                                         3,
                                         4,
                                         5,
                                         6,
                                         7,
                                         8,
                                         9,
                                         15,
                                         16,
                                         17,
                                         31,
                                         32,
                                         33,
                                         64,
                                         100,
                                         -1,
                                         -2,
                                         -3,
                                         -7,
                                         255,
                                         256,
                                         1000,
                                         1024,
                                         4096,
                                         65536,
                                         100000,
                                         1 << 20,
                                         INT32_MAX,
                                         INT32_MIN,
                                         kTooLarge,
                                         kTooLarge - 1,
                                         INT64_MAX,
                                         INT64_MIN,
                                         int64_t{1} << 32,
                                         int64_t{1} << 31,
                                         (int64_t{1} << 31) + 1,
                                         int64_t{1} << 40};
  return kNumbers[c % std::size(kNumbers)];
}

void MutatePlan(Plan& plan, ByteReader& bytes) {
  const size_t kind = bytes.Byte(), where = bytes.Byte();
  const Choice choice{bytes.Pair(), bytes.Pair(), bytes.Pair()};
  bytes.Pair();
  StepGraph& step = where % 8 == 0 && !plan.eval.graph.nodes.empty() ? plan.eval : plan.train;
  Graph& graph = step.graph;
  Node* const node = At(graph.nodes, choice.a);
  switch (kind % 20) {
    case 0:
    case 1:
      if (node) MutateIds(graph, node->inputs, choice);
      break;
    case 2:
      if (node) MutateIds(graph, node->outputs, choice);
      break;
    case 3:
    case 4:
      if (Value* value = At(graph.values, choice.a); value && value->coded && choice.b % 8 == 6)
        MutateCode(plan, std::string(value->name), choice);
      else
        MutateType(graph, choice);
      break;
    case 5:
    case 6:
      ReplaceExtent(graph, choice);
      break;
    case 7:
    case 8:
      MutateNodes(graph, choice);
      break;
    case 9:
    case 10:
    case 11:
      if (node) MutateAttributes(graph, *node, choice);
      break;
    case 12:
    case 13:
      for (size_t i = 0; i < graph.nodes.size(); ++i) {
        Node& loop = graph.nodes[(choice.a + i) % graph.nodes.size()];
        if (!loop.program.Empty()) return MutateProgram(loop.program, choice);
      }
      break;
    case 14:
      MutateStorages(step, choice);
      break;
    case 15:
      MutateSchedule(graph, choice);
      break;
    case 16:
      MutateWorkspace(graph, choice);
      break;
    case 17:
      MutateIds(graph, where % 2 ? graph.inputs : graph.outputs, choice);
      break;
    case 18:
      MutateWhole(plan, choice);
      break;
    case 19:  // a type that the operand beside it has
      if (node && node->inputs.size() + node->outputs.size() > 1) {
        std::vector<ValueId> ids = node->inputs;
        ids.insert(ids.end(), node->outputs.begin(), node->outputs.end());
        const ValueId to = ids[choice.b % ids.size()], from = ids[choice.c % ids.size()];
        const auto exists = [&](ValueId id) {
          return id >= 0 && id < static_cast<ValueId>(graph.values.size());
        };
        if (exists(to) && exists(from)) graph.value(to).type = graph.value(from).type;
      }
      break;
  }
}

void FitData(Plan& plan) {
  constexpr int64_t kMost = 1 << 20;
  for (StepGraph* step : {&plan.train, &plan.eval})
    for (Value& value : step->graph.values) {
      const Dim bytes = value.FileType().Bytes();
      if (!value.data.data || !bytes.IsFixed() || bytes.fixed < 0 || bytes.fixed > kMost) continue;
      if (value.data.bytes == bytes.fixed) continue;
      std::vector<std::byte> data(static_cast<size_t>(bytes.fixed));
      const auto had = static_cast<size_t>(value.data.bytes);
      for (size_t i = 0; i < data.size() && had > 0; ++i) data[i] = value.data.data[i % had];
      value.data = HostTensor::Copy(data.data(), bytes.fixed);
    }
}

}  // namespace act::fuzz
