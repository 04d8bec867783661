#include "kernels/cuda/device_window.h"

#include <algorithm>

#include "runtime/base/size.h"

namespace act::cuda {

std::optional<WindowParameters> WindowParametersOf(const Window& w, std::string* why) {
  constexpr int64_t kLimit = kMaxCount / 2;
  WindowParameters p;
  for (size_t a = 0; a < 3; ++a) {
    const int64_t reach =
        SaturatingAdd(SaturatingMul(w.out[a], w.stride[a]), SaturatingMul(w.kernel[a], w.dilation[a]));
    const int64_t pads = std::max(std::abs(w.pad[a]), std::abs(w.pad_end[a]));
    if (SaturatingAdd(reach, SaturatingAdd(w.in[a], pads)) >= kLimit) {
      if (why) *why = "a window reaches too far";
      return std::nullopt;
    }
    p.axes[a] = {DivisorOf(w.in[a]),
                 DivisorOf(w.out[a]),
                 DivisorOf(w.kernel[a]),
                 DivisorOf(w.stride[a]),
                 DivisorOf(w.dilation[a]),
                 static_cast<int32_t>(w.pad[a]),
                 static_cast<int32_t>(w.pad_end[a])};
  }
  return p;
}

}  // namespace act::cuda
