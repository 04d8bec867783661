// The domain of ONNX's own operators, which has two names.
#pragma once

#include <string_view>

namespace act::onnx_import {

inline bool IsStandardDomain(std::string_view domain) { return domain.empty() || domain == "ai.onnx"; }

}  // namespace act::onnx_import
