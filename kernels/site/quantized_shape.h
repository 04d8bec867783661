// The operands of updates whose optimizer state lives in bfloat16 or in 8 bits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/math/moment_update.h"
#include "runtime/executor/kernel.h"

namespace act {

// An operator: gradient, scalars, clipping factor, parameter, states.
struct QuantizedRule {
  enum class Kind { kMomentum, kAdam, kLamb };
  Kind kind;
  std::string_view op;    // "QuantizedAdam"
  std::string_view name;  // of a kernel: "quantized_adam"
  size_t scalars, states;
  bool makes_direction;  // and leaves the parameter

  // The operator that does the same by rows of a table (runtime/plan/row_update.h). A direction is never made by rows.
  std::string RowsOp() const { return std::string(op) + "Rows"; }
  std::string RowsName() const { return std::string(name) + "_rows"; }
  size_t clip() const { return scalars + 1; }
  size_t parameter() const { return scalars + 2; }
  // State i, or its codes, after which its maxima follow.
  size_t state(size_t i, bool coded) const { return parameter() + 1 + (coded ? 2 * i : i); }
};
std::span<const QuantizedRule> QuantizedRules();

struct QuantizedShape {
  const QuantizedRule* rule = nullptr;
  int64_t elements = 0, blocks = 0;  // of the parameter
  bool coded = false;                // state is codes and maxima, and not bfloat16
  bool decoupled = false;
  uint32_t stream = 0;
};
// Of the operands of `op` but the gradient. Nullopt, with the reason in *why, if they do not fit.
std::optional<QuantizedShape> QuantizedShapeOf(std::string_view op, const KernelSite& site, std::string* why);
// The same, with the gradient, and without operands after those of the state.
std::optional<QuantizedShape> QuantizedUpdateShapeOf(std::string_view op, const KernelSite& site,
                                                     std::string* why);
// The numbers of a step that its operands hold.
MomentScalars MomentScalarsOf(const KernelArgs& args, const QuantizedShape& shape);

}  // namespace act
