// The three operators of a convolution as one: where x, w and y are among a node's operands.
#pragma once

#include <optional>
#include <span>

#include "kernels/cuda/libraries.h"
#include "kernels/site/dereference.h"
#include "kernels/site/loss_shape.h"
#include "kernels/site/window.h"

namespace act::cuda {

// Tensors [N,S..,C], [M,C/group,K..] and [N,O..,M], or their gradients.
struct ConvOperands {
  const TensorView *x, *w, *y, *bias = nullptr;

  ConvOperands(ConvolutionDirection direction, std::span<const TensorView> inputs,
               std::span<const TensorView> outputs) {
    const bool forward = direction == ConvolutionDirection::kForward,
               weight = direction == ConvolutionDirection::kWeightGradient;
    x = forward ? &inputs[0] : weight ? &inputs[1] : &outputs[0];
    w = weight ? &outputs[0] : &inputs[1];
    y = forward ? &outputs[0] : &inputs[0];
    if (forward) bias = OptionalInput(inputs, 2);
  }
};

// As MixedConvShapeOf. Also refuses a result that is made from nothing, but for the weight gradient of no pixels,
// which is 0.
inline std::optional<ConvShape> ConvShapeAt(ConvolutionDirection direction, const KernelSite& site,
                                            std::string* why) {
  const ConvOperands at(direction, site.inputs, site.outputs);
  const auto shape = MixedConvShapeOf(site.node->attrs, *at.x, *at.w, *at.y, why);
  if (!shape || site.outputs[0].elements == 0) return shape;
  const bool weight = direction == ConvolutionDirection::kWeightGradient;
  if (weight ? at.x->elements > 0 || at.y->elements == 0
             : at.x->elements > 0 && at.w->elements > 0 && at.y->elements > 0)
    return shape;
  *why = "an empty tensor";
  return std::nullopt;
}

}  // namespace act::cuda
