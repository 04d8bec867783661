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

int64_t Tiles(int64_t rows) { return DivideUp(rows, kAttentionTile); }

// Where factors are bfloat16 or may be rounded, and the tiles of the gradient's operands fit a multiprocessor.
void ChooseTensorCores(const CudaContext& context, DType dtype, AttentionSite* at) {
  if (dtype != DType::kBFloat16 && context.product_math == FloatMath::kStrict) return;
  const int64_t chunks = Tiles(std::max<int64_t>({at->shape.depth, at->shape.value_depth, 1}));
  if (chunks > 2) return;  // their sums would not fit the registers
  at->element_bytes = static_cast<int>(ByteSize(dtype));
  at->chunks = static_cast<int>(chunks);
  if (at->SharedBytes(kAttentionOperands, true) > context.driver().card().shared_bytes) at->chunks = 0;
}

}  // namespace

bool TakesVectors(const TensorView& tensor, const MatrixSlices& m, int64_t columns, int64_t elements) {
  const auto is_multiple = [elements](int64_t n) { return n % elements == 0; };
  return CommonAlignment(tensor, tensor) % (elements * ByteSize(tensor.dtype)) == 0 && is_multiple(columns) &&
         is_multiple(m.row) && is_multiple(m.offset) && std::ranges::all_of(m.slices.strides, is_multiple);
}

int64_t AttentionSite::QueryTiles() const { return Tiles(shape.queries); }
int64_t AttentionSite::KeyTiles() const { return Tiles(shape.keys); }

int64_t AttentionSite::SharedBytes(int operands, bool scores) const {
  if (!OnTensorCores()) return 0;
  return int64_t{kAttentionTile} *
         (operands * TensorRowBytes(element_bytes, chunks) + scores * TensorRowBytes(element_bytes, 1));
}

ResultColumns::ResultColumns(int64_t columns)
    : groups(columns > kAttentionTile ? 2 : 1), tiles(DivideUp(columns, groups * kAttentionTile)) {}

std::optional<AttentionSite> AttentionSiteOf(const CudaContext& context, const KernelSite& site, size_t first,
                                             const TensorView& o, DType result, std::string* why) {
  const auto operands = std::span(site.inputs).subspan(first);
  const auto shape = AttentionShapeOf(site, first, o, why);
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
  // Beyond all queries and keys is as far as it goes. Sums with a query have 32 bits: there are fewer than 2^23 queries and
  // keys, since tiles were counted above.
  const auto offset = [&s](bool has, int64_t given, int64_t none) {
    return static_cast<int32_t>(std::clamp<int64_t>(has ? given : none, -s.queries - 1, s.keys));
  };
  p.causal_offset = offset(s.causal, s.causal_offset, s.keys);
  p.window_offset = offset(s.window, s.window_offset, -s.queries);
  p.empty = s.empty_row;
  p.hidden_gradient = s.hidden_gradient;
  p.random_elements = SaturatingMul(s.heads, SaturatingMul(s.queries, s.keys));
  p.kept = 1 / (1 - s.dropout);
  p.threshold = DropoutThreshold(s.dropout);
  p.stream = s.stream;
  p.batches_each = s.batches_each;

  const std::string type = FloatType(operands[0].dtype);
  ChooseTensorCores(context, operands[0].dtype, &at);
  const int64_t vector = at.OnTensorCores() ? 16 / at.element_bytes : 4;
  const bool vectors =
      TakesVectors(operands[0], s.q, s.depth, vector) && TakesVectors(operands[1], s.k, s.depth, vector) &&
      TakesVectors(operands[2], s.v, s.value_depth, vector) && TakesVectors(o, s.o, s.value_depth, vector);
  const auto flag = [](bool set) { return set ? "true" : "false"; };
  at.form =
      "act::cuda::AttentionForm" +
      TemplateArguments(at.OnTensorCores() ? "act::cuda::TensorTiles" + TemplateArguments(type, at.chunks)
                                           : "act::cuda::FloatTiles",
                        type, FloatType(result), vectors ? vector : 1, flag(s.bias.has_value()),
                        flag(s.mask.has_value()), flag(s.softcap > 0), flag(s.dropout > 0));
  return at;
}

void FillAddresses(const CudaContext& context, const KernelArgs& args, size_t first, AttentionParameters& p) {
  p.q = args.inputs[first].as<void>();
  p.k = args.inputs[first + 1].as<void>();
  p.v = args.inputs[first + 2].as<void>();
  p.bias = OptionalFloats(args, first + 3);
  if (const TensorView* mask = OptionalInput(args.inputs, first + 4)) p.mask = mask->as<uint8_t>();
  p.step = context.step_block.as<StepBlock>();
  p.first_batch = args.first_sample * p.batches_each;
}

}  // namespace act::cuda
