// What the kernels of the operator `Random` share.
#pragma once

#include <optional>
#include <string>

#include "runtime/executor/kernel.h"

namespace act {

// y[i] = offset + scale * the i-th number of the distribution.
struct RandomShape {
  bool normal = false;  // otherwise uniform
  double offset = 0, scale = 1;
  uint32_t stream = 0;
};

// Nullopt, and the reason in `why`, where there is no such distribution, or the result is not one f32 tensor.
inline std::optional<RandomShape> RandomShapeOf(const KernelSite& site, std::string* why) {
  const Attributes& attrs = site.node->attrs;
  const std::string distribution = attrs.String("distribution");
  const auto no = [why](std::string reason) {
    if (why) *why = std::move(reason);
    return std::nullopt;
  };
  if (distribution != "normal" && distribution != "uniform")
    return no("no distribution '" + distribution + "'");
  if (site.outputs.size() != 1 || site.outputs[0].dtype != DType::kFloat32) return no("makes one f32 tensor");
  return RandomShape{distribution == "normal", attrs.Float("offset"), attrs.Float("scale", 1),
                     static_cast<uint32_t>(attrs.Int("stream"))};
}

}  // namespace act
