#include "compiler/import/core/control_constants.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/import/core/constant_node.h"
#include "compiler/import/core/inference_form.h"

namespace act::onnx_import {
namespace {

const onnx::GraphProto* InnerOf(const onnx::NodeProto& node, const std::string& attribute) {
  for (const auto& a : node.attribute())
    if (a.name() == attribute && a.has_g()) return &a.g();
  return nullptr;
}

// Which names each name follows from, over all graphs of a model. Names of different inner graphs that are
// equal count as one, which at most makes a constant of a number too many.
class Origins {
 public:
  explicit Origins(const onnx::GraphProto& model) { Of(model); }

  std::set<std::string> OfDecisions() const {
    std::set<std::string> seen;
    std::vector<std::string> open = decisions_;
    while (!open.empty()) {
      const std::string name = open.back();
      open.pop_back();
      if (name.empty() || !seen.insert(name).second) continue;
      const auto it = from_.find(name);
      if (it != from_.end()) open.insert(open.end(), it->second.begin(), it->second.end());
    }
    return seen;
  }

 private:
  void Of(const onnx::GraphProto& graph) {
    for (const auto& node : graph.node()) {
      if (node.op_type() == "If") {
        OfIf(node);
      } else if (node.op_type() == "Loop" || node.op_type() == "Scan") {
        OfLoop(node);
      } else if (node.op_type() != "Shape" && node.op_type() != "Size") {
        for (const std::string& output : node.output())
          for (const std::string& input : node.input()) Follows(output, input);
      }
      for (const auto& attribute : node.attribute())
        if (attribute.has_g()) Of(attribute.g());
    }
  }

  void OfIf(const onnx::NodeProto& node) {
    if (node.input_size() != 1) return;
    decisions_.push_back(node.input(0));
    for (const char* name : {"then_branch", "else_branch"}) {
      const onnx::GraphProto* branch = InnerOf(node, name);
      for (int i = 0; branch && i < std::min(node.output_size(), branch->output_size()); ++i)
        Follows(node.output(i), branch->output(i).name());
    }
  }

  // A body of a Loop starts with two inputs and one output that are no carried values.
  void OfLoop(const onnx::NodeProto& node) {
    const onnx::GraphProto* body = InnerOf(node, "body");
    if (!body) return;
    const bool loop = node.op_type() == "Loop";
    if (loop) {
      for (int i = 0; i < std::min(2, node.input_size()); ++i) decisions_.push_back(node.input(i));
      if (body->output_size() > 0) decisions_.push_back(body->output(0).name());
    }
    const int first = loop ? 1 : 0;
    for (int i = loop ? 2 : 0; i < std::min(node.input_size(), body->input_size()); ++i) {
      Follows(body->input(i).name(), node.input(i));
      // Of a Scan, the inputs after the states are no outputs: then too much follows from too much, and no
      // harm.
      if (i - first < body->output_size()) Follows(body->input(i).name(), body->output(i - first).name());
      if (i - 2 * first < node.output_size()) Follows(node.output(i - 2 * first), node.input(i));
    }
    for (int i = 0; i < std::min(node.output_size(), body->output_size() - first); ++i)
      Follows(node.output(i), body->output(i + first).name());
  }

  void Follows(const std::string& name, const std::string& from) { from_[name].push_back(from); }

  std::map<std::string, std::vector<std::string>> from_;
  std::vector<std::string> decisions_;
};

bool IsSingleFloat(const onnx::TensorProto& tensor) {
  const bool is_float =
      tensor.data_type() == onnx::TensorProto::FLOAT || tensor.data_type() == onnx::TensorProto::DOUBLE;
  return is_float && tensor.data_location() != onnx::TensorProto::EXTERNAL &&
         std::all_of(tensor.dims().begin(), tensor.dims().end(), [](int64_t d) { return d == 1; });
}

}  // namespace

void FixControlConstants(onnx::GraphProto& graph) {
  const std::set<std::string> decide = Origins(graph).OfDecisions();
  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
  for (onnx::TensorProto& tensor : *graph.mutable_initializer()) {
    if (!IsSingleFloat(tensor) || !decide.count(tensor.name())) continue;
    *nodes.Add() = ConstantNode(tensor, tensor.name());
  }
  if (nodes.empty()) return;
  std::set<std::string> fixed;
  for (const onnx::NodeProto& constant : nodes) fixed.insert(constant.name());
  const auto is_fixed = [&fixed](const std::string& name) { return fixed.count(name) > 0; };
  EraseNamed(graph.mutable_initializer(), is_fixed);
  EraseNamed(graph.mutable_input(), is_fixed);
  for (onnx::NodeProto& node : *graph.mutable_node()) *nodes.Add() = std::move(node);
  graph.mutable_node()->Swap(&nodes);
}

}  // namespace act::onnx_import
