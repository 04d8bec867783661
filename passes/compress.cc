// Applies the policy: every forward value that the backward pass reads is stored in the form that was decided
// for it.
//
// 1. Derived nodes (functions of forward values that only backward reads) run in the forward pass when that
// makes what is
//    stored smaller (a ReLU's mask instead of its result) or its code unbiased (1 - y^2 instead of y, which
//    backward would square); otherwise they stay in the backward pass.
// 2. What then crosses from forward to backward gets a Compress behind its producer and a Decompress in front
// of each
//    reader. One value has one code, however many read it.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/ir/graph_builder.h"
#include "compiler/ops/codec_ops.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "runtime/base/error.h"

namespace act {
namespace {

bool IsProduct(const Node& node) {
  return node.op == "ConvGradWeight" || node.op == "ConvGradInput" || node.op == "Conv" ||
         node.op == "MatMul";
}

int64_t BitsFor(int64_t count) {
  int64_t bits = 1;
  while ((int64_t{1} << bits) < count) ++bits;
  return bits;
}

class Compressor {
 public:
  Compressor(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  llvm::Error Run() {
    while (model_nodes_ < graph_.nodes.size() && InForward(model_nodes_)) ++model_nodes_;
    Index();
    HoistDerived();
    OrderHoisted();
    Index();
    return InsertCodes();
  }

 private:
  Node& node(size_t i) { return graph_.nodes[i]; }

  void Index() {
    const size_t n = graph_.values.size();
    producer_.assign(n, -1);
    readers_.assign(n, {});
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (ValueId v : node(i).outputs) producer_[static_cast<size_t>(v)] = static_cast<int64_t>(i);
      for (ValueId v : node(i).inputs)
        if (v != kNoValue) readers_[static_cast<size_t>(v)].push_back(i);
    }
  }

  bool InForward(size_t i) const { return graph_.nodes[i].phase == Phase::kForward; }
  bool MadeInForward(ValueId v) const {
    const int64_t p = producer_[static_cast<size_t>(v)];
    return p >= 0 && InForward(static_cast<size_t>(p));
  }

  // Reshapes of a saved value stay in the backward pass and are looked through.
  bool FeedsProduct(ValueId v) {
    for (size_t r : readers_[static_cast<size_t>(v)]) {
      if (InForward(r)) continue;
      if (IsProduct(node(r)) || (node(r).op == "Reshape" && FeedsProduct(node(r).outputs[0]))) return true;
    }
    return false;
  }

  EdgeFacts FactsOf(ValueId v) {
    EdgeFacts facts;
    facts.type = graph_.value(v).type;
    facts.feeds_product = FeedsProduct(v) || from_product_input_.count(v) != 0;
    facts.activation = MadeInForward(v);
    if (facts.activation) {
      const Node& from = node(static_cast<size_t>(producer_[static_cast<size_t>(v)]));
      const OpDef* def = FindOp(from.op);
      facts.exact_bits = facts.type.dtype == DType::kBool || def->boolean;
      facts.of_loss = from.op == "SoftmaxCrossEntropy";
      const bool reorders = from.op == "Transpose" || from.op == "Reshape";
      facts.of_input = reorders && graph_.value(from.inputs[0]).kind == ValueKind::kInput;
      if (from.op == "MaxPool" && from.outputs.size() > 1 && from.outputs[1] == v) {
        int64_t window = 1;
        for (int64_t k : from.attrs.Ints("kernel_shape")) window *= k;
        facts.index_bits = BitsFor(window);
      }
    }
    return facts;
  }

  void HoistDerived() {
    // Values that a reader needs as numbers, so that they are stored whatever becomes of the masks made from
    // them.
    std::set<ValueId> kept_numbers;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (InForward(i)) continue;
      const OpDef* def = FindOp(node(i).op);
      if (node(i).phase == Phase::kDerived && def->boolean) continue;
      for (ValueId v : node(i).inputs)
        if (v != kNoValue && MadeInForward(v)) kept_numbers.insert(v);
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (node(i).phase != Phase::kDerived) continue;
      node(i).phase = ShouldHoist(i, kept_numbers) ? Phase::kForward : Phase::kBackward;
      if (!InForward(i)) continue;
      for (ValueId v : node(i).inputs)
        if (v != kNoValue && FeedsProduct(v)) from_product_input_.insert(node(i).outputs[0]);
    }
  }

