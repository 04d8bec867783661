// Codes as constants of device code.
#pragma once

#include <string>

#include "runtime/codec/codec.h"

namespace act::cuda {

// "constexpr DeviceCode NAME = {...};", for code in namespace act: the codec and the layout of samples of so many
// elements.
std::string CodeText(const std::string& name, const Codec& codec, int64_t elements);

}  // namespace act::cuda
