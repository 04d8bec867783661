#include "tools/target_flag.h"

#include <iterator>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

namespace act {
namespace {

constexpr char kReadMe[] = "kernels/nvidia/cards/README.md says how to record a description on a card";

// A card of a file, which owns what names it.
struct DescribedCard {
  std::string name;
  Card card;
};

// The card of a description (kernels/nvidia/cards/README.md).
llvm::Expected<TargetChoice> ReadDescription(const std::string& place, const std::string& path) {
  auto file = MappedFile::Open(path);  // refuses devices, which may have no end
  if (!file) return MakeError(place, "cannot read " + llvm::toString(file.takeError()), kReadMe);
  const auto text = (*file)->bytes();
  llvm::Expected<llvm::json::Value> json =
      ParseJson({reinterpret_cast<const char*>(text.data()), text.size()});
  if (!json)
    return MakeError(place, path + " describes no card: " + llvm::toString(json.takeError()), kReadMe);
  const llvm::json::Object* fields = json->getAsObject();
  const auto name = fields ? fields->getString("deviceName") : std::nullopt;
  const llvm::json::Value* memory = fields ? fields->get("totalGlobalMem") : nullptr;
  const auto bytes = memory ? IntegerOf(*memory) : std::nullopt;
  if (!name || name->empty() || !bytes || *bytes <= 0)
    return MakeError(place, path + " describes no card: it has no \"deviceName\" or no \"totalGlobalMem\"",
                     kReadMe);
  auto described = std::make_shared<DescribedCard>();
  described->name = name->str();
  described->card = {described->name, *bytes};
  return TargetChoice{{TargetKind::kCuda}, &described->card, path, described};
}

}  // namespace

llvm::Expected<TargetChoice> ParseTarget(const std::string& text) {
  if (text == "all") return TargetChoice{{std::begin(kTargets), std::end(kTargets)}};
  if (const auto kind = ParseTargetKind(text)) return TargetChoice{{*kind}};
  const std::string prefix = std::string(ToString(TargetKind::kCuda)) + ":";
  const std::string cards = "the cards are " + CardNames();
  if (text.rfind(prefix, 0) != 0)
    return MakeError("--target", "expected " + std::string(kTargetForms) + ", found '" + text + "'", cards);
  const std::string name = text.substr(prefix.size());
  if (const Card* card = FindCard(name)) return TargetChoice{{TargetKind::kCuda}, card, name};
  if (name.find('/') != std::string::npos || llvm::StringRef(name).ends_with(".json"))
    return ReadDescription("--target=" + text, name);
  return MakeError("--target", "no such card: '" + name + "'", cards + "; without one, write cuda");
}

}  // namespace act
