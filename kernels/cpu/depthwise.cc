// The weight gradient of a depthwise convolution, a vector of channels at a time. Rows of x and dy
// are gathered contiguously in float32, x with its border. Then all taps of a kernel's row are loads from the
// first-level cache, and the sums of a row stay in registers.
#include <omp.h>

#include <algorithm>

#include "kernels/cpu/highway_targets.h"
#include "kernels/cpu/special.h"
#include "kernels/math/convert.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/window.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/depthwise.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = HWY_CAPPED(float, 16);
using V = hn::Vec<D>;
constexpr int64_t kLanes = hn::MaxLanes(D());
// Taps of a kernel's row whose sums are in registers at the same time. A wider row is cut.
constexpr int64_t kTaps = 7;

int64_t BlockOnTarget() { return kLanes; }

// Vectors of a row of x with its border: everything that the taps of a row of dy read.
int64_t RowVectors(const Window& s) {
  const int64_t last =
      SaturatingAdd(SaturatingMul(s.out[2] - 1, s.stride[2]), SaturatingMul(s.kernel[2] - 1, s.dilation[2]));
  return std::max(SaturatingAdd(last, 1), s.pad[2]);
}

// Scratch space for one row of x per row of taps, one row of dy, and the sums.
int64_t ScratchFloatsOnTarget(const ConvShape& s) {
  const int64_t rows = SaturatingAdd(SaturatingMul(s.kernel[1], RowVectors(s)), s.out[2]);
  return SaturatingMul(SaturatingAdd(rows, SaturatingMul(s.kernel[1], s.kernel[2])), kLanes);
}

V LoadFloats(const float* from) { return hn::LoadU(D(), from); }
V LoadFloats(const BFloat16* from) {
  const D d;
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

// Gathers one vector of each of `count` pixels, which are `stride` elements apart, as float32. Lanes
// after `channels` are 0.
template <class T>
void Gather(const T* from, int64_t stride, int64_t count, int64_t channels, float* to) {
  if (channels == kLanes) {
    for (int64_t i = 0; i < count; ++i) hn::Store(LoadFloats(from + i * stride), D(), to + i * kLanes);
    return;
  }
  std::fill_n(to, count * kLanes, 0.0f);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t c = 0; c < channels; ++c) to[i * kLanes + c] = ToFloat(from[i * stride + c]);
}

// sums[t] += sum over o < count of dy[o] * x[o * step + t * dilation], t < kCount. These are
// vectors: dy has `count` contiguous ones, and x is as given. Two pixels at a time hide the latency
// of a multiply-add.
template <int kCount>
void AddRow(const float* dy, const float* x, int64_t count, int64_t step, int64_t dilation, float* sums) {
  const D d;
  V even[kCount], odd[kCount];
  for (int t = 0; t < kCount; ++t) even[t] = odd[t] = hn::Zero(d);
  int64_t o = 0;
  for (; o + 2 <= count; o += 2) {
    const V dy0 = hn::Load(d, dy + o * kLanes), dy1 = hn::Load(d, dy + (o + 1) * kLanes);
    const float *x0 = x + o * step * kLanes, *x1 = x0 + step * kLanes;
    for (int t = 0; t < kCount; ++t) {
      even[t] = hn::MulAdd(dy0, hn::Load(d, x0 + t * dilation * kLanes), even[t]);
      odd[t] = hn::MulAdd(dy1, hn::Load(d, x1 + t * dilation * kLanes), odd[t]);
    }
  }
  if (o < count) {
    const V last = hn::Load(d, dy + o * kLanes);
    for (int t = 0; t < kCount; ++t)
      even[t] = hn::MulAdd(last, hn::Load(d, x + (o * step + t * dilation) * kLanes), even[t]);
  }
  for (int t = 0; t < kCount; ++t)
    hn::Store(hn::Add(hn::Load(d, sums + t * kLanes), hn::Add(even[t], odd[t])), d, sums + t * kLanes);
}

void AddRowOfAnyWidth(int64_t taps, const float* dy, const float* x, int64_t count, int64_t step,
                      int64_t dilation, float* sums) {
  constexpr decltype(&AddRow<1>) kAddRow[kTaps] = {AddRow<1>, AddRow<2>, AddRow<3>, AddRow<4>,
                                                   AddRow<5>, AddRow<6>, AddRow<7>};
  for (int64_t t = 0; t < taps; t += kTaps)
    kAddRow[std::min(kTaps, taps - t) - 1](dy, x + t * dilation * kLanes, count, step, dilation,
                                           sums + t * kLanes);
}

