// Opsets of single nodes: a function may import another version of the standard operators than its model.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>

#include "compiler/import/file/model_file.h"
#include "onnx/onnx-ml.pb.h"

namespace act::onnx_import {

inline constexpr char kNodeOpset[] = "act.opset";

inline void SetOpset(onnx::NodeProto& node, int64_t opset);

inline void SetOpset(onnx::GraphProto& graph, int64_t opset) {
  for (onnx::NodeProto& node : *graph.mutable_node()) SetOpset(node, opset);
}

// Of the node and of all in graphs inside it.
inline void SetOpset(onnx::NodeProto& node, int64_t opset) {
  onnx::StringStringEntryProto& entry = *node.add_metadata_props();
  entry.set_key(kNodeOpset);
  entry.set_value(std::to_string(opset));
  for (auto& attribute : *node.mutable_attribute()) {
    if (attribute.has_g()) SetOpset(*attribute.mutable_g(), opset);
    for (auto& graph : *attribute.mutable_graphs()) SetOpset(graph, opset);
  }
}

// That of the node, else the model's. A file may have notes of this name that say nonsense.
inline int64_t OpsetOf(const onnx::NodeProto& node, int64_t models) {
  int64_t opset = 0;
  for (const auto& entry : node.metadata_props())
    if (entry.key() == kNodeOpset)
      std::from_chars(entry.value().data(), entry.value().data() + entry.value().size(), opset);
  return opset >= kOldestOpset && opset <= kNewestOpset ? opset : models;
}

}  // namespace act::onnx_import
