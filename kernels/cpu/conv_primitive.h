// oneDNN's primitive of a convolution, with plain channels-last activations and weights in oneDNN's
// blocked layout, and the reorder between that layout and plain weights.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kernels/cpu/dnnl_call.h"
#include "kernels/site/window.h"

namespace act {

enum class ConvDirection { kForward, kGradInput, kGradWeight };

// The element types of the activations, float32 or bfloat16.
struct ConvTypes {
  DType x = DType::kFloat32, y = DType::kFloat32;
};

// A node's convolution, without empty tensors.
struct ConvSite {
  ConvShape shape;
  ConvTypes types;
  bool has_bias = false;
  // Whether an operand is bfloat16. If so, weights are rounded to it.
  bool rounds = false;
};
std::optional<ConvSite> ConvSiteOf(const KernelSite& site, ConvDirection direction, std::string* why);

// The descriptors of one convolution as oneDNN wants them.
struct ConvProblem {
  dnnl::memory::desc x, y, bias, plain_weights, any_weights;
  // of the forward pass that a gradient belongs to
  dnnl::memory::desc forward_x, forward_y;
  dnnl::memory::dims strides, dilations, pads, pads_end;
};

// Weights are packed in bfloat16 if the operand beside them has that type. A weight's gradient is
// float32, as the bias and plain weights are.
ConvProblem ConvProblemOf(const ConvShape& shape, ConvDirection direction, ConvTypes types, bool has_bias);

// One of oneDNN's implementations of a convolution, not yet made.
struct ConvImplementation {
  std::string name;
  dnnl::memory::desc packed_weights, scratch;
  int threads = 1;
  dnnl::convolution_forward::primitive_desc forward;
  dnnl::convolution_backward_data::primitive_desc grad_input;
  dnnl::convolution_backward_weights::primitive_desc grad_weight;

  int64_t WorkspaceBytes() const { return AlignedBytes(packed_weights) + AlignedBytes(scratch); }
};

// The first of oneDNN's implementations, fastest first, whose packed weights and scratch fit, and whose
// name contains `wanted`. Nullopt if there is none, with the reason in *why. Throws dnnl::error.
std::optional<ConvImplementation> ChooseConv(const DnnlContext& context, ConvDirection direction,
                                             const ConvProblem& problem, int threads, int64_t limit_bytes,
                                             std::string* why, std::string_view wanted = "");

// The primitive. It runs in a ThreadScope of the implementation's threads.
class ConvPrimitive {
 public:
  ConvPrimitive() = default;
  ConvPrimitive(const DnnlContext& context, ConvDirection direction, const ConvProblem& problem,
                const ConvImplementation& implementation);
  // Result and operand, in the operator's order: y of x, dx of dy, packed dw of dy and x.
  std::string Run(const void* operand, void* packed_weights, const void* bias, void* result, void* scratch);
  std::string RunGradWeight(const void* dy, const void* x, void* packed_weights, void* scratch);

 private:
  DnnlCall call_;
  size_t x_ = 0, y_ = 0, weights_ = 0, scratch_ = 0, bias_ = 0;
  bool forward_ = false, has_bias_ = false;
};

// Copies weights from one layout to the other, in the element type of each. With `add`, it adds to
// what is there.
class WeightReorder {
 public:
  WeightReorder() = default;
  WeightReorder(const DnnlContext& context, const dnnl::memory::desc& from, const dnnl::memory::desc& to,
                bool add = false);
  bool empty() const { return call_.empty(); }
  std::string Run(const void* from, void* to);

 private:
  DnnlCall call_;
  size_t from_ = 0, to_ = 0;
};

}  // namespace act
