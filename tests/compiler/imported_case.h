// A case of one ONNX node, for which we may have several operators.
#pragma once

#include <string>
#include <vector>

#include "compiler/import/core/importer.h"
#include "tests/compiler/onnx_model.h"
#include "tests/compiler/op_cases_elementwise.h"

namespace act::gradient_case {

// Imports one node. Its inputs are the operands, followed by these known integers.
inline auto Imported(const std::string& op, const std::vector<onnx::AttributeProto>& attrs,
                     const std::vector<Ints>& known = {}, int outputs = 1, const std::string& domain = "",
                     int64_t opset = 18) {
  return [=](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
    onnx_import::Importer importer(b.graph(), opset);
    onnx::NodeProto node;
    node.set_op_type(op);
    node.set_domain(domain);
    node.set_name("tested");
    for (int i = 0; i < outputs; ++i) node.add_output("y" + std::to_string(i));
    for (const auto& a : attrs) *node.add_attribute() = a;
    const auto define = [&](onnx_import::Operand operand) {
      node.add_input("x" + std::to_string(node.input_size()));
      return importer.Define(node.input(node.input_size() - 1), std::move(operand));
    };
    for (const ValueId x : v) ACT_CHECK_OK(define({.type = b.type(x), .value = x}));
    for (const Ints& integers : known)
      ACT_CHECK_OK(
          define(onnx_import::KnownOperand(onnx_import::IntegerVector({integers.begin(), integers.end()}))));
    ACT_CHECK_OK(importer.ImportNode(node));
    return importer.Materialize(*importer.Find("y0"));
  };
}

}  // namespace act::gradient_case
