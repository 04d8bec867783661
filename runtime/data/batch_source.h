// The sources of a step's inputs.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/host_view.h"
#include "runtime/plan/graph.h"

namespace act {

// An input of the graph, to be filled by a source.
struct InputSlot {
  std::string name;
  TensorType type;
  int64_t classes = 0;  // an integer input's values must lie in [0, classes); 0: unknown
};

// The inputs of a step graph. The range of integers follows from the nodes that read them as labels
// or indices.
std::vector<InputSlot> InputSlots(const Graph& graph);

class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // Moves to the next batch and returns its number of samples, at most `batch`; 0 at the end of an
  // epoch.
  virtual int64_t Next(int64_t batch) = 0;
  // Writes input `slot` of the batch to `to`, which has the bytes of that number of samples.
  virtual void Fill(size_t slot, std::span<std::byte> to) = 0;
  // This batch is not filled any more: the next one may be read. Fill may be called again after Next.
  virtual void FetchNext() {}

  // Samples of an epoch. 0: the source never ends, and has no epochs.
  virtual int64_t SamplesPerEpoch() const { return 0; }
  // The inputs are made up, and mean nothing to the model.
  virtual bool IsRandom() const { return false; }
  // Moves to sample `position` of an epoch. A source begins at the start of epoch 0.
  virtual void StartEpoch(uint64_t /*epoch*/, int64_t /*position*/) {}

  // What the user should know about the data, each reported once ("image.npy: NaN or infinite
  // numbers").
  std::vector<std::string> TakeWarnings() { return std::exchange(warnings_, {}); }

 protected:
  std::vector<std::string> warnings_;
};

// Random inputs of the right types, the same at every step. Floats are uniform with mean 0 and
// variance 1, integers are uniform below the number of classes (below 2 if it is unknown).
std::unique_ptr<BatchSource> RandomBatch(std::vector<InputSlot> slots, uint64_t seed);

// The same batch at every step, from a safetensors file, by input name. Errors name the input, its
// type and what was found.
llvm::Expected<std::unique_ptr<BatchSource>> FixedBatch(const std::vector<InputSlot>& slots,
                                                        const std::string& path, int64_t batch);

// Whether any element of a float tensor is NaN or infinite.
bool HasNotFinite(DType dtype, const std::byte* data, int64_t elements);

}  // namespace act
