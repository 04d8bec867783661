#include "kernels/cpu/conv.h"

#include <algorithm>
#include <optional>

#include "kernels/cpu/matmul.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/window.h"

namespace act {
namespace {

using dnnl::memory;

enum class Direction { kForward, kGradInput, kGradWeight };

// The descriptors of one convolution as oneDNN wants them.
struct Problem {
  memory::desc x, y, bias, plain_weights, any_weights;
  memory::dims strides, dilations, pads, pads_end;
};

memory::desc ChannelsLast(int64_t batch, int64_t channels, const Window::Triple& extents, int rank) {
  static constexpr memory::format_tag kTags[] = {memory::format_tag::nwc, memory::format_tag::nhwc,
                                                 memory::format_tag::ndhwc};
  memory::dims dims{batch, channels};
  dims.insert(dims.end(), extents.end() - rank, extents.end());
  return {dims, memory::data_type::f32, kTags[rank - 1]};
}

Problem ProblemOf(const ConvShape& s, bool has_bias) {
  const auto last = [&s](const Window::Triple& t) { return memory::dims(t.end() - s.rank, t.end()); };
  Problem p;
  p.x = ChannelsLast(s.batch, s.channels, s.in, s.rank);
  p.y = ChannelsLast(s.batch, s.out_channels, s.out, s.rank);
  if (has_bias) p.bias = {{s.out_channels}, memory::data_type::f32, memory::format_tag::a};
  memory::dims w = s.group > 1 ? memory::dims{s.group, s.GroupOut(), s.GroupIn()}
                               : memory::dims{s.out_channels, s.channels};
  const memory::dims taps = last(s.kernel);
  w.insert(w.end(), taps.begin(), taps.end());
  memory::dims w_strides(w.size(), 1);
  for (size_t d = w.size() - 1; d > 0; --d) w_strides[d - 1] = w_strides[d] * w[d];
  p.plain_weights = {w, memory::data_type::f32, w_strides};
  p.any_weights = {w, memory::data_type::f32, memory::format_tag::any};
  p.strides = last(s.stride);
  p.dilations = last(s.dilation);
  for (int64_t& d : p.dilations) --d;  // in oneDNN, no dilation is 0
  p.pads = last(s.pad);
  p.pads_end = last(s.pad_end);
  return p;
}

// One of oneDNN's implementations of a convolution, not yet made.
struct Implementation {
  std::string name;
  memory::desc packed_weights, scratch;
  int threads = 1;
  dnnl::convolution_forward::primitive_desc forward;
  dnnl::convolution_backward_data::primitive_desc grad_input;
  dnnl::convolution_backward_weights::primitive_desc grad_weight;

