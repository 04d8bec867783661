#include "compiler/import/core/functions.h"

#include <map>
#include <string>

#include "compiler/import/core/importer.h"
#include "compiler/import/core/subgraphs.h"

namespace act::onnx_import {
namespace {

constexpr int kMaxDepth = 32;
constexpr size_t kMaxNodes = size_t{1} << 20;

class Expander {
 public:
  explicit Expander(const onnx::ModelProto& model) {
    for (const auto& f : model.functions()) functions_[Key(f.domain(), f.name(), f.overload())] = &f;
  }

  // Appends the node or, where it calls a function, the function's body. A call of a function that
  // we import as an operator stays a node.
  llvm::Error Append(const onnx::NodeProto& node, int depth) {
    const auto it = functions_.find(Key(node.domain(), node.op_type(), node.overload()));
    if (it == functions_.end() || IsSupported(node)) {
      if (flat_.nodes.size() >= kMaxNodes) return MakeError(PlaceOf(node), "the model has too many nodes");
      flat_.nodes.push_back(&node);
      return llvm::Error::success();
    }
    if (depth >= kMaxDepth)
      return MakeError(PlaceOf(node), "the function calls itself, or calls are nested too deeply");
    return Inline(node, *it->second, depth);
  }

  FlatNodes Take() { return std::move(flat_); }

 private:
  static std::string Key(const std::string& domain, const std::string& name, const std::string& overload) {
    return domain + '\0' + name + '\0' + overload;
  }

  llvm::Error Inline(const onnx::NodeProto& call, const onnx::FunctionProto& f, int depth) {
    if (call.input_size() > f.input_size() || call.output_size() > f.output_size())
      return MakeError(PlaceOf(call), "does not fit the function it calls");
    // Names inside the body become unique by the name of the call; every call has an output, which
    // is unique.
    const std::string prefix = (call.output_size() > 0 ? call.output(0) : call.name()) + "/";
    std::map<std::string, std::string> names{{"", ""}};
    for (int i = 0; i < f.input_size(); ++i) names[f.input(i)] = i < call.input_size() ? call.input(i) : "";
    for (int i = 0; i < f.output_size(); ++i)
      names[f.output(i)] =
          i < call.output_size() && !call.output(i).empty() ? call.output(i) : prefix + f.output(i);
    for (const auto& inner : f.node()) {
      flat_.made.push_back(inner);
      onnx::NodeProto& node = flat_.made.back();
      if (flat_.made.size() > kMaxNodes) return MakeError(PlaceOf(call), "the model has too many nodes");
      node.set_name(prefix + (inner.name().empty() ? inner.op_type() : inner.name()));
      const auto unique = [&](const std::string& name) {
        return names.emplace(name, prefix + name).first->second;
      };
      RenameReads(node, unique);
      for (std::string& name : *node.mutable_output()) name = unique(name);
      ResolveAttributes(node, call, f);
      ACT_CHECK_OK(Append(node, depth + 1));
    }
    return llvm::Error::success();
  }

  // Resolves attributes that refer to one of the function's. Each becomes the call's value, else
  // the function's default; without either it is removed.
  static void ResolveAttributes(onnx::NodeProto& node, const onnx::NodeProto& call,
                                const onnx::FunctionProto& f) {
    for (int i = node.attribute_size() - 1; i >= 0; --i) {
      const std::string wanted = node.attribute(i).ref_attr_name();
      if (wanted.empty()) continue;
      const onnx::AttributeProto* value = nullptr;
      for (const auto& a : f.attribute_proto())
        if (a.name() == wanted) value = &a;
      for (const auto& a : call.attribute())
        if (a.name() == wanted) value = &a;
      if (!value) {
        node.mutable_attribute()->DeleteSubrange(i, 1);
        continue;
      }
      const std::string name = node.attribute(i).name();
      *node.mutable_attribute(i) = *value;
      node.mutable_attribute(i)->set_name(name);
    }
  }

  std::map<std::string, const onnx::FunctionProto*> functions_;
  FlatNodes flat_;
};

}  // namespace

llvm::Expected<FlatNodes> ExpandFunctions(const onnx::ModelProto& model) {
  Expander expander(model);
  for (const auto& node : model.graph().node()) ACT_CHECK_OK(expander.Append(node, 0));
  return expander.Take();
}

}  // namespace act::onnx_import
