// A compiled plan: what actc writes and actrun runs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/plan/graph.h"
#include "runtime/plan/prepared.h"

namespace act {

// One storage is one range of bytes in the arena. Values that alias (reshapes, in-place results)
// share one.
using StorageId = int32_t;

// A scheduled graph with its storages. storage_of[value] is -1 for values that nothing reads or
// writes.
struct StepGraph {
  Graph graph;
  std::vector<StorageId> storage_of;
  int32_t storages = 0;
};

// What the report says about a saved-activation edge (one stored tensor).
struct SavedEdge {
  std::string name;                    // the forward value
  ValueId stored = kNoValue;           // crosses from forward to backward, in StepGraph::graph
  std::vector<std::string> consumers;  // backward nodes that read it
  std::string form;                    // "keep", "bf16", "mask1", "uniform2,g256", ...
  std::string reason;                  // one sentence for --explain
  double bits = 0;                     // per element, metadata included
  // what its code adds to the gradient's variance, as measured; 0: not measured
  double variance = 0;
  int32_t least_bits = 0;  // fewer bits in a lossy code would bias the gradient
  Dim bytes;               // stored
  Dim bytes_uncompressed;  // as float32, or in the value's type if it is no float; a mask as bools
};

// A larger number can only be a mistake.
inline constexpr int64_t kMostMicroBatches = 1 << 20;

// The type of activations and gradients in memory, and of what products multiply. Sums, statistics,
// parameters and their gradients are float32 in any case.
enum class Compute : uint8_t { kFloat32, kBFloat16 };
inline constexpr Compute kLastCompute = Compute::kBFloat16;
// "f32" or "bf16", as in --compute.
inline const char* ToString(Compute compute) { return compute == Compute::kBFloat16 ? "bf16" : "f32"; }

struct Plan {
  std::string model_name;  // file name of the ONNX model, without folders
  std::string level;       // "L0".."L3"
  std::string optimizer;   // of runtime/plan/optimizer.h, or "none"
  // Hyperparameters that the model gives, by flag, instead of the defaults.
  std::map<std::string, double> hyper;
  Compute compute = Compute::kFloat32;
  double clip_norm = 0;    // largest norm of all gradients together; 0: no limit
  int64_t accumulate = 1;  // micro-batches of an update
  uint64_t seed = 0;
  int64_t default_batch = 1;  // batch of the report
  // the model has no batch axis N, so that only --batch=default_batch is accepted
  bool fixed_batch = false;
  int64_t workspace_limit = 0;  // --workspace, bytes per node

  StepGraph train;
  // The forward pass with running statistics and without dropout. Persistent values have the same
  // names as in `train`. Empty if there is no such graph. Outputs: the loss of the batch, and then pairs of a mean and
  // what its sum was divided by (float32, one element each), from which follow the means over a data set:
  // * first, where the model has class labels, how many predictions are right (no mean) and how many labels count;
  // * the terms whose sum the loss is. Where there are none, the loss is a mean over the samples.
  StepGraph eval;

  std::vector<SavedEdge> edges;
  // The ONNX model without its weights, for --export-onnx (opaque to the runtime).
  HostTensor onnx_model;
  // Made ahead for one card (actc --aot); null: nothing. A hint: a run without it gives the same numbers.
  std::shared_ptr<const Prepared> prepared;
};

}  // namespace act
