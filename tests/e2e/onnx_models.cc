#include "tests/e2e/onnx_models.h"

namespace act::e2e {
namespace {

void SetType(onnx::ValueInfoProto& value, const std::string& name, int type,
             const std::vector<Extent>& extents) {
  value.set_name(name);
  onnx::TypeProto::Tensor& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape();
  for (const Extent& extent : extents) {
    auto& dim = *tensor.mutable_shape()->add_dim();
    if (extent.symbol.empty()) {
      dim.set_dim_value(extent.value);
    } else {
      dim.set_dim_param(extent.symbol);
    }
  }
}

}  // namespace

OnnxModel::OnnxModel() {
  model_.set_ir_version(8);
  model_.add_opset_import()->set_version(17);
  model_.mutable_graph()->set_name("test");
}

OnnxModel& OnnxModel::Input(const std::string& name, onnx::TensorProto::DataType type,
                            const std::vector<Extent>& extents) {
  SetType(*model_.mutable_graph()->add_input(), name, type, extents);
  return *this;
}

OnnxModel& OnnxModel::Output(const std::string& name, const std::vector<Extent>& extents) {
  SetType(*model_.mutable_graph()->add_output(), name, onnx::TensorProto::FLOAT, extents);
  return *this;
}

OnnxModel& OnnxModel::Weight(const std::string& name, const std::vector<int64_t>& dims, int64_t elements) {
  onnx::TensorProto& tensor = *model_.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  int64_t product = 1;
  for (const int64_t dim : dims) {
    tensor.add_dims(dim);
    product *= dim;
  }
  for (int64_t i = 0; i < (elements < 0 ? product : elements); ++i) {
    tensor.add_float_data(0.01f * static_cast<float>(i % 7 - 3));
  }
  return *this;
}

OnnxModel& OnnxModel::Node(const std::string& name, const std::string& op,
                           const std::vector<std::string>& inputs, const std::string& output) {
  onnx::NodeProto& node = *model_.mutable_graph()->add_node();
  node.set_name(name);
  node.set_op_type(op);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  return *this;
}

OnnxModel& OnnxModel::Mean(const std::string& name, const std::string& input, const std::string& output,
                           const std::vector<int64_t>& axes) {
  Node(name, "ReduceMean", {input}, output);
  onnx::AttributeProto& keepdims = *model_.mutable_graph()->mutable_node()->rbegin()->add_attribute();
  keepdims.set_name("keepdims");
  keepdims.set_type(onnx::AttributeProto::INT);
  keepdims.set_i(0);
  if (axes.empty()) return *this;
  onnx::AttributeProto& over = *model_.mutable_graph()->mutable_node()->rbegin()->add_attribute();
  over.set_name("axes");
  over.set_type(onnx::AttributeProto::INTS);
  for (const int64_t axis : axes) over.add_ints(axis);
  return *this;
}

OnnxModel Linear() {
  return OnnxModel()
      .Input("image", onnx::TensorProto::FLOAT, {"N", 4})
      .Weight("weight", {4, 3})
      .Node("linear", "MatMul", {"image", "weight"}, "logits");
}

OnnxModel Classifier() {
  return Linear()
      .Input("label", onnx::TensorProto::INT64, {"N"})
      .Node("criterion", "SoftmaxCrossEntropyLoss", {"logits", "label"}, "loss")
      .Output("loss", {});
}

}  // namespace act::e2e