  bool ShouldHoist(size_t i, const std::set<ValueId>& kept_numbers) {
    const Node& n = node(i);
    if (n.op == "Reshape") return false;
    bool all_at_hand = true, lossy = false, direct_readers = true;
    for (ValueId v : n.inputs) {
      if (v == kNoValue) continue;
      const int64_t p = producer_[static_cast<size_t>(v)];
      if (p >= 0 && !InForward(static_cast<size_t>(p)))
        return false;  // reads another derived value that stays
      if (p < 0) continue;
      const bool coded = context_.policy.CodesLossily(FactsOf(v));
      lossy |= coded;
      all_at_hand &= kept_numbers.count(v) != 0 && !coded;
      bool direct = false;
      for (size_t r : readers_[static_cast<size_t>(v)]) direct |= node(r).phase == Phase::kBackward;
      direct_readers &= !coded || direct;
    }
    const OpDef* def = FindOp(n.op);
    if (def->boolean) return !all_at_hand;
    if (!lossy) return false;
    // Affine in a value whose code is stored anyway: decode that. Otherwise store this result instead.
    return def->nonlinear || !direct_readers;
  }

  // Puts hoisted nodes right behind the last producer of their inputs, so that what they read need not live
  // on.
  void OrderHoisted() {
    std::vector<Node> forward, backward;
    for (Node& n : graph_.nodes) (n.phase == Phase::kForward ? forward : backward).push_back(std::move(n));
    // behind[v]: the model's node behind which v is made; -1 before all of them.
    std::vector<int64_t> behind(graph_.values.size(), -1);
    std::vector<std::vector<size_t>> hoisted(model_nodes_ + 1);  // by the node they follow, 0: before all
    for (size_t i = 0; i < forward.size(); ++i) {
      int64_t last = static_cast<int64_t>(i);
      if (i >= model_nodes_) {
        last = -1;
        for (ValueId v : forward[i].inputs)
          if (v != kNoValue) last = std::max(last, behind[static_cast<size_t>(v)]);
        hoisted[static_cast<size_t>(last + 1)].push_back(i);
      }
      for (ValueId v : forward[i].outputs) behind[static_cast<size_t>(v)] = last;
    }
    graph_.nodes.clear();
    for (size_t i = 0; i <= model_nodes_; ++i) {
      if (i > 0) graph_.nodes.push_back(std::move(forward[i - 1]));
      for (size_t h : hoisted[i]) graph_.nodes.push_back(std::move(forward[h]));
    }
    for (Node& n : backward) graph_.nodes.push_back(std::move(n));
  }

  llvm::Error InsertCodes() {
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
          TensorType type = graph_.value(v).type;
          if (it->second.decision.codec.kind != CodecKind::kIndex) type.dtype = DType::kFloat32;
          ACT_TRY(v, builder.AddTyped("Decompress", {it->second.code}, type,
                                      CodecAttributes(it->second.decision.codec, it->second.stream),
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
        if (v == kNoValue || !MadeInForward(v)) continue;
        const auto [it, added] = decided.emplace(v, Decided{});
        Decided& d = it->second;
        if (added) {
          const Node& from = node(static_cast<size_t>(producer_[static_cast<size_t>(v)]));
          const EdgeFacts facts = FactsOf(v);
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
  std::vector<int64_t> producer_;
  std::vector<std::vector<size_t>> readers_;
  // Hoisted functions of what a product reads: a level that codes only the latter codes these too, or it
  // would store more than L0, which needs no second tensor.
  std::set<ValueId> from_product_input_;
  size_t model_nodes_ = 0;  // forward nodes of the model; derived nodes stand behind them
};

}  // namespace

llvm::Error Compress(Graph& graph, PassContext& context) { return Compressor(graph, context).Run(); }

}  // namespace act
