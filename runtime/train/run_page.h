// actrun --report-html: one page about a run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/executor/executor.h"
#include "runtime/train/run_curves.h"

namespace act {

struct RunPage {
  std::string title;                                      // "Training of model.onnx, level L3, batch 64"
  std::vector<std::pair<std::string, std::string>> rows;  // name and value: plan, device, hyperparameters
  std::string end;                                        // why the run ended
  const Executor* executor = nullptr;
  const RunCurves* curves = nullptr;
};

std::string RunPageHtml(const RunPage& page);

}  // namespace act
