// What a backend implements: kernels. They are chosen once, at load, from ordered lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/executor/device_pointer.h"
#include "runtime/plan/graph.h"
#include "runtime/plan/optimizer.h"

namespace act {

// A concrete tensor in the arena. `dims` are those at the run's batch size.
struct TensorView {
  DevicePointer data;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> dims;
  int64_t elements = 0;
  int64_t bytes = 0;
  // Of a frozen weight whose code the kernel decodes (RuntimeOp::decodes): what numbers it stands for. The members above
  // are those of the code. It belongs to the plan.
  const CodedParameter* coded = nullptr;

  // As DevicePointer::as: in kernels alone.
  template <class T>
  auto as() const;
};

// The state of a step that changes between runs. Updates and random number streams read it.
struct StepState {
  static constexpr int32_t kAllStreams = -1;
  // The random key for a stream's rounding, both where codes are made and where they are read.
  uint64_t RoundingSeed(int32_t stream) const {
    return rounding_stream == kAllStreams || rounding_stream == stream ? seed ^ rounding : seed;
  }

  uint64_t seed = 0;
  uint64_t step = 0;  // passes over a micro-batch done before
  // Combined with the seed wherever a code is rounded, and nowhere else. Another number gives other
  // rounding errors in the same forward pass, dropout included.
  uint64_t rounding = 0;
  // The only stream of codes to which `rounding` applies. All others are rounded as with 0.
  int32_t rounding_stream = kAllStreams;
  UpdateState update = {};
  // Whether this pass ends in the update. If not, nodes of phase kUpdate do not run.
  bool updates = true;
};

// A node at one batch size, before any memory exists. Kernels are chosen by it.
struct KernelSite {
  const Node* node = nullptr;
  // Data is null. An optional input that is left out has data null and bytes 0. Outputs of a Fused
  // node: its results, then the operands that it mutates.
  std::vector<TensorView> inputs, outputs;
  int64_t batch = 1;  // samples of the operands
  // Scratch space that the arena gives this node. A kernel that needs more must refuse.
  int64_t workspace_bytes = 0;
  int threads = 1;
  // of the step; more than `batch` if a tile of samples runs at a time
  int64_t whole_batch = 1;
  // Then: whether runs may be told to go on from what the results hold (KernelArgs).
  bool goes_on = false;
};

// What a kernel receives at each run: the same tensors, with data. Kernels allocate nothing here.
struct KernelArgs {
  std::span<const TensorView> inputs, outputs;
  DeviceRange workspace;  // 64-byte aligned, at least as many bytes as asked for
  const StepState* state = nullptr;
  // The sample of the batch at which the operands begin. Random numbers are drawn by sample.
  int64_t first_sample = 0;
  // The results hold what the tiles before made of their samples, and become that of these samples too: a sum is added
  // to (RuntimeOp::goes_on).
  bool goes_on = false;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Runs to the end on the calling thread's OpenMP team. Returns a library's error, or an empty
  // string.
  virtual std::string Run(const KernelArgs& args) = 0;
  // Scratch bytes actually used, at most KernelSite::workspace_bytes.
  virtual int64_t WorkspaceBytes() const { return 0; }
  // Time spent here counts as library time in --profile.
  virtual bool IsLibraryCall() const { return false; }
  // One line for --verbose=dispatch ("jit:avx512_core, 2.0 MiB scratch").
  virtual std::string Describe() const { return ""; }
};

struct KernelEntry {
  std::string name;  // "dnnl.conv", "reference.conv"
  // The kernel for this site, or null with the reason for the refusal in *why.
  std::function<std::unique_ptr<Kernel>(const KernelSite& site, std::string* why)> create;
  // Plain loops, the last choice. All other kernels that accept a site may be timed there (kernel_tuner.h).
  bool is_reference = false;
};

// op name -> kernels, fastest first and reference last. Filled by one explicit list per backend.
class KernelRegistry {
 public:
  void Add(const std::string& op, KernelEntry entry) { entries_[op].push_back(std::move(entry)); }
  const std::vector<KernelEntry>& For(const std::string& op) const {
    static const std::vector<KernelEntry> kEmpty;
    const auto it = entries_.find(op);
    return it == entries_.end() ? kEmpty : it->second;
  }
  const std::map<std::string, std::vector<KernelEntry>>& all() const { return entries_; }

 private:
  std::map<std::string, std::vector<KernelEntry>> entries_;
};

}  // namespace act
