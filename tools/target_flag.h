// The flag --target of actc and actplan.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/target.h"
#include "runtime/memory/cards.h"

namespace act {

inline constexpr char kTargetForms[] = "cpu|cuda|cuda:CARD|all";

struct TargetChoice {
  std::vector<TargetKind> kinds;                // at least one
  const Card* card = nullptr;                   // with kinds = {kCuda}; null: none is named
  std::string card_name = {};                   // as it was given: "h200", or the path of a description
  std::shared_ptr<const void> keeps = nullptr;  // what owns a card that is none of the list

  bool IsOne() const { return kinds.size() == 1; }
};

// CARD is one of CardNames(), or the path of a description (kernels/nvidia/cards/README.md): it has a '/' or
// ends in .json. An error lists what is possible.
llvm::Expected<TargetChoice> ParseTarget(const std::string& text);

}  // namespace act
