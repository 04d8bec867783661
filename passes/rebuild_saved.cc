// What is a cheap, affine function of values that are stored anyway is not stored: backward computes it
// again, from their decoded forms. So one code of a normalized activation serves the gradient of the
// normalization, the mask of the ReLU behind it (stored in a bit, exact) and the input of the next
// convolution.
//
// Only affine functions, and products with stored masks: their operands' decodes are unbiased, so the result
// is. A ReLU is the product of its operand with its mask, never the ReLU of a decoded number, whose mean
// would be too large.
//
// A chain of residual sums could be followed to its start, at the price of one decode a block for each; it is
// cut where a rebuilt value would read more than kMostReads tensors.
#include <map>
#include <optional>

#include "compiler/ir/graph_builder.h"
#include "passes/pass.h"
#include "passes/saved_values.h"
#include "runtime/base/error.h"

namespace act {
namespace {

constexpr double kMostReads = 4;      // full-size codes that a rebuilt value may read
constexpr double kMaskRead = 1. / 8;  // a mask, beside a code

// x, mean, rstd, gamma, beta -> normalized x times gamma plus beta
bool IsApply(const Node& node) { return node.op == "BatchNormApply" || node.op == "LayerNormApply"; }

class Rebuilder {
 public:
  Rebuilder(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), saved_(graph, context), builder_(graph) {}

  llvm::Error Run() {
    FindMasksAndNormalized();
    // In forward order, so that what a value is rebuilt from is decided before it.
    for (const Node& node : graph_.nodes) {
      if (node.phase != Phase::kForward) break;
      for (ValueId v : node.outputs) {
        if (!saved_.Crosses(v)) continue;
        if (ReordersInput(node)) rebuilt_[v] = 1;
        if (!context_.policy.rebuilds || !context_.policy.CodesLossily(saved_.FactsOf(v))) continue;
        const std::optional<double> reads = ReadsOfProducer(v);
        if (reads && *reads <= kMostReads) rebuilt_[v] = *reads;
      }
    }
    return rebuilt_.empty() ? llvm::Error::success() : Emit();
  }

 private:
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
      if ((node.op == "Normalize" || node.op == "Standardize") && saved_.Crosses(node.outputs[0]))
        normalized_[node.inputs] = node.outputs[0];
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

  // Codes read to have v in the backward pass; nullopt: it cannot be had.
  std::optional<double> Reads(ValueId v) const {
    if (!saved_.MadeInForward(v)) return 0;  // a parameter, an input
    const auto it = rebuilt_.find(v);
    if (it != rebuilt_.end()) return it->second;
    if (saved_.Crosses(v)) return saved_.FactsOf(v).exact_bits ? kMaskRead : 1;
    return ReadsOfProducer(v);
  }

  std::optional<double> SumOfReads(const std::vector<ValueId>& values) const {
    double sum = 0;
    for (ValueId v : values) {
      const std::optional<double> reads = Reads(v);
      if (!reads) return std::nullopt;
      sum += *reads;
    }
    return sum;
  }

  // Codes read to compute v by its own operator.
  std::optional<double> ReadsOfProducer(ValueId v) const {
    const Node& node = ProducerOf(v);
    if (node.op == "Relu") {
      const ValueId mask = MaskOf(v);
      return mask == kNoValue ? std::nullopt : SumOfReads({node.inputs[0], mask});
    }
    if (IsApply(node)) {
      const ValueId xhat = NormalizedOf(node);
      return xhat == kNoValue ? std::nullopt : Reads(xhat);
    }
    if (node.op == "Add" || node.op == "Sub") return SumOfReads(node.inputs);
    if (node.op == "Neg" || node.op == "Reshape" || node.op == "Identity") return Reads(node.inputs[0]);
    if (node.op == "Mul") {  // by a parameter or constant: a product of two decoded values is not affine
      const bool affine = !saved_.MadeInForward(node.inputs[0]) || !saved_.MadeInForward(node.inputs[1]);
      return affine ? SumOfReads(node.inputs) : std::nullopt;
    }
    return std::nullopt;
  }

  // v as the backward pass has it: a stored value as it is, any other made anew at the end of the graph.
  llvm::Expected<ValueId> Have(ValueId v) {
    const bool stored = !saved_.MadeInForward(v) || (saved_.Crosses(v) && !rebuilt_.count(v));
    return stored ? v : Make(v);
  }

  llvm::Expected<ValueId> Make(ValueId v) {
    const Node node = ProducerOf(v);  // a copy: the builder grows the graph
    const std::string name = node.name + ".rebuild";
    if (node.op == "Relu") {
      ACT_TRY(const ValueId x, Have(node.inputs[0]));
      return builder_.Add1("Mul", {x, MaskOf(v)}, {}, name);
    }
    if (IsApply(node)) {
      ACT_TRY(const ValueId xhat, Have(NormalizedOf(node)));
      ACT_TRY(const ValueId scaled, builder_.Add1("Mul", {xhat, node.inputs[3]}, {}, name));
      return builder_.Add1("Add", {scaled, node.inputs[4]}, {}, name);
    }
    std::vector<ValueId> operands;
    for (ValueId in : node.inputs) {
      ACT_TRY(const ValueId operand, Have(in));
      operands.push_back(operand);
    }
    return builder_.AddTyped(node.op, operands, graph_.value(v).type, node.attrs, name);
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
  std::map<ValueId, double> rebuilt_;   // with the codes that each reads
};

}  // namespace

llvm::Error RebuildSaved(Graph& graph, PassContext& context) {
  return Rebuilder(graph, context).Run();
}

}  // namespace act
