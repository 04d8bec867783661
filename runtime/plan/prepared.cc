#include "runtime/plan/prepared.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace act {
namespace {

// The item of a sorted list whose `key` is `wanted`, or null.
template <class Item>
const Item* Find(const std::vector<Item>& items, std::string Item::*key, const std::string& wanted) {
  const auto at =
      std::lower_bound(items.begin(), items.end(), wanted,
                       [&](const Item& item, const std::string& text) { return item.*key < text; });
  return at != items.end() && (*at).*key == wanted ? &*at : nullptr;
}

// Whether each key is there and comes after the one before.
template <class Item>
bool Ascend(const std::vector<Item>& items, std::string Item::*key) {
  for (size_t i = 0; i < items.size(); ++i)
    if ((items[i].*key).empty() || (i > 0 && items[i - 1].*key >= items[i].*key)) return false;
  return true;
}

}  // namespace

const PreparedKernel* Prepared::FindKernel(const std::string& key) const {
  return Find(kernels, &PreparedKernel::key, key);
}

const PreparedEngine* Prepared::FindEngine(const std::string& problem) const {
  return Find(engines, &PreparedEngine::problem, problem);
}

int64_t Prepared::Bytes() const {
  int64_t bytes = 0;
  for (const PreparedKernel& kernel : kernels) bytes += kernel.image.bytes;
  for (const PreparedEngine& engine : engines) bytes += engine.plan.bytes;
  return bytes;
}

llvm::Error CheckPrepared(const Prepared& prepared) {
  const auto wrong = [](const std::string& what) {
    return MakeError("what is prepared for a card", what, "compile the model again");
  };
  if (prepared.card.empty() || prepared.compiler.empty() || prepared.library.empty())
    return wrong("does not say for which card, compiler and library");
  if (prepared.batch < 1) return wrong("is for a batch of " + std::to_string(prepared.batch));
  if (!Ascend(prepared.kernels, &PreparedKernel::key)) return wrong("has kernels that are not in order");
  if (!Ascend(prepared.engines, &PreparedEngine::problem)) return wrong("has engines that are not in order");
  for (const PreparedKernel& kernel : prepared.kernels)
    if (!kernel.image.data || kernel.image.bytes <= 0)
      return wrong("has no code of kernel '" + kernel.name + "'");
  for (const PreparedEngine& engine : prepared.engines)
    if (engine.workspace_bytes < 0 || (!engine.plan.data && engine.plan.bytes != 0))
      return wrong("has an engine without its sizes: '" + engine.problem + "'");
  return llvm::Error::success();
}

}  // namespace act
