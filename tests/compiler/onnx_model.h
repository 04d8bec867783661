// Small ONNX models, built in a test and written to a file.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "onnx/onnx-ml.pb.h"
#include "tests/unit/temporary_folder.h"

namespace act::testing {

using Extent = std::variant<int64_t, std::string>;  // fixed, or a symbol

inline onnx::AttributeProto Attr(const std::string& name, int64_t value) {
  onnx::AttributeProto a;
  a.set_name(name);
  a.set_type(onnx::AttributeProto::INT);
  a.set_i(value);
  return a;
}
inline onnx::AttributeProto Attr(const std::string& name, double value) {
  onnx::AttributeProto a;
  a.set_name(name);
  a.set_type(onnx::AttributeProto::FLOAT);
  a.set_f(static_cast<float>(value));
  return a;
}
inline onnx::AttributeProto Attr(const std::string& name, const std::string& value) {
  onnx::AttributeProto a;
  a.set_name(name);
  a.set_type(onnx::AttributeProto::STRING);
  a.set_s(value);
  return a;
}
inline onnx::AttributeProto Attr(const std::string& name, const std::vector<int64_t>& values) {
  onnx::AttributeProto a;
  a.set_name(name);
  a.set_type(onnx::AttributeProto::INTS);
  for (int64_t v : values) a.add_ints(v);
  return a;
}

class OnnxModel {
 public:
  explicit OnnxModel(int64_t opset = 17) {
    proto.set_ir_version(8);
    proto.add_opset_import()->set_version(opset);
    graph().set_name("test");
  }

  onnx::GraphProto& graph() { return *proto.mutable_graph(); }

  OnnxModel& Input(const std::string& name, const std::vector<Extent>& dims,
                   int type = onnx::TensorProto::FLOAT) {
    Info(*graph().add_input(), name, dims, type);
    return *this;
  }
  OnnxModel& Output(const std::string& name, const std::vector<Extent>& dims = {},
                    int type = onnx::TensorProto::FLOAT) {
    Info(*graph().add_output(), name, dims, type);
    return *this;
  }
  // An f32 initializer whose elements are all `value`.
  OnnxModel& Weight(const std::string& name, const std::vector<int64_t>& dims, float value = 0.5f) {
    onnx::TensorProto& t = *graph().add_initializer();
    t.set_name(name);
    t.set_data_type(onnx::TensorProto::FLOAT);
    int64_t count = 1;
    for (int64_t d : dims) {
      t.add_dims(d);
      count *= d;
    }
    const std::vector<float> data(static_cast<size_t>(count), value);
    t.set_raw_data(data.data(), data.size() * sizeof(float));
    return *this;
  }
  // An i64 initializer.
  OnnxModel& Integers(const std::string& name, const std::vector<int64_t>& values, bool scalar = false) {
    onnx::TensorProto& t = *graph().add_initializer();
    t.set_name(name);
    t.set_data_type(onnx::TensorProto::INT64);
    if (!scalar) t.add_dims(static_cast<int64_t>(values.size()));
    for (int64_t v : values) t.add_int64_data(v);
    return *this;
  }
  // The node has the name of its first output.
  OnnxModel& Node(const std::string& op, const std::vector<std::string>& inputs,
                  const std::vector<std::string>& outputs,
                  const std::vector<onnx::AttributeProto>& attrs = {}, const std::string& domain = "") {
    onnx::NodeProto& n = *graph().add_node();
    n.set_op_type(op);
    n.set_domain(domain);
    n.set_name(outputs.empty() ? op : outputs[0]);
    for (const auto& name : inputs) n.add_input(name);
    for (const auto& name : outputs) n.add_output(name);
    for (const auto& a : attrs) *n.add_attribute() = a;
    return *this;
  }
  // loss = the mean of x over all axes, and the graph's output.
  OnnxModel& MeanLoss(const std::string& x) {
    Node("ReduceMean", {x}, {"loss"}, {Attr("keepdims", int64_t{0})});
    return Output("loss");
  }

  std::string Write(const TemporaryFolder& folder, const std::string& name = "model.onnx") const {
    const std::string path = folder / name;
    Overwrite(path, proto.SerializeAsString());
    return path;
  }

  onnx::ModelProto proto;

 private:
  static void Info(onnx::ValueInfoProto& info, const std::string& name, const std::vector<Extent>& dims,
                   int type) {
    info.set_name(name);
    auto& tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    tensor.mutable_shape();
    for (const Extent& extent : dims) {
      auto& dim = *tensor.mutable_shape()->add_dim();
      if (const auto* fixed = std::get_if<int64_t>(&extent)) dim.set_dim_value(*fixed);
      if (const auto* symbol = std::get_if<std::string>(&extent)) dim.set_dim_param(*symbol);
    }
  }
};

// image f32[N,8] -> Gemm with w [4,8] and b [4] -> logits f32[N,4]. It has no output yet.
inline OnnxModel Linear(int64_t opset = 17) {
  OnnxModel model(opset);
  model.Input("image", {"N", 8}).Weight("w", {4, 8}).Weight("b", {4});
  model.Node("Gemm", {"image", "w", "b"}, {"logits"}, {Attr("transB", int64_t{1})});
  return model;
}

}  // namespace act::testing
