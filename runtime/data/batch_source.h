// Where the inputs of a step come from.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/host_view.h"
#include "runtime/executor/kernel.h"
#include "runtime/plan/graph.h"

namespace act {

// An input of the graph: what a source fills.
struct InputSlot {
  std::string name;
  TensorType type;
  int64_t classes = 0;  // an integer input's values must lie in [0, classes); 0: nothing is known of them
};

// The inputs of a step graph. What integers may hold follows from the nodes that read them as labels or
// indices.
std::vector<InputSlot> InputSlots(const Graph& graph);

class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // Goes to the next batch: its number of samples, at most `batch`; 0 at the end of an epoch.
  virtual int64_t Next(int64_t batch) = 0;
  // Writes input `slot` of the batch; the view has its dims at that number of samples.
  virtual void Fill(size_t slot, const TensorView& view) = 0;

  // Samples of an epoch; 0: the source never ends, and has no epochs.
  virtual int64_t SamplesPerEpoch() const { return 0; }
  // Goes to sample `position` of an epoch. Without a call a source stands at the start of epoch 0.
  virtual void StartEpoch(uint64_t /*epoch*/, int64_t /*position*/) {}

  // What the user should know of the data, told once each ("image.npy: NaN or infinite numbers").
  std::vector<std::string> TakeWarnings() { return std::exchange(warnings_, {}); }

 protected:
  std::vector<std::string> warnings_;
};

// Random inputs of the right types, the same at every step: floats uniform with mean 0 and variance 1,
// integers uniform below the number of classes (below 2 where nothing is known).
std::unique_ptr<BatchSource> RandomBatch(std::vector<InputSlot> slots, uint64_t seed);

// The same batch at every step, from a safetensors file, by input name. Errors name the input, its type and
// what was found.
llvm::Expected<std::unique_ptr<BatchSource>> FixedBatch(const std::vector<InputSlot>& slots,
                                                        const std::string& path, int64_t batch);

// Whether any element of a float tensor is NaN or infinite.
bool HasNotFinite(DType dtype, const std::byte* data, int64_t elements);

}  // namespace act
