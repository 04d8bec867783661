#include "compiler/import/core/drawn_masks.h"

#include <map>

#include "compiler/import/core/subgraphs.h"
#include "compiler/import/known/onnx_types.h"
#include "runtime/base/dtype_kind.h"

namespace act::onnx_import {
namespace {

using Readers = std::multimap<std::string, const onnx::NodeProto*>;  // null: an output of the model

bool IsOneOf(const onnx::NodeProto& node, std::initializer_list<const char*> ops) {
  for (const char* op : ops)
    if (node.op_type() == op) return true;
  return false;
}

bool IsCastToFloat(const onnx::NodeProto& node) {
  if (node.op_type() == "CastLike") return true;  // exporters write it for the type of a float tensor
  if (node.op_type() != "Cast") return false;
  for (const auto& attribute : node.attribute()) {
    const auto type = FromOnnxType(attribute.i());
    if (attribute.name() == "to") return type && IsFloat(*type);
  }
  return false;
}

bool IsView(const onnx::NodeProto& node) {
  return IsOneOf(node,
                 {"Identity", "Unsqueeze", "Squeeze", "Reshape", "Flatten", "Expand", "Transpose", "Slice"});
}

// Everything that reads the tensor, or a view of it, is `last`.
template <typename Last>
bool EndsIn(const Readers& readers, const std::string& name, const Last& last) {
  std::vector<std::string> open = {name};
  while (!open.empty()) {
    const auto [first, end] = readers.equal_range(open.back());
    open.pop_back();
    for (auto it = first; it != end; ++it) {
      if (!it->second) return false;
      if (last(*it->second)) continue;
      if (!IsView(*it->second) || it->second->output_size() != 1) return false;
      open.push_back(it->second->output(0));
    }
  }
  return true;
}

// Asks for the extents or the type of the tensor, and not for its numbers.
bool ReadsNoNumbers(const onnx::NodeProto& node, const std::string& name) {
  const bool type_alone = node.op_type() == "CastLike" && node.input_size() > 0 && node.input(0) != name;
  return node.op_type() == "Shape" || type_alone;
}

// The node that the drawn numbers end in, if nothing else reads them.
const onnx::NodeProto* OnlyReader(const Readers& readers, const onnx::NodeProto& draw) {
  const onnx::NodeProto* node = &draw;
  while (node->output_size() == 1) {
    const std::string& name = node->output(0);
    const auto [first, end] = readers.equal_range(name);
    node = nullptr;
    for (auto it = first; it != end; ++it) {
      if (it->second && ReadsNoNumbers(*it->second, name)) continue;
      if (node || !it->second) return nullptr;
      node = it->second;
    }
    if (!node) return nullptr;
    if (!IsCastToFloat(*node) && !IsOneOf(*node, {"Identity", "Add"})) return node;
  }
  return nullptr;
}

}  // namespace

std::set<std::string> MasksOfDraws(const std::vector<const onnx::NodeProto*>& nodes,
                                   const std::vector<std::string>& outputs) {
  Readers readers;
  for (const std::string& name : outputs) readers.emplace(name, nullptr);
  for (const onnx::NodeProto* node : nodes)
    for (const std::string& name : ReadNames(*node)) readers.emplace(name, node);
  std::set<std::string> masks;
  for (const onnx::NodeProto* node : nodes) {
    if (node->op_type() == "Bernoulli" && node->output_size() == 1) {
      const auto is_factor = [](const onnx::NodeProto& reader) { return IsOneOf(reader, {"Mul", "Div"}); };
      if (EndsIn(readers, node->output(0), is_factor)) masks.insert(node->output(0));
    }
    if (!IsOneOf(*node, {"RandomUniform", "RandomUniformLike"})) continue;
    const onnx::NodeProto* reader = OnlyReader(readers, *node);
    if (!reader || reader->output_size() != 1) continue;
    const bool compares = IsOneOf(*reader, {"Less", "LessOrEqual", "Greater", "GreaterOrEqual"});
    if (reader->op_type() == "Floor" || (compares && EndsIn(readers, reader->output(0), IsCastToFloat)))
      masks.insert(reader->output(0));
  }
  return masks;
}

}  // namespace act::onnx_import
