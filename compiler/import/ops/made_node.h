// ONNX nodes that the importer makes itself, to import what an operator stands for as those would be:
// folded where everything is known.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/import/core/importer.h"

namespace act::onnx_import {

using MadeAttribute = std::pair<std::string, std::variant<int64_t, std::vector<int64_t>>>;

// It goes by the name of the node that it is made for.
inline onnx::NodeProto MadeNode(const NodeContext& c, const std::string& op,
                                const std::vector<std::string>& inputs, const std::string& output,
                                const std::vector<MadeAttribute>& attributes) {
  onnx::NodeProto node;
  node.set_op_type(op);
  node.set_name(c.name());
  for (const std::string& name : inputs) node.add_input(name);
  node.add_output(output);
  for (const auto& [name, value] : attributes) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    if (const auto* number = std::get_if<int64_t>(&value)) {
      attribute.set_type(onnx::AttributeProto::INT);
      attribute.set_i(*number);
    } else {
      attribute.set_type(onnx::AttributeProto::INTS);
      for (const int64_t v : std::get<std::vector<int64_t>>(value)) attribute.add_ints(v);
    }
  }
  return node;
}

}  // namespace act::onnx_import
