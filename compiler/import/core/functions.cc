#include "compiler/import/core/functions.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "compiler/import/core/importer.h"
#include "compiler/import/core/node_opset.h"
#include "compiler/import/core/subgraphs.h"
#include "compiler/import/file/model_file.h"

namespace act::onnx_import {
namespace {

constexpr int kMaxDepth = 32;
constexpr size_t kMaxNodes = size_t{1} << 20;

// Attributes that refer to one of the function's become the call's value, else the function's default;
// without either they are removed. Graphs inside the node refer to the same function.
void ResolveAttributes(onnx::NodeProto& node, const onnx::NodeProto& call, const onnx::FunctionProto& f) {
  for (int i = node.attribute_size() - 1; i >= 0; --i) {
    onnx::AttributeProto& attribute = *node.mutable_attribute(i);
    const std::string wanted = attribute.ref_attr_name();
    if (wanted.empty()) {
      const auto resolve = [&](onnx::GraphProto& graph) {
        for (auto& inner : *graph.mutable_node()) ResolveAttributes(inner, call, f);
      };
      if (attribute.has_g()) resolve(*attribute.mutable_g());
      for (auto& graph : *attribute.mutable_graphs()) resolve(graph);
      continue;
    }
    const onnx::AttributeProto* value = nullptr;
    for (const auto& a : f.attribute_proto())
      if (a.name() == wanted) value = &a;
    for (const auto& a : call.attribute())
      if (a.name() == wanted) value = &a;
    if (!value) {
      node.mutable_attribute()->DeleteSubrange(i, 1);
      continue;
    }
    const std::string name = attribute.name();
    attribute = *value;
    attribute.set_name(name);
  }
}

class Expander {
 public:
  explicit Expander(const onnx::ModelProto& model) : functions_(FunctionsOf(model)) {
    for (const auto& import : model.opset_import())
      if (IsStandardDomain(import.domain())) opset_ = std::max(opset_, import.version());
  }

  llvm::Error AppendAll(const onnx::GraphProto& graph) {
    for (const auto& node : graph.node()) {
      if (!Calls(node)) {
        ACT_CHECK_OK(Count(node));
        flat_.nodes.push_back(&node);
        continue;
      }
      ACT_CHECK_OK(Add(node, 0, [this](onnx::NodeProto made) {
        flat_.made.push_back(std::move(made));
        flat_.nodes.push_back(&flat_.made.back());
      }));
    }
    return llvm::Error::success();
  }

  FlatNodes Take() { return std::move(flat_); }

 private:
  using Sink = std::function<void(onnx::NodeProto)>;

  llvm::Error Count(const onnx::NodeProto& node) {
    return ++count_ > kMaxNodes ? MakeError(PlaceOf(node), "the model has too many nodes")
                                : llvm::Error::success();
  }

  // Whether the node, or one in a graph inside it, calls a function.
  bool Calls(const onnx::NodeProto& node) const {
    if (functions_.empty()) return false;
    const auto in_graph = [this](const onnx::GraphProto& graph) {
      return std::any_of(graph.node().begin(), graph.node().end(),
                         [this](const onnx::NodeProto& inner) { return Calls(inner); });
    };
    if (FunctionOf(functions_, node)) return true;
    return std::any_of(node.attribute().begin(), node.attribute().end(), [&](const onnx::AttributeProto& a) {
      return (a.has_g() && in_graph(a.g())) || std::any_of(a.graphs().begin(), a.graphs().end(), in_graph);
    });
  }

  // Gives `out` the node or, where it calls a function, the function's body; calls in graphs inside it are
  // expanded there.
  llvm::Error Add(onnx::NodeProto node, int depth, const Sink& out) {
    if (const onnx::FunctionProto* f = FunctionOf(functions_, node)) {
      if (depth >= kMaxDepth)
        return MakeError(PlaceOf(node), "the function calls itself, or calls are nested too deeply");
      return Inline(node, *f, depth, out);
    }
    ACT_CHECK_OK(Count(node));
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) ACT_CHECK_OK(ExpandGraph(*attribute.mutable_g(), depth));
      for (auto& graph : *attribute.mutable_graphs()) ACT_CHECK_OK(ExpandGraph(graph, depth));
    }
    out(std::move(node));
    return llvm::Error::success();
  }

