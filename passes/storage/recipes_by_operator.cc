// The cost of having a value in the backward pass, by the operator that makes it.
#include <algorithm>

#include "compiler/ops/equal_parts.h"
#include "compiler/policy/large_loss.h"
#include "passes/storage/recipe_traits.h"
#include "passes/storage/recipes.h"

namespace act {
namespace {

constexpr double kMaskRead = 1. / 8;  // a mask, compared with a code
// Products in a row that are re-run from a normalized value: that of q, k and v, then attention.
constexpr int kMostProducts = 2;
// A loss's probabilities are recomputed if they are at least this many
// times larger than their inputs.
constexpr int64_t kWideLoss = 2;

bool IsMul(const OpDef& op) { return op.arithmetic == Arithmetic::kProduct; }

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

}  // namespace

bool IsApply(const Node& node) { return OpOf(node).norm.role == Normalization::Role::kApply; }
bool IsRerunProduct(const Node& node) {
  return IsLinearProduct(OpOf(node)) || OpOf(node).product == Product::kAttention;
}

std::optional<Recipe> Recipes::Of(ValueId v) {
  if (v == kNoValue) return Recipe{};
  if (!saved_.MadeInForward(v)) return Recipe{.reads = HasSamples(graph_.value(v).type) ? 1. : 0.};
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

}  // namespace act
