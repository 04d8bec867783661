// Where an axis whose length depends on data (Selection) goes, operator by operator.
#pragma once

#include <optional>
#include <string>

#include "compiler/import/core/importer.h"

namespace act::onnx_import {

// What operand i says of such an axis; nullopt where it has none, or there is no such operand.
const std::optional<Selection>& SelectionOf(const NodeContext& c, size_t i);

// Inputs of which more is read than the type.
size_t InputsRead(const NodeContext& c);

// The error of an operator that does not take such an axis.
llvm::Error RefuseSelection(const NodeContext& c, const std::string& why);

struct SelectionRule {
  const char* op;
  // The axis in the first result, once the node is imported as if all places were there; nullopt: it has
  // none.
  llvm::Expected<std::optional<Selection>> (*follow)(const NodeContext& c);
  int shape_input = -1;  // the input that may hold the length
};
// Nullopt where the operator's numbers would be others with all places there.
std::optional<SelectionRule> SelectionRuleOf(const std::string& op);

}  // namespace act::onnx_import
