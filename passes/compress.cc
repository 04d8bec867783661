// Applies the policy: every forward value that the backward pass reads is stored in the form that was decided
// for it. It gets a Compress behind its producer and a Decompress in front of each reader. One value has one
// code, however many read it.
#include <algorithm>
#include <map>

#include "compiler/ir/graph_builder.h"
#include "compiler/ops/codec_ops.h"
#include "passes/pass.h"
#include "passes/saved_values.h"
#include "runtime/base/error.h"

namespace act {
namespace {

class Compressor {
 public:
  Compressor(Graph& graph, PassContext& context) : graph_(graph), context_(context), saved_(graph, context) {}

  llvm::Error Run() {
    std::map<ValueId, Decided> decided = Decide();
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    GraphBuilder builder(graph_);
    for (Node& n : nodes) {
      const bool forward = n.phase == Phase::kForward;
      builder.SetPhase(forward ? Phase::kForward : Phase::kBackward);
      if (!forward) {
        for (ValueId& v : n.inputs) {
          const auto it = v == kNoValue ? decided.end() : decided.find(v);
          if (it == decided.end() || it->second.code == kNoValue) continue;
          const TensorType type = graph_.value(v).type;
          Attributes attrs = CodecAttributes(it->second.decision.codec, it->second.stream);
          if (n.op == "ReluDerivative" && it->second.decision.codec.HoldsMask()) {
            // The node itself becomes the decode: of the mask alone.
            attrs.Set("as", std::string("mask"));
            n.op = "Decompress";
            n.inputs = {it->second.code};
            n.attrs = attrs;
            break;
          }
          ACT_TRY(v, builder.AddTyped("Decompress", {it->second.code}, type, attrs,
                                      it->second.edge.name + ".decode"));
        }
      }
      const std::vector<ValueId> outputs = n.outputs;
      graph_.nodes.push_back(std::move(n));
      if (!forward) continue;
      for (ValueId v : outputs) {
        const auto it = decided.find(v);
        if (it == decided.end()) continue;
        Decided& d = it->second;
        if (d.decision.codec.kind != CodecKind::kNone) {
          d.stream = context_.next_stream++;
          ACT_TRY(d.code, builder.Add1("Compress", {v}, CodecAttributes(d.decision.codec, d.stream),
                                       d.edge.name + ".encode"));
        }
        d.edge.stored = d.code == kNoValue ? v : d.code;
        d.edge.bytes = graph_.value(d.edge.stored).type.Bytes();
        context_.edges.push_back(d.edge);
      }
    }
    return llvm::Error::success();
  }

 private:
  struct Decided {
    Decision decision;
    SavedEdge edge;
    int64_t stream = 0;
    ValueId code = kNoValue;
  };

  std::map<ValueId, Decided> Decide() {
    std::map<ValueId, Decided> decided;
    for (const Node& n : graph_.nodes) {
      if (n.phase == Phase::kForward) continue;
      for (ValueId v : n.inputs) {
        if (v == kNoValue || !saved_.MadeInForward(v)) continue;
        const auto [it, added] = decided.emplace(v, Decided{});
        Decided& d = it->second;
        if (added) {
          const Node& from = graph_.nodes[static_cast<size_t>(saved_.Producer(v))];
          const EdgeFacts facts = saved_.FactsOf(v);
          d.decision = context_.policy.Decide(facts);
          const bool coded = d.decision.codec.kind != CodecKind::kNone;
          d.edge.name = from.name + (from.name.empty() ? "" : " ") + "(" + from.op + ")";
          d.edge.form = coded ? ToString(d.decision.codec) : "keep";
          d.edge.reason = d.decision.reason;
          // What a framework would keep: the tensor, or for a mask one byte an element.
          d.edge.bytes_uncompressed = facts.exact_bits ? facts.type.Elements() : facts.type.Bytes();
          d.edge.bits =
              coded ? BitsPerElement(d.decision.codec) : 8 * static_cast<double>(ByteSize(facts.type.dtype));
        }
        const std::string reader = n.name + " (" + n.op + ")";
        if (std::find(d.edge.consumers.begin(), d.edge.consumers.end(), reader) == d.edge.consumers.end())
          d.edge.consumers.push_back(reader);
      }
    }
    return decided;
  }

  Graph& graph_;
  PassContext& context_;
  const SavedValues saved_;
};

}  // namespace

llvm::Error Compress(Graph& graph, PassContext& context) { return Compressor(graph, context).Run(); }

}  // namespace act
