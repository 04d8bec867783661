// Models that are imported and exported again, as if training had been in between.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "compiler/emit/export_trained.h"
#include "compiler/import/import_onnx.h"
#include "tests/compiler/onnx_model.h"

namespace act::exported_model {

using testing::TemporaryFolder;

inline onnx::ModelProto Parse(const std::string& path) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(testing::Contents(path))) << path;
  return model;
}

inline ImportResult Import(const std::string& path) {
  auto result = ImportOnnx(path, {});
  if (!result) {
    ADD_FAILURE() << llvm::toString(result.takeError());
    return {};
  }
  return std::move(*result);
}

// Stands for training: every element of a parameter or buffer becomes the number of its value.
inline std::map<std::string, HostTensor> Trained(const Graph& graph) {
  std::map<std::string, HostTensor> values;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& v = graph.values[i];
    if (v.kind != ValueKind::kParameter && v.kind != ValueKind::kBuffer) continue;
    const std::vector<float> data(static_cast<size_t>(v.type.Elements().fixed), static_cast<float>(i));
    values[v.name] = HostTensor::Copy(data.data(), v.type.Bytes().fixed);
  }
  return values;
}

inline TrainedValues From(std::map<std::string, HostTensor> values) {
  return [values = std::move(values)](const std::string& name) -> llvm::Expected<std::span<const std::byte>> {
    const auto value = values.find(name);
    if (value == values.end()) return std::span<const std::byte>();
    return std::span(value->second.data, static_cast<size_t>(value->second.bytes));
  };
}

inline Plan PlanOf(const ImportResult& model) {
  Plan plan;
  plan.onnx_model = model.skeleton;
  return plan;
}

template <typename List>
std::vector<std::string> Names(const List& list) {
  std::vector<std::string> names;
  for (const auto& element : list) names.push_back(element.name());
  return names;
}

inline std::vector<std::string> Operators(const onnx::ModelProto& model) {
  std::vector<std::string> names;
  for (const auto& node : model.graph().node()) names.push_back(node.op_type());
  return names;
}

inline onnx::ModelProto Exported(const std::string& path, const TemporaryFolder& folder) {
  const ImportResult model = Import(path);
  EXPECT_EQ(llvm::toString(ExportTrainedOnnx(PlanOf(model), From(Trained(model.graph)), folder / "out.onnx")),
            "");
  return Parse(folder / "out.onnx");
}

}  // namespace act::exported_model
