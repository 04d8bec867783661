#include "kernels/cuda/convolution_problem.h"

#include <algorithm>
#include <utility>

namespace act::cuda {

ConvolutionProblem ProblemOf(const ConvShape& s, ConvolutionDirection direction) {
  ConvolutionProblem p;
  p.direction = direction;
  p.x = {s.batch}, p.w = {s.out_channels}, p.y = {s.batch};
  for (size_t axis = s.in.size() - static_cast<size_t>(s.rank); axis < s.in.size(); ++axis) {
    p.x.push_back(s.in[axis]), p.w.push_back(s.kernel[axis]), p.y.push_back(s.out[axis]);
    p.strides.push_back(s.stride[axis]), p.dilations.push_back(s.dilation[axis]);
    p.pads_begin.push_back(s.pad[axis]);
    // What lies between the last window and the pads that the model has, nobody reads. Most engines take equal
    // pads alone.
    const int64_t reach = (s.kernel[axis] - 1) * s.dilation[axis] + 1,
                  reached = (s.out[axis] - 1) * s.stride[axis] + reach,
                  least = std::max<int64_t>(reached - s.in[axis] - s.pad[axis], 0),
                  most = reached + s.stride[axis] - 1 - s.in[axis] - s.pad[axis];
    p.pads_end.push_back(least <= s.pad[axis] && s.pad[axis] <= most ? s.pad[axis] : least);
  }
  p.x.push_back(s.channels), p.w.push_back(s.GroupIn()), p.y.push_back(s.out_channels);
  p.groups = s.group;
  return p;
}

std::optional<ConvolutionProblem> InputGradientAsForward(const ConvShape& s) {
  if (s.group != 1) return std::nullopt;
  ConvolutionProblem p = ProblemOf(s, ConvolutionDirection::kForward);
  std::swap(p.x, p.y);
  p.w.front() = s.channels;
  p.w.back() = s.out_channels;
  for (size_t a = 0; a < p.strides.size(); ++a) {
    // dx pixel i is the sum over taps t of dy pixel i + pad - t dilation: a window that begins at i - begin.
    const int64_t reach = p.dilations[a] * (p.w[1 + a] - 1), begin = reach - p.pads_begin[a],
                  end = p.y[1 + a] + reach - begin - p.x[1 + a];
    if (p.strides[a] != 1 || begin < 0 || end < 0) return std::nullopt;
    p.pads_begin[a] = begin;
    p.pads_end[a] = end;
  }
  return p;
}

}  // namespace act::cuda
