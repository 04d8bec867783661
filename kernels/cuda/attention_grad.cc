// The gradient of attention, of some heads at a time: first the statistics of their queries, then the gradients of the
// bias, of q, k and v. Gradients may lie where q, k and v do, and the kernels of all three read these. So they are made in
// the workspace, and moved when all are there.
#include "kernels/cuda/attention_grad.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "kernels/cuda/attention_site.h"
#include "kernels/cuda/column_plan.h"
#include "kernels/cuda/float_type.h"
#include "kernels/cuda/sum_parts.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "runtime/plan/workspace.h"

namespace act::cuda {
namespace {

using GradKernel = OwnKernel<AttentionGradParameters>;

// A part of a bias's gradient adds at least so many tiles of scores.
constexpr int64_t kLeastItems = 8;

static_assert(sizeof(QueryStatistics) == kCudaQueryBytes);

// A gradient that is made in the workspace, some slices at a time.
struct Apart {
  MatrixPlaces at;  // its place
  int64_t rows = 0, columns = 0;
  int64_t offset = 0;  // in the workspace

  int64_t SliceElements() const { return rows * columns; }
  // Of the slices from `first` on, in the workspace.
  MatrixPlaces Places(int64_t first) const {
    MatrixPlaces places{.slices = {}, .offset = -first * SliceElements(), .row = columns};
    places.slices.count = 1;
    places.slices.from[0] = SliceElements();
    return places;
  }
};

// Where things lie in the workspace, and how many heads of keys it holds them of.
struct GradientSpace {
  Apart dq, dk, dv;
  int64_t slices = 0, parts_bytes = 0, statistics = 0, bytes = 0;

  // `most_parts`: bytes of the parts of a bias's gradient. The plan has no room for them if the bias differs from sample
  // to sample; so they get what one head of keys leaves.
  GradientSpace(const AttentionSite& site, int64_t element_bytes, int64_t most_parts,
                int64_t workspace_bytes);
};

GradientSpace::GradientSpace(const AttentionSite& site, int64_t element_bytes, int64_t most_parts,
                             int64_t workspace_bytes)
    : dq{site.parameters.at_q, site.shape.queries, site.shape.depth},
      dk{site.parameters.at_k, site.shape.keys, site.shape.depth},
      dv{site.parameters.at_v, site.shape.keys, site.shape.value_depth} {
  const AttentionShape& s = site.shape;
  const int64_t group = site.parameters.group, of_statistics = group * s.queries * kCudaQueryBytes,
                of_dq = group * dq.SliceElements() * element_bytes,
                of_dk = dk.SliceElements() * element_bytes, of_dv = dv.SliceElements() * element_bytes;
  const int64_t head = std::max<int64_t>(of_statistics + of_dq + of_dk + of_dv, 1);
  const int64_t room = workspace_bytes - kCudaAttentionGaps;
  parts_bytes = std::clamp<int64_t>(room - head, 0, most_parts);
  slices = std::clamp<int64_t>((room - parts_bytes) / head, 0, s.batches * s.kv_heads);
  bytes = parts_bytes;
  const auto place = [&](int64_t bytes_of_slice) {
    const int64_t at = RoundUp(bytes, AlignmentOf(TargetKind::kCuda));
    bytes = at + slices * bytes_of_slice;
    return at;
  };
  statistics = place(of_statistics);
  dq.offset = place(of_dq);
  dk.offset = place(of_dk);
  dv.offset = place(of_dv);
}

template <class... Arguments>
GradKernel GradientKernel(const CudaContext& context, const AttentionSite& site, const std::string& name,
                          const std::string& function, const Arguments&... arguments) {
  return AttentionKernel<AttentionGradParameters>(context, site, name, "AttentionGradParameters",
                                                  "attention_grad", function, kAttentionOperands, true,
                                                  arguments...);
}

// The gradients of keys and values, in one kernel where the sums of both fit its registers.
struct KeyKernels {
  GradKernel first;
  int64_t first_tiles;               // of columns
  std::optional<GradKernel> second;  // of values

  KeyKernels(const CudaContext& context, const AttentionSite& site, const ResultColumns& keys,
             const ResultColumns& values)
      : first(Of(context, site, keys.groups, AtOnce(site, keys, values) ? values.groups : 0)),
        first_tiles(AtOnce(site, keys, values) ? std::max(keys.tiles, values.tiles) : keys.tiles) {
    if (!AtOnce(site, keys, values)) second = Of(context, site, 0, values.groups);
  }

