// Does not store a value that can be computed from values that are stored anyway. The backward pass
// recomputes it from their decoded forms. So one code of a normalized activation serves both the
// gradient of the normalization and the next convolution, whose input is recomputed from it and
// from the ReLU's mask, which is stored exactly. passes/storage/recipes.h decides which values are
// recomputed. This pass makes them.
//
// At L3 these are only affine functions, and products with stored masks: the decodes of their
// operands are unbiased, so the result is. A ReLU is recomputed as the product of its operand with
// its mask. It is never the ReLU of a decoded number, whose mean would be too large.
//
// If the policy re-runs (L4), more is recomputed:
// * Between anchors that lie further apart (cut_forward.h), convolutions and products are re-run.
//   Normalizations are recomputed with the statistics of the forward pass, which are kept. So they
//   are affine, too.
// * From normalized values, products and attention are re-run, at most two in a row, and smooth
//   functions are recomputed. So a transformer's block stores the results of its normalizations.
//   These functions are not linear. Their error is small on average if the code that they start
//   from is fine, so that code gets an anchor's bits.
// The result of a re-run is computed once, before its first reader in the backward pass. It lies in
// memory until its last reader. So does an elementwise function of several of them that nothing
// else reads.
//
// A chain of residual sums could be recomputed from its start, at the price of one decode for each
// block. The pass does not follow a chain so far that a rebuilt value would read more than four
// codes (kMostReads in recipes.cc).
#include <map>
#include <optional>
#include <set>

#include "compiler/ops/codec_ops.h"
#include "compiler/ops/equal_parts.h"
#include "compiler/ops/graph_builder.h"
#include "compiler/ops/op_table.h"
#include "compiler/policy/compared_batches.h"
#include "passes/pass.h"
#include "passes/storage/cut_forward.h"
#include "passes/storage/recipes.h"
#include "passes/storage/saved_values.h"
#include "runtime/base/error.h"

namespace act {
namespace {

class Rebuilder {
 public:
  Rebuilder(Graph& graph, PassContext& context)
      : graph_(graph),
        context_(context),
        saved_(graph, context),
        recipes_(graph, context, saved_),
        builder_(graph) {}

  llvm::Error Run() {
    recipes_.Choose();
    return recipes_.Rebuilt().empty() ? llvm::Error::success() : Emit();
  }

 private:
  // The result of a re-run normalization. A code holds it until its readers come.
  struct Recoded {
    ValueId code = kNoValue;
    Attributes attrs;
  };

  const Node& ProducerOf(ValueId v) const { return graph_.nodes[static_cast<size_t>(saved_.Producer(v))]; }

  // Returns v as the backward pass has it: a stored value as it is, any other computed at the end
  // of the graph.
  llvm::Expected<ValueId> Have(ValueId v) {
    const bool at_hand =
        !saved_.MadeInForward(v) || context_.marks[v].anchor || (saved_.Crosses(v) && !recipes_.IsRebuilt(v));
    if (!at_hand) return Make(v);
    ValueMarks& marks = context_.marks[v];
    marks.rebuilt_from = true;
    marks.anchor |= making_segment_ > 0;
    return v;
  }

  // The copy is bfloat16 if the value is. Where that is float32 for the sake of other readers, the
  // readers of the copy decide.
  llvm::Expected<ValueId> Make(ValueId v) {
    ACT_TRY(const ValueId made, Compute(v));
    if (context_.marks[v].precision == Precision::kBFloat16)
      context_.marks[made].precision = Precision::kBFloat16;
    return made;
  }

  llvm::Expected<ValueId> Compute(ValueId v) {
    const Node node = ProducerOf(v);  // a copy, because the builder grows the graph
    const std::string name = node.name + ".rebuild";
    const OpDef& op = OpOf(node);
    if (op.rectifies) {
      ACT_TRY(const ValueId x, Have(node.inputs[0]));
      return builder_.Add1("Mul", {x, recipes_.MaskOf(v)}, {}, name);
    }
    const ValueId normalized = IsApply(node) ? recipes_.NormalizedOf(node) : kNoValue;
    if (normalized != kNoValue) {
      ACT_TRY(const ValueId xhat, Have(normalized));
      ACT_TRY(const ValueId scaled, builder_.Add1("Mul", {xhat, node.inputs[3]}, {}, name));
      return builder_.Add1("Add", {scaled, node.inputs[4]}, {}, name);
    }
    // Of an earlier part of the segment only what the part needs is made, and made anew.
    const bool passes = recipes_.PartOf(v) < part_, in_segment = recipes_.InSegment(v);
    const bool recode = IsNormalize(node) && in_segment && !passes;
    if (const auto it = recoded_.find(v); recode && it != recoded_.end()) return Decode(it->second, v);
    std::map<ValueId, ValueId>& rerun = passes ? passed_ : rerun_;
    if (const auto it = rerun.find(v); it != rerun.end()) return it->second;
    making_segment_ += IsHeavy(node) && in_segment;
    ACT_TRY(const std::vector<ValueId> operands, Operands(node));
    making_segment_ -= IsHeavy(node) && in_segment;
    ACT_TRY(const ValueId made, MakeBy(node, operands, v, name));
    // A node that will be part of no loop is re-run once for all readers, unless it only moves
    // numbers and its result would lie in memory from layer to layer. So is the sum of a product
    // and its bias, because fold-bias makes one node of them.
    const bool moves = op.movement == Movement::kTranspose || op.movement == Movement::kConcat ||
                       op.movement == Movement::kSlice;
    const bool once = !op.expr && op.movement != Movement::kReshape && !(moves && from_layer_to_layer_);
    const std::set<ValueId> tensors = recode ? std::set<ValueId>() : TensorsBehind(node, v);
    ValueId behind = tensors.empty() ? kNoValue : *tensors.begin();
    if (once || IsBiasedProduct(node) || tensors.size() > 1) {
      rerun[v] = made;
      behind = recipes_.IsRebuilt(v) ? kNoValue : v;
    }
    behind_[v] = behind;
    if (!recode) return made;
    Recoded recoded{kNoValue, CodecAttributes(context_.policy.RecodeCodec(), context_.next_stream++)};
    ACT_TRY(recoded.code, AddCompress(builder_, made, recoded.attrs, name + ".encode"));
    recoded_[v] = recoded;
    return Decode(recoded, v);
  }

