// Applies the policy: every forward value that the backward pass reads is stored in the form that
// was decided for it. It gets a Compress after its producer and a Decompress before each reader. A
// reader gets one Decompress, however often it reads the value. A value has one code, however many
// nodes read it, unless the policy asks for one code a layer.
#include <algorithm>
#include <map>

#include "compiler/ops/codec_ops.h"
#include "compiler/ops/equal_parts.h"
#include "compiler/ops/graph_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "passes/storage/saved_values.h"
#include "runtime/base/error.h"

namespace act {
namespace {

std::string Join(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

class Compressor {
 public:
  Compressor(Graph& graph, PassContext& context) : graph_(graph), context_(context), saved_(graph, context) {}

  llvm::Error Run() {
    Decide();
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    GraphBuilder builder(graph_);
    for (Node& n : nodes) {
      const bool forward = n.phase == Phase::kForward;
      builder.SetPhase(forward ? Phase::kForward : Phase::kBackward);
      if (!forward) {
        std::map<ValueId, ValueId> decoded;
        for (ValueId& v : n.inputs) {
          if (const auto known = decoded.find(v); known != decoded.end()) {
            v = known->second;
            continue;
          }
          const Decided* d = v == kNoValue ? nullptr : Find(v, n);
          if (!d || d->code == kNoValue) continue;
          const TensorType type = graph_.value(v).type;
          Attributes attrs = CodecAttributes(d->decision.codec, d->stream);
          const bool mask = IsSignMask(OpOf(n)) && d->decision.codec.HoldsMask();
          if (mask) attrs.Set("as", std::string("mask"));
          ACT_TRY(const ValueId made, AddDecompress(builder, d->code, type, attrs, d->edge.name + ".decode"));
          if (mask) {
            // The decode, of the mask alone, takes the place of the node.
            TakePlace(n);
            break;
          }
          decoded[v] = made;
          v = made;
        }
      }
      const std::vector<ValueId> outputs = n.outputs;
      graph_.nodes.push_back(std::move(n));
      if (!forward) continue;
      for (ValueId v : outputs)
        if (const auto it = decided_.find(v); it != decided_.end())
          for (Decided& d : it->second) ACT_CHECK_OK(Store(v, d, builder));
    }
    return llvm::Error::success();
  }

 private:
  struct Decided {
    std::string layer;  // the layer that reads it; empty: all layers do
    Decision decision;
    SavedEdge edge;
    int64_t stream = 0;
    ValueId code = kNoValue;
  };

  // The decision on v for reader `n`. Null: v is not stored for it. The nodes of a layer's gradient
  // share its name.
  Decided* Find(ValueId v, const Node& n) {
    const auto it = decided_.find(v);
    if (it == decided_.end()) return nullptr;
    for (Decided& d : it->second)
      if (d.layer.empty() || d.layer == n.name) return &d;
    return nullptr;
  }

  void Decide() {
    for (const Node& n : graph_.nodes) {
      if (n.phase == Phase::kForward) continue;
      for (ValueId v : n.inputs) {
        if (v == kNoValue || !saved_.MadeInForward(v)) continue;
        Decided* d = Find(v, n);
        if (!d) d = &decided_[v].emplace_back(DecideFor(v, n));
        const std::string reader = n.name + " (" + n.op + ")";
        if (std::find(d->edge.consumers.begin(), d->edge.consumers.end(), reader) == d->edge.consumers.end())
          d->edge.consumers.push_back(reader);
      }
    }
  }

  Decided DecideFor(ValueId v, const Node& reader) {
    Decided d;
    const Node& from = graph_.nodes[static_cast<size_t>(saved_.Producer(v))];
    const EdgeFacts facts = saved_.FactsOf(v);
    d.decision = context_.policy.Decide(facts);
    const bool coded = d.decision.codec.kind != CodecKind::kNone;
    const bool another = !decided_[v].empty();
    if (d.decision.codec.HasLevels() && context_.policy.rules.copy_per_layer) d.layer = reader.name;
    d.edge.name = from.name + (from.name.empty() ? "" : " ") + "(" + from.op + ")";
    if (another) d.edge.name += " for " + d.layer;
    d.edge.form = coded ? ToString(d.decision.codec) : "keep";
    // The error comes from operators before the code. The code holds their result exactly.
    if (facts.fixed_range) d.edge.form = "fixed" + std::to_string(facts.index_bits);
    d.edge.reason = d.decision.reason;
    if (const std::vector<std::string>& computed = context_.marks[v].computed; !computed.empty())
      d.edge.reason += "; the backward pass recomputes from it: " + Join(computed);
    d.edge.least_bits = d.decision.least_bits;
    // A framework would keep the tensor once, or one byte an element for a mask.
    const Dim elements = facts.type.Elements();
    if (!another)
      d.edge.bytes_uncompressed = facts.exact_bits    ? elements
                                  : facts.fixed_range ? Dim(ByteSize(DType::kFloat32)) * elements
                                                      : facts.type.Bytes();
    d.edge.bits =
        coded ? BitsPerElement(d.decision.codec) : 8 * static_cast<double>(ByteSize(facts.type.dtype));
    return d;
  }

  // Of the node that was added last: it becomes `n`, and makes its result.
  void TakePlace(Node& n) {
    Node last = std::move(graph_.nodes.back());
    graph_.nodes.pop_back();
    graph_.values.pop_back();
    n.op = std::move(last.op);
    n.inputs = std::move(last.inputs);
    n.attrs = std::move(last.attrs);
  }

  // Adds the Compress after the producer of v.
  llvm::Error Store(ValueId v, Decided& d, GraphBuilder& builder) {
    if (d.decision.codec.kind != CodecKind::kNone) {
      d.stream = context_.next_stream++;
      ACT_TRY(d.code,
              AddCompress(builder, v, CodecAttributes(d.decision.codec, d.stream), d.edge.name + ".encode"));
    }
    d.edge.stored = d.code == kNoValue ? v : d.code;
    d.edge.bytes = graph_.value(d.edge.stored).type.Bytes();
    context_.marks[d.edge.stored].edges.push_back(static_cast<int32_t>(context_.edges.size()));
    context_.edges.push_back(d.edge);
    return llvm::Error::success();
  }

  Graph& graph_;
  PassContext& context_;
  const SavedValues saved_;
  // By value: one decision, or one for each layer.
  std::map<ValueId, std::vector<Decided>> decided_;
};

}  // namespace

llvm::Error Compress(Graph& graph, PassContext& context) { return Compressor(graph, context).Run(); }

}  // namespace act
