// The flag --target of actc and actplan.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "runtime/base/target.h"
#include "runtime/memory/cards.h"

namespace act {

inline constexpr char kTargetForms[] = "cpu|cuda|cuda:CARD|all";

struct TargetChoice {
  std::vector<TargetKind> kinds;  // at least one
  const Card* card = nullptr;     // with kinds = {kCuda}; null: none is named

  bool IsOne() const { return kinds.size() == 1; }
};

// An error lists what is possible.
llvm::Expected<TargetChoice> ParseTarget(const std::string& text);

}  // namespace act
