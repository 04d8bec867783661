// Checkpoints: everything a run needs to continue as if it had not stopped, as one safetensors file.
//
//   param.NAME, buffer.NAME   in the model's own names, layouts and types
//   optimizer.NAME.STATE      optimizer state, under the parameter's name: velocity, exp_avg, exp_avg_sq, sum
//   step, seed                i64 scalars: steps done; the seed of shuffling, dropout and stochastic rounding
//   epoch, position           i64 scalars: the epoch under way, and its samples that have been seen
//   levels, levels_plan, levels_shares    of --adapt-every: see CodeLevels
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/host_view.h"
#include "runtime/executor/executor.h"

namespace act {

// Where a run stands between two steps.
struct TrainPosition {
  uint64_t step = 0;  // steps done
  uint64_t seed = 0;
  uint64_t epoch = 0;    // epochs done
  int64_t position = 0;  // samples of the next epoch done
  bool operator==(const TrainPosition&) const = default;
};

// The numbers of levels of a run's codes, and what they were chosen by, where they were adapted.
struct CodeLevels {
  uint64_t plan = 0;            // FingerprintOf the plan that they are of
  std::vector<int64_t> counts;  // a pair for each of Plan::edges: levels, and those below zero; 0: has none
  std::vector<double> shares;   // one for each edge: of the gradient's variance, as far as it was measured
  bool operator==(const CodeLevels&) const = default;
};
// Of what is stored, and in which forms: plans with the same have the same edges.
uint64_t FingerprintOf(const Plan& plan);
// Of a checkpoint; without counts where it says nothing. Errors: a file that is none, a tensor of another
// type.
llvm::Expected<CodeLevels> ReadCodeLevels(const std::string& path);

// `levels` may be empty. On failure (a full disk) a checkpoint that was there before stays as it was.
llvm::Error SaveCheckpoint(const std::string& path, const std::vector<PersistentTensor>& tensors,
                           const TrainPosition& position, const CodeLevels& levels = {});

// Fills the tensors from the file. A file without optimizer state and position (a model's weights alone)
// leaves those as they are. Errors, before anything is changed: a parameter or buffer that is missing or of
// another type; behind step 0, optimizer state that is missing.
llvm::Error LoadCheckpoint(const std::string& path, const std::vector<PersistentTensor>& tensors,
                           TrainPosition& position);

// What optimizer state starts with: zeros, and Adagrad's sums at their initial value.
void StartOptimizerState(const std::vector<PersistentTensor>& tensors, const Hyperparameters& hyper);

// "param.conv1.weight"; empty for constants, which are part of the plan.
std::string CheckpointName(const PersistentTensor& tensor);

// A tensor in the arena as a tensor of a file.
HostView ViewOf(const TensorView& view);

}  // namespace act
