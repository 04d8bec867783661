// Checkpoints: everything that a run needs to continue as if it had not stopped, in one safetensors
// file.
//
//   param.NAME, buffer.NAME   in the model's own names, layouts and types
//   optimizer.NAME.STATE      optimizer state, under the parameter's name: velocity, exp_avg,
//                             exp_avg_sq, sum
//   step, seed                i64 scalars: steps done; the seed of shuffling, dropout and rounding
//   epoch, position           i64 scalars: the current epoch, and its samples that have been seen
//   samples                   i64 scalar: those of an epoch of the data; absent without --data
//   kernels                   i64[2]: see KernelRecord
//   best_loss, best_accuracy  f64 scalars: see BestEvaluations; absent before the first evaluation
//   stale_evaluations         i64[2]: of the loss and of the accuracy, as in BestEvaluations
//   levels, levels_plan, levels_shares    of --adapt-every: see CodeLevels
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/safetensors.h"
#include "runtime/executor/executor.h"
#include "runtime/train/evaluate.h"

namespace act {

// The best value of one figure over the evaluations of a run and of those that it continues.
struct BestFigure {
  std::optional<double> best;  // empty: no evaluation has had the figure, or none a finite one
  int64_t stale = 0;           // evaluations since the best one; 0: the last one was the best
  bool operator==(const BestFigure&) const = default;
};
struct BestEvaluations {
  BestFigure loss, accuracy;
  // A figure that equals the best one does not improve on it. NaN never does.
  void Add(const Evaluation& evaluation);
  bool operator==(const BestEvaluations&) const = default;
};

// Where a run stands between two steps.
struct TrainPosition {
  uint64_t step = 0;  // done so far
  uint64_t seed = 0;
  uint64_t epoch = 0;    // epochs done
  int64_t position = 0;  // samples of the next epoch done
  int64_t samples = 0;   // of an epoch; 0: not known, or there are no epochs
  BestEvaluations best = {};
  bool operator==(const TrainPosition&) const = default;
};

// The numbers of levels of a run's codes, and the shares from which they were chosen, if they were
// adapted.
struct CodeLevels {
  uint64_t plan = 0;  // FingerprintOf the plan to which they belong
  // A pair for each of Plan::edges: levels, and those of them below zero. 0: the code has no
  // levels.
  std::vector<int64_t> counts;
  std::vector<double> shares;  // one for each edge: part of the gradient's variance, if measured
  bool operator==(const CodeLevels&) const = default;
};
// A fingerprint of what is stored, and in which forms. Plans with the same fingerprint have the
// same edges.
uint64_t FingerprintOf(const Plan& plan);
// The levels in a checkpoint. `counts` is empty if the checkpoint has none. Errors: a file that is
// not a checkpoint, a tensor of another type.
llvm::Expected<CodeLevels> ReadCodeLevels(const std::string& path);

// `levels` may be empty. On failure (a full disk), an earlier checkpoint at `path` stays as it was.
llvm::Error SaveCheckpoint(const std::string& path, const Executor& executor, const TrainPosition& position,
                           const CodeLevels& levels = {});

// Fills the executor's tensors from the file. A file without optimizer state and position (a model's weights
// alone) leaves those as they are. Errors, before anything is changed: a parameter or buffer that
// is missing or has another type; missing optimizer state after step 0.
llvm::Error LoadCheckpoint(const std::string& path, Executor& executor, TrainPosition& position);

// Where the run of a checkpoint stood; `seed` is that of a file without one. Its tensors are not read. Errors:
// a file that is not a checkpoint.
llvm::Expected<TrainPosition> ReadPosition(const std::string& path, uint64_t seed = 0);

// Prepares to go on with data of `samples` samples an epoch (0: without epochs). If the position is of another
// number, or beyond this one, it means nothing: the epoch begins anew. Returns what to tell of that, or "".
std::string GoOnWithData(TrainPosition& position, int64_t samples);

// The initial optimizer state: zeros, and for Adagrad's sums their initial value.
llvm::Error StartOptimizerState(const Executor& executor, const Hyperparameters& hyper);

// For example "param.conv1.weight". Empty for constants, which are part of the plan.
std::string CheckpointName(const PersistentTensor& tensor);

// The type of a tensor in files: that of its numbers, which a coded tensor has beside its code. `data` is null for
// others, whose numbers the device has.
HostView InFiles(const PersistentTensor& tensor);

// A tensor in the arena as a tensor of a file, read from the device when it is written.
NamedTensor Named(Device& device, std::string name, const TensorView& view);

}  // namespace act
