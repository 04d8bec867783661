#include "compiler/import/core/inference_form.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "compiler/import/core/subgraphs.h"

namespace act::onnx_import {
namespace {

using Names = std::set<std::string>;

// Removes nodes that no output needs. Those that are no candidates stay.
template <typename Candidate>
void DropUnread(onnx::GraphProto& model, const Candidate& candidate) {
  Names read;
  for (const auto& output : model.output()) read.insert(output.name());
  std::vector<onnx::NodeProto> kept;
  for (int i = model.node_size() - 1; i >= 0; --i) {
    onnx::NodeProto& node = *model.mutable_node(i);
    const bool needed = std::any_of(node.output().begin(), node.output().end(),
                                    [&](const std::string& name) { return read.count(name) != 0; });
    if (!needed && candidate(node)) continue;
    for (const std::string& name : ReadNames(node)) read.insert(name);
    kept.push_back(std::move(node));
  }
  model.clear_node();
  for (auto node = kept.rbegin(); node != kept.rend(); ++node) *model.add_node() = std::move(*node);
}

// Shape of the first axis alone, which is how exporters ask for the batch size.
bool AsksForBatch(const onnx::NodeProto& node) {
  if (node.op_type() != "Shape" || node.input_size() != 1) return false;
  int64_t start = 0, end = 0;
  for (const auto& a : node.attribute()) (a.name() == "start" ? start : end) = a.i();
  return start == 0 && end == 1;
}

// The symbol of the first axis, "" where it has none.
std::string BatchOf(const onnx::ValueInfoProto& input) {
  const auto& dims = input.type().tensor_type().shape().dim();
  return dims.empty() ? "" : dims[0].dim_param();
}

// The dynamo exporter asks any input for the batch size, often a label. An input that is read for no more is
// replaced there by one that the model needs anyway.
void AskNeededInputs(onnx::GraphProto& model) {
  Names needed;
  for (const onnx::NodeProto& node : model.node())
    if (!AsksForBatch(node))
      for (const std::string& name : ReadNames(node)) needed.insert(name);
  std::map<std::string, std::string> batches, askable;
  for (const auto& input : model.input()) {
    batches[input.name()] = BatchOf(input);
    if (needed.count(input.name())) askable.emplace(BatchOf(input), input.name());
  }
  for (onnx::NodeProto& node : *model.mutable_node()) {
    if (!AsksForBatch(node) || needed.count(node.input(0))) continue;
    const auto batch = batches.find(node.input(0));
    const auto other = batch == batches.end() ? askable.end() : askable.find(batch->second);
    if (other != askable.end() && !other->first.empty()) node.set_input(0, other->second);
  }
}

// Nodes by the names that they make.
using Makers = std::map<std::string, const onnx::NodeProto*>;

struct Draw {
  std::string like;  // a tensor of the mask's shape
  Names between;     // what is made on the way from the draw to the mask
};

std::optional<Draw> DrawOf(const Makers& makers, const std::string& mask) {
  Draw draw;
  std::vector<std::string> open = {mask};
  while (!open.empty()) {
    const auto maker = makers.find(open.back());
    open.pop_back();
    if (maker == makers.end() || !draw.between.insert(maker->first).second) continue;
    const onnx::NodeProto& node = *maker->second;
    if (node.op_type() == "RandomUniform" || node.op_type() == "RandomUniformLike" ||
        node.op_type() == "Bernoulli") {
      draw.like = node.op_type() == "RandomUniform" ? maker->first : node.input(0);
      return draw;
    }
    // First operands first: those of CastLike and of comparisons lead to the draw, the others to a whole model.
    open.insert(open.end(), node.input().rbegin(), node.input().rend());
  }
  return std::nullopt;
}

}  // namespace

void DropLoss(onnx::GraphProto& model, const std::string& loss) {
  if (model.output_size() < 2) return;
  EraseNamed(model.mutable_output(), [&](const std::string& name) { return name == loss; });
  DropUnread(model, [](const onnx::NodeProto&) { return true; });
  AskNeededInputs(model);
  Names read;
  for (const auto& output : model.output()) read.insert(output.name());
  for (const onnx::NodeProto& node : model.node())
    for (const std::string& name : ReadNames(node)) read.insert(name);
  const auto unread = [&](const std::string& name) { return !read.count(name); };
  EraseNamed(model.mutable_input(), unread);
  EraseNamed(model.mutable_initializer(), unread);
}

void SettleMasks(onnx::GraphProto& model, const std::map<std::string, double>& kept) {
  Makers makers;
  for (const onnx::NodeProto& node : model.node())
    for (const std::string& name : node.output())
      if (!name.empty()) makers[name] = &node;
  std::map<std::string, std::string> means;  // by the name of the mask
  Names unread;
  std::vector<onnx::NodeProto> nodes;
  for (const onnx::NodeProto& node : model.node()) {
    nodes.push_back(node);
    const auto mask = node.output_size() == 1 ? kept.find(node.output(0)) : kept.end();
    if (mask == kept.end()) continue;
    const std::optional<Draw> draw = DrawOf(makers, mask->first);
    if (!draw) continue;
    const std::string mean = mask->first + "/mean";
    onnx::NodeProto shape, constant;
    shape.set_op_type("Shape");
    shape.set_name(mean + "/shape");
    shape.add_input(draw->like);
    shape.add_output(shape.name());
    constant.set_op_type("ConstantOfShape");
    constant.set_name(mean);
    constant.add_input(shape.name());
    constant.add_output(mean);
    onnx::AttributeProto& value = *constant.add_attribute();
    value.set_name("value");
    value.set_type(onnx::AttributeProto::TENSOR);
    value.mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
    value.mutable_t()->add_dims(1);
    value.mutable_t()->add_float_data(static_cast<float>(mask->second));
    nodes.push_back(std::move(shape));
    nodes.push_back(std::move(constant));
    means[mask->first] = mean;
    unread.insert(draw->between.begin(), draw->between.end());
  }
  if (means.empty()) return;
  for (onnx::NodeProto& node : nodes)
    RenameReads(node, [&](const std::string& name) {
      const auto mean = means.find(name);
      return mean == means.end() ? name : mean->second;
    });
  model.clear_node();
  for (onnx::NodeProto& node : nodes) *model.add_node() = std::move(node);
  DropUnread(model, [&](const onnx::NodeProto& node) {
    return node.output_size() > 0 && unread.count(node.output(0)) != 0;
  });
}

}  // namespace act::onnx_import
