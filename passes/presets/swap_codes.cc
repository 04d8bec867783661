// Keeps codes in the host's memory until the backward pass, if the preset's rules say so. A SwapOut
// comes after the loop that makes the code. A SwapIn comes before the first node of the backward
// pass that reads it, and its copy serves all readers. Bytes are copied as they are, so gradients
// are the same to the last bit.
#include <map>

#include "compiler/ops/graph_builder.h"
#include "passes/pass.h"
#include "runtime/base/error.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

class Swapper {
 public:
  Swapper(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  llvm::Error Run() {
    FindCodes();
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    GraphBuilder builder(graph_);
    for (Node& node : nodes) {
      const bool forward = node.phase == Phase::kForward;
      builder.SetPhase(forward ? Phase::kForward : Phase::kBackward);
      if (!forward)
        for (ValueId& v : node.inputs)
          if (const auto it = codes_.find(v); it != codes_.end()) {
            Swapped& code = it->second;
            if (code.back == kNoValue) {
              ACT_TRY(code.back, builder.Add1(kSwapIn, {code.on_host}, {}, code.name + ".swap_in"));
            }
            v = code.back;
          }
      const std::vector<ValueId> outputs = node.outputs;
      graph_.nodes.push_back(std::move(node));
      for (ValueId v : outputs)
        if (const auto it = codes_.find(v); it != codes_.end()) {
          ACT_TRY(it->second.on_host, builder.Add1(kSwapOut, {v}, {}, it->second.name + ".swap_out"));
        }
    }
    return llvm::Error::success();
  }

 private:
  struct Swapped {
    std::string name;
    ValueId on_host = kNoValue, back = kNoValue;
  };

  // Finds the codes of the saved activations that the policy swaps.
  void FindCodes() {
    std::map<ValueId, Codec> made;
    std::map<ValueId, bool> read;
    for (const Node& node : graph_.nodes) {
      if (node.phase != Phase::kForward)
        for (const ValueId v : node.inputs) read[v] = true;
      if (node.phase != Phase::kForward || !RunsProgram(node)) continue;
      for (size_t o = 0; o < node.outputs.size(); ++o)
        if (node.program.outputs[o].kind == OutputKind::kEncode)
          made[node.outputs[o]] = node.program.outputs[o].codec;
    }
    for (SavedEdge& edge : context_.edges) {
      const auto code = made.find(edge.stored);
      if (code == made.end() || !read[edge.stored] || !context_.policy.Swaps(code->second)) continue;
      codes_[edge.stored].name = edge.name;
      edge.reason += "; until it is read its code waits in the host's memory";
    }
  }

  Graph& graph_;
  PassContext& context_;
  std::map<ValueId, Swapped> codes_;
};

}  // namespace

llvm::Error SwapCodes(Graph& graph, PassContext& context) { return Swapper(graph, context).Run(); }

}  // namespace act
