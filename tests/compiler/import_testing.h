// What tests of the importer share.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "compiler/import/import_onnx.h"
#include "compiler/ir/verify.h"
#include "runtime/base/error.h"
#include "tests/compiler/onnx_model.h"
#include "tests/paths.h"

namespace act::import_testing {

using testing::Attr;
using testing::Linear;
using testing::OnnxModel;
using testing::TemporaryFolder;

inline const std::string kGolden = GoldenFolder() + "/";

inline ImportResult Import(const std::string& path, const ImportOptions& options = {}) {
  auto result = ImportOnnx(path, options);
  if (!result) {
    ADD_FAILURE() << llvm::toString(result.takeError());
    return {};
  }
  if (llvm::Error error = Verify(result->graph, Stage::kImported))
    ADD_FAILURE() << llvm::toString(std::move(error));
  return std::move(*result);
}

inline ImportResult Import(const OnnxModel& model, const ImportOptions& options = {}) {
  const TemporaryFolder folder;
  return Import(model.Write(folder), options);
}

inline std::string ErrorOf(const OnnxModel& model, const ImportOptions& options = {}) {
  const TemporaryFolder folder;
  auto result = ImportOnnx(model.Write(folder), options);
  return result ? "no error" : llvm::toString(result.takeError());
}

// "Conv Relu ..."
inline std::string Ops(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) text += (text.empty() ? "" : " ") + node.op;
  return text;
}

inline const Node* Find(const Graph& graph, const std::string& op) {
  for (const Node& node : graph.nodes)
    if (node.op == op) return &node;
  return nullptr;
}

inline const Value* FindValue(const Graph& graph, const std::string& name) {
  for (const Value& value : graph.values)
    if (value.name == name) return &value;
  return nullptr;
}
}  // namespace act::import_testing
