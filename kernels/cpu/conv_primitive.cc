#include "kernels/cpu/conv_primitive.h"

#include <algorithm>

#include "kernels/site/lambda_kernel.h"

namespace act {
namespace {

using dnnl::memory;

memory::data_type DataType(DType dtype) {
  return dtype == DType::kBFloat16 ? memory::data_type::bf16 : memory::data_type::f32;
}

memory::desc ChannelsLast(int64_t batch, int64_t channels, const Window::Triple& extents, int rank,
                          DType dtype) {
  static constexpr memory::format_tag kTags[] = {memory::format_tag::nwc, memory::format_tag::nhwc,
                                                 memory::format_tag::ndhwc};
  memory::dims dims{batch, channels};
  dims.insert(dims.end(), extents.end() - rank, extents.end());
  return {dims, DataType(dtype), kTags[rank - 1]};
}

// Whether oneDNN's implementation of this name makes a wrong gradient of this weight (oneDNN 3.2 here).
bool IsFaultyGradWeight(const ConvProblem& p, std::string_view name) {
  const memory::dims x = p.x.get_dims(), weights = p.any_weights.get_dims();
  const size_t rank = p.strides.size(), first = weights.size() - rank;
  constexpr dnnl_dim_t kBlock = 16;  // the largest, of channels
  const dnnl_dim_t channels = weights[first - 1];
  // For strided pixels, the 1x1 kernels (AVX2, AVX-512, bfloat16) gather x in scratch space. They write
  // beyond it where x is channels-last with fewer channels than their block: wrong sums, or other memory
  // overwritten (its issue 6035).
  const bool strided = std::any_of(p.strides.begin(), p.strides.end(), [](dnnl_dim_t s) { return s > 1; });
  const bool pointwise = name.starts_with("jit_1x1") || name.starts_with("jit_bf16_1x1");
  if (pointwise && strided && channels < kBlock) return true;
  // This one turns rows of x in scratch space. It reads past rows that are shorter than a stride, and, with
  // dilated rows, past a block that is not full.
  const bool pairs = name.starts_with("jit_bf16:");
  if (pairs && x.back() < p.strides.back()) return true;
  if (pairs && rank == 2 && p.dilations[0] > 0 && channels % kBlock != 0) return true;
  // With three axes, windows that hang over an image on one side and reach the other are counted wrong along
  // the first two: wrong sums, or other memory overwritten.
  if (rank < 3 || !(pairs || name.starts_with("jit:"))) return false;
  for (size_t a = 0; a < 2; ++a) {
    const dnnl_dim_t in = x[2 + a], span = (weights[first + a] - 1) * (p.dilations[a] + 1) + 1;
    const bool jumps = p.strides[a] > 1 && p.pads[a] > p.strides[a];
    if (p.pads[a] > 0 && (span > in || (jumps && span + 1 >= in))) return true;
  }
  return false;
}

// Passes over `ref`, which is slower than our reference kernels.
template <class Desc, class Weights>
std::optional<ConvImplementation> FirstThatFits(Desc desc, Desc ConvImplementation::*member, Weights weights,
                                                int threads, int64_t limit_bytes, std::string* why,
                                                std::string_view wanted,
                                                const ConvProblem* grad_weight = nullptr) {
  do {
    ConvImplementation impl;
    impl.name = desc.impl_info_str();
    if (impl.name.rfind("ref", 0) == 0) break;
    if (grad_weight && IsFaultyGradWeight(*grad_weight, impl.name)) continue;
    if (impl.name.find(wanted) == std::string::npos) continue;
    impl.packed_weights = weights(desc);
    impl.scratch = desc.scratchpad_desc();
    impl.threads = threads;
    impl.*member = desc;
    if (impl.WorkspaceBytes() <= limit_bytes) return impl;
    *why = impl.name + " with " + std::to_string(threads) + " threads " +
           TooLittleWorkspace(impl.WorkspaceBytes(), limit_bytes);
  } while (desc.next_impl());
  return std::nullopt;
}

std::nullopt_t No(std::string* why, std::string reason) {
  if (why) *why = std::move(reason);
  return std::nullopt;
}

}  // namespace

std::optional<ConvSite> ConvSiteOf(const KernelSite& site, ConvDirection direction, std::string* why) {
  const bool forward = direction == ConvDirection::kForward, weight = direction == ConvDirection::kGradWeight;
  const TensorView& x = forward ? site.inputs[0] : weight ? site.inputs[1] : site.outputs[0];
  const TensorView& w = weight ? site.outputs[0] : site.inputs[1];
  const TensorView& y = forward ? site.outputs[0] : site.inputs[0];
  const auto shape = MixedConvShapeOf(site.node->attrs, x, w, y, why);
  if (!shape) return std::nullopt;
  if (x.elements == 0 || y.elements == 0 || w.elements == 0) return No(why, "an empty tensor");
  ConvSite conv{*shape, {x.dtype, y.dtype}};
  conv.rounds = site.inputs[0].dtype == DType::kBFloat16;
  if (weight && x.dtype != y.dtype) return No(why, "operands of two types");
  if (!conv.rounds && site.outputs[0].dtype == DType::kBFloat16)
    return No(why, "a bfloat16 result of float32 operands");
  conv.has_bias = forward && site.inputs.size() > 2 && site.inputs[2].bytes > 0;
  return conv;
}

ConvProblem ConvProblemOf(const ConvShape& s, ConvDirection direction, ConvTypes types, bool has_bias) {
  const auto last = [&s](const Window::Triple& t) { return memory::dims(t.end() - s.rank, t.end()); };
  const bool forward = direction == ConvDirection::kForward;
  const bool weight = direction == ConvDirection::kGradWeight;
  const DType operand = forward ? types.x : types.y;
  ConvProblem p;
  p.x = ChannelsLast(s.batch, s.channels, s.in, s.rank, types.x);
  p.y = ChannelsLast(s.batch, s.out_channels, s.out, s.rank, types.y);
  p.forward_x = ChannelsLast(s.batch, s.channels, s.in, s.rank, operand);
  p.forward_y = forward ? p.y : ChannelsLast(s.batch, s.out_channels, s.out, s.rank, operand);
  if (has_bias) p.bias = {{s.out_channels}, memory::data_type::f32, memory::format_tag::a};
  memory::dims w = s.group > 1 ? memory::dims{s.group, s.GroupOut(), s.GroupIn()}
                               : memory::dims{s.out_channels, s.channels};
  const memory::dims taps = last(s.kernel);
  w.insert(w.end(), taps.begin(), taps.end());
  memory::dims w_strides(w.size(), 1);
  for (size_t d = w.size() - 1; d > 0; --d) w_strides[d - 1] = w_strides[d] * w[d];
  p.plain_weights = {w, memory::data_type::f32, w_strides};
  p.any_weights = {w, weight ? memory::data_type::f32 : DataType(operand), memory::format_tag::any};
  p.strides = last(s.stride);
  p.dilations = last(s.dilation);
  for (int64_t& d : p.dilations) --d;  // in oneDNN, no dilation is 0
  p.pads = last(s.pad);
  p.pads_end = last(s.pad_end);
  return p;
}

std::optional<ConvImplementation> ChooseConv(const DnnlContext& context, ConvDirection direction,
                                             const ConvProblem& p, int threads, int64_t limit_bytes,
                                             std::string* why, std::string_view wanted) {
  const ThreadScope scope(threads);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto kind = direction == ConvDirection::kForward ? dnnl::prop_kind::forward_inference
                                                         : dnnl::prop_kind::forward_training;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  // The forward pass of a gradient has weights of the operand's type.
  const memory::desc weights =
      direction == ConvDirection::kForward
          ? p.any_weights
          : memory::desc(p.any_weights.get_dims(), p.forward_x.get_data_type(), memory::format_tag::any);
  const dnnl::convolution_forward::primitive_desc forward(context.engine, kind, algorithm, p.forward_x,
                                                          weights, p.bias, p.forward_y, p.strides,
                                                          p.dilations, p.pads, p.pads_end, attr);
  switch (direction) {
    case ConvDirection::kForward:
      return FirstThatFits(
          forward, &ConvImplementation::forward, [](const auto& d) { return d.weights_desc(); }, threads,
          limit_bytes, why, wanted);
    case ConvDirection::kGradInput:
      return FirstThatFits(
          dnnl::convolution_backward_data::primitive_desc(context.engine, algorithm, p.x, p.any_weights, p.y,
                                                          p.strides, p.dilations, p.pads, p.pads_end, forward,
                                                          attr),
          &ConvImplementation::grad_input, [](const auto& d) { return d.weights_desc(); }, threads,
          limit_bytes, why, wanted);
    case ConvDirection::kGradWeight:
      return FirstThatFits(
          dnnl::convolution_backward_weights::primitive_desc(context.engine, algorithm, p.x, p.any_weights,
                                                             p.y, p.strides, p.dilations, p.pads, p.pads_end,
                                                             forward, attr),
          &ConvImplementation::grad_weight, [](const auto& d) { return d.diff_weights_desc(); }, threads,
          limit_bytes, why, wanted, &p);
  }
  return std::nullopt;
}

ConvPrimitive::ConvPrimitive(const DnnlContext& context, ConvDirection direction, const ConvProblem& p,
                             const ConvImplementation& impl)
    : forward_(direction == ConvDirection::kForward), has_bias_(p.bias.get_size() > 0) {
  const ThreadScope scope(impl.threads);
  const bool weight = direction == ConvDirection::kGradWeight;
  if (forward_) call_ = DnnlCall(context, dnnl::convolution_forward(impl.forward));
  if (weight) call_ = DnnlCall(context, dnnl::convolution_backward_weights(impl.grad_weight));
  if (!forward_ && !weight) call_ = DnnlCall(context, dnnl::convolution_backward_data(impl.grad_input));
  x_ = call_.Bind(direction == ConvDirection::kGradInput ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, p.x);
  y_ = call_.Bind(forward_ ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, p.y);
  weights_ = call_.Bind(weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, impl.packed_weights);
  scratch_ = call_.Bind(DNNL_ARG_SCRATCHPAD, impl.scratch);
  if (has_bias_) bias_ = call_.Bind(DNNL_ARG_BIAS, p.bias);
}

std::string ConvPrimitive::Run(const void* operand, void* packed_weights, const void* bias, void* result,
                               void* scratch) {
  call_.Set(forward_ ? x_ : y_, operand);
  call_.Set(forward_ ? y_ : x_, result);
  if (has_bias_) call_.Set(bias_, bias);
  call_.Set(weights_, packed_weights);
  call_.Set(scratch_, scratch);
  return call_.Run();
}

std::string ConvPrimitive::RunGradWeight(const void* dy, const void* x, void* packed_weights, void* scratch) {
  call_.Set(y_, dy);
  call_.Set(x_, x);
  call_.Set(weights_, packed_weights);
  call_.Set(scratch_, scratch);
  return call_.Run();
}

WeightReorder::WeightReorder(const DnnlContext& context, const memory::desc& from, const memory::desc& to,
                             bool add) {
  dnnl::primitive_attr attr;
  if (add) {
    dnnl::post_ops ops;
    ops.append_sum();
    attr.set_post_ops(ops);
  }
  call_ = DnnlCall(
      context, dnnl::reorder(dnnl::reorder::primitive_desc(context.engine, from, context.engine, to, attr)));
  from_ = call_.Bind(DNNL_ARG_FROM, from);
  to_ = call_.Bind(DNNL_ARG_TO, to);
}

std::string WeightReorder::Run(const void* from, void* to) {
  call_.Set(from_, from);
  call_.Set(to_, to);
  return call_.Run();
}

}  // namespace act
