// What is a cheap, affine function of values that are stored anyway is not stored: backward computes it
// again, from their decoded forms. So one code of a normalized activation serves the gradient of the
// normalization, the mask of the ReLU behind it (stored in a bit, exact) and the input of the next
// convolution.
//
// Only affine functions, and products with stored masks: their operands' decodes are unbiased, so the result
// is. A ReLU is the product of its operand with its mask, never the ReLU of a decoded number, whose mean
// would be too large.
//
// Where the policy re-runs (L4), a convolution or product is such a function too, of anchors that lie further
// apart (cut_forward.h): what it makes is made once, in front of its first reader in the backward pass,
// and lies in memory until its last one. Normalizations are done again with the statistics of the forward
// pass, which are kept, so that they too are affine.
//
// A chain of residual sums could be followed to its start, at the price of one decode a block for each; it is
// cut where a rebuilt value would read more than kMostReads tensors.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/ir/graph_builder.h"
#include "compiler/ops/codec_ops.h"
#include "passes/cut_forward.h"
#include "passes/pass.h"
#include "passes/saved_values.h"
#include "runtime/base/error.h"

namespace act {
namespace {

constexpr double kMostReads = 4;      // full-size codes that a rebuilt value may read
constexpr double kMaskRead = 1. / 8;  // a mask, beside a code

// x, mean, rstd, gamma, beta -> normalized x times gamma plus beta
bool IsApply(const Node& node) { return node.op == "BatchNormApply" || node.op == "LayerNormApply"; }
// x, mean, rstd -> normalized x
bool IsNormalize(const Node& node) { return node.op == "Normalize" || node.op == "Standardize"; }

class Rebuilder {
 public:
  Rebuilder(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), saved_(graph, context), builder_(graph) {}

  llvm::Error Run() {
    FindMasksAndNormalized();
    if (Reruns()) ChooseReruns();
    // In forward order, so that what a value is rebuilt from is decided before it.
    for (const Node& node : graph_.nodes) {
      if (node.phase != Phase::kForward) break;
      for (ValueId v : node.outputs) {
        if (!saved_.Crosses(v) || context_.anchors.count(v)) continue;
        if (ReordersInput(node)) rebuilt_[v] = 1;
        if (!context_.policy.rebuilds || !saved_.CodesLossily(v)) continue;
        const std::optional<double> reads = ReadsOfProducer(v);
        if (reads && *reads <= kMostReads) rebuilt_[v] = *reads;
      }
    }
    return rebuilt_.empty() ? llvm::Error::success() : Emit();
  }

 private:
  // A re-run normalization, as it waits for its readers.
  struct Recoded {
    ValueId code = kNoValue;
    Attributes attrs;
  };
  using Key = std::vector<ValueId>;

  const Node& ProducerOf(ValueId v) const { return graph_.nodes[static_cast<size_t>(saved_.Producer(v))]; }

  // An input is in memory in any case: its order of axes is made again at every level, exactly.
  bool ReordersInput(const Node& node) const {
    return (node.op == "Transpose" || node.op == "Reshape") && !saved_.MadeInForward(node.inputs[0]);
  }

  void FindMasksAndNormalized() {
    for (const Node& node : graph_.nodes) {
      if (node.phase != Phase::kForward) continue;
      if (node.op == "ReluDerivative" && saved_.Crosses(node.outputs[0]))
        mask_of_[node.inputs[0]] = node.outputs[0];
      if (IsNormalize(node) && saved_.Crosses(node.outputs[0])) normalized_[node.inputs] = node.outputs[0];
    }
  }

  ValueId MaskOf(ValueId relu) const {
    const auto it = mask_of_.find(relu);
    return it == mask_of_.end() ? kNoValue : it->second;
  }
  // The stored normalized form of what an IsApply node reads.
  ValueId NormalizedOf(const Node& apply) const {
    const auto it = normalized_.find(Key(apply.inputs.begin(), apply.inputs.begin() + 3));
    return it == normalized_.end() ? kNoValue : it->second;
  }

