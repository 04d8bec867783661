// A Constant node that holds a tensor of the model.
#pragma once

#include <string>

#include "onnx/onnx-ml.pb.h"

namespace act::onnx_import {

// The node and its result have this name.
inline onnx::NodeProto ConstantNode(const onnx::TensorProto& tensor, const std::string& name) {
  onnx::NodeProto constant;
  constant.set_op_type("Constant");
  constant.set_name(name);
  constant.add_output(name);
  onnx::AttributeProto& value = *constant.add_attribute();
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  *value.mutable_t() = tensor;
  return constant;
}

}  // namespace act::onnx_import
