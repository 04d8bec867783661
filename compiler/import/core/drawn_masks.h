// Which comparisons of random numbers may become masks of a dropout.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "onnx/onnx-ml.pb.h"

namespace act::onnx_import {

// Names of results that may be such masks, by what reads what. A mask draws numbers of its own and is its mean in
// evaluation. So nothing else may read the numbers that are compared (or rounded down, or the Bernoulli node's own),
// and the flags must be read as the numbers 0 and 1 alone: what chooses by a flag needs a flag in evaluation, too.
std::set<std::string> MasksOfDraws(const std::vector<const onnx::NodeProto*>& nodes,
                                   const std::vector<std::string>& outputs);

}  // namespace act::onnx_import
