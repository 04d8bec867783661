#include "compiler/import/core/hoist_initializers.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "compiler/import/core/subgraphs.h"

namespace act::onnx_import {
namespace {

// Calls visit(graph, node) for each graph inside a node, inner ones first.
void ForEachInner(onnx::GraphProto& graph,
                  const std::function<void(onnx::GraphProto&, const onnx::NodeProto&)>& visit) {
  for (auto& node : *graph.mutable_node())
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) {
        ForEachInner(*attribute.mutable_g(), visit);
        visit(*attribute.mutable_g(), node);
      }
      for (auto& inner : *attribute.mutable_graphs()) {
        ForEachInner(inner, visit);
        visit(inner, node);
      }
    }
}

class Hoist {
 public:
  explicit Hoist(onnx::GraphProto& model) : model_(model) {}

  void Run() {
    bool any = false;
    ForEachInner(model_, [&any](const onnx::GraphProto& inner, const onnx::NodeProto&) {
      any = any || inner.initializer_size() > 0;
    });
    if (!any) return;
    Count(model_);
    ForEachInner(model_, [this](const onnx::GraphProto& inner, const onnx::NodeProto&) { Count(inner); });
    ForEachInner(model_, [this](onnx::GraphProto& inner, const onnx::NodeProto& node) { Of(inner, node); });
    for (onnx::TensorProto& tensor : moved_) *model_.add_initializer() = std::move(tensor);
  }

 private:
  void Count(const onnx::GraphProto& graph) {
    for (const auto& input : graph.input()) ++made_[input.name()];
    for (const auto& tensor : graph.initializer()) ++made_[tensor.name()];
    for (const auto& node : graph.node())
      for (const std::string& name : node.output()) ++made_[name];
  }

  void Of(onnx::GraphProto& inner, const onnx::NodeProto& node) {
    std::map<std::string, std::string> names;
    google::protobuf::RepeatedPtrField<onnx::TensorProto> kept;
    for (auto& tensor : *inner.mutable_initializer()) {
      const bool is_input = std::any_of(inner.input().begin(), inner.input().end(),
                                        [&](const auto& input) { return input.name() == tensor.name(); });
      if (is_input || tensor.name().empty()) {
        *kept.Add() = std::move(tensor);
        continue;
      }
      const std::string name = Free(tensor.name(), node);
      names[tensor.name()] = name;
      tensor.set_name(name);
      moved_.push_back(std::move(tensor));
    }
    inner.mutable_initializer()->Swap(&kept);
    if (names.empty()) return;
    const auto renamed = [&names](const std::string& name) {
      const auto it = names.find(name);
      return it == names.end() ? name : it->second;
    };
    for (auto& reader : *inner.mutable_node()) RenameReads(reader, renamed);
    for (auto& output : *inner.mutable_output()) output.set_name(renamed(output.name()));
  }

  // The name where nothing else has it; else one that is new.
  std::string Free(const std::string& name, const onnx::NodeProto& node) {
    if (made_[name] == 1) return name;
    std::string prefix = node.name();
    for (const std::string& output : node.output())
      if (prefix.empty()) prefix = output;
    std::string free = prefix + "/" + name;
    while (made_[free] > 0) free += "_";
    ++made_[free];
    return free;
  }

  onnx::GraphProto& model_;
  std::map<std::string, int> made_;  // how many graphs have something of this name
  std::vector<onnx::TensorProto> moved_;
};

}  // namespace

void HoistInitializers(onnx::GraphProto& graph) { Hoist(graph).Run(); }

}  // namespace act::onnx_import
