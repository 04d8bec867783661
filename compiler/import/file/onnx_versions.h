// The opsets in which ONNX redefined each of its standard operators.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace act::onnx_import {

// Every operator of the standard domain, by name.
std::vector<std::string_view> OnnxOperators();

// Ascending, e.g. Clip: 1, 6, 11, 12, 13. Empty for names that ONNX does not have.
std::vector<int64_t> OnnxVersions(std::string_view op);

// The version of the operator that a model of this opset uses; 0 where the operator was added
// later.
int64_t OnnxVersionAt(std::string_view op, int64_t opset);

}  // namespace act::onnx_import
