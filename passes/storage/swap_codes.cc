// Keeps codes in the host's memory until the backward pass: those that the preset's rules name, or under a limit of the
// host's memory (actc --host-limit) those that are large and wait for long. A SwapOut comes after the loop that makes
// the code. A SwapIn comes before the first node of the backward pass that reads it, and its copy serves all readers.
// Bytes are copied as they are, so gradients are the same to the last bit.
#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "compiler/ops/graph_builder.h"
#include "passes/pass.h"
#include "runtime/base/dim.h"
#include "runtime/base/error.h"
#include "runtime/base/target.h"
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

  // A code that the forward pass makes and the backward pass reads.
  struct Waiting {
    ValueId code = kNoValue;
    Codec codec;
    size_t made = 0, read = 0;  // positions of its maker and its first reader
    int64_t bytes = 0;          // of the host's arena, at the report's batch
  };

  // Finds the codes of the saved activations that are swapped.
  void FindCodes() {
    std::vector<Waiting> waiting = WaitingCodes();
    if (context_.host_limit > 0) {
      KeepWithinLimit(waiting);
    } else {
      std::erase_if(waiting, [this](const Waiting& w) { return !context_.policy.Swaps(w.codec); });
    }
    for (const Waiting& w : waiting) codes_[w.code];
    for (SavedEdge& edge : context_.edges) {
      const auto code = codes_.find(edge.stored);
      if (code == codes_.end()) continue;
      code->second.name = edge.name;
      edge.reason += "; until it is read its code waits in the host's memory";
    }
  }

  std::vector<Waiting> WaitingCodes() const {
    std::set<ValueId> stored;
    for (const SavedEdge& edge : context_.edges) stored.insert(edge.stored);
    std::map<ValueId, Waiting> codes;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.phase != Phase::kForward)
        for (const ValueId v : node.inputs)
          if (const auto code = codes.find(v); code != codes.end() && code->second.read == 0)
            code->second.read = i;
      if (node.phase != Phase::kForward || !RunsProgram(node)) continue;
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        const ValueId v = node.outputs[o];
        if (node.program.outputs[o].kind != OutputKind::kEncode || !stored.count(v)) continue;
        const int64_t bytes = graph_.value(v).type.Bytes().At(context_.policy.batch);
        codes[v] = {.code = v,
                    .codec = node.program.outputs[o].codec,
                    .made = i,
                    .bytes = RoundUp(bytes, AlignmentOf(context_.target))};
      }
    }
    std::vector<Waiting> waiting;
    for (const auto& [v, code] : codes)
      if (code.read > 0) waiting.push_back(code);
    return waiting;
  }

  // Copies take time, so those are swapped first that free the most memory for the longest part of the step. All of
  // them are on the host when the backward pass begins, so its arena takes the sum of their bytes.
  void KeepWithinLimit(std::vector<Waiting>& waiting) const {
    const auto freed = [](const Waiting& w) {
      return static_cast<double>(w.bytes) * static_cast<double>(w.read - w.made);
    };
    std::stable_sort(waiting.begin(), waiting.end(),
                     [&](const Waiting& a, const Waiting& b) { return freed(a) > freed(b); });
    std::vector<Waiting> kept;
    int64_t bytes = 0;
    for (const Waiting& w : waiting) {
      if (static_cast<int64_t>(kept.size()) == context_.most_swapped) break;
      if (w.bytes > context_.host_limit - bytes) continue;
      bytes += w.bytes;
      kept.push_back(w);
    }
    waiting = std::move(kept);
  }

  Graph& graph_;
  PassContext& context_;
  std::map<ValueId, Swapped> codes_;
};

}  // namespace

llvm::Error SwapCodes(Graph& graph, PassContext& context) { return Swapper(graph, context).Run(); }

}  // namespace act
