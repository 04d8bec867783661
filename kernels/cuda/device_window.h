// The shape of a window as device code takes it.
#pragma once

#include <optional>
#include <string>

#include "kernels/cuda/source/window_parameters.h"
#include "kernels/site/window.h"

namespace act::cuda {

// Nullopt, with the reason in *why, if coordinates leave what device code computes with.
std::optional<WindowParameters> WindowParametersOf(const Window& w, std::string* why);

// Channels that a thread takes: 4, which it loads as one vector, or 1.
inline int ChannelsAtOnce(int64_t channels) { return channels % 4 == 0 ? 4 : 1; }

}  // namespace act::cuda
