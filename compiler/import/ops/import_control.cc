// If, where its condition is known when compiling: the nodes of the chosen branch replace it.
#include <map>

#include "compiler/import/core/importer.h"
#include "compiler/import/core/subgraphs.h"

namespace act::onnx_import {
namespace {

llvm::Error ImportInner(Importer& importer, const onnx::NodeProto& node) {
  if (!IsSupported(node)) return MakeError(PlaceOf(node), "is not supported");
  for (const std::string& name : node.input())
    if (!name.empty() && !importer.Find(name))
      return MakeError(PlaceOf(node), "reads '" + name + "', which nothing makes before it");
  return importer.ImportNode(node);
}

llvm::Error ImportIf(NodeContext& c) {
  const auto condition = c.In(0).known ? AsIntegers(*c.In(0).known) : std::nullopt;
  if (!condition || condition->size() != 1)
    return c.Fail("the condition depends on data",
                  "a branch can be chosen only when compiling, by shapes and constants");
  const std::string wanted = (*condition)[0] != 0 ? "then_branch" : "else_branch";
  const onnx::GraphProto* branch = c.attrs.Graph(wanted);
  if (!branch || branch->input_size() != 0 || branch->output_size() < static_cast<int>(c.outputs()))
    return c.Fail("has no " + wanted + " that makes its outputs");

  // Names inside the branch become unique by a prefix, the name of a result.
  std::string prefix;
  for (const std::string& name : c.node.output())
    if (prefix.empty()) prefix = name;
  prefix += "/" + wanted + "/";
  std::map<std::string, std::string> own;
  for (const auto& tensor : branch->initializer()) own[tensor.name()] = prefix + tensor.name();
  for (const auto& node : branch->node())
    for (const std::string& name : node.output())
      if (!name.empty()) own[name] = prefix + name;
  const auto renamed = [&own](const std::string& name) {
    const auto it = own.find(name);
    return it == own.end() ? name : it->second;
  };
  for (const auto& tensor : branch->initializer()) {
    onnx::NodeProto constant;
    constant.set_op_type("Constant");
    constant.add_output(renamed(tensor.name()));
    onnx::AttributeProto& value = *constant.add_attribute();
    value.set_name("value");
    value.set_type(onnx::AttributeProto::TENSOR);
    *value.mutable_t() = tensor;
    ACT_CHECK_OK(c.importer.ImportNode(constant));
  }
  for (const auto& inner : branch->node()) {
    onnx::NodeProto node = inner;
    RenameReads(node, renamed);
    for (std::string& name : *node.mutable_output())
      if (!name.empty()) name = renamed(name);
    node.set_name(prefix + (inner.name().empty() ? inner.op_type() : inner.name()));
    if (llvm::Error error = ImportInner(c.importer, node))
      return WithPlace(std::move(error), PlaceOf(c.node));
  }
  for (size_t i = 0; i < c.outputs(); ++i) {
    const std::string name = renamed(branch->output(static_cast<int>(i)).name());
    const Operand* made = c.importer.Find(name);
    if (!made) return c.Fail("output '" + name + "' of its " + wanted + " is not made");
    ACT_CHECK_OK(c.Set(i, Operand(*made)));
  }
  return llvm::Error::success();
}

}  // namespace

const std::vector<ImportEntry>& ControlImports() {
  static const std::vector<ImportEntry> entries = {{"If", 1, 1, ImportIf}};
  return entries;
}

}  // namespace act::onnx_import
