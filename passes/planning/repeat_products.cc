// Makes the result of a product twice where a normalization by batch statistics follows it: once for the statistics,
// once for what is normalized by them. The statistics need all samples before the first of them is normalized, so
// a result that is made once lies in memory whole. Made twice, both times in tiles of samples (tile_samples.cc), it
// never exists whole. The statistics become moments, to which each tile adds (Chan, Golub and LeVeque 1979).
//
// Both products are the same node with the same operands. So all that changes is the order in which the moments are
// added up.
//
// In the backward pass, the gradient of what was normalized is such a product, too. The normalization's own gradient
// needs two sums over all samples. One loop makes the product and the sums, another one makes the product again.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "compiler/ir/uses.h"
#include "compiler/ir/value_map.h"
#include "compiler/ops/graph_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "passes/planning/part_of_loop.h"
#include "runtime/base/error.h"
#include "runtime/plan/alias.h"
#include "runtime/plan/runtime_op.h"
#include "runtime/plan/sample_loops.h"

namespace act {
namespace {

class Repeater {
 public:
  Repeater(Graph& graph, int64_t least_elements)
      : graph_(graph),
        least_elements_(least_elements),
        root_(AliasRoots(graph)),
        nodes_(std::exchange(graph.nodes, {})),
        uses_(graph, nodes_),
        again_(graph, kNoValue),
        late_reader_(graph),
        written_at_(graph),
        postponed_(nodes_.size()) {}

  llvm::Error Run() {
    FindLateReaders();
    for (size_t i = 0; i < nodes_.size(); ++i) {
      ACT_CHECK_OK(Emit(i));
      for (const size_t update : postponed_[i]) graph_.nodes.push_back(nodes_[update]);
    }
    return llvm::Error::success();
  }

 private:
  llvm::Error Emit(size_t i) {
    Node& node = nodes_[i];
    if (const Node* const product = ProductToRepeat(i)) {
      ACT_CHECK_OK(SplitStatistics(node));
      MakeAgain(*product);
      return llvm::Error::success();
    }
    if (const Node* const product = GradientToRepeat(node)) {
      SplitSums(i, *product);
      return llvm::Error::success();
    }
    for (ValueId& in : node.inputs)
      if (again_[in] != kNoValue) in = again_[in];
    if (const size_t place = PlaceOf(node, i); place > i)
      Postpone(i, place);
    else
      graph_.nodes.push_back(node);
    return llvm::Error::success();
  }

  // The product whose statistics the node at i takes, if other nodes of the forward pass read the result after them.
  const Node* ProductToRepeat(size_t i) const {
    if (OpOf(nodes_[i]).norm.role != Normalization::Role::kStatistics) return nullptr;
    const ValueId x = nodes_[i].inputs[0];
    const Node* const product = uses_.ProducerNode(x);
    if (!product || !IsLinearProduct(OpOf(*product)) || uses_.IsOutput(x) ||
        WhyNotTileable(graph_, *product) || graph_.value(x).type.Elements().At(1) < least_elements_)
      return nullptr;
    const std::span<const size_t> readers = uses_.Readers(x);
    const bool reads_after = std::all_of(readers.begin(), readers.end(), [&](size_t r) {
      return r == i || (r > i && nodes_[r].phase == Phase::kForward);
    });
    return reads_after && readers.size() > 1 ? product : nullptr;
  }

  llvm::Error SplitStatistics(const Node& statistics) {
    GraphBuilder builder(graph_);
    builder.SetPhase(statistics.phase);
    Node from_moments = statistics;
    ACT_TRY(from_moments.inputs[0],
            builder.Add1("BatchNormMoments", {statistics.inputs[0]}, {}, statistics.name + ".moments"));
    from_moments.op = "BatchNormFromMoments";
    graph_.nodes.push_back(std::move(from_moments));
    return llvm::Error::success();
  }

  // The gradient of a convolution's input that the loop alone reads, if the loop makes sums and one tensor of it, and of
  // nothing else that is as large. Null: there is none.
  const Node* GradientToRepeat(const Node& loop) const {
    if (!RunsProgram(loop) || loop.phase != Phase::kBackward ||
        loop.program.outputs.size() != loop.outputs.size())
      return nullptr;
    const auto count = [&](OutputKind kind) {
      return std::count_if(loop.program.outputs.begin(), loop.program.outputs.end(),
                           [kind](const ProgramOutput& output) { return output.kind == kind; });
    };
    if (count(OutputKind::kSum) == 0 || count(OutputKind::kStore) != 1 ||
        count(OutputKind::kSum) + 1 != static_cast<std::ptrdiff_t>(loop.outputs.size()))
      return nullptr;
    ValueId large = kNoValue;
    for (size_t k = 0; k < loop.inputs.size(); ++k) {
      if (loop.program.inputs[k].codec.kind != CodecKind::kNone ||
          !(graph_.value(loop.inputs[k]).type.dims == loop.program.space))
        continue;
      if (large != kNoValue) return nullptr;
      large = loop.inputs[k];
    }
    const Node* const product = uses_.ProducerNode(large);
    const bool repeats = product && product->phase == Phase::kBackward &&
                         OpOf(*product).product == Product::kTransposedConvolution &&
                         uses_.Reads(large) == 1 && !WhyNotTileable(graph_, *product) &&
                         !WhyNotTileable(graph_, loop) &&
                         graph_.value(large).type.Elements().At(1) >= least_elements_;
    return repeats ? product : nullptr;
  }

