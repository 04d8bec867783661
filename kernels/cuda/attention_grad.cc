// The gradient of attention, of some heads at a time: first the statistics of their queries, then the gradients of the
// bias, of q, and of k and v. These may lie where q, k and v do. So that of q, which is there before k and v have been
// read for the last time, is made in the workspace; and those of k and v too, where several blocks have columns of
// one key.
#include "kernels/cuda/attention_grad.h"

#include <algorithm>
#include <optional>

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
  bool keys_apart = false;  // also dk and dv
  int64_t slices = 0, parts_bytes = 0, statistics = 0, bytes = 0;

  GradientSpace(const AttentionSite& site, bool keys_apart, int64_t element_bytes, int64_t parts,
                int64_t workspace_bytes);
};

GradientSpace::GradientSpace(const AttentionSite& site, bool are_apart, int64_t element_bytes, int64_t parts,
                             int64_t workspace_bytes)
    : dq{site.parameters.at_q, site.shape.queries, site.shape.depth},
      dk{site.parameters.at_k, site.shape.keys, site.shape.depth},
      dv{site.parameters.at_v, site.shape.keys, site.shape.value_depth},
      keys_apart(are_apart),
      parts_bytes(parts) {
  const AttentionShape& s = site.shape;
  const int64_t group = site.parameters.group,
                of_queries = group * (s.queries * kCudaQueryBytes + dq.SliceElements() * element_bytes),
                of_keys = keys_apart ? (dk.SliceElements() + dv.SliceElements()) * element_bytes : 0;
  const int64_t room = workspace_bytes - parts - kCudaAttentionGaps;
  slices = std::clamp<int64_t>(room / std::max<int64_t>(of_queries + of_keys, 1), 0, s.batches * s.kv_heads);
  bytes = parts;
  const auto place = [&](int64_t bytes_of_slice) {
    const int64_t at = RoundUp(bytes, AlignmentOf(TargetKind::kCuda));
    bytes = at + slices * bytes_of_slice;
    return at;
  };
  statistics = place(group * s.queries * kCudaQueryBytes);
  dq.offset = place(group * dq.SliceElements() * element_bytes);
  if (!keys_apart) return;
  dk.offset = place(dk.SliceElements() * element_bytes);
  dv.offset = place(dv.SliceElements() * element_bytes);
}

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
  BiasGradient bias{AttentionKernel<AttentionGradParameters>(context, site, "attention_grad_bias",
                                                             "AttentionGradParameters", "attention_grad",
                                                             "AttentionGradBias", 0, 2),
                    PartSums(context, d_bias.elements, blocks, items, kLeastItems, space.parts_bytes, d_bias.dtype),
                    d_bias.elements > 0 ? blocks : 0};
  if (bias.parts.WorkspaceBytes() > space.parts_bytes || blocks * bias.parts.count() >= kMaxCount) return std::nullopt;
  p.part_items = static_cast<int32_t>(std::max<int64_t>(bias.parts.part_length(), 1));
  return bias;
}

class AttentionGradKernel final : public Kernel {
 public:
  AttentionGradKernel(const CudaContext& context, const AttentionSite& site, DType result,
                      const GradientSpace& space, const AttentionGradParameters& parameters,
                      std::optional<BiasGradient> bias)
      : context_(context),
        s_(site.shape),
        parameters_(parameters),
        space_(space),
        query_blocks_(site.QueryTiles()),
        key_blocks_(site.KeyTiles()),
        query_columns_(site.shape.depth),
        key_columns_(std::max(site.shape.depth, site.shape.value_depth)),
        statistics_(Of(site, "attention_statistics", "AttentionStatistics", 0, 2)),
        queries_(Of(site, "attention_grad_queries", "AttentionGradQueries", query_columns_.groups, 2)),
        keys_(Of(site, "attention_grad_keys", "AttentionGradKeys", key_columns_.groups, 1)),
        move_(context, "move_matrices", "MoveMatricesParameters", "attention_grad",
              "MoveMatrices" + TemplateArguments(FloatType(result))),
        bias_(std::move(bias)) {}

  int64_t WorkspaceBytes() const override { return space_.bytes; }
  std::string Describe() const override { return std::to_string(space_.slices) + " heads of keys at a time"; }
  std::string Run(const KernelArgs& args) override;

 private:
  GradKernel Of(const AttentionSite& site, const std::string& name, const std::string& function, int groups,
                int resident_blocks) const {
    return AttentionKernel<AttentionGradParameters>(context_, site, name, "AttentionGradParameters",
                                                    "attention_grad", function, groups, resident_blocks);
  }
  // Of `count` heads of keys.
  Status RunSlices(const KernelArgs& args, AttentionGradParameters p, int64_t first, int64_t count) const;
  Status Move(const Apart& gradient, int64_t first, int64_t count, const std::byte* workspace, void* to) const;

  const CudaContext& context_;
  AttentionShape s_;
  AttentionGradParameters parameters_;
  GradientSpace space_;
  int64_t query_blocks_, key_blocks_;
  ResultColumns query_columns_, key_columns_;
  GradKernel statistics_, queries_, keys_;
  OwnKernel<MoveMatricesParameters> move_;
  std::optional<BiasGradient> bias_;
};

