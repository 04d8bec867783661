// Which gradients of weights are made from packed operands (packed_grad_weight.h), and by which
// instructions.
#include "kernels/cpu/packed_grad_weight.h"

#include "kernels/cpu/float_product.h"
#include "kernels/cpu/pair_product.h"
#include "kernels/cpu/special.h"
#include "kernels/cpu/tile_pairs.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/matmul_shape.h"

namespace act {
namespace {

constexpr int64_t kFewestSlots = 16;
// The number of sums for each element of dw, each over a part of the pixels. Their copies of dw
// stay in a cache together.
constexpr int64_t kMostParts = 4;
constexpr int64_t kCopyBytes = 1 << 20;
// A block's size is chosen for this many threads, so that it does not depend on how many there are.
constexpr int kBlockThreads = 16;

// Bounds that keep sizes from overflowing. Blocks of such sizes fit into no workspace.
constexpr int64_t kMostTaps = 1024, kMostChannels = 1 << 20;

template <class Product>
std::unique_ptr<Kernel> Create(const GradWeightShape& shape, const KernelSite& site, std::string* why) {
  const DType type = site.inputs[0].dtype;
  if (site.inputs[1].dtype != type || site.outputs[0].dtype != DType::kFloat32)
    return Refuse(why, "operands of two types, or a result that is not float32");
  if (Product::kRounds && type == DType::kFloat32 && site.node->attrs.Int("may_round") == 0)
    return Refuse(why, "its operands may not be rounded");
  if (!Product::Available())
    return Refuse(why, std::string("the processor has no ") + Product::kInstructions);
  if (shape.group != 1) return Refuse(why, "has groups");
  if (shape.out_channels < Product::kFewestRows || shape.channels < kSlotLanes)
    return Refuse(why, "has few channels");
  if (shape.KernelPixels() > kMostTaps) return Refuse(why, "has a large window");
  if (std::max(shape.out_channels, shape.channels) > kMostChannels) return Refuse(why, "has many channels");
  for (const TensorView& operand : site.inputs)
    if (operand.elements == 0) return Refuse(why, "an empty tensor");
  const int64_t pixels = shape.DyRows() * shape.out[2];
  const auto suits = [&](int64_t parts) {  // small copies, and each part has pixels
    const bool empty = shape.DyRows() > 1 && shape.DyRows() < parts;
    return parts * site.outputs[0].bytes <= kCopyBytes && pixels >= parts * Product::kBlockSlots && !empty;
  };
  int64_t parts = kMostParts;
  while (parts > 1 && !suits(parts)) parts /= 2;
  const auto kernel_of = [&](int64_t slots, int threads) {
    return std::make_unique<PackedGradWeight<Product>>(shape, type, slots, parts, threads);
  };
  const auto fits = [&](int64_t slots, int threads) {
    return kernel_of(slots, threads)->WorkspaceBytes() <= site.workspace_bytes;
  };
  int64_t most = Product::kBlockSlots;
  if constexpr (Product::kBlocksChangeBits)
    while (most > kFewestSlots && !fits(most, kBlockThreads)) most /= 2;
  const int64_t least = Product::kBlocksChangeBits ? most : kFewestSlots;
  int64_t needed = 0;
  for (int threads = site.threads; threads >= 1; threads /= 2)
    for (int64_t slots = most; slots >= least; slots /= 2) {
      auto kernel = kernel_of(slots, threads);
      needed = kernel->WorkspaceBytes();
      if (needed <= site.workspace_bytes) return kernel;
    }
  return Refuse(why, TooLittleWorkspace(needed, site.workspace_bytes));
}

template <class Product>
std::unique_ptr<Kernel> OfConvolution(const KernelSite& site, std::string* why) {
  const auto conv = MixedConvShapeOf(site.node->attrs, site.inputs[1], site.outputs[0], site.inputs[0], why);
  if (!conv) return nullptr;
  GradWeightShape shape{*conv};
  shape.dy_pixel = shape.out_channels;
  shape.x_pixel = shape.channels;
  if (shape.IsPointwise()) {  // one row
    shape.in = shape.out = {1, 1, shape.batch * shape.OutPixels()};
    shape.batch = 1;
  }
  return Create<Product>(shape, site, why);
}

// dw [M, C] = a^T b, a [terms, M], b [terms, C].
template <class Product>
std::unique_ptr<Kernel> OfProduct(const KernelSite& site, std::string* why) {
  const auto product = MatMulShapeOf(site.node->attrs, site.inputs[0], site.inputs[1], site.outputs[0], why);
  if (!product) return nullptr;
  if (product->Batches() != 1 || product->a_m != 1 || product->b_n != 1 || site.inputs.size() > 2)
    return Refuse(why, "not the gradient of a weight");
  GradWeightShape shape;
  shape.batch = 1;
  shape.channels = product->n;
  shape.out_channels = product->m;
  shape.in = shape.out = {1, 1, product->k};
  shape.dy_pixel = product->a_k;
  shape.x_pixel = product->b_k;
  return Create<Product>(shape, site, why);
}

}  // namespace

void RegisterFloatGradWeight(KernelRegistry& registry) {
  registry.Add("ConvGradWeight",
               {"cpu.float_grad_weight", NarrowFloatProduct::Available() ? OfConvolution<NarrowFloatProduct>
                                                                         : OfConvolution<WideFloatProduct>});
}

void RegisterRoundedGradWeight(KernelRegistry& registry) {
  registry.Add("ConvGradWeight", {"cpu.rounded_grad_weight", OfConvolution<PairProduct>});
  registry.Add("MatMul", {"cpu.rounded_grad_weight", OfProduct<PairProduct>});
}

void RegisterTileGradWeight(KernelRegistry& registry) {
  registry.Add("ConvGradWeight", {"cpu.tile_grad_weight", OfConvolution<AmxProduct>});
  registry.Add("MatMul", {"cpu.tile_grad_weight", OfProduct<AmxProduct>});
}

}  // namespace act