  bool Reruns() const { return context_.policy.rerun_spacing > 0 && context_.rerun_elements > 0; }
  // Segments whose largest result is small enough to lie in memory a second time.
  void ChooseReruns() {
    for (const Segment& segment : CutForward(graph_, saved_, context_.policy.rerun_spacing)) {
      if (segment.largest > context_.rerun_elements) continue;
      context_.anchors.insert(segment.anchors.begin(), segment.anchors.end());
      for (size_t i = segment.begin; i < segment.end; ++i) {
        const Node& node = graph_.nodes[i];
        if (StartsAnew(node)) context_.anchors.insert(node.outputs[0]);
        const bool linear =
            IsHeavy(node) && (!saved_.CodesLossily(node.inputs[0]) || !saved_.CodesLossily(node.inputs[1]));
        if (linear || IsNormalize(node)) reruns_.insert(node.outputs[0]);
      }
    }
  }

  // What pooling picks cannot be had again, and much may follow from it, or from the ReLU behind it: as of
  // the layers of a dense block, which read it time and again.
  bool StartsAnew(const Node& node) const {
    const bool behind = node.op == "Relu" && saved_.MadeInForward(node.inputs[0]) &&
                        ProducerOf(node.inputs[0]).op == "MaxPool";
    if ((node.op != "MaxPool" && !behind) || !saved_.CodesLossily(node.outputs[0])) return false;
    return std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const Node& reader) {
      const bool follows = IsNormalize(reader) || IsApply(reader) || IsHeavy(reader) ||
                           reader.op == "Concat" || reader.op == "Add";
      return reader.phase == Phase::kForward && follows &&
             std::find(reader.inputs.begin(), reader.inputs.end(), node.outputs[0]) != reader.inputs.end();
    });
  }

  // Codes read to have v in the backward pass; nullopt: it cannot be had.
  std::optional<double> Reads(ValueId v) {
    if (v == kNoValue) return 0;
    if (!saved_.MadeInForward(v)) return HasBatchAxis(graph_.value(v).type) ? 1 : 0;
    if (const auto it = rebuilt_.find(v); it != rebuilt_.end()) return it->second;
    if (context_.anchors.count(v)) return 1;
    if (saved_.Crosses(v)) return saved_.FactsOf(v).exact_bits ? kMaskRead : 1;
    if (const auto it = reads_.find(v); it != reads_.end()) return it->second;
    return reads_[v] = ReadsOfProducer(v);
  }

  std::optional<double> SumOfReads(const std::vector<ValueId>& values) {
    double sum = 0;
    for (ValueId v : values) {
      const std::optional<double> reads = Reads(v);
      if (!reads) return std::nullopt;
      sum += *reads;
    }
    return sum;
  }

  // Each part is as much of the whole as it has elements.
  std::optional<double> ReadsOfParts(const Node& concat) {
    const auto elements = [this](ValueId v) {
      return static_cast<double>(graph_.value(v).type.Elements().At(1));
    };
    double sum = 0;
    for (ValueId v : concat.inputs) {
      const std::optional<double> reads = Reads(v);
      if (!reads) return std::nullopt;
      sum += *reads * elements(v) / std::max(1.0, elements(concat.outputs[0]));
    }
    return sum;
  }

  // Codes read to compute v by its own operator.
  std::optional<double> ReadsOfProducer(ValueId v) {
    const Node& node = ProducerOf(v);
    if (node.op == "Relu") {
      const ValueId mask = MaskOf(v);
      return mask == kNoValue ? std::nullopt : SumOfReads({node.inputs[0], mask});
    }
    if (IsApply(node)) {
      const ValueId xhat = NormalizedOf(node);
      if (xhat != kNoValue) return Reads(xhat);
    }
    if (reruns_.count(v)) {  // once, for all readers
      const std::optional<double> reads = IsNormalize(node) ? Reads(node.inputs[0]) : SumOfReads(node.inputs);
      return reads ? std::optional<double>(1) : std::nullopt;
    }
    if (Reruns() && IsApply(node)) return Reads(node.inputs[0]);
    if (node.op == "Add" || node.op == "Sub") return SumOfReads(node.inputs);
    if (node.op == "Concat") return ReadsOfParts(node);
    if (node.op == "Neg" || node.op == "Reshape" || node.op == "Identity") return Reads(node.inputs[0]);
    if (node.op == "Mul") {  // by a parameter or constant: a product of two decoded values is not affine
      const bool affine = !saved_.MadeInForward(node.inputs[0]) || !saved_.MadeInForward(node.inputs[1]);
      return affine ? SumOfReads(node.inputs) : std::nullopt;
    }
    return std::nullopt;
  }

