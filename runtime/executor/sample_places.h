// Where the operands of a node in a loop over samples (runtime/plan/sample_loops.h) are, from tile to tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/executor/kernel.h"
#include "runtime/plan/graph.h"

namespace act {

class SamplePlaces {
 public:
  // An operand or result: its first sample's bytes, and how far each sample is from the one before. Step 0:
  // at the same place in each tile, as is what the loop alone knows.
  void AddInput(void* data, int64_t sample_bytes) {
    inputs_.push_back({static_cast<std::byte*>(data), sample_bytes});
  }
  void AddOutput(void* data, int64_t sample_bytes) {
    outputs_.push_back({static_cast<std::byte*>(data), sample_bytes});
  }
  // The result that was added last is a sum over samples; `partial` has room for what one tile adds to it.
  void MakeSum(std::byte* partial) { sums_.push_back({outputs_.size() - 1, partial}); }

  // Lets the tensors begin at sample `first` of the batch. The first tile makes a sum in its place, each
  // other beside it.
  void MoveTo(int64_t first, std::vector<TensorView>& inputs, std::vector<TensorView>& outputs) const;
  // Adds what a tile behind the first has made to the sums.
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