  int64_t WorkspaceBytes() const { return AlignedBytes(packed_weights) + AlignedBytes(scratch); }
};

// The first of oneDNN's implementations, fastest first, whose packed weights and scratch fit.
// Passes over `ref`, which is slower than our reference kernels.
template <class Desc, class Weights>
std::optional<Implementation> FirstThatFits(Desc desc, Desc Implementation::*member, Weights weights,
                                            int threads, int64_t limit_bytes, std::string* why) {
  do {
    Implementation impl;
    impl.name = desc.impl_info_str();
    if (impl.name.rfind("ref", 0) == 0) break;
    impl.packed_weights = weights(desc);
    impl.scratch = desc.scratchpad_desc();
    impl.threads = threads;
    impl.*member = desc;
    if (impl.WorkspaceBytes() <= limit_bytes) return impl;
    *why = impl.name + " with " + std::to_string(threads) + " threads needs " +
           std::to_string(impl.WorkspaceBytes()) + " bytes of workspace, " + std::to_string(limit_bytes) +
           " are given";
  } while (desc.next_impl());
  return std::nullopt;
}

std::optional<Implementation> Choose(const DnnlContext& context, Direction direction, const Problem& p,
                                     int threads, int64_t limit_bytes, std::string* why) {
  const ThreadScope scope(threads);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto kind = direction == Direction::kForward ? dnnl::prop_kind::forward_inference
                                                     : dnnl::prop_kind::forward_training;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc forward(context.engine, kind, algorithm, p.x, p.any_weights,
                                                          p.bias, p.y, p.strides, p.dilations, p.pads,
                                                          p.pads_end, attr);
  switch (direction) {
    case Direction::kForward:
      return FirstThatFits(
          forward, &Implementation::forward, [](const auto& d) { return d.weights_desc(); }, threads,
          limit_bytes, why);
    case Direction::kGradInput:
      return FirstThatFits(
          dnnl::convolution_backward_data::primitive_desc(context.engine, algorithm, p.x, p.any_weights, p.y,
                                                          p.strides, p.dilations, p.pads, p.pads_end, forward,
                                                          attr),
          &Implementation::grad_input, [](const auto& d) { return d.weights_desc(); }, threads, limit_bytes,
          why);
    case Direction::kGradWeight:
      return FirstThatFits(
          dnnl::convolution_backward_weights::primitive_desc(context.engine, algorithm, p.x, p.any_weights,
                                                             p.y, p.strides, p.dilations, p.pads, p.pads_end,
                                                             forward, attr),
          &Implementation::grad_weight, [](const auto& d) { return d.diff_weights_desc(); }, threads,
          limit_bytes, why);
  }
  return std::nullopt;
}

// Workspace: [packed weights][scratch].
class DnnlConv final : public Kernel {
 public:
  DnnlConv(const DnnlContext& context, Direction direction, const Problem& p, const Implementation& impl)
      : direction_(direction), impl_(impl), scratch_at_(AlignedBytes(impl.packed_weights)) {
    const ThreadScope scope(impl.threads);
    const bool forward = direction == Direction::kForward, weight = direction == Direction::kGradWeight;
    if (forward) conv_ = DnnlCall(context, dnnl::convolution_forward(impl.forward));
    if (weight) conv_ = DnnlCall(context, dnnl::convolution_backward_weights(impl.grad_weight));
    if (!forward && !weight) conv_ = DnnlCall(context, dnnl::convolution_backward_data(impl.grad_input));
    x_ = conv_.Bind(direction == Direction::kGradInput ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, p.x);
    y_ = conv_.Bind(forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, p.y);
    weights_ = conv_.Bind(weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, impl.packed_weights);
    scratch_ = conv_.Bind(DNNL_ARG_SCRATCHPAD, impl.scratch);
    has_bias_ = p.bias.get_size() > 0;
    if (has_bias_) bias_ = conv_.Bind(DNNL_ARG_BIAS, p.bias);

    const memory::desc& from = weight ? impl.packed_weights : p.plain_weights;
    const memory::desc& to = weight ? p.plain_weights : impl.packed_weights;
    pack_ = DnnlCall(context,
                     dnnl::reorder(dnnl::reorder::primitive_desc(context.engine, from, context.engine, to)));
    pack_from_ = pack_.Bind(DNNL_ARG_FROM, from);
    pack_to_ = pack_.Bind(DNNL_ARG_TO, to);
  }

  std::string Run(const KernelArgs& args) override {
    const ThreadScope scope(impl_.threads);
    std::byte* packed = args.workspace.data.as<std::byte>();
    conv_.Set(weights_, packed);
    conv_.Set(scratch_, packed + scratch_at_);
    if (direction_ == Direction::kGradWeight) {
      conv_.Set(y_, args.inputs[0].as<void>());
      conv_.Set(x_, args.inputs[1].as<void>());
      if (std::string error = conv_.Run(); !error.empty()) return error;
      pack_.Set(pack_from_, packed);
      pack_.Set(pack_to_, args.outputs[0].as<void>());
      return pack_.Run();
    }
    pack_.Set(pack_from_, args.inputs[1].as<void>());
    pack_.Set(pack_to_, packed);
    if (std::string error = pack_.Run(); !error.empty()) return error;
    const bool forward = direction_ == Direction::kForward;
    conv_.Set(forward ? x_ : y_, args.inputs[0].as<void>());
    conv_.Set(forward ? y_ : x_, args.outputs[0].as<void>());
    if (has_bias_) conv_.Set(bias_, args.inputs[2].as<void>());
    return conv_.Run();
  }

