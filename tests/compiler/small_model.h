// A small model for tests of passes: a scaled image, to which a test appends nodes.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tests/compiler/compiled_step.h"

namespace act::small_model {

using testing_step::Take;

inline const Dims kImage{Dim::Batch(), 8, 8, 16};  // 1024 elements a sample: four groups

inline Attributes Attrs(std::initializer_list<std::pair<const char*, Attribute>> list) {
  Attributes attrs;
  for (const auto& [name, value] : list) attrs.Set(name, value);
  return attrs;
}

inline int64_t CountOps(const Graph& graph, const std::string& op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [&op](const Node& n) { return n.op == op; });
}

// image * scale, so that a gradient flows.
struct Model {
  explicit Model(const Dims& dims = kImage) : b(graph) {
    image = b.Input("image", {DType::kFloat32, dims}, ValueKind::kInput);
    const ValueId scale = Parameter("scale", {16});
    x = Take(b.Add1("Mul", {image, scale}, {}, "scaled"));
  }
  ValueId Parameter(const std::string& name, const Dims& dims) {
    const TensorType type{DType::kFloat32, dims};
    std::vector<float> values(static_cast<size_t>(type.Elements().fixed));
    for (size_t i = 0; i < values.size(); ++i) values[i] = .3f + .01f * static_cast<float>(i % 17);
    return b.Input(name, type, ValueKind::kParameter, testing_step::HostFloats(values));
  }
  ValueId Conv(ValueId v, const std::string& name) {
    return Take(b.Add1("Conv", {v, Parameter(name + ".weight", {16, 16, 1, 1})},
                       Attrs({{"strides", std::vector<int64_t>{1, 1}},
                              {"dilations", std::vector<int64_t>{1, 1}},
                              {"pads", std::vector<int64_t>{0, 0, 0, 0}}}),
                       name));
  }
  ImportResult Finish(ValueId y) {
    std::vector<int64_t> axes;
    for (int64_t i = 0; i < b.type(y).rank(); ++i) axes.push_back(i);
    graph.outputs = {
        Take(b.Add1("ReduceMean", {y}, Attrs({{"axes", axes}, {"keepdims", int64_t{0}}}), "loss"))};
    return testing_step::ModelOf(graph);
  }

  Graph graph;
  GraphBuilder b;
  ValueId image, x;
};

}  // namespace act::small_model