  // v as the backward pass has it: a stored value as it is, any other made anew at the end of the graph.
  llvm::Expected<ValueId> Have(ValueId v) {
    const bool stored =
        !saved_.MadeInForward(v) || context_.anchors.count(v) || (saved_.Crosses(v) && !rebuilt_.count(v));
    if (!stored) return Make(v);
    context_.rebuilt_from.insert(v);
    if (making_rerun_ > 0) context_.anchors.insert(v);
    return v;
  }

  llvm::Expected<ValueId> Make(ValueId v) {
    const Node node = ProducerOf(v);  // a copy: the builder grows the graph
    const std::string name = node.name + ".rebuild";
    if (node.op == "Relu") {
      ACT_TRY(const ValueId x, Have(node.inputs[0]));
      return builder_.Add1("Mul", {x, MaskOf(v)}, {}, name);
    }
    const ValueId normalized = IsApply(node) ? NormalizedOf(node) : kNoValue;
    if (normalized != kNoValue) {
      ACT_TRY(const ValueId xhat, Have(normalized));
      ACT_TRY(const ValueId scaled, builder_.Add1("Mul", {xhat, node.inputs[3]}, {}, name));
      return builder_.Add1("Add", {scaled, node.inputs[4]}, {}, name);
    }
    const bool recode = IsNormalize(node) && reruns_.count(v);
    if (const auto it = recoded_.find(v); recode && it != recoded_.end()) return Decode(it->second, v);
    const bool rerun = IsHeavy(node) && reruns_.count(v);
    if (const auto it = rerun_.find(v); rerun && it != rerun_.end()) return it->second;
    making_rerun_ += rerun;
    std::vector<ValueId> operands;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool statistic = i > 0 && (IsApply(node) || IsNormalize(node));
      if (statistic) context_.statistics.insert(node.inputs[i]);
      const ValueId in = node.inputs[i];
      if (in == kNoValue || statistic) {
        operands.push_back(in);
        continue;
      }
      ACT_TRY(const ValueId operand, Have(in));
      operands.push_back(operand);
    }
    making_rerun_ -= rerun;
    ACT_TRY(const ValueId made, builder_.AddTyped(node.op, operands, graph_.value(v).type, node.attrs, name));
    if (rerun) rerun_[v] = made;
    if (!recode) return made;
    Recoded recoded{kNoValue, CodecAttributes(context_.policy.RecodeCodec(), context_.next_stream++)};
    ACT_TRY(recoded.code, builder_.Add1("Compress", {made}, recoded.attrs, name + ".encode"));
    recoded_[v] = recoded;
    return Decode(recoded, v);
  }

  llvm::Expected<ValueId> Decode(const Recoded& recoded, ValueId v) {
    return builder_.AddTyped("Decompress", {recoded.code}, graph_.value(v).type, recoded.attrs,
                             ProducerOf(v).name + ".rebuild.decode");
  }

  // Each reader gets its own copy, made right in front of it.
  llvm::Error Emit() {
    builder_.SetPhase(Phase::kBackward);
    std::vector<Node> nodes;
    const size_t count = graph_.nodes.size();
    for (size_t i = 0; i < count; ++i) {
      Node node = graph_.nodes[i];
      if (node.phase != Phase::kForward) {
        for (ValueId& in : node.inputs) {
          if (in == kNoValue || !rebuilt_.count(in)) continue;
          ACT_TRY(in, Make(in));
        }
        for (size_t made = count; made < graph_.nodes.size(); ++made)
          nodes.push_back(std::move(graph_.nodes[made]));
        graph_.nodes.resize(count);
      }
      nodes.push_back(std::move(node));
    }
    graph_.nodes = std::move(nodes);
    return llvm::Error::success();
  }

  Graph& graph_;
  PassContext& context_;
  const SavedValues saved_;
  GraphBuilder builder_;
  std::map<ValueId, ValueId> mask_of_;  // a ReLU's result to its stored mask
  std::map<Key, ValueId> normalized_;   // (x, mean, rstd) to the stored (x - mean) rstd
  std::set<ValueId> reruns_;            // results of what may run a second time
  std::map<ValueId, ValueId> rerun_;    // what is computed a second time, and the result
  int making_rerun_ = 0;                // depth: what is read there is an anchor, and gets an anchor's bits
  std::map<ValueId, Recoded> recoded_;
  std::map<ValueId, double> rebuilt_;               // with the codes that each reads
  std::map<ValueId, std::optional<double>> reads_;  // of what does not cross
};

}  // namespace

llvm::Error RebuildSaved(Graph& graph, PassContext& context) { return Rebuilder(graph, context).Run(); }

}  // namespace act
