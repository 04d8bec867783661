// Which engine of cuDNN computes a graph: its number and its settings. With the graph, the kind of card and the
// library's version that is all that makes an execution plan. cuDNN's own text of a plan has the driver's
// version in it too, and does not load with another one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/nvidia/cudnn_descriptor.h"

namespace act::cuda {

struct EngineChoice {
  int64_t engine = -1;
  std::vector<std::pair<int64_t, int64_t>> knobs;  // type and value

  static EngineChoice Of(const Descriptor& engine, const Descriptor& config);
  // Of what Text() returns, and nothing else.
  static std::optional<EngineChoice> Parse(const std::string& text);
  // "34 k24=17 k6=2".
  std::string Text() const;
  // For a configuration of the engine that is not finished yet.
  void SetKnobs(Descriptor* config) const;
};

}  // namespace act::cuda
