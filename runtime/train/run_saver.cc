#include "runtime/train/run_saver.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"

namespace act {

RunSaver::RunSaver(CheckpointFiles files, RunSaverOptions options)
    : files_(std::move(files)), options_(std::move(options)), last_(options_.now()) {}

void RunSaver::Continue(const CheckpointFiles::Search& search) {
  for (const CheckpointFiles::Found& found : search.found) {
    if (found.path != files_.last()) kept_.push_back(found.path);
    saved_step_ = found.position.step;
  }
  // A run that was killed between writing a state and removing an older one left one too many.
  if (options_.every.steps > 0 || options_.every.time.count() > 0) RemoveOlder();
  if (options_.best == BestBy::kNone) return;
  llvm::Expected<TrainPosition> best = ReadPosition(files_.best());
  if (best) {
    best_ = options_.best == BestBy::kLoss ? best->best.loss.best : best->best.accuracy.best;
  } else {
    llvm::consumeError(best.takeError());  // there is none, or it is damaged: the next one replaces it
  }
}

bool RunSaver::Save(const std::string& path, const Executor& executor, const TrainPosition& position) {
  llvm::Error error =
      SaveCheckpoint(path, executor, position, options_.levels ? options_.levels() : CodeLevels{});
  if (!error) return true;
  std::string warning = "step " + std::to_string(position.step) + " is not saved: ";
  llvm::handleAllErrors(
      std::move(error), [&](const ActError& e) { warning += e.place() + ": " + e.what(); },
      [&](const llvm::ErrorInfoBase& e) { warning += e.message(); });
  warnings_.push_back(std::move(warning));
  return false;
}

bool RunSaver::WantsState(const TrainPosition& position) {
  if (options_.every.steps > 0) return position.step % options_.every.steps == 0;
  return options_.every.time.count() > 0 && options_.now() - last_ >= options_.every.time;
}

llvm::Error RunSaver::AtState(const Executor& executor, const TrainPosition& position) {
  last_ = options_.now();
  const std::string path = files_.AtStep(position.step);
  if (!Save(path, executor, position)) {
    warnings_.back() += kept_.empty() && saved_step_ == 0
                            ? "; nothing of this run is saved yet"
                            : "; the last state on the disk is of step " + std::to_string(saved_step_);
    return llvm::Error::success();
  }
  saved_step_ = position.step;
  kept_.erase(std::remove(kept_.begin(), kept_.end(), path), kept_.end());
  kept_.push_back(path);
  RemoveOlder();
  return llvm::Error::success();
}

void RunSaver::RemoveOlder() {
  for (; kept_.size() > options_.keep; kept_.pop_front())
    if (::unlink(kept_.front().c_str()) != 0 && errno != ENOENT)
      warnings_.push_back(kept_.front() + ": cannot remove: " + std::strerror(errno));
}

llvm::Error RunSaver::AfterEvaluation(const Executor& executor, const TrainPosition& position,
                                      const Evaluation& evaluation) {
  if (options_.best == BestBy::kNone) return llvm::Error::success();
  const bool by_loss = options_.best == BestBy::kLoss;
  if (!by_loss && !evaluation.accuracy) return llvm::Error::success();
  const double figure = by_loss ? evaluation.loss : *evaluation.accuracy;
  if (!std::isfinite(figure) || (best_ && (by_loss ? figure >= *best_ : figure <= *best_)))
    return llvm::Error::success();
  // The file's figure is that of its own state, also where a continued run once had a better one in another file.
  TrainPosition state = position;
  (by_loss ? state.best.loss : state.best.accuracy) = {.best = figure, .stale = 0};
  if (Save(files_.best(), executor, state)) best_ = figure;
  return llvm::Error::success();
}

}  // namespace act
