// The graph that both the compiler and the runtime read: plain data, a DAG of nodes and values by
// id. compiler/ir adds what only the compiler needs (building, verifying, printing).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/attributes.h"
#include "runtime/base/capped_dim.h"
#include "runtime/base/target.h"
#include "runtime/base/tensor_type.h"
#include "runtime/plan/program.h"

namespace act {

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

enum class ValueKind : uint8_t {
  kActivation,  // made by a node
  kInput,       // fed by the user each step
  kParameter,   // trained, or frozen if no node mutates it
  kBuffer,      // running statistics: kept between steps, not trained
  kConstant,
  kOptimizer,    // optimizer state: starts at zero
  kGradientSum,  // of the micro-batches of one update; has no meaning between steps
};

// Bytes owned by something else (a mapped file, a protobuf message, a vector).
struct HostTensor {
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  int64_t bytes = 0;
  static HostTensor Copy(const void* data, int64_t bytes);
};

// What a frozen parameter is whose numbers lie in the arena as a code.
struct CodedParameter {
  Codec codec;      // one that EncodesNumbers (runtime/codec/encode_numbers.h)
  TensorType type;  // of the numbers: float32
  // Of what lies in the arena: bfloat16, or the bytes of a code. Nullopt if these numbers have no such code.
  std::optional<TensorType> ArenaType() const;
  bool operator==(const CodedParameter&) const = default;
};

struct Value {
  std::string name;  // parameters, buffers and inputs: the model's own names
  TensorType type;
  ValueKind kind = ValueKind::kActivation;
  // Constants, and the initial values of parameters and buffers. data == nullptr: unknown.
  HostTensor data;
  // Of a frozen parameter whose type is that of a code (passes/precision/code_frozen.cc). `data`, checkpoints and
  // exported models have its numbers all the same.
  std::shared_ptr<const CodedParameter> coded = nullptr;

  const TensorType& FileType() const { return coded ? coded->type : type; }
};

enum class Phase : uint8_t {
  kForward,
  // A function of forward values alone that only the backward pass reads. It may run in either
  // pass.
  kDerived,
  kBackward,
  kUpdate,
};

struct Node {
  std::string op;               // name in the op table (compiler/ops)
  std::string name;             // where it comes from: the ONNX node's name, or made from it
  std::vector<ValueId> inputs;  // kNoValue: an optional input left out
  std::vector<ValueId> outputs;
  Attributes attrs;
  Phase phase = Phase::kForward;
  // Positions in `inputs` that the node writes in place (parameters, buffers, state).
  std::vector<int32_t> mutates;
  Program program;  // op "Fused" only
  // Bounds of the scratch space that the kernel may use (filled in by the planning pass).
  ByTarget<CappedDim> workspace_bytes;
};

// Nodes first .. last - 1 run one after the other for some samples of the batch at a time, so that
// what only they make and read exists for these samples alone (sample_loops.h).
struct SampleLoop {
  int64_t first = 0, last = 0;  // positions in Graph::nodes
  int64_t tiles = 1;            // the batch is cut into at most this many tiles,
  int64_t least_samples = 1;    // each of at least this many samples
  int64_t tokens = 1;           // of a sample, each of which counts as a sample here (token_loops.h)
  bool operator==(const SampleLoop&) const = default;
};

// Nodes are in execution order, which is a topological order: each value is made before it is read.
struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<SampleLoop> loops;  // of a scheduled graph: in order, disjoint
  std::vector<ValueId> inputs;    // kInput values, in the model's order
  std::vector<ValueId> outputs;   // values that must exist when the step ends (the loss first)

  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  Value& value(ValueId id) { return values[static_cast<size_t>(id)]; }
};

// A parameter and its gradient, as operands of the node that updates it. In a plan's nodes, the
// attribute `gradients` lists their positions in pairs.
struct Updated {
  size_t node, parameter, gradient;  // positions: in the graph, and among the node's inputs
};
std::vector<Updated> UpdatesOf(const Graph& graph);

// Whether a value of this kind lives for the whole run, at one place in the arena.
inline bool IsPersistent(ValueKind kind) {
  return kind == ValueKind::kParameter || kind == ValueKind::kBuffer || kind == ValueKind::kConstant ||
         kind == ValueKind::kOptimizer || kind == ValueKind::kGradientSum;
}

}  // namespace act
