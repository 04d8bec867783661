// Random small networks of the operators that make up convolutional models.
#pragma once

#include <random>

#include "tests/compiler/compiled_step.h"

namespace act::small_networks {

using testing_step::Take;

// The attributes of a square convolution or pooling window.
inline Attributes Window(int64_t kernel, int64_t stride, int64_t pad) {
  Attributes attrs;
  attrs.Set("kernel_shape", std::vector<int64_t>{kernel, kernel});
  attrs.Set("strides", std::vector<int64_t>{stride, stride});
  attrs.Set("dilations", std::vector<int64_t>{1, 1});
  attrs.Set("pads", std::vector<int64_t>(4, pad));
  return attrs;
}

// A classifier of images [N, H, W, C], drawn from a seed. It has convolutions, batch normalization,
// activations, pooling, residual sums and concatenations.
class Network {
 public:
  explicit Network(unsigned seed) : engine_(seed) {}

  ImportResult Build() {
    const int64_t side = Draw(5, 9), channels = Draw(1, 3);
    x_ = builder_.Input("image", {DType::kFloat32, {Dim::Batch(), side, side, channels}}, ValueKind::kInput);
    Conv(Draw(2, 9));
    for (int64_t layer = Draw(2, 6); layer > 0; --layer) AddLayer();
    Attributes attrs;
    attrs.Set("axes", std::vector<int64_t>{1, 2});
    attrs.Set("keepdims", int64_t{0});
    x_ = Take(builder_.Add1("ReduceMean", {x_}, attrs, "global_pool"));
    const ValueId w = Weight({3, Channels()}), bias = Weight({3});
    Attributes transposed;
    transposed.Set("trans_b", int64_t{1});
    x_ = Take(builder_.Add1("MatMul", {x_, w}, transposed, "head"));
    x_ = Take(builder_.Add1("Add", {x_, bias}, {}, "head.bias"));
    const ValueId label = builder_.Input("label", {DType::kInt64, {Dim::Batch()}}, ValueKind::kInput);
    Attributes mean;
    mean.Set("reduction", std::string("mean"));
    const auto loss = Take(builder_.Add("SoftmaxCrossEntropy", {x_, label}, mean, "loss", 2));
    graph_.outputs = {loss[0]};
    return testing_step::ModelOf(std::move(graph_));
  }

  // A batch of inputs for the network that Build() made.
  testing_step::StepInputs Inputs(const Graph& graph, int64_t batch) {
    testing_step::StepInputs inputs;
    std::vector<float> image(static_cast<size_t>(graph.value(graph.inputs[0]).type.Elements().At(batch)));
    for (float& v : image) v = std::normal_distribution<float>()(engine_);
    std::vector<int64_t> label(static_cast<size_t>(batch));
    for (int64_t& v : label) v = Draw(0, 2);
    inputs["image"] = testing_step::BytesOf(image);
    inputs["label"] = testing_step::BytesOf(label);
    return inputs;
  }