  int64_t WorkspaceBytes() const override { return impl_.WorkspaceBytes(); }
  bool IsLibraryCall() const override { return true; }
  std::string Describe() const override {
    return impl_.name + ", " + std::to_string(impl_.threads) + " threads, " +
           std::to_string((impl_.WorkspaceBytes() + 1023) / 1024) + " KiB workspace";
  }

 private:
  Direction direction_;
  Implementation impl_;
  int64_t scratch_at_;
  DnnlCall conv_, pack_;
  size_t x_ = 0, y_ = 0, weights_ = 0, scratch_ = 0, bias_ = 0, pack_from_ = 0, pack_to_ = 0;
  bool has_bias_ = false;
};

std::unique_ptr<Kernel> Create(const DnnlContext& context, Direction direction, const KernelSite& site,
                               std::string* why) {
  const bool forward = direction == Direction::kForward, weight = direction == Direction::kGradWeight;
  const TensorView& x = forward ? site.inputs[0] : weight ? site.inputs[1] : site.outputs[0];
  const TensorView& w = weight ? site.outputs[0] : site.inputs[1];
  const TensorView& y = forward ? site.outputs[0] : site.inputs[0];
  const auto shape = ConvShapeOf(site.node->attrs, x, w, y, why);
  if (!shape) return nullptr;
  if (x.elements == 0 || y.elements == 0 || w.elements == 0) return Refuse(why, "an empty tensor");
  const bool has_bias = forward && site.inputs.size() > 2 && site.inputs[2].bytes > 0;
  std::string reason = "oneDNN has no fast implementation";
  try {
    const Problem problem = ProblemOf(*shape, has_bias);
    for (int threads : ThreadLadder(site.threads)) {
      const auto impl = Choose(context, direction, problem, threads, site.workspace_bytes, &reason);
      if (impl) return std::make_unique<DnnlConv>(context, direction, problem, *impl);
    }
  } catch (const dnnl::error& error) {
    reason = error.what();
  }
  return Refuse(why, reason);
}

// dw [M,C] = dy [rows,M]^T x [rows,C], the weight gradient of a pointwise convolution. As a matrix
// product it runs 1.3 to 1.8 times as fast as oneDNN's convolution (ResNet-50's shapes, 2 threads),
// and dw needs no unpacking.
std::unique_ptr<Kernel> CreatePointwiseGradWeight(const DnnlContext& context, const KernelSite& site,
                                                  std::string* why) {
  const auto shape = ConvShapeOf(site.node->attrs, site.inputs[1], site.outputs[0], site.inputs[0], why);
  if (!shape) return nullptr;
  if (!shape->IsPointwise()) return Refuse(why, "not a dense convolution by single pixels");
  MatMulShape product;
  product.m = shape->out_channels;
  product.n = shape->channels;
  product.k = shape->batch * shape->OutPixels();
  product.a_m = 1;
  product.a_k = product.m;
  product.b_k = product.n;
  product.b_n = 1;
  // All threads or none: with fewer threads, the convolution is faster.
  return CreateDnnlProduct(context, site, product, {0, 1}, {site.threads}, why);
}

}  // namespace

void RegisterDnnlConv(KernelRegistry& registry, const std::shared_ptr<DnnlContext>& context) {
  const auto add = [&](const std::string& op, const std::string& name, Direction direction) {
    registry.Add(op, {name, [context, direction](const KernelSite& site, std::string* why) {
                        return Create(*context, direction, site, why);
                      }});
  };
  add("Conv", "dnnl.conv", Direction::kForward);
  add("ConvGradInput", "dnnl.conv_grad_input", Direction::kGradInput);
  registry.Add("ConvGradWeight",
               {"dnnl.pointwise_grad_weight", [context](const KernelSite& site, std::string* why) {
                  return CreatePointwiseGradWeight(*context, site, why);
                }});
  add("ConvGradWeight", "dnnl.conv_grad_weight", Direction::kGradWeight);
}

}  // namespace act