// result[c][tap], c < kLanes or the channels that exist: the gradient from samples first..last-1.
template <class T>
void GradWeight(const ConvShape& s, const T* dy, const T* x, int64_t first, int64_t last, int64_t channel,
                float* scratch, float* result) {
  const int64_t channels = std::min(kLanes, s.channels - channel);
  const int64_t row_floats = RowVectors(s) * kLanes, taps = s.kernel[1] * s.kernel[2];
  float *rows = scratch, *dy_row = rows + s.kernel[1] * row_floats, *sums = dy_row + s.out[2] * kLanes;
  std::fill_n(rows, s.kernel[1] * row_floats, 0.0f);  // the border stays 0
  std::fill_n(sums, taps * kLanes, 0.0f);
  const int64_t width = std::min(s.in[2], RowVectors(s) - s.pad[2]);
  // Without dilation, the windows of neighbouring rows overlap, and each row of x is gathered once.
  const bool once = s.dilation[1] == 1;
  for (int64_t n = first; n < last; ++n) {
    int64_t gathered = -1;  // the last row of x
    for (int64_t oh = 0; oh < s.out[1]; ++oh) {
      Gather(dy + (n * s.out[1] + oh) * s.out[2] * s.channels + channel, s.channels, s.out[2], channels,
             dy_row);
      for (int64_t kh = 0; kh < s.kernel[1]; ++kh) {
        const int64_t ih = s.Input(1, oh, kh);
        if (!s.Inside(1, ih)) continue;
        float* row = rows + (once ? ih % s.kernel[1] : kh) * row_floats;
        if (!once || ih > gathered)
          Gather(x + (n * s.in[1] + ih) * s.in[2] * s.channels + channel, s.channels, width, channels,
                 row + s.pad[2] * kLanes);
        gathered = std::max(gathered, ih);
        AddRowOfAnyWidth(s.kernel[2], dy_row, row, s.out[2], s.stride[2], s.dilation[2],
                         sums + kh * s.kernel[2] * kLanes);
      }
    }
  }
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t t = 0; t < taps; ++t) result[c * taps + t] = sums[t * kLanes + c];
}

void GradWeightOnTarget(const ConvShape& s, const KernelArgs& args, int64_t first, int64_t last,
                        int64_t channel, float* scratch, float* result) {
  const TensorView &dy = args.inputs[0], &x = args.inputs[1];
  if (dy.dtype == DType::kBFloat16)
    return GradWeight(s, dy.as<BFloat16>(), x.as<BFloat16>(), first, last, channel, scratch, result);
  GradWeight(s, dy.as<float>(), x.as<float>(), first, last, channel, scratch, result);
}

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace act {
namespace {

HWY_EXPORT(BlockOnTarget);
HWY_EXPORT(ScratchFloatsOnTarget);
HWY_EXPORT(GradWeightOnTarget);

// Of one thread, on its stack.
constexpr int64_t kScratchFloats = 48 * 1024;
// Pieces of work if there are enough samples. A piece is a block of channels and a part of the
// batch. The sums of the parts are added in order.
constexpr int64_t kPieces = 32;

// dw [C, 1, KH, KW] from dy [N, OH, OW, C] and x [N, H, W, C].
std::unique_ptr<Kernel> DepthwiseGradWeight(const KernelSite& site, std::string* why) {
  const auto shape = MixedConvShapeOf(site.node->attrs, site.inputs[1], site.outputs[0], site.inputs[0], why);
  if (!shape) return nullptr;
  if (site.inputs[0].dtype != site.inputs[1].dtype) return Refuse(why, "operands of two types");
  const ConvShape& s = *shape;
  if (s.GroupIn() != 1 || s.GroupOut() != 1) return Refuse(why, "not depthwise");
  // With a pad, the one window along the first axis may read the pad alone.
  if (s.in[0] != 1 || s.out[0] != 1 || s.kernel[0] != 1 || s.pad[0] != 0)
    return Refuse(why, "has three spatial axes");
  if (s.pad[2] < 0) return Refuse(why, "cuts off pixels");
  if (site.inputs[0].elements == 0 || site.inputs[1].elements == 0) return Refuse(why, "an empty tensor");
  if (HWY_DYNAMIC_DISPATCH(ScratchFloatsOnTarget)(s) > kScratchFloats)
    return Refuse(why, "its rows are too long");
  const int64_t block = HWY_DYNAMIC_DISPATCH(BlockOnTarget)(), blocks = (s.channels + block - 1) / block;
  const int64_t elements = site.outputs[0].elements, bytes = elements * static_cast<int64_t>(sizeof(float));
  int64_t parts = std::clamp<int64_t>(kPieces / blocks, 1, s.batch);
  if (parts > 1) parts = std::clamp<int64_t>(site.workspace_bytes / bytes, 1, parts);
  const auto run = [s, blocks, block, parts, elements,
                    threads = site.threads](const KernelArgs& args) -> std::string {
    float* dw = args.outputs[0].as<float>();
    float* sums = parts > 1 ? args.workspace.data.as<float>() : dw;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int64_t i = 0; i < blocks * parts; ++i) {
      alignas(64) float scratch[kScratchFloats];
      const int64_t part = i / blocks, channel = i % blocks * block;
      HWY_DYNAMIC_DISPATCH(GradWeightOnTarget)
      (s, args, s.batch * part / parts, s.batch * (part + 1) / parts, channel, scratch,
       sums + part * elements + channel * s.kernel[1] * s.kernel[2]);
    }
    if (parts == 1) return "";
    for (int64_t e = 0; e < elements; ++e) {
      dw[e] = sums[e];
      for (int64_t part = 1; part < parts; ++part) dw[e] += sums[part * elements + e];
    }
    return "";
  };
  return MakeKernel(
      run, parts > 1 ? parts * bytes : 0,
      std::to_string(parts) + " parts of the batch, " + std::to_string(site.threads) + " threads");
}

}  // namespace

void RegisterCpuDepthwise(KernelRegistry& registry) {
  registry.Add("ConvGradWeight", {"cpu.depthwise_grad_weight", DepthwiseGradWeight});
}

}  // namespace act
#endif
