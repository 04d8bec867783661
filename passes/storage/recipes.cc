#include "passes/storage/recipes.h"

#include <algorithm>
#include <limits>

#include "passes/storage/recipe_traits.h"

namespace act {
namespace {

constexpr double kMostReads = 4;  // full-size codes that a rebuilt value may read
// Bounds that known networks stay below. Without the first, each value of a long chain of elementwise nodes would be
// made from the chain's start, and plans would grow with the square of its length. The second bounds the stack.
constexpr double kMostRepeated = 32;
constexpr int kMostDepth = 1024;
constexpr int64_t kLeastElements = 64;  // of a sample; fewer are not worth the loop

// Picks numbers by comparing them, as max pooling does.
bool Picks(const OpDef& op) { return op.index_bits != nullptr; }

}  // namespace

void Recipes::Choose() {
  FindMakers();
  FindMasksAndNormalized();
  if (HasSegments()) ChooseSegments();
  // In forward order, so that what a value is rebuilt from is decided before it.
  for (const Node& node : graph_.nodes) {
    if (node.phase != Phase::kForward) break;
    for (ValueId v : node.outputs) {
      if (!saved_.Crosses(v) || IsAnchor(v)) continue;
      if (ReordersInput(node)) {
        if (CodesReorderedInput(v)) continue;
        rebuilt_[v] = *Of(node.inputs[0]);
      }
      if (!context_.policy.rebuilds) continue;
      PromoteOperand(MakerOf(v));
      const std::optional<Recipe> recipe = OfProducer(v);
      if (recipe && MayBeRebuilt(v, *recipe)) rebuilt_[v] = *recipe;
    }
  }
  EnterAnchors();
}

ValueId Recipes::MaskOf(ValueId relu) const {
  const auto it = mask_of_.find(relu);
  return it == mask_of_.end() ? kNoValue : it->second;
}

ValueId Recipes::NormalizedOf(const Node& apply) const {
  const auto it = normalized_.find(Key(apply.inputs.begin(), apply.inputs.begin() + 3));
  return it == normalized_.end() ? kNoValue : it->second;
}

// Elements of a sample. Rows of a flattened tensor belong to one.
int64_t Recipes::Elements(ValueId v) const { return graph_.value(v).type.Elements().At(1); }

// An input is in memory in any case, unless CodesReorderedInput. Its order of axes is made again, exactly.
bool Recipes::ReordersInput(const Node& node) const {
  const Movement movement = OpOf(node).movement;
  return (movement == Movement::kTranspose || movement == Movement::kReshape) &&
         !saved_.MadeInForward(node.inputs[0]);
}

void Recipes::FindMakers() {
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    const OpDef& op = OpOf(node);
    const auto by_product = [this](ValueId in) {
      return saved_.MadeInForward(in) && IsRerunProduct(MakerOf(in));
    };
    size_t maker = i;
    if (IsReshape(op) && saved_.MadeInForward(node.inputs[0])) maker = maker_[node.inputs[0]];
    if (IsSum(op))
      if (const auto in = std::find_if(node.inputs.begin(), node.inputs.end(), by_product);
          in != node.inputs.end())
        maker = maker_[*in];
    for (const ValueId v : node.outputs) maker_[v] = maker;
  }
}

// For the least peak the input need not stay. In bfloat16 it does not stay in any case: what would stay is a rounded
// copy (passes/precision/round_inputs.h), which takes more bytes than a code.
bool Recipes::CodesReorderedInput(ValueId v) const {
  return context_.policy.least_peak || (context_.compute == Compute::kBFloat16 && saved_.CodesLossily(v));
}

void Recipes::FindMasksAndNormalized() {
  for (const Node& node : graph_.nodes) {
    if (node.phase != Phase::kForward) continue;
    if (IsSignMask(OpOf(node)) && saved_.Crosses(node.outputs[0])) mask_of_[node.inputs[0]] = node.outputs[0];
    if (IsNormalize(node) && saved_.Crosses(node.outputs[0])) normalized_[node.inputs] = node.outputs[0];
  }
}

void Recipes::ChooseSegments() {
  int64_t left = context_.rerun_segments;
  for (const Segment& segment :
       RerunSegments(graph_, saved_, context_.policy.rerun_spacing, context_.rerun_elements)) {
    const auto begin = graph_.nodes.begin() + static_cast<std::ptrdiff_t>(segment.begin),
               end = graph_.nodes.begin() + static_cast<std::ptrdiff_t>(segment.end);
    if (--left < 0) {
      for (auto node = begin; node != end; ++node)
        for (const ValueId v : node->outputs)
          if (v != kNoValue) context_.marks[v].kept_finely = true;
      continue;
    }
    for (const ValueId anchor : segment.anchors) MakeAnchor(anchor);
    FindParts(segment);
    for (auto node = begin; node != end; ++node) {
      if (StartsAnew(*node)) MakeAnchor(node->outputs[0]);
      const bool linear =
          IsHeavy(*node) && (!saved_.CodesLossily(node->inputs[0]) || !saved_.CodesLossily(node->inputs[1]));
      if (linear || IsNormalize(*node)) in_segment_.insert(node->outputs[0]);
    }
  }
}

