#include "compiler/import/training/inference_part.h"

#include <set>

#include "compiler/import/core/inference_form.h"

namespace act::onnx_import {
namespace {

// BatchNormInternal is BatchNormalization with two more results. Results that nothing reads (a
// pool's mask, a normalization's statistics) are dropped, since only training needs them.
void ForInference(onnx::NodeProto& node, const std::set<std::string>& read) {
  if (node.op_type() == "BatchNormInternal") {
    node.set_op_type("BatchNormalization");
    node.clear_domain();
  }
  while (node.output_size() > 1 && !read.count(node.output(node.output_size() - 1)))
    node.mutable_output()->RemoveLast();
}

void AddInitializer(onnx::GraphProto& model, const Value& value) {
  onnx::TensorProto& tensor = *model.add_initializer();
  tensor.set_name(value.name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (const Dim& dim : value.type.dims) tensor.add_dims(dim.fixed);
}

}  // namespace

void KeepInferencePart(onnx::GraphProto& model, const Sides& sides, const TrainingGraph& training,
                       const Graph& graph) {
  std::vector<onnx::NodeProto> kept;
  std::string result = training.loss;
  for (size_t i = 0; i < sides.nodes.size() && sides.phases[i] == Phase::kForward; ++i) {
    const onnx::NodeProto& node = *sides.nodes[i];
    if (node.op_type() == "SoftmaxCrossEntropyLoss" && node.output(0) == training.loss) {
      result = node.input(0);
    } else {
      kept.push_back(node);
    }
  }
  std::set<std::string> read{result};
  for (const onnx::NodeProto& node : kept) read.insert(node.input().begin(), node.input().end());
  model.clear_node();
  for (onnx::NodeProto& node : kept) {
    ForInference(node, read);
    *model.add_node() = std::move(node);
  }
  EraseNamed(model.mutable_input(),
             [&](const std::string& name) { return !read.count(name) || training.roles.count(name) != 0; });
  EraseNamed(model.mutable_initializer(), [&](const std::string& name) { return !read.count(name); });
  for (const Value& value : graph.values)
    if ((value.kind == ValueKind::kParameter || value.kind == ValueKind::kBuffer) && read.count(value.name))
      AddInitializer(model, value);
  model.clear_value_info();  // of the backward pass, for the most part
  model.clear_output();
  onnx::ValueInfoProto& output = *model.add_output();
  output.set_name(result);
  output.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
}

}  // namespace act::onnx_import