 private:
  static bool AtOnce(const AttentionSite& site, const ResultColumns& keys, const ResultColumns& values) {
    return site.OnTensorCores() || std::max(keys.groups, values.groups) == 1;
  }
  static GradKernel Of(const CudaContext& context, const AttentionSite& site, int keys, int values) {
    return GradientKernel(context, site, "attention_grad_keys", "AttentionGradKeys", keys, values);
  }
};

// The kernel of a bias's gradient. Its parts lie at the start of the workspace.
struct BiasGradient {
  GradKernel kernel;
  PartSums parts;
  int64_t blocks = 0;  // of a part
};

// Fills the parameters of a bias's gradient in.
std::optional<BiasGradient> BiasGradientOf(const CudaContext& context, const AttentionSite& site,
                                           const TensorView& d_bias, const GradientSpace& space,
                                           AttentionGradParameters& p) {
  const AttentionShape& s = site.shape;
  Strided matrices;  // that differ
  for (size_t d = 0; d < s.bias->slices.dims.size(); ++d) {
    if (s.bias->slices.strides[d] == 0) continue;
    matrices.dims.push_back(s.bias->slices.dims[d]);
    matrices.strides.push_back(s.bias->slices.strides[d]);
  }
  p.bias_slices = *AxesOf(matrices);
  p.bias_elements = d_bias.elements;
  const bool all_queries = s.bias->row == 0, all_keys = s.bias->column == 0;
  p.bias_matrices = DivisorOf(matrices.Elements());
  p.bias_query_tiles = DivisorOf(all_queries ? 1 : site.QueryTiles());
  p.bias_key_tiles = DivisorOf(all_keys ? 1 : site.KeyTiles());
  p.item_query_tiles = DivisorOf(all_queries ? site.QueryTiles() : 1);
  p.item_key_tiles = DivisorOf(all_keys ? site.KeyTiles() : 1);
  const int64_t of_slice = int64_t{p.item_query_tiles.by} * p.item_key_tiles.by;
  const int64_t items = space.slices * p.forward.group * of_slice;
  const int64_t blocks = int64_t{p.bias_matrices.by} * p.bias_query_tiles.by * p.bias_key_tiles.by;
  BiasGradient bias{
      GradientKernel(context, site, "attention_grad_bias", "AttentionGradBias"),
      PartSums(context, d_bias.elements, blocks, items, kLeastItems, space.parts_bytes, d_bias.dtype),
      d_bias.elements > 0 ? blocks : 0};
  if (bias.parts.WorkspaceBytes() > space.parts_bytes || blocks * bias.parts.count() >= kMaxCount)
    return std::nullopt;
  p.part_items = static_cast<int32_t>(std::max<int64_t>(bias.parts.part_length(), 1));
  return bias;
}

class AttentionGradKernel final : public Kernel {
 public:
  AttentionGradKernel(const CudaContext& context, const AttentionSite& site, DType result,
                      int64_t moved_at_once, const GradientSpace& space,
                      const std::optional<BiasGradient>& bias, const AttentionGradParameters& parameters)
      : context_(context),
        shape_(site.shape),
        parameters_(parameters),
        space_(space),
        query_tiles_(site.QueryTiles()),
        key_tiles_(site.KeyTiles()),
        dq_columns_(site.shape.depth),
        dv_columns_(site.shape.value_depth),
        statistics_(GradientKernel(context, site, "attention_statistics", "AttentionStatistics")),
        dq_(GradientKernel(context, site, "attention_grad_queries", "AttentionGradQueries",
                           dq_columns_.groups)),
        keys_(context, site, dq_columns_, dv_columns_),
        move_(context, "move_matrices", "MoveMatricesParameters", "attention_grad",
              "MoveMatrices" + TemplateArguments(FloatType(result), moved_at_once)),
        moved_at_once_(moved_at_once),
        bias_(bias) {
    parameters_.key_tiles = DivisorOf(key_tiles_);
    parameters_.query_columns = DivisorOf(dq_columns_.tiles);
    parameters_.key_columns = DivisorOf(keys_.first_tiles);
    parameters_.value_columns = DivisorOf(dv_columns_.tiles);
  }

  int64_t WorkspaceBytes() const override { return space_.bytes; }
  std::string Describe() const override { return std::to_string(space_.slices) + " heads of keys at a time"; }
  std::string Run(const KernelArgs& args) override;

 private:
  // Of `count` heads of keys.
  Status RunSlices(const KernelArgs& args, AttentionGradParameters p, int64_t first, int64_t count) const;
  // The gradients of `count` slices go from the workspace to their places.
  Status Move(const Apart& gradient, const void* from, void* to, int64_t first, int64_t count) const;

