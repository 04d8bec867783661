#include "passes/storage/recipes.h"

#include <algorithm>
#include <limits>
#include <string>

#include "compiler/ops/op_table.h"
#include "compiler/policy/large_loss.h"

namespace act {
namespace {

constexpr double kMostReads = 4;      // full-size codes that a rebuilt value may read
constexpr double kMaskRead = 1. / 8;  // a mask, compared with a code
// Bounds that known networks stay below. Without the first, each value of a long chain of elementwise nodes would be
// made from the chain's start, and plans would grow with the square of its length. The second bounds the stack.
constexpr double kMostRepeated = 32;
constexpr int kMostDepth = 1024;
// Products in a row that are re-run from a normalized value: that of q, k and v, then attention.
constexpr int kMostProducts = 2;
constexpr int64_t kLeastElements = 64;  // of a sample; fewer are not worth the loop
// A loss's probabilities are recomputed if they are at least this many
// times larger than their inputs.
constexpr int64_t kWideLoss = 2;

bool IsReshape(const OpDef& op) { return op.movement == Movement::kReshape; }
bool IsConcat(const OpDef& op) { return op.movement == Movement::kConcat; }
bool IsSum(const OpDef& op) { return op.arithmetic == Arithmetic::kSum; }
bool IsMul(const OpDef& op) { return op.arithmetic == Arithmetic::kProduct; }
// Picks numbers by comparing them, as max pooling does.
bool Picks(const OpDef& op) { return op.index_bits != nullptr; }

// Moves all or some numbers to other places, as the forward pass did.
bool Moves(const OpDef& op) { return op.movement != Movement::kNone && !IsReshape(op); }

// If it is computed from decoded numbers, its error is small on average.
bool IsSmoothOrMul(const OpDef& op) { return op.smooth || IsMul(op); }

// Reads two values, each of which may have an error.
bool Multiplies(const OpDef& op) { return IsMul(op) || IsLinearProduct(op); }

// Whether it is what subsample-inputs made: every s-th position.
bool LeavesOutPositions(const Node& node) {
  const std::vector<int64_t> steps = node.attrs.Ints("steps");
  return OpOf(node).movement == Movement::kSlice &&
         std::any_of(steps.begin(), steps.end(), [](int64_t step) { return step > 1; });
}

// Varies with the sample, as far as types tell.
bool OfSamples(const EdgeFacts& facts) {
  return HasBatchAxis(facts.type) || (facts.fixed_batch && facts.type.rank() > 1);
}

// The probabilities of a loss are its second result.
bool IsLoss(const Node& node, ValueId v) {
  return OpOf(node).loss && node.outputs.size() > 1 && node.outputs[1] == v;
}

}  // namespace

bool IsApply(const Node& node) { return OpOf(node).norm.role == Normalization::Role::kApply; }
bool IsRerunProduct(const Node& node) {
  return IsLinearProduct(OpOf(node)) || OpOf(node).product == Product::kAttention;
}

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

std::optional<Recipe> Recipes::Of(ValueId v) {
  if (v == kNoValue) return Recipe{};
  if (!saved_.MadeInForward(v)) return Recipe{.reads = HasBatchAxis(graph_.value(v).type) ? 1. : 0.};
  if (const auto it = rebuilt_.find(v); it != rebuilt_.end()) return it->second;
  if (IsAnchor(v)) return Recipe{.reads = 1, .from = {v}};
  // Small, and kept exactly.
  if (saved_.Crosses(v) && !OfSamples(saved_.FactsOf(v))) return Recipe{};
  if (saved_.Crosses(v)) return Recipe{.reads = saved_.FactsOf(v).exact_bits ? kMaskRead : 1, .from = {v}};
  // Chains of such values are as long as a model makes them. So this function does not call itself for one of them: it
  // makes the recipes of operands first.
  std::vector<ValueId> open{v};
  while (!known_.count(v)) {
    const ValueId last = open.back();
    for (const ValueId in : ProducerOf(last).inputs)
      if (IsOpen(in)) open.push_back(in);
    if (open.back() != last) continue;
    known_[last] = OfProducer(last);
    open.pop_back();
  }
  return known_.at(v);
}

// Whether the recipe of v is that of its own operator, and is not known yet.
bool Recipes::IsOpen(ValueId v) const {
  return v != kNoValue && saved_.MadeInForward(v) && !IsRebuilt(v) && !IsAnchor(v) && !saved_.Crosses(v) &&
         !known_.count(v);
}

std::optional<Recipe> Recipes::OfAll(const std::vector<ValueId>& values) {
  Recipe all;
  for (ValueId v : values) {
    const std::optional<Recipe> one = Of(v);
    if (!one) return std::nullopt;
    all.reads += one->reads;
    all.repeated += one->repeated;
    all.depth = std::max(all.depth, one->depth);
    all.products = std::max(all.products, one->products);
    all.curved |= one->curved;
    all.of_segment |= one->of_segment;
    all.from.insert(one->from.begin(), one->from.end());
  }
  return all;
}

std::optional<Recipe> Recipes::OfProducer(ValueId v) {
  const Node& node = ProducerOf(v);
  std::optional<Recipe> recipe = ByOperator(node, v);
  if (!recipe) return recipe;
  ++recipe->depth;
  recipe->repeated = InSegment(v) || IsRerunProduct(node) ? 0 : recipe->repeated + 1;
  return recipe;
}

std::optional<Recipe> Recipes::ByOperator(const Node& node, ValueId v) {
  const OpDef& op = OpOf(node);
  if (op.rectifies) {
    const ValueId mask = MaskOf(v);
    return mask == kNoValue ? std::nullopt : OfAll({node.inputs[0], mask});
  }
  if (IsApply(node)) {
    const ValueId xhat = NormalizedOf(node);
    if (xhat != kNoValue) return Of(xhat);
  }
  if (InSegment(v)) {  // computed once, for all readers
    std::optional<Recipe> recipe = IsNormalize(node) ? Of(node.inputs[0]) : OfAll(node.inputs);
    if (recipe) recipe->reads = 1;
    if (recipe) recipe->of_segment = true;
    return recipe;
  }
  if (HasSegments() && IsApply(node)) return Of(node.inputs[0]);
  if (IsSum(op) || op.arithmetic == Arithmetic::kDifference) return OfSum(node);
  if (IsConcat(op)) return OfParts(node);
  if (op.arithmetic == Arithmetic::kNegative || op.arithmetic == Arithmetic::kCopy || IsReshape(op) ||
      LeavesOutPositions(node))
    return Of(node.inputs[0]);
  if (IsMul(op) && (!saved_.MadeInForward(node.inputs[0]) || !saved_.MadeInForward(node.inputs[1])))
    return OfAll(node.inputs);  // affine
  return FromNormalized(node, v);
}

// Each part counts by its share of the elements.
std::optional<Recipe> Recipes::OfParts(const Node& concat) {
  std::optional<Recipe> whole = OfAll(concat.inputs);
  if (!whole) return whole;
  whole->reads = 0;
  for (ValueId part : concat.inputs)
    whole->reads += Of(part)->reads * static_cast<double>(Elements(part)) /
                    static_cast<double>(std::max<int64_t>(1, Elements(concat.outputs[0])));
  return whole;
}

// A residual sum is not followed into a re-run value, which would lie
// in memory from block to block.
std::optional<Recipe> Recipes::OfSum(const Node& node) {
  std::optional<Recipe> recipe = OfAll(node.inputs);
  if (!recipe || recipe->products == 0) return recipe;
  const int64_t full = Elements(node.outputs[0]);
  const auto large = std::count_if(recipe->from.begin(), recipe->from.end(),
                                   [&](ValueId from) { return 4 * Elements(from) >= full; });
  return large <= 1 ? recipe : std::nullopt;
}

// Whether the backward pass has v with the error of a code.
bool Recipes::IsInexact(ValueId v) {
  const std::optional<Recipe> recipe = Of(v);
  return recipe && std::any_of(recipe->from.begin(), recipe->from.end(),
                               [this](ValueId from) { return IsAnchor(from) || saved_.CodesLossily(from); });
}

// Recipes for products and smooth functions of normalized values, and for
// nodes that only move numbers.
std::optional<Recipe> Recipes::FromNormalized(const Node& node, ValueId v) {
  const OpDef& op = OpOf(node);
  if (!context_.policy.Reruns() && !IsSmoothOrMul(op)) return std::nullopt;
  if (IsNormalize(node)) {  // of the model's inputs: exact, with the statistics of the forward pass
    std::optional<Recipe> recipe = Of(node.inputs[0]);
    return recipe && recipe->from.empty() && recipe->products == 0 && !recipe->of_segment ? recipe
                                                                                          : std::nullopt;
  }
  // Making it again takes the product of the scores once more, and no less memory.
  if (IsLargeLoss(graph_.value(v).type) && context_.policy.KeepsInTiles(saved_.FactsOf(v)))
    return std::nullopt;
  const bool loss = IsLoss(node, v), smooth = IsSmoothOrMul(op), product = IsRerunProduct(node);
  if (!loss && !smooth && !product && !Moves(op)) return std::nullopt;
  std::optional<Recipe> recipe = loss ? Of(node.inputs[0]) : OfAll(node.inputs);
  if (!recipe || recipe->of_segment) return std::nullopt;
  if (product && (++recipe->products > kMostProducts || Elements(v) > context_.rerun_elements))
    return std::nullopt;
  if (product) recipe->reads = std::min(recipe->reads, 1.);  // computed once, for all readers
  recipe->curved |= loss || (Multiplies(op) ? IsInexact(node.inputs[0]) && IsInexact(node.inputs[1])
                                            : smooth || op.product == Product::kAttention);
  if (recipe->curved && !context_.policy.AnchorsAreFine()) return std::nullopt;
  if (loss) {
    int64_t sources = 0;
    for (ValueId from : recipe->from) sources += Elements(from);
    if (Elements(v) < kWideLoss * sources) return std::nullopt;
  }
  return recipe;
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