std::string AttentionGradKernel::Run(const KernelArgs& args) {
  AttentionGradParameters p = parameters_;
  FillAddresses(context_, args, 1, p.forward);
  p.d_o = args.inputs[0].as<void>();
  auto* const workspace = args.workspace.data.as<std::byte>();
  p.statistics = reinterpret_cast<QueryStatistics*>(workspace + space_.statistics);
  void* const d_bias = bias_ ? args.outputs[s_.GradientOf(3)].as<void>() : nullptr;
  if (bias_) p.d_bias = bias_->parts.Target(d_bias, reinterpret_cast<float*>(workspace));
  const int64_t slices = s_.batches * s_.kv_heads;
  // Without heads, too: the gradient of a bias is 0 then.
  int64_t first = 0;
  do {
    if (Status status = RunSlices(args, p, first, std::min(space_.slices, slices - first)); !status.empty())
      return status;
    first += space_.slices;
  } while (first < slices);
  return bias_ ? bias_->parts.Add(reinterpret_cast<float*>(workspace), d_bias) : "";
}

Status AttentionGradKernel::RunSlices(const KernelArgs& args, AttentionGradParameters p, int64_t first,
                                      int64_t count) const {
  const int64_t q_slices = count * p.forward.group;
  auto* const workspace = args.workspace.data.as<std::byte>();
  p.first_kv_slice = static_cast<int32_t>(first);
  p.goes_on = first > 0;
  Status status = statistics_.Launch(q_slices * query_blocks_, p);
  if (bias_ && status.empty()) {
    p.items = static_cast<int32_t>(q_slices * p.item_query_tiles.by * p.item_key_tiles.by);
    status = bias_->kernel.Launch(bias_->blocks * bias_->parts.count(), p);
  }
  if (!status.empty()) return status;

  void *const dq = args.outputs[s_.GradientOf(0)].as<void>(), *const dk = args.outputs[s_.GradientOf(1)].as<void>(),
             *const dv = args.outputs[s_.GradientOf(2)].as<void>();
  p.dq = workspace + space_.dq.offset;
  p.at_dq = space_.dq.Places(first * p.forward.group);
  p.dk = dk, p.at_dk = p.forward.at_k;
  p.dv = dv, p.at_dv = p.forward.at_v;
  if (space_.keys_apart) {
    p.dk = workspace + space_.dk.offset, p.at_dk = space_.dk.Places(first);
    p.dv = workspace + space_.dv.offset, p.at_dv = space_.dv.Places(first);
  }
  status = queries_.Launch(q_slices * query_blocks_ * query_columns_.tiles, p);
  if (status.empty()) status = keys_.Launch(count * key_blocks_ * key_columns_.tiles, p);
  if (status.empty()) status = Move(space_.dq, first * p.forward.group, q_slices, workspace, dq);
  if (!space_.keys_apart) return status;
  if (status.empty()) status = Move(space_.dk, first, count, workspace, dk);
  return status.empty() ? Move(space_.dv, first, count, workspace, dv) : status;
}

Status AttentionGradKernel::Move(const Apart& gradient, int64_t first, int64_t count, const std::byte* workspace,
                                 void* to) const {
  const int64_t items = count * gradient.SliceElements();
  return move_.LaunchItems(items, {.from = workspace + gradient.offset,
                                   .to = to,
                                   .at = gradient.at,
                                   .first_slice = static_cast<int32_t>(first),
                                   .rows = DivisorOf(gradient.rows),
                                   .columns = DivisorOf(gradient.columns),
                                   .items = static_cast<int32_t>(items)});
}

}  // namespace

std::unique_ptr<Kernel> CreateAttentionGrad(const CudaContext& context, const KernelSite& site, std::string* why) {
  const auto operands = std::span(site.inputs).subspan(1);
  if (site.inputs[0].dtype != site.inputs[1].dtype) return Refuse(why, "do and q must have one type");
  const DType result = site.outputs[0].dtype;
  const auto at = AttentionSiteOf(context, site, 1, site.inputs[0], result, why);
  if (!at || !GradientsFit(at->shape, operands, site.outputs, why)) return nullptr;
  const AttentionShape& s = at->shape;
  const size_t of_bias = s.GradientOf(3);
  for (size_t i = 0; i < std::min(of_bias, site.outputs.size()); ++i)
    if (site.outputs[i].dtype != result) return Refuse(why, "the gradients of q, k and v must have one type");
  const TensorView* d_bias = site.outputs.size() > of_bias ? &site.outputs[of_bias] : nullptr;
  if (d_bias && !s.bias) return Refuse(why, "there is no bias of which there could be a gradient");

  const ResultColumns query_columns(s.depth), key_columns(std::max(s.depth, s.value_depth));
  const int64_t parts =
      d_bias ? CudaAttentionPartBytes(d_bias->elements, d_bias->dtype == DType::kFloat32) : 0;
  const GradientSpace space(*at, key_columns.tiles > 1, ByteSize(result), std::min(parts, site.workspace_bytes),
                            site.workspace_bytes);
  const int64_t slices = s.batches * s.kv_heads;
  if (space.slices == 0 && slices > 0) return Refuse(why, "the workspace does not hold what one head needs");
  if (space.slices * std::max({at->parameters.group * space.dq.SliceElements(), space.dk.SliceElements(),
                               space.dv.SliceElements()}) >= kMaxCount)
    return Refuse(why, "2^31 elements of a gradient at a time");

  AttentionGradParameters p;
  p.forward = at->parameters;
  p.key_tiles = DivisorOf(at->KeyTiles());
  p.query_columns = DivisorOf(query_columns.tiles);
  p.key_columns = DivisorOf(key_columns.tiles);
  std::optional<BiasGradient> bias;
  if (d_bias) {
    bias = BiasGradientOf(context, *at, *d_bias, space, p);
    if (!bias) return Refuse(why, "the workspace does not hold the gradient of the bias");
  }
  return std::make_unique<AttentionGradKernel>(context, *at, result, space, p, std::move(bias));
}

}  // namespace act::cuda
