#include "runtime/plan/plugins.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "runtime/base/error.h"

namespace act {
namespace {

// Calls f(codec) for each plugin codec of a graph's programs.
template <class GraphType, class F>
llvm::Error ForPluginCodecs(GraphType& graph, const F& f) {
  for (auto& node : graph.nodes) {
    for (auto& input : node.program.inputs)
      if (input.codec.plugin) ACT_CHECK_OK(f(input.codec));
    for (auto& output : node.program.outputs)
      if (output.codec.plugin) ACT_CHECK_OK(f(output.codec));
  }
  return llvm::Error::success();
}

std::string Version(int64_t version) { return "version " + std::to_string(version); }

llvm::Expected<std::shared_ptr<const PluginCodec>> Bind(const Codec& codec,
                                                        const std::vector<const act_codec*>& loaded,
                                                        bool check) {
  const PluginCodec& stored = *codec.plugin;
  const std::string place = "codec '" + stored.name + "'";
  const auto same_name = [&stored](const act_codec* c) { return std::string_view(c->name) == stored.name; };
  const auto found = std::find_if(loaded.begin(), loaded.end(), same_name);
  if (found == loaded.end())
    return MakeError(place, "is a plugin's, and no --plugin has it",
                     "run with --plugin=LIB.so of that codec, " + Version(stored.version));
  if ((*found)->version != stored.version)
    return MakeError(place,
                     "the plan was compiled with " + Version(stored.version) + ", --plugin has " +
                         Version((*found)->version),
                     "compile the model again, or run with the library of that version");
  ACT_TRY(const Codec offered, MakePluginCodec(**found, codec.bits, codec.group_size));
  if (offered != codec)
    return MakeError(place,
                     "its " + Version(stored.version) + " has other sizes than when the plan was compiled",
                     "a codec whose codes change needs a new version");
  auto bound = std::make_shared<PluginCodec>(*offered.plugin);
  if (check) bound->fault = std::make_shared<PluginFault>();
  return bound;
}

}  // namespace

llvm::Error BindPlugins(Plan& plan, const std::vector<const act_codec*>& loaded, bool check) {
  // Equal codecs share one binding.
  std::vector<std::pair<Codec, std::shared_ptr<const PluginCodec>>> known;
  const auto bind = [&](Codec& codec) -> llvm::Error {
    for (const auto& [same, bound] : known)
      if (same == codec) {
        codec.plugin = bound;
        return llvm::Error::success();
      }
    ACT_TRY(auto bound, Bind(codec, loaded, check));
    known.emplace_back(codec, bound);
    codec.plugin = std::move(bound);
    return llvm::Error::success();
  };
  ACT_CHECK_OK(ForPluginCodecs(plan.train.graph, bind));
  return ForPluginCodecs(plan.eval.graph, bind);
}

}  // namespace act
