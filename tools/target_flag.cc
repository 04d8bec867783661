#include "tools/target_flag.h"

#include <iterator>

#include "runtime/base/error.h"

namespace act {

llvm::Expected<TargetChoice> ParseTarget(const std::string& text) {
  if (text == "all") return TargetChoice{{std::begin(kTargets), std::end(kTargets)}};
  if (const auto kind = ParseTargetKind(text)) return TargetChoice{{*kind}};
  const std::string prefix = std::string(ToString(TargetKind::kCuda)) + ":";
  const std::string cards = "the cards are " + CardNames();
  if (text.rfind(prefix, 0) != 0)
    return MakeError("--target", "expected " + std::string(kTargetForms) + ", found '" + text + "'", cards);
  const std::string name = text.substr(prefix.size());
  if (const Card* card = FindCard(name)) return TargetChoice{{TargetKind::kCuda}, card};
  return MakeError("--target", "no such card: '" + name + "'", cards + "; without one, write cuda");
}

}  // namespace act