void Recipes::FindParts(const Segment& segment) {
  if (context_.parted_elements == 0 || segment.largest < context_.parted_elements) return;
  const std::vector<int64_t> blocks = BlocksOfForward(graph_, saved_);
  for (size_t i = segment.begin; i < segment.end; ++i) {
    for (const ValueId v : graph_.nodes[i].outputs) {
      // What a block ends with is read for the next one alone.
      const std::span<const size_t> readers = saved_.Readers(v);
      const bool ends = std::any_of(readers.begin(), readers.end(),
                                    [&](size_t r) { return r < blocks.size() && blocks[r] > blocks[i]; });
      part_of_[v] = blocks[i] + ends;
    }
  }
}

// A pooling result cannot be recomputed. Much may follow from it, or from the ReLU after it: the
// layers of a dense block read it again and again.
bool Recipes::StartsAnew(const Node& node) const {
  const OpDef& op = OpOf(node);
  const bool behind =
      op.rectifies && saved_.MadeInForward(node.inputs[0]) && Picks(OpOf(ProducerOf(node.inputs[0])));
  if ((!Picks(op) && !behind) || !saved_.CodesLossily(node.outputs[0])) return false;
  const std::span<const size_t> readers = saved_.Readers(node.outputs[0]);
  return std::any_of(readers.begin(), readers.end(), [this](size_t r) {
    const Node& reader = graph_.nodes[r];
    const OpDef& reads = OpOf(reader);
    return saved_.InForward(r) &&
           (IsNormalize(reader) || IsApply(reader) || IsHeavy(reader) || IsConcat(reads) || IsSum(reads));
  });
}

// Whether v, in any shape, crosses to the backward pass with an error.
bool Recipes::IsCoded(ValueId v) const {
  if (saved_.Crosses(v) && saved_.CodesLossily(v)) return true;
  const std::span<const size_t> readers = saved_.Readers(v);
  return std::any_of(readers.begin(), readers.end(), [this](size_t r) {
    const Node& reader = graph_.nodes[r];
    return saved_.InForward(r) && IsReshape(OpOf(reader)) && IsCoded(reader.outputs[0]);
  });
}

// A function and its derivative would have a code each. They are computed from one code of their
// operand instead.
void Recipes::PromoteOperand(const Node& node) {
  if (!OpOf(node).smooth) return;
  const ValueId x = node.inputs[0];
  if (!saved_.CodesLossily(x) || Of(x)) return;
  int coded = 0;
  for (const size_t r : saved_.Readers(x)) {
    const Node& reader = graph_.nodes[r];
    coded += OpOf(reader).smooth && IsCoded(reader.outputs[0]);
  }
  if (coded < 2) return;
  MakeAnchor(x);
  known_.clear();
}

// Whether computing v again saves the bytes that storing it takes.
bool Recipes::MayBeRebuilt(ValueId v, const Recipe& recipe) const {
  if (recipe.reads > kMostReads || recipe.repeated > kMostRepeated || recipe.depth > kMostDepth) return false;
  const EdgeFacts facts = saved_.FactsOf(v);
  // A loss needs finer numbers than what it follows from.
  const auto of_loss = [this](ValueId from) { return saved_.FactsOf(from).of_loss; };
  if (facts.of_loss && !IsLoss(MakerOf(v), v) &&
      !std::all_of(recipe.from.begin(), recipe.from.end(), of_loss))
    return false;
  if (saved_.CodesLossily(v)) return true;
  // If the policy re-runs, values that would be kept exactly are recomputed too: exactly from
  // parameters and inputs (a table of biases), or for readers that can use a fine code.
  if (!context_.policy.Reruns() || facts.kept_exactly || facts.of_steep_loss || facts.unbounded ||
      facts.type.dtype != DType::kFloat32 || facts.exact_bits || facts.index_bits > 0 ||
      Elements(v) < kLeastElements)
    return false;
  return recipe.from.empty() || (OfSamples(facts) && !facts.statistic && !facts.read_exactly);
}

// A value from which products or functions are recomputed is stored finely, and is marked so. So is
// a value that was normalized by rows: its error enters the gradients of all values before it, and
// there are few such values.
void Recipes::EnterAnchors() {
  for (const auto& [key, xhat] : normalized_)
    if (context_.policy.rebuilds && NormalizesRows(ProducerOf(xhat)) && !IsRebuilt(xhat) &&
        saved_.CodesLossily(xhat))
      MakeAnchor(xhat);
  for (const auto& [v, recipe] : rebuilt_) {
    if (recipe.products == 0 && !recipe.curved) continue;
    const Node& node = MakerOf(v);
    for (ValueId from : recipe.from) {
      if (saved_.FactsOf(from).exact_bits || 16 * Elements(from) < Elements(v)) continue;
      MakeAnchor(from);
      context_.marks[from].computed.push_back(node.name + " (" + node.op + ")");
    }
  }
}

std::set<int64_t> RerunBounds(const Graph& graph, const PassContext& context) {
  const SavedValues saved(graph, context);
  std::set<int64_t> bounds{0};
  for (const Segment& segment : CutForward(graph, saved, context.policy.rerun_spacing))
    bounds.insert(segment.largest);
  PassContext unbound = context;
  unbound.rerun_elements = std::numeric_limits<int64_t>::max();
  const SavedValues then(graph, unbound);
  Recipes recipes(graph, unbound, then);
  recipes.Choose();
  for (const auto& [v, recipe] : recipes.Rebuilt())
    if (recipe.products > 0) bounds.insert(graph.value(v).type.Elements().At(1));
  return bounds;
}

}  // namespace act
