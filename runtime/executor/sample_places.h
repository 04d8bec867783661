// The addresses of the operands of a node in a loop over samples (runtime/plan/sample_loops.h),
// from tile to tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/executor/kernel.h"
#include "runtime/plan/graph.h"

namespace act {

class SamplePlaces {
 public:
  // An operand or result: the bytes of its first sample, and the distance from one sample to the
  // next. A distance of 0 means the same place in each tile, as for values that only the loop uses.
  void AddInput(void* data, int64_t sample_bytes) {
    inputs_.push_back({static_cast<std::byte*>(data), sample_bytes});
  }
  void AddOutput(void* data, int64_t sample_bytes) {
    outputs_.push_back({static_cast<std::byte*>(data), sample_bytes});
  }
  // The result that was added last is a sum over samples. `partial` has room for the part of one
  // tile.
  void MakeSum(std::byte* partial) { sums_.push_back({outputs_.size() - 1, partial}); }

  // Makes the tensors begin at sample `first` of the batch. The first tile writes a sum to its
  // final place, every other tile to its partial place.
  void MoveTo(int64_t first, std::vector<TensorView>& inputs, std::vector<TensorView>& outputs) const;
  // Adds the parts of a tile after the first one to the sums.
  void AddSums(const std::vector<TensorView>& outputs) const;

 private:
  struct Place {
    std::byte* data = nullptr;
    int64_t sample_bytes = 0;
  };
  struct Sum {
    size_t output = 0;
    std::byte* partial = nullptr;
  };
  std::vector<Place> inputs_, outputs_;
  std::vector<Sum> sums_;
};

}  // namespace act
