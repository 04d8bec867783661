#include "kernels/cuda/convolution_problem.h"

#include <algorithm>

namespace act::cuda {

ConvolutionProblem ProblemOf(const ConvShape& s, ConvolutionDirection direction) {
  ConvolutionProblem p;
  p.direction = direction;
  p.x = {s.batch}, p.w = {s.out_channels}, p.y = {s.batch};
  for (size_t axis = s.in.size() - static_cast<size_t>(s.rank); axis < s.in.size(); ++axis) {
    p.x.push_back(s.in[axis]), p.w.push_back(s.kernel[axis]), p.y.push_back(s.out[axis]);
    p.strides.push_back(s.stride[axis]), p.dilations.push_back(s.dilation[axis]);
    p.pads_begin.push_back(s.pad[axis]);
    const int64_t reached = (s.out[axis] - 1) * s.stride[axis] + (s.kernel[axis] - 1) * s.dilation[axis] + 1;
    p.pads_end.push_back(std::max<int64_t>(reached - s.in[axis] - s.pad[axis], 0));
  }
  p.x.push_back(s.channels), p.w.push_back(s.GroupIn()), p.y.push_back(s.out_channels);
  p.groups = s.group;
  return p;
}

}  // namespace act::cuda
