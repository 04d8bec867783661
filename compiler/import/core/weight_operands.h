// Which tensors of a model are read as weights, by the operators that read them.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "onnx/onnx-ml.pb.h"

namespace act::onnx_import {

// The operands of the node that are weights by its operator's definition: kernels, scales, biases, running
// statistics. Those of MatMul and Mul are not among them: either operand of theirs may be anything.
std::vector<std::string> WeightOperands(const onnx::NodeProto& node);

// Which tensors of one element may be weights: those above, operands of products (MatMul, Einsum), and what is added
// to a product: the bias of a layer with one result. Every other one is likely a number of the model's arithmetic.
std::set<std::string> MayBeWeights(const std::vector<const onnx::NodeProto*>& nodes);

// Tensors that are read where training changes nothing: weights of classes of a loss; scales, rates and
// bounds that must be known when compiling. Nodes in graphs inside others count.
std::set<std::string> NeverWeights(const std::vector<const onnx::NodeProto*>& nodes);

// The operands of the node that must be known when compiling.
std::vector<std::string> KnownOperands(const onnx::NodeProto& node);

// Exporters of PyTorch say what trains, and a file without a producer is written by hand. Others (tf2onnx,
// jax2onnx) write the numbers of the arithmetic as initializers beside the weights.
bool MixesNumbersWithWeights(const onnx::ModelProto& model);

}  // namespace act::onnx_import
