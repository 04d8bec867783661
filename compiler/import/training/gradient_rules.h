// Gradient operators of models that bring their own backward pass (ONNX Runtime's training graphs).
// Where such a node is the gradient of one of our operators, that operator's rule in the op table
// builds it from the tensors that the node names. So each gradient is written once.
#pragma once

#include <vector>

#include "compiler/import/core/importer.h"

namespace act::onnx_import {

using Values = std::vector<ValueId>;

// A node that is not in the graph. It shows a rule the operator whose gradient the rule builds.
Node Forward(const char* op, Values inputs, ValueId result, Attributes attrs = {});

// The gradients of the operands of `node`, one of our nodes, from the gradients of its results
// (kNoValue where there is none; results after the last one given have none).
llvm::Expected<Values> ApplyRule(NodeContext& c, Node node, Values output_grads, std::vector<bool> wanted);

// Our forward node whose gradient this is: the one that made input i, which it keeps for its
// gradient.
llvm::Expected<Node> MakerOfKept(NodeContext& c, size_t i, const char* op);

// The same, found by the name that ONNX Runtime gives the gradient of a node P: P_Grad/...
llvm::Expected<Node> ForwardNode(NodeContext& c, const char* op);

// The families of GradientImports(), each one file.
const std::vector<ImportEntry>& LayerGradients();
const std::vector<ImportEntry>& MovementGradients();
const std::vector<ImportEntry>& RecurrentGradients();

}  // namespace act::onnx_import
