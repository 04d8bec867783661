// The model as --export-onnx writes it, where training adds more to it than weights.
#pragma once

#include <map>
#include <string>

#include "onnx/onnx-ml.pb.h"

namespace act::onnx_import {

// Removes the elements of a list (inputs, outputs, initializers) whose names are unwanted.
template <typename List, typename Unwanted>
void EraseNamed(List* list, const Unwanted& unwanted) {
  for (int i = list->size() - 1; i >= 0; --i)
    if (unwanted(list->Get(i).name())) list->DeleteSubrange(i, 1);
}

// Removes the output `loss`, and the nodes, inputs and initializers that nothing else needs: labels
// among them. Where it is the only output, the model stays as it is.
void DropLoss(onnx::GraphProto& model, const std::string& loss);

// Masks that exporters build from uniform random numbers (stochastic depth) become the constant that
// they are on average, which is what evaluation computes with. `kept` has the part of ones by the
// name of the mask, as the import found it.
void SettleMasks(onnx::GraphProto& model, const std::map<std::string, double>& kept);

}  // namespace act::onnx_import