  const CudaContext& context_;
  AttentionShape shape_;
  AttentionGradParameters parameters_;
  GradientSpace space_;
  int64_t query_tiles_, key_tiles_;
  ResultColumns dq_columns_, dv_columns_;  // those of dk are dq's
  GradKernel statistics_, dq_;
  KeyKernels keys_;
  OwnKernel<MoveMatricesParameters> move_;
  int64_t moved_at_once_;  // elements
  std::optional<BiasGradient> bias_;
};

std::string AttentionGradKernel::Run(const KernelArgs& args) {
  AttentionGradParameters p = parameters_;
  FillAddresses(context_, args, 1, p.forward);
  auto* const workspace = args.workspace.data.as<std::byte>();
  p.d_o = args.inputs[0].as<void>();
  p.statistics = reinterpret_cast<QueryStatistics*>(workspace + space_.statistics);
  p.dq = workspace + space_.dq.offset;
  p.dk = workspace + space_.dk.offset;
  p.dv = workspace + space_.dv.offset;
  auto* const parts = reinterpret_cast<float*>(workspace);
  void* const d_bias = bias_ ? args.outputs[shape_.GradientOf(3)].as<void>() : nullptr;
  if (bias_) p.d_bias = bias_->parts.Target(d_bias, parts);
  // Without heads, too: the gradient of a bias is 0 then.
  const int64_t slices = shape_.batches * shape_.kv_heads;
  int64_t first = 0;
  do {
    if (Status status = RunSlices(args, p, first, std::min(space_.slices, slices - first)); !status.empty())
      return status;
    first += space_.slices;
  } while (first < slices);
  return bias_ ? bias_->parts.Add(parts, d_bias) : "";
}

Status AttentionGradKernel::RunSlices(const KernelArgs& args, AttentionGradParameters p, int64_t first,
                                      int64_t count) const {
  const int64_t first_q = first * p.forward.group, q_count = count * p.forward.group;
  p.first_kv_slice = static_cast<int32_t>(first);
  p.goes_on = first > 0;
  p.at_dq = space_.dq.Places(first_q);
  p.at_dk = space_.dk.Places(first);
  p.at_dv = space_.dv.Places(first);
  Status status = statistics_.Launch(q_count * query_tiles_, p);
  if (status.empty() && bias_) {
    p.items = static_cast<int32_t>(q_count * p.item_query_tiles.by * p.item_key_tiles.by);
    status = bias_->kernel.Launch(bias_->blocks * bias_->parts.count(), p);
  }
  if (status.empty()) status = dq_.Launch(q_count * query_tiles_ * dq_columns_.tiles, p);
  if (status.empty()) status = keys_.first.Launch(count * key_tiles_ * keys_.first_tiles, p);
  if (status.empty() && keys_.second)
    status = keys_.second->Launch(count * key_tiles_ * dv_columns_.tiles, p);
  const auto result = [&](size_t operand) { return args.outputs[shape_.GradientOf(operand)].as<void>(); };
  if (status.empty()) status = Move(space_.dq, p.dq, result(0), first_q, q_count);
  if (status.empty()) status = Move(space_.dk, p.dk, result(1), first, count);
  return status.empty() ? Move(space_.dv, p.dv, result(2), first, count) : status;
}

Status AttentionGradKernel::Move(const Apart& gradient, const void* from, void* to, int64_t first,
                                 int64_t count) const {
  const int64_t items = count * gradient.SliceElements() / moved_at_once_;
  return move_.LaunchItems(items, {.from = from,
                                   .to = to,
                                   .at = gradient.at,
                                   .first_slice = static_cast<int32_t>(first),
                                   .rows = DivisorOf(gradient.rows),
                                   .columns = DivisorOf(gradient.columns / moved_at_once_),
                                   .items = static_cast<int32_t>(items)});
}

}  // namespace

std::unique_ptr<Kernel> CreateAttentionGrad(const CudaContext& context, const KernelSite& site,
                                            std::string* why) {
  if (site.inputs[0].dtype != site.inputs[1].dtype) return Refuse(why, "do and q must have one type");
  const DType result = site.outputs[0].dtype;
  const auto at = AttentionSiteOf(context, site, 1, site.inputs[0], result, why);
  if (!at || !GradientsFit(at->shape, std::span(site.inputs).subspan(1), site.outputs, why)) return nullptr;
  const AttentionShape& s = at->shape;
  const size_t of_bias = s.GradientOf(3);
  for (size_t i = 0; i < std::min(of_bias, site.outputs.size()); ++i)
    if (site.outputs[i].dtype != result) return Refuse(why, "the gradients of q, k and v must have one type");
  const TensorView* d_bias = site.outputs.size() > of_bias ? &site.outputs[of_bias] : nullptr;
  if (d_bias && !s.bias) return Refuse(why, "there is no bias of which there could be a gradient");

  const int64_t parts =
      d_bias ? CudaAttentionPartBytes(d_bias->elements, d_bias->dtype == DType::kFloat32) : 0;
  const GradientSpace space(*at, ByteSize(result), parts, site.workspace_bytes);
  if (space.slices == 0 && s.batches * s.kv_heads > 0)
    return Refuse(why, "the workspace does not hold what one head needs");
  if (space.bytes / ByteSize(result) >= kMaxCount) return Refuse(why, "2^31 elements of gradients at a time");
  AttentionGradParameters p;
  p.forward = at->parameters;
  std::optional<BiasGradient> bias;
  if (d_bias) {
    bias = BiasGradientOf(context, *at, *d_bias, space, p);
    if (!bias) return Refuse(why, "the workspace does not hold the gradient of the bias");
  }
  int64_t moved_at_once = 16 / ByteSize(result);
  for (const auto& [operand, m, columns] :
       {std::tuple{0, &s.q, s.depth}, {1, &s.k, s.depth}, {2, &s.v, s.value_depth}})
    if (!TakesVectors(site.outputs[s.GradientOf(static_cast<size_t>(operand))], *m, columns, moved_at_once))
      moved_at_once = 1;
  return std::make_unique<AttentionGradKernel>(context, *at, result, moved_at_once, space, bias, p);
}

}  // namespace act::cuda