 private:
  int64_t Draw(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  int64_t Channels() const { return builder_.type(x_).dims.back().fixed; }
  int64_t Side() const { return builder_.type(x_).dims[1].fixed; }

  ValueId Weight(const Dims& dims, float mean = 0, ValueKind kind = ValueKind::kParameter) {
    const TensorType type{DType::kFloat32, dims};
    std::vector<float> values(static_cast<size_t>(type.Elements().fixed));
    for (float& v : values) v = std::normal_distribution<float>(mean, .4f)(engine_);
    return builder_.Input("w" + std::to_string(graph_.values.size()), type, kind,
                          testing_step::HostFloats(values));
  }

  void Conv(int64_t channels) {
    const int64_t kernel = Side() >= 3 && Draw(0, 1) ? 3 : 1;
    const ValueId w = Weight({channels, Channels(), kernel, kernel});
    std::vector<ValueId> operands{x_, w};
    if (Draw(0, 1)) operands.push_back(Weight({channels}));
    x_ = Take(builder_.Add1("Conv", operands, Window(kernel, 1, kernel / 2), "conv"));
  }
  void BatchNorm() {
    const Dims c{Channels()};
    const ValueId gamma = Weight(c, 1), beta = Weight(c), mean = Weight(c, 0, ValueKind::kBuffer);
    std::vector<float> ones(static_cast<size_t>(Channels()), 1);
    const ValueId variance = builder_.Input("w" + std::to_string(graph_.values.size()), {DType::kFloat32, c},
                                            ValueKind::kBuffer, testing_step::HostFloats(ones));
    x_ = Take(builder_.Add1("BatchNorm", {x_, gamma, beta, mean, variance}, {}, "bn"));
  }
  void Activation() {
    const char* ops[] = {"Relu", "Tanh", "Silu", "Gelu", "LeakyRelu", "HardSwish"};
    x_ = Take(builder_.Add1(ops[Draw(0, 5)], {x_}, {}, "act"));
  }

  void AddLayer() {
    const ValueId before = x_;
    switch (Draw(0, 5)) {
      case 0:
        Conv(Draw(1, 9));
        BatchNorm();
        return Activation();
      case 1:
        Conv(Channels());
        Activation();
        x_ = Take(builder_.Add1("Add", {x_, before}, {}, "residual"));
        return;
      case 2: {
        Conv(Draw(1, 5));
        Attributes axis;
        axis.Set("axis", int64_t{3});
        x_ = Take(builder_.Add1("Concat", {before, x_}, axis, "concat"));
        return BatchNorm();
      }
      case 3:
        if (Side() >= 2) x_ = Take(builder_.Add("MaxPool", {x_}, Window(2, 2, 0), "pool", 2))[0];
        return;
      case 4:
        if (Side() >= 3) x_ = Take(builder_.Add1("AveragePool", {x_}, Window(3, 1, 1), "pool"));
        return;
      default: {  // squeeze and excitation: several nodes read one tensor
        Attributes attrs;
        attrs.Set("axes", std::vector<int64_t>{1, 2});
        const ValueId squeezed = Take(builder_.Add1("ReduceMean", {x_}, attrs, "squeeze"));
        x_ = Take(
            builder_.Add1("Mul", {x_, Take(builder_.Add1("Sigmoid", {squeezed}, {}, "gate"))}, {}, "excite"));
        return Activation();
      }
    }
  }

  std::mt19937 engine_;
  Graph graph_;
  GraphBuilder builder_{graph_};
  ValueId x_ = kNoValue;
};

// A convolution of images [N, 5, 5, 3] and a normalization that do not train, then a product that does. The backward
// pass reads nothing of the convolution.
inline ImportResult FrozenConvolution() {
  Graph graph;
  GraphBuilder b(graph);
  const auto input = [&b](const char* name, const Dims& dims, ValueKind kind) {
    const TensorType type{DType::kFloat32, dims};
    std::vector<float> numbers(static_cast<size_t>(type.Elements().fixed));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = 1 + static_cast<float>(i % 7) / 4;
    return b.Input(name, type, kind, testing_step::HostFloats(numbers));
  };
  const ValueId x = b.Input("image", {DType::kFloat32, {Dim::Batch(), 5, 5, 3}}, ValueKind::kInput);
  const ValueId w = input("w", {8, 3, 3, 3}, ValueKind::kBuffer);
  ValueId y = Take(b.Add1("Conv", {x, w}, Window(3, 1, 1), "conv"));
  const ValueId gamma = input("gamma", {8}, ValueKind::kBuffer),
                beta = input("beta", {8}, ValueKind::kBuffer);
  const ValueId mean = input("mean", {8}, ValueKind::kBuffer), var = input("var", {8}, ValueKind::kBuffer);
  y = Take(b.Add1("BatchNorm", {y, gamma, beta, mean, var}, {}, "bn"));
  y = Take(b.Add1("ReduceMean", {Take(b.Add1("Relu", {y}))}, Over({1, 2}, false)));
  y = Take(b.Add1("MatMul", {y, input("head", {8, 2}, ValueKind::kParameter)}));
  graph.outputs = {Take(b.Add1("ReduceMean", {Take(b.Add1("Mul", {y, y}))}, Over({0, 1}, false), "loss"))};
  return testing_step::ModelOf(graph);
}

}  // namespace act::small_networks
