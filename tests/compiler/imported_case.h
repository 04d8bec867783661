// A case of one ONNX node, for which we may have several operators.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "compiler/import/core/importer.h"
#include "tests/compiler/onnx_model.h"
#include "tests/compiler/op_cases_elementwise.h"

namespace act::gradient_case {

// An input of a node: left out, one of the operands, or known integers.
using NodeInput = std::variant<std::monostate, size_t, Ints>;

// The first result of one node of opset `opset` with these inputs.
inline llvm::Expected<ValueId> ImportOne(GraphBuilder& b, const Values& operands, onnx::NodeProto node,
                                         const std::vector<NodeInput>& inputs, int64_t opset) {
  onnx_import::Importer importer(b.graph(), opset);
  for (const NodeInput& input : inputs) {
    if (std::holds_alternative<std::monostate>(input)) {
      node.add_input("");
      continue;
    }
    const std::string name = "x" + std::to_string(node.input_size());
    node.add_input(name);
    onnx_import::Operand operand;
    if (const auto* i = std::get_if<size_t>(&input)) {
      operand = {.type = b.type(operands[*i]), .value = operands[*i]};
    } else {
      const Ints& integers = std::get<Ints>(input);
      operand = onnx_import::KnownOperand(onnx_import::IntegerVector({integers.begin(), integers.end()}));
    }
    ACT_CHECK_OK(importer.Define(name, std::move(operand)));
  }
  ACT_CHECK_OK(importer.ImportNode(node));
  return importer.Materialize(*importer.Find(node.output(0)));
}

inline onnx::NodeProto NodeOf(const std::string& op, const std::vector<onnx::AttributeProto>& attrs,
                              int outputs = 1, const std::string& domain = "") {
  onnx::NodeProto node;
  node.set_op_type(op);
  node.set_domain(domain);
  node.set_name("tested");
  for (int i = 0; i < outputs; ++i) node.add_output("y" + std::to_string(i));
  for (const auto& a : attrs) *node.add_attribute() = a;
  return node;
}

// Imports one node. Its inputs are the operands, followed by these known integers.
inline auto Imported(const std::string& op, const std::vector<onnx::AttributeProto>& attrs,
                     const std::vector<Ints>& known = {}, int outputs = 1, const std::string& domain = "",
                     int64_t opset = 18) {
  return [=](GraphBuilder& b, const Values& v) {
    std::vector<NodeInput> inputs;
    for (size_t i = 0; i < v.size(); ++i) inputs.emplace_back(i);
    for (const Ints& integers : known) inputs.emplace_back(integers);
    return ImportOne(b, v, NodeOf(op, attrs, outputs, domain), inputs, opset);
  };
}

}  // namespace act::gradient_case
