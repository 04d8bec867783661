// The memory check of --check-memory: proves, node by node, that kernels write only to their own
// tensors.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/executor/arena.h"
#include "runtime/executor/bound_graph.h"
#include "runtime/memory/layout.h"

namespace act {

// Fills everything after the persistent tensors, and all of the host's arena, with 0xFF, which is
// NaN as any float. A kernel that reads a byte before a node has written it computes NaN.
llvm::Error FillDead(Device& device, Memories memories, int64_t persistent_bytes);

// Watches one run of a graph. After each node
//   - every byte outside the live ranges must still be 0xFF,
//   - every live tensor that the node neither makes nor mutates must be unchanged (by its hash),
// and what dies there is filled with 0xFF. A violation is an error that names the node and the
// bytes or tensor.
class MemoryCheck : public NodeObserver {
 public:
  // To be created after FillDead() has run and the step's inputs have been written.
  static llvm::Expected<MemoryCheck> Begin(const BoundGraph& graph, const StepLayout& layout,
                                           int64_t persistent_bytes, Memories memories);
  llvm::Error AfterNode(size_t position) override;

 private:
  struct Range {
    bool on_host = false;
    int64_t begin = 0, end = 0;  // bytes in its arena
    std::string name;            // of a value that lives there
    int64_t lower = 0, upper = 0;
    bool one_tile = false;  // in a loop over samples: dies in each tile
    bool seen = false;      // has already lived at a node
    uint64_t hash = 0;
  };
  bool LiveAt(const Range& range, int64_t position) const {
    return range.lower <= position && position < range.upper;
  }
  MemoryCheck(const BoundGraph& graph, const StepLayout& layout, int64_t persistent_bytes, Memories memories)
      : graph_(graph), layout_(layout), persistent_bytes_(persistent_bytes), memories_(memories) {}
  DevicePointer Data(const Range& range) const { return memories_.Of(range.on_host).base() + range.begin; }
  llvm::Expected<uint64_t> Hash(const Range& range) const {
    return graph_.device().Hash(Data(range), range.end - range.begin);
  }
  llvm::Error CheckDead(int64_t position, bool on_host);
  llvm::Error CheckUnchanged(int64_t position, const std::vector<bool>& written);

  const BoundGraph& graph_;
  const StepLayout& layout_;
  int64_t persistent_bytes_;
  Memories memories_;
  std::vector<Range> ranges_;  // by storage; empty where a storage has no bytes
};

}  // namespace act
