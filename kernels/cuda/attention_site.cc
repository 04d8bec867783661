#include "kernels/cuda/attention_site.h"

#include <algorithm>

#include "kernels/cuda/column_plan.h"
#include "kernels/cuda/float_type.h"
#include "kernels/math/random.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/optional_input.h"

namespace act::cuda {
namespace {

bool PlacesOf(const MatrixSlices& m, MatrixPlaces* places) {
  const auto axes = AxesOf(m.slices);
  if (!axes) return false;
  *places = {.slices = *axes, .offset = m.offset, .row = m.row, .column = static_cast<int32_t>(m.column)};
  return true;
}

// Whether every matrix of `tensor` begins where four elements may be loaded at once, and so does each row.
bool TakesVectors(const TensorView& tensor, const MatrixSlices& m, int64_t columns) {
  return IsAlignedForVectors(tensor) && columns % 4 == 0 && m.row % 4 == 0 && m.offset % 4 == 0 &&
         AllMultiplesOf4(m.slices.strides);
}

int64_t Tiles(int64_t rows) { return DivideUp(rows, kAttentionTile); }

}  // namespace

int64_t AttentionSite::QueryTiles() const { return Tiles(shape.queries); }
int64_t AttentionSite::KeyTiles() const { return Tiles(shape.keys); }

ResultColumns::ResultColumns(int64_t columns)
    : groups(columns > kAttentionTile ? 2 : 1), tiles(DivideUp(columns, groups * kAttentionTile)) {}

std::optional<AttentionSite> AttentionSiteOf(const CudaContext& context, const KernelSite& site, size_t first,
                                             const TensorView& o, DType result, std::string* why) {
  const auto operands = std::span(site.inputs).subspan(first);
  const auto shape = AttentionShapeOf(site.node->attrs, operands, o, why);
  if (!shape) return std::nullopt;
  const auto refuse = [&](const char* reason) {
    if (why) *why = reason;
    return std::nullopt;
  };
  const AttentionShape& s = *shape;
  AttentionSite at;
  at.shape = s;
  AttentionParameters& p = at.parameters;
  for (const auto& [m, columns] :
       {std::pair{&s.q, s.depth}, {&s.k, s.depth}, {&s.v, s.value_depth}, {&s.o, s.value_depth}})
    if (m->column != 1 && columns > 1) return refuse("the elements of a head do not lie side by side");
  const int64_t slices = SaturatingMul(s.batches, s.heads),
                tiles = SaturatingAdd(Tiles(std::max(s.queries, s.keys)), 1),
                columns = Tiles(std::max(s.depth, s.value_depth)) + 1;
  if (std::max({s.queries, s.keys, s.depth, s.value_depth}) >= kMaxCount ||
      SaturatingMul(SaturatingMul(slices, tiles), std::max(columns, tiles)) >= kMaxCount)
    return refuse("2^31 tiles of scores or more");
  bool fits =
      PlacesOf(s.q, &p.at_q) && PlacesOf(s.k, &p.at_k) && PlacesOf(s.v, &p.at_v) && PlacesOf(s.o, &p.at_o);
  if (s.bias) fits = fits && PlacesOf(*s.bias, &p.at_bias);
  if (s.mask) fits = fits && PlacesOf(*s.mask, &p.at_mask);
  if (!fits) return refuse("more than 8 axes of heads");

  p.queries = static_cast<int32_t>(s.queries);
  p.keys = static_cast<int32_t>(s.keys);
  p.depth = static_cast<int32_t>(s.depth);
  p.value_depth = static_cast<int32_t>(s.value_depth);
  p.group = s.kv_heads > 0 ? static_cast<int32_t>(s.Group()) : 1;
  p.heads = static_cast<int32_t>(s.heads);
  p.query_tiles = DivisorOf(at.QueryTiles());
  p.scale = s.scale;
  p.softcap = s.softcap;
  // Beyond all queries and keys is as far as it goes.
  const auto offset = [](bool has, int64_t given, int64_t none) {
    return has ? std::clamp<int64_t>(given, -2 * kMaxCount, 2 * kMaxCount) : none;
  };
  p.causal_offset = offset(s.causal, s.causal_offset, 2 * kMaxCount);
  p.window_offset = offset(s.window, s.window_offset, -2 * kMaxCount);
  p.empty = s.empty_row;
  p.hidden_gradient = s.hidden_gradient;
  p.random_elements = SaturatingMul(s.heads, SaturatingMul(s.queries, s.keys));
  p.kept = 1 / (1 - s.dropout);
  p.threshold = DropoutThreshold(s.dropout);
  p.stream = s.stream;

  const bool vectors = TakesVectors(operands[0], s.q, s.depth) && TakesVectors(operands[1], s.k, s.depth) &&
                       TakesVectors(operands[2], s.v, s.value_depth) && TakesVectors(o, s.o, s.value_depth);
  const auto flag = [](bool set) { return set ? "true" : "false"; };
  // Tensor cores, where factors are bfloat16 or may be rounded.
  at.tensor = operands[0].dtype == DType::kBFloat16 || context.product_math != FloatMath::kStrict;
  at.form = "act::cuda::AttentionForm" +
            TemplateArguments(at.tensor ? "act::cuda::TensorTiles" : "act::cuda::FloatTiles",
                              FloatType(operands[0].dtype), FloatType(result), vectors ? 4 : 1,
                              flag(s.bias.has_value()), flag(s.mask.has_value()), flag(s.softcap > 0),
                              flag(s.dropout > 0));
  return at;
}

void FillAddresses(const CudaContext& context, const KernelArgs& args, size_t first, AttentionParameters& p) {
  p.q = args.inputs[first].as<void>();
  p.k = args.inputs[first + 1].as<void>();
  p.v = args.inputs[first + 2].as<void>();
  p.bias = OptionalFloats(args, first + 3);
  if (const TensorView* mask = OptionalInput(args.inputs, first + 4)) p.mask = mask->as<uint8_t>();
  p.step = context.step_block.as<StepBlock>();
}

}  // namespace act::cuda
