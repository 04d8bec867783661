#include "kernels/nvidia/convolution_graph.h"

namespace act::cuda {
namespace {

using Numbers = std::vector<int64_t>;

// cuDNN has two or three spatial axes: one axis becomes the second of two.
Numbers WithTwoAxes(Numbers per_axis, int64_t value) {
  if (per_axis.size() == 1) per_axis.insert(per_axis.begin(), value);
  return per_axis;
}

// dims: [N,spatial..,C], as it lies in memory. cuDNN wants the order [N,C,spatial..], with strides.
Descriptor Tensor(int64_t id, Numbers dims, int64_t alignment, cudnnDataType_t type) {
  if (dims.size() == 3) dims.insert(dims.begin() + 1, 1);
  Numbers strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
  for (Numbers* order : {&dims, &strides}) {
    order->insert(order->begin() + 1, order->back());
    order->pop_back();
  }
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type)
      .Int64s(CUDNN_ATTR_TENSOR_DIMENSIONS, dims)
      .Int64s(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .Int64(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .Int64(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment)
      .Finalize();
  return tensor;
}

// The number of groups follows from the channels of x and w.
Descriptor Convolution(const ConvolutionProblem& problem) {
  const Numbers strides = WithTwoAxes(problem.strides, 1);
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnDataType_t type = CUDNN_DATA_FLOAT;
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  convolution.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type)
      .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode)
      .Int64(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<int64_t>(strides.size()))
      .Int64s(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, strides)
      .Int64s(CUDNN_ATTR_CONVOLUTION_DILATIONS, WithTwoAxes(problem.dilations, 1))
      .Int64s(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, WithTwoAxes(problem.pads_begin, 0))
      .Int64s(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, WithTwoAxes(problem.pads_end, 0))
      .Finalize();
  return convolution;
}

// The names of a direction's node.
struct Node {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
};

constexpr Node kNodes[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};

}  // namespace

Descriptor ConvolutionGraph(const ConvolutionProblem& problem) {
  const Node& node = kNodes[static_cast<int>(problem.direction)];
  const cudnnDataType_t type = problem.math == FloatMath::kBFloat16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
  const auto tensor = [&](int i, const Numbers& dims) {
    return Tensor(kConvolutionTensors[i], dims, problem.alignment, type);
  };
  Descriptor operation(node.type);
  operation.Part(node.x, tensor(0, problem.x))
      .Part(node.w, tensor(1, problem.w))
      .Part(node.y, tensor(2, problem.y))
      .Part(node.convolution, Convolution(problem))
      .Float(node.alpha, 1)
      .Float(node.beta, problem.accumulates ? 1 : 0)
      .Finalize();
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.Part(CUDNN_ATTR_OPERATIONGRAPH_OPS, std::move(operation)).Finalize();
  return graph;
}

}  // namespace act::cuda
