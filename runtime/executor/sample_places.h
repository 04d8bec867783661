// The addresses of the operands of a node in a loop over samples (runtime/plan/sample_loops.h),
// from tile to tile.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/executor/device.h"
#include "runtime/plan/graph.h"

namespace act {

class SamplePlaces {
 public:
  // An operand or result: the bytes of its first sample, and the distance from one sample to the
  // next. A distance of 0 means the same place in each tile, as for values that only the loop uses.
  void AddInput(DevicePointer data, int64_t sample_bytes) { inputs_.push_back({data, sample_bytes}); }
  void AddOutput(DevicePointer data, int64_t sample_bytes) { outputs_.push_back({data, sample_bytes}); }
  // The result that was added last is a sum over samples. `partial` has room for the part of one
  // tile.
  void MakeSum(DevicePointer partial) { sums_.push_back({outputs_.size() - 1, partial}); }

  // Makes the tensors begin at sample `first` of the batch. The first tile writes a sum to its
  // final place, every other tile to its partial place.
  void MoveTo(int64_t first, std::vector<TensorView>& inputs, std::vector<TensorView>& outputs) const;
  // Adds the parts of a tile after the first one to the sums.
  llvm::Error AddSums(Device& device, const std::vector<TensorView>& outputs) const;

 private:
  struct Place {
    DevicePointer data;
    int64_t sample_bytes = 0;
  };
  struct Sum {
    size_t output = 0;
    DevicePointer partial;
  };
  std::vector<Place> inputs_, outputs_;
  std::vector<Sum> sums_;
};

}  // namespace act
