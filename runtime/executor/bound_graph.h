// A step graph made ready to run at one batch size: a kernel and tensors with addresses for every
// node.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/executor/arena.h"
#include "runtime/executor/kernel.h"
#include "runtime/executor/kernel_choice.h"
#include "runtime/executor/sample_places.h"
#include "runtime/memory/layout.h"
#include "runtime/plan/plan.h"

namespace act {

// The memories of a run's tensors: the device's, and the host's for what is swapped
// (runtime/plan/swap.h). On a CPU both are RAM.
struct Memories {
  Arena& device;
  Arena& host;

  Arena& Of(bool on_host) const { return on_host ? host : device; }
};

// What a node in a loop over samples has in addition to its BoundNode, whose operands are those of
// one tile.
struct BoundTiles {
  int64_t samples = 0;  // in each tile but the last
  int64_t last = 0;     // in the last tile, if it has fewer; else 0
  SamplePlaces places;
  bool goes_on = false;  // each tile but the first goes on from what the results hold
  // For the last tile, if it has fewer samples.
  std::unique_ptr<Kernel> last_kernel;
  std::vector<TensorView> last_inputs, last_outputs;
};

// Seconds in a node's kernel. The first run may load its code and fill caches, so it is kept apart.
struct NodeTimes {
  int64_t runs = 0;
  double first = 0, others = 0;

  // Of all runs, as if the first had taken as long as the others.
  double Total() const {
    return runs > 1 ? others * static_cast<double>(runs) / static_cast<double>(runs - 1) : first;
  }
};

struct BoundNode {
  const Node* node = nullptr;
  std::unique_ptr<const Graph> of_tokens;  // in a loop over tokens: the node for its kernel (TokenGraph)
  std::string kernel_name;                 // "dnnl.conv"; empty for Reshape, which has no kernel
  std::unique_ptr<Kernel> kernel;          // null for Reshape
  // of the faster kernels: "dnnl.conv: dilations are not supported"
  std::vector<std::string> refusals;
  KernelChoice choice;  // empty: the list's order decided
  std::vector<TensorView> inputs, outputs;
  DeviceRange workspace;
  int64_t scratch_bytes = 0;          // of the workspace: a kernel's part
  std::unique_ptr<BoundTiles> tiles;  // null outside of loops over samples
  bool enabled = true;                // a disabled node does not run
  NodeTimes times;
};

// Observes a graph while it runs: for the dump of a step, or the memory check.
class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  // `position` is the node's place in the graph. In a loop over samples this is called once per
  // tile. An error ends the run.
  virtual llvm::Error BeforeNode(size_t /*position*/) { return llvm::Error::success(); }
  virtual llvm::Error AfterNode(size_t /*position*/) { return llvm::Error::success(); }
};

class BoundGraph {
 public:
  // The graph with all tensors in their places, but without kernels. `step` and the arenas must outlive the
  // result. `layout` may be that of a larger batch. Kernels will run on `threads` threads.
  static llvm::Expected<std::unique_ptr<BoundGraph>> Place(const StepGraph& step, const StepLayout& layout,
                                                           int64_t batch, int threads, Device& device,
                                                           Memories memories);
  // Gives each node the kernel that is preferred for it (`choices`: by position, or none), or else the first
  // of its registry list that accepts it. An op that no kernel accepts is an error that lists every refusal.
  llvm::Error TakeKernels(const KernelRegistry& registry, std::span<const KernelChoice> choices = {});

  // Runs all nodes in order, or starts to (Device). Without observers, a device that records runs the nodes
  // one by one the first time, records them the second time, and launches the recording from then on.
  // Allocates nothing after that unless it fails.
  llvm::Error Run(const StepState& state, std::span<NodeObserver* const> observers = {});

  int64_t batch() const { return batch_; }
  // False while a loop over samples has tiles left.
  bool OnLastTile() const { return on_last_tile_; }
  const StepGraph& step() const { return *step_; }
  // Where it runs.
  Device& device() const { return *device_; }
  // The tensor of a value. Its data is null if nothing reads or writes it.
  const TensorView& view(ValueId id) const { return views_[static_cast<size_t>(id)]; }
  // In a loop over samples, the operands of a node are those of the first tile, or of one that ran.
  const std::vector<BoundNode>& nodes() const { return nodes_; }
  // The site by which the node at `position` gets its kernel. In a loop over samples: a full tile's.
  KernelSite Site(size_t position) const;
  // Sets whether Run runs the node at `position`. If it does not, the node's outputs are whatever
  // their storage holds.
  void Enable(size_t position, bool enabled);
  // The times of each node so far, by position. They can be saved while runs are made that shall not
  // count, or passed on to a graph that replaces this one.
  std::vector<NodeTimes> Times() const;
  void SetTimes(std::span<const NodeTimes> times);

 private:
  BoundGraph(const StepGraph& step, int64_t batch, int threads, Device& device);

  llvm::Error PlaceNode(size_t position, const StepLayout& layout, Arena& arena);
  llvm::Error PlaceTiles(size_t position, const StepLayout& layout);
  // The site of `samples` of the node's samples, or of its tokens in a loop over tokens.
  KernelSite SiteOfSamples(size_t position, int64_t samples) const;
  llvm::Error RunNodes(const StepState& state, std::span<NodeObserver* const> observers);
  llvm::Error RunNode(size_t position, const StepState& state, std::span<NodeObserver* const> observers);
  llvm::Error RunLoop(const SampleLoop& loop, const StepState& state,
                      std::span<NodeObserver* const> observers);

  const StepGraph* step_;
  Device* device_;
  int64_t batch_;
  int threads_;
  std::vector<int32_t> loop_of_node_, loop_of_value_;  // -1: none
  int64_t first_sample_ = 0;                           // of the current tile
  bool on_last_tile_ = true;
  std::vector<TensorView> views_;  // by value
  std::vector<BoundNode> nodes_;   // by position
  // Without and with the update.
  struct Recorded {
    bool ran = false;
    std::unique_ptr<Recording> recording;
  };
  Recorded recorded_[2];
};

// The kernels that TakeKernels would choose without preferences, for nodes without memory: what a machine
// that is not here would run. In a loop over samples: the kernel of a full tile, and, in BoundTiles, that of
// a last one that has fewer samples. Errors: as TakeKernels.
llvm::Expected<std::vector<BoundNode>> ChooseKernels(const StepGraph& step, const StepLayout& layout,
                                                     int64_t batch, const KernelRegistry& registry,
                                                     int threads);

// The tensor of a type at batch n, without data.
TensorView MakeView(const TensorType& type, int64_t batch);

}  // namespace act
