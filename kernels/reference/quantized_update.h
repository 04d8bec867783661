// The arithmetic of updates whose optimizer state lives in bfloat16 or in 8 bits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/executor/kernel.h"

namespace act {

struct QuantizedRule;  // of an operator: its scalars, states and formula

struct QuantizedShape {
  const QuantizedRule* rule = nullptr;
  int64_t elements = 0, blocks = 0;  // of the parameter
  bool coded = false;                // state is codes and maxima, and not bfloat16
  bool decoupled = false;
  uint32_t stream = 0;
};
// Of the operands of `op` ("QuantizedAdam") but the gradient. Nullopt, with the reason in *why, if they do not
// fit.
std::optional<QuantizedShape> QuantizedShapeOf(std::string_view op, const KernelSite& site, std::string* why);

// Updates blocks first .. last - 1. `gradient` begins with the block `first`.
void UpdateQuantizedBlocks(const KernelArgs& args, const QuantizedShape& shape, const float* gradient,
                           int64_t first, int64_t last, int threads);

}  // namespace act
