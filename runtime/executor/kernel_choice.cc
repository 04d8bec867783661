#include "runtime/executor/kernel_choice.h"

#include <llvm/ADT/StringExtras.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <variant>

#include "runtime/base/error.h"
#include "runtime/base/hash.h"

namespace act {
namespace {

std::string TextOf(int64_t number) { return std::to_string(number); }
std::string TextOf(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", number);
  return text;
}
// An attribute's text may come from an untrusted file, and the site's text is one line.
std::string TextOf(const std::string& text) {
  const bool plain =
      std::all_of(text.begin(), text.end(), [](char c) { return llvm::isAlnum(c) || c == '_'; });
  return plain ? text : "#" + HexOf(HashOf(text));
}
template <class T>
std::string TextOf(const std::vector<T>& list) {
  std::string text;
  for (const T& item : list) text += (text.empty() ? "" : ",") + TextOf(item);
  return "(" + text + ")";
}

std::string TextOf(const TensorView& view) {
  if (view.dims.empty() && view.bytes == 0) return "none";
  std::string text(ToString(view.dtype));
  for (size_t d = 0; d < view.dims.size(); ++d) text += (d == 0 ? ":" : "x") + TextOf(view.dims[d]);
  if (view.coded)
    text += "=" + TextOf(ToString(view.coded->codec)) + "of" + TextOf(DimsAt(view.coded->type.dims, 1));
  return text;
}

}  // namespace

std::string PlaceOf(const Node& node) { return "node '" + node.name + "' (" + node.op + ")"; }

std::string SiteText(const KernelSite& site) {
  const Node& node = *site.node;
  std::string text = TextOf(node.op);
  for (const auto& [name, attribute] : node.attrs.map()) {
    if (name == "stream") continue;  // which random numbers are drawn, not how many
    text += " " + TextOf(name) + "=" + std::visit([](const auto& value) { return TextOf(value); }, attribute);
  }
  if (!node.program.Empty()) text += " program=" + TextOf(ToString(node.program));
  for (const TensorView& view : site.inputs) text += " " + TextOf(view);
  text += " to";
  for (const TensorView& view : site.outputs) text += " " + TextOf(view);
  text += " batch=" + TextOf(site.batch);
  if (site.whole_batch != site.batch) text += " of=" + TextOf(site.whole_batch);
  return text + " workspace=" + TextOf(site.workspace_bytes) + " threads=" + std::to_string(site.threads);
}

std::unique_ptr<Kernel> CreateKernel(const KernelEntry& entry, const KernelSite& site, std::string* why) {
  std::unique_ptr<Kernel> kernel = entry.create(site, why);
  if (!kernel || kernel->WorkspaceBytes() <= site.workspace_bytes) return kernel;
  *why = "asks for more workspace than the plan gives";
  return nullptr;
}

llvm::Expected<TakenKernel> TakeKernel(const KernelRegistry& registry, const KernelSite& site,
                                       const std::string& preferred) {
  const std::vector<KernelEntry>& entries = registry.For(site.node->op);
  const bool prefers = std::any_of(entries.begin(), entries.end(),
                                   [&](const KernelEntry& entry) { return entry.name == preferred; });
  TakenKernel taken;
  std::vector<std::string> refusals;
  for (const KernelEntry& entry : entries) {
    if (taken.kernel && entry.name != preferred) continue;
    std::string why;
    if (std::unique_ptr<Kernel> kernel = CreateKernel(entry, site, &why)) {
      taken = {entry.name, std::move(kernel), refusals};
      if (!prefers || entry.name == preferred) return taken;
    } else {
      refusals.push_back(entry.name + ": " + (why.empty() ? "refused" : why));
    }
  }
  if (taken.kernel) return taken;
  std::string what = "no kernel runs this operator here";
  for (const std::string& refusal : refusals) what += "; " + refusal;
  return MakeError(PlaceOf(*site.node), what, "--verbose=dispatch lists the kernels of every node");
}

}  // namespace act
