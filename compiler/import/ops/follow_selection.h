// How each operator passes on an axis whose length depends on data (Selection).
#pragma once

#include <optional>
#include <string>

#include "compiler/import/core/importer.h"

namespace act::onnx_import {

// The selection of operand i; nullopt where it has none, or there is no such operand.
const std::optional<Selection>& SelectionOf(const NodeContext& c, size_t i);

// The number of leading inputs of which the node reads more than the type.
size_t InputsRead(const NodeContext& c);

// The error of an operator that does not take such an axis.
llvm::Error RefuseSelection(const NodeContext& c, const std::string& why);

struct SelectionRule {
  const char* op;
  // The selected axis of the first result, once the node is imported as if all places existed;
  // nullopt: it has none.
  llvm::Expected<std::optional<Selection>> (*follow)(const NodeContext& c);
  int shape_input = -1;  // the input that may hold the length
};
// Nullopt where the operator would give other numbers if all places existed.
std::optional<SelectionRule> SelectionRuleOf(const std::string& op);

}  // namespace act::onnx_import
