#include "compiler/import/core/control_constants.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/import/core/constant_node.h"
#include "compiler/import/core/functions.h"
#include "compiler/import/core/inference_form.h"
#include "compiler/import/core/weight_operands.h"

namespace act::onnx_import {
namespace {

const onnx::GraphProto* InnerOf(const onnx::NodeProto& node, const std::string& attribute) {
  for (const auto& a : node.attribute())
    if (a.name() == attribute && a.has_g()) return &a.g();
  return nullptr;
}

template <class Nodes>
bool HasControlFlow(const Nodes& nodes) {
  for (const onnx::NodeProto& node : nodes)
    for (const auto& attribute : node.attribute())
      if (attribute.has_g()) return true;
  return false;
}

bool HasControlFlow(const onnx::ModelProto& model) {
  return HasControlFlow(model.graph().node()) ||
         std::any_of(model.functions().begin(), model.functions().end(),
                     [](const onnx::FunctionProto& f) { return HasControlFlow(f.node()); });
}

// Which names each name follows from, over all graphs and functions of a model. Names of a function have its
// name before them. Names of different inner graphs that are equal count as one, and so do all calls of a
// function, which at most makes a constant of a number too many.
class Origins {
 public:
  Origins(const onnx::ModelProto& model, bool with_operands)
      : functions_(FunctionsOf(model)), with_operands_(with_operands) {
    for (const auto& [name, function] : functions_) {
      scope_ = name + '\0';
      Of(function->node());
    }
    scope_.clear();
    Of(model.graph().node());
  }

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
  template <class Nodes>
  void Of(const Nodes& nodes) {
    for (const onnx::NodeProto& node : nodes) {
      if (const onnx::FunctionProto* f = FunctionOf(functions_, node)) {
        OfCall(node, *f);
      } else if (node.op_type() == "If") {
        OfIf(node);
      } else if (node.op_type() == "Loop" || node.op_type() == "Scan") {
        OfLoop(node);
      } else if (node.op_type() != "Shape" && node.op_type() != "Size") {
        if (with_operands_)
          for (const std::string& name : KnownOperands(node)) Decides(name);
        for (const std::string& output : node.output())
          for (const std::string& input : node.input()) Follows(output, input);
      }
      for (const auto& attribute : node.attribute())
        if (attribute.has_g()) Of(attribute.g().node());
    }
  }

  void OfCall(const onnx::NodeProto& call, const onnx::FunctionProto& f) {
    const std::string inside = KeyOf(call) + '\0';
    for (int i = 0; i < std::min(call.input_size(), f.input_size()); ++i)
      from_[inside + f.input(i)].push_back(scope_ + call.input(i));
    for (int i = 0; i < std::min(call.output_size(), f.output_size()); ++i)
      from_[scope_ + call.output(i)].push_back(inside + f.output(i));
  }

  void OfIf(const onnx::NodeProto& node) {
    if (node.input_size() != 1) return;
    Decides(node.input(0));
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
      for (int i = 0; i < std::min(2, node.input_size()); ++i) Decides(node.input(i));
      if (body->output_size() > 0) Decides(body->output(0).name());
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

  void Follows(const std::string& name, const std::string& from) {
    if (!name.empty() && !from.empty()) from_[scope_ + name].push_back(scope_ + from);
  }
  void Decides(const std::string& name) { decisions_.push_back(scope_ + name); }

  const Functions functions_;
  const bool with_operands_;
  std::string scope_;  // what stands before the names of the function that is looked at

  std::map<std::string, std::vector<std::string>> from_;
  std::vector<std::string> decisions_;
};

// A single float, or a short list of them.
bool IsNumber(const onnx::TensorProto& tensor, bool lists) {
  constexpr int64_t kLongest = 64;
  const bool is_float =
      tensor.data_type() == onnx::TensorProto::FLOAT || tensor.data_type() == onnx::TensorProto::DOUBLE;
  if (!is_float || tensor.data_location() == onnx::TensorProto::EXTERNAL) return false;
  return (lists && tensor.dims_size() == 1 && tensor.dims(0) <= kLongest) ||
         std::all_of(tensor.dims().begin(), tensor.dims().end(), [](int64_t d) { return d == 1; });
}

}  // namespace

void FixControlConstants(onnx::ModelProto& model) {
  const bool mixes = MixesNumbersWithWeights(model);
  if (!mixes && !HasControlFlow(model)) return;
  const std::set<std::string> decide = Origins(model, mixes).OfDecisions();
  onnx::GraphProto& graph = *model.mutable_graph();
  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
  for (onnx::TensorProto& tensor : *graph.mutable_initializer()) {
    if (!IsNumber(tensor, mixes) || !decide.count(tensor.name())) continue;
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
