#include "runtime/train/early_stop.h"

#include <cstdio>

namespace act {
namespace {

const BestFigure& FigureOf(const TrainPosition& position, Figure figure) {
  return figure == Figure::kLoss ? position.best.loss : position.best.accuracy;
}

}  // namespace

EarlyStop::EarlyStop(int64_t patience, Figure figure, const TrainPosition& start)
    : patience_(patience), figure_(figure), state_(FigureOf(start, figure)) {}

llvm::Error EarlyStop::AfterEvaluation(const Executor& /*executor*/, const TrainPosition& position,
                                       const Evaluation& /*evaluation*/) {
  state_ = FigureOf(position, figure_);
  return llvm::Error::success();
}

std::string EarlyStop::EndReason() {
  if (state_.stale < patience_) return "";
  char text[160];
  const char* name = figure_ == Figure::kLoss ? "loss" : "accuracy";
  if (state_.best) {
    std::snprintf(text, sizeof text, "%lld evaluation%s in a row did not improve the %s of %.6g (--patience)",
                  static_cast<long long>(state_.stale), state_.stale == 1 ? "" : "s", name, *state_.best);
  } else {
    std::snprintf(text, sizeof text, "no evaluation had a finite %s (--patience)", name);
  }
  return text;
}

}  // namespace act