  // The loop that makes a product's operand, if all tensors of which it makes that are read after node i, too. Then they
  // live in any case, and the operand need not: it is made again. Null: there is no such loop.
  const Node* MakerToRepeat(const Node& product, size_t i) const {
    const Node* const maker = uses_.ProducerNode(product.inputs[0]);
    if (!maker || !RunsProgram(*maker) || maker->outputs.size() != 1 || WhyNotTileable(graph_, *maker))
      return nullptr;
    for (const ValueId in : maker->inputs)
      if (graph_.value(in).type.dims == maker->program.space &&
          (uses_.Readers(in).empty() || uses_.Readers(in).back() <= i))
        return nullptr;
    return maker;
  }

  // The sums of the loop at i read the product as it is, and its tensor the one that is made again.
  void SplitSums(size_t i, const Node& product) {
    const Node& loop = nodes_[i];
    std::vector<size_t> of_sums, of_rest;
    for (size_t o = 0; o < loop.outputs.size(); ++o)
      (loop.program.outputs[o].kind == OutputKind::kSum ? of_sums : of_rest).push_back(o);
    Node sums = PartOfLoop(loop, of_sums), rest = PartOfLoop(loop, of_rest);
    sums.name += ".sums";
    graph_.nodes.push_back(std::move(sums));
    const Node* const maker = MakerToRepeat(product, i);
    if (maker) MakeAgain(*maker);
    MakeAgain(product);
    for (ValueId& in : rest.inputs)
      if (again_[in] != kNoValue) in = again_[in];
    graph_.nodes.push_back(std::move(rest));
    // Later nodes read what was made first, or, of the forward pass, what was made again.
    if (maker) again_[maker->outputs[0]] = kNoValue;
  }

  // A parameter is updated after its last reader. What is made again at a later node may read it, too. Then its update
  // waits for that node, and so does what depends on the update.
  void FindLateReaders() {
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (const Node* const product = GradientToRepeat(nodes_[i]))
        for (const Node* again : {product, MakerToRepeat(*product, i)})
          if (again)
            for (const ValueId in : again->inputs) late_reader_[RootOf(in)] = i;
  }

  // The node after which the node at i stands: itself, or a later one.
  size_t PlaceOf(const Node& node, size_t i) const {
    if (node.phase != Phase::kUpdate) return i;
    size_t place = i;
    for (const ValueId in : node.inputs) place = std::max(place, written_at_[RootOf(in)]);
    for (const int32_t m : node.mutates)
      place = std::max(place, late_reader_[RootOf(node.inputs[static_cast<size_t>(m)])]);
    return place;
  }

  void Postpone(size_t i, size_t place) {
    const Node& node = nodes_[i];
    for (const ValueId out : node.outputs) written_at_[RootOf(out)] = place;
    for (const int32_t m : node.mutates) written_at_[RootOf(node.inputs[static_cast<size_t>(m)])] = place;
    postponed_[place].push_back(i);
  }

  ValueId RootOf(ValueId v) const {
    return v != kNoValue && static_cast<size_t>(v) < root_.size() ? root_[static_cast<size_t>(v)] : v;
  }

  void MakeAgain(const Node& product) {
    Node again = product;
    for (ValueId& in : again.inputs)
      if (in != kNoValue && again_[in] != kNoValue) in = again_[in];
    again.name += ".again";
    Value result = graph_.value(product.outputs[0]);
    result.name += ".again";
    again.outputs = {static_cast<ValueId>(graph_.values.size())};
    again_[product.outputs[0]] = again.outputs[0];
    graph_.values.push_back(std::move(result));
    graph_.nodes.push_back(std::move(again));
  }

  Graph& graph_;
  const int64_t least_elements_;
  const std::vector<ValueId> root_;  // of what was there before
  std::vector<Node> nodes_;
  const Uses uses_;
  ValueMap<ValueId> again_;  // the second result, by the first
  ValueMap<size_t>
      late_reader_;  // the last node at which what reads a value is made again, by the value's root
  ValueMap<size_t>
      written_at_;  // the node for which the update waits that writes a value, by the value's root
  std::vector<std::vector<size_t>> postponed_;  // updates that wait for a node
};

}  // namespace

llvm::Error RepeatProducts(Graph& graph, PassContext& context) {
  return Repeater(graph, context.repeated_elements).Run();
}

}  // namespace act