  bool IsBiasedProduct(const Node& sum) const {
    for (const size_t i : {size_t{0}, size_t{1}}) {
      if (OpOf(sum).arithmetic != Arithmetic::kSum || saved_.MadeInForward(sum.inputs[1 - i]) ||
          saved_.Producer(sum.inputs[i]) < 0)
        continue;
      if (IsRerunProduct(ProducerOf(sum.inputs[i])) && !recipes_.InSegment(sum.inputs[i])) return true;
    }
    return false;
  }

  // The re-run tensors, at least as large as v, that wait for this node alone. If there are several, v takes less memory
  // than they do, and is made once: queries and keys with rotary embeddings are sums of two.
  std::set<ValueId> TensorsBehind(const Node& node, ValueId v) const {
    const auto bytes = [&](ValueId id) { return graph_.value(id).type.Bytes().At(kComparedBatch); };
    std::set<ValueId> tensors;
    for (const ValueId in : node.inputs) {
      const auto it = behind_.find(in);
      if (it != behind_.end() && it->second != kNoValue && bytes(it->second) >= bytes(v))
        tensors.insert(it->second);
    }
    return tensors;
  }

  llvm::Expected<std::vector<ValueId>> Operands(const Node& node) {
    std::vector<ValueId> operands;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool statistic = i > 0 && (IsApply(node) || IsNormalize(node));
      if (statistic) context_.marks[node.inputs[i]].statistic = true;
      const ValueId in = node.inputs[i];
      // Packed queries, keys and values are one tensor.
      const bool repeated = i > 0 && in == node.inputs[i - 1];
      if (repeated || in == kNoValue || statistic) {
        operands.push_back(repeated ? operands.back() : in);
        continue;
      }
      ACT_TRY(const ValueId operand, Have(in));
      operands.push_back(operand);
    }
    return operands;
  }

  llvm::Expected<ValueId> MakeBy(const Node& node, const std::vector<ValueId>& operands, ValueId v,
                                 const std::string& name) {
    // The probabilities of a loss.
    if (OpOf(node).loss) return builder_.Add1("Softmax", {operands[0]}, {}, name);
    return builder_.AddTyped(node.op, operands, graph_.value(v).type, node.attrs, name);
  }

  llvm::Expected<ValueId> Decode(const Recoded& recoded, ValueId v) {
    const TensorType type = graph_.value(v).type;  // a copy, because the builder grows the graph
    return AddDecompress(builder_, recoded.code, type, recoded.attrs, ProducerOf(v).name + ".rebuild.decode");
  }

  // Each reader gets its own copy, made right before it. A parameter that is read for the copy
  // still has its value of the forward pass: v's inputs get their gradient only after all readers
  // of v, and so the update comes after them, too.
  llvm::Error Emit() {
    builder_.SetPhase(Phase::kBackward);
    std::vector<Node> nodes;
    const size_t count = graph_.nodes.size();
    for (size_t i = 0; i < count; ++i) {
      Node node = graph_.nodes[i];
      if (node.phase != Phase::kForward) {
        for (size_t k = 0; k < node.inputs.size(); ++k) {
          ValueId& in = node.inputs[k];
          if (in == kNoValue || !recipes_.IsRebuilt(in)) continue;
          const ValueId wanted = in;
          const Recipe& recipe = recipes_.Rebuilt().at(wanted);
          from_layer_to_layer_ = recipe.of_segment || recipe.products == 0;
          part_ = recipes_.PartOf(wanted);
          passed_.clear();
          ACT_TRY(in, Make(wanted));
          for (size_t same = k + 1; same < node.inputs.size(); ++same)
            if (node.inputs[same] == wanted) node.inputs[same] = in;
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
  Recipes recipes_;
  GraphBuilder builder_;
  std::map<ValueId, ValueId> rerun_;  // what is re-run, and the result
  // The part that is being made (Recipes::PartOf), and what of earlier parts has been re-run for it.
  int64_t part_ = 0;
  std::map<ValueId, ValueId> passed_;
  std::map<ValueId, Recoded> recoded_;
  // The re-run tensor from which a value is made anew for each reader, or kNoValue if the backward pass reads that as
  // well. Of a re-run result, itself.
  std::map<ValueId, ValueId> behind_;
  // The value's readers may be far apart: it is an input, or a part of a segment.
  bool from_layer_to_layer_ = false;
  // How many re-run products of a segment are being made, one inside the other. Stored values that
  // are read meanwhile are anchors.
  int making_segment_ = 0;
};

}  // namespace

llvm::Error RebuildSaved(Graph& graph, PassContext& context) { return Rebuilder(graph, context).Run(); }

}  // namespace act