  llvm::Error ExpandGraph(onnx::GraphProto& graph, int depth) {
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    nodes.Swap(graph.mutable_node());
    for (auto& node : nodes)
      ACT_CHECK_OK(Add(std::move(node), depth,
                       [&graph](onnx::NodeProto made) { *graph.add_node() = std::move(made); }));
    return llvm::Error::success();
  }

  llvm::Error Inline(const onnx::NodeProto& call, const onnx::FunctionProto& f, int depth, const Sink& out) {
    if (call.input_size() > f.input_size() || call.output_size() > f.output_size())
      return MakeError(PlaceOf(call), "does not fit the function it calls");
    ACT_CHECK_OK(Count(call));
    const int64_t opset = FunctionsOpset(f);
    if (opset != 0) ACT_CHECK_OK(CheckOpset(opset, "function '" + f.name() + "'"));
    // Names inside the body become unique by the name of the call, of which one output is unique.
    std::string prefix = call.name();
    for (auto name = call.output().rbegin(); name != call.output().rend(); ++name)
      if (!name->empty()) prefix = *name;
    prefix += "/";
    std::map<std::string, std::string> names{{"", ""}};
    for (int i = 0; i < f.input_size(); ++i) names[f.input(i)] = i < call.input_size() ? call.input(i) : "";
    std::vector<std::pair<std::string, std::string>> same;  // results that are operands or other results
    for (int i = 0; i < f.output_size(); ++i) {
      const bool wanted = i < call.output_size() && !call.output(i).empty();
      const bool is_new = names.emplace(f.output(i), wanted ? call.output(i) : prefix + f.output(i)).second;
      if (!is_new && wanted) same.emplace_back(names[f.output(i)], call.output(i));
    }
    const auto unique = [&](const std::string& name) {
      return names.emplace(name, prefix + name).first->second;
    };
    for (const auto& inner : f.node()) {
      onnx::NodeProto node = inner;
      node.set_name(prefix + (inner.name().empty() ? inner.op_type() : inner.name()));
      RenameAll(node, unique, prefix);
      if (opset != 0 && opset != opset_) SetOpset(node, opset);
      ResolveAttributes(node, call, f);  // last: a graph that the call gives is the caller's
      ACT_CHECK_OK(Add(std::move(node), depth + 1, out));
    }
    for (const auto& [from, to] : same) {
      onnx::NodeProto identity;
      identity.set_op_type("Identity");
      identity.set_name(prefix + "Identity");
      identity.add_input(from);
      identity.add_output(to);
      out(std::move(identity));
    }
    return llvm::Error::success();
  }

  static int64_t FunctionsOpset(const onnx::FunctionProto& f) {
    int64_t opset = 0;
    for (const auto& import : f.opset_import())
      if (IsStandardDomain(import.domain())) opset = std::max(opset, import.version());
    return opset;
  }

  Functions functions_;
  int64_t opset_ = 0;
  size_t count_ = 0;
  FlatNodes flat_;
};

std::string Key(const std::string& domain, const std::string& name, const std::string& overload) {
  return domain + '\0' + name + '\0' + overload;
}

}  // namespace

std::string KeyOf(const onnx::NodeProto& call) { return Key(call.domain(), call.op_type(), call.overload()); }

Functions FunctionsOf(const onnx::ModelProto& model) {
  Functions functions;
  for (const auto& f : model.functions()) functions[Key(f.domain(), f.name(), f.overload())] = &f;
  return functions;
}

const onnx::FunctionProto* FunctionOf(const Functions& functions, const onnx::NodeProto& node) {
  if (functions.empty()) return nullptr;
  const auto it = functions.find(KeyOf(node));
  return it == functions.end() || IsSupported(node) ? nullptr : it->second;
}

llvm::Expected<FlatNodes> ExpandFunctions(const onnx::ModelProto& model) {
  Expander expander(model);
  ACT_CHECK_OK(expander.AppendAll(model.graph()));
  return expander.Take();
}

}  // namespace act::onnx_import
