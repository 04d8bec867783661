// A window seen from its input: which outputs read a coordinate, and at which window position.
// Gradients gather by it, so that one thread writes each input element once, in a fixed order.
#pragma once

#include <span>
#include <vector>

#include "kernels/site/window.h"

namespace act {

class WindowTaps {
 public:
  struct Tap {
    int64_t output, position;
  };
  WindowTaps(const Window& w, int axis) {
    const auto a = static_cast<size_t>(axis);
    begin_.push_back(0);
    for (int64_t i = 0; i < w.in[a]; ++i) {
      for (int64_t k = w.kernel[a]; k-- > 0;) {  // descending positions give ascending outputs
        const int64_t scaled = i + w.pad[a] - k * w.dilation[a];
        if (scaled < 0 || scaled % w.stride[a] != 0 || scaled / w.stride[a] >= w.out[a]) continue;
        taps_.push_back({scaled / w.stride[a], k});
      }
      begin_.push_back(taps_.size());
    }
  }
  // Outputs that read input coordinate i, in ascending order.
  std::span<const Tap> At(int64_t i) const {
    const auto at = static_cast<size_t>(i);
    return std::span(taps_).subspan(begin_[at], begin_[at + 1] - begin_[at]);
  }

 private:
  std::vector<size_t> begin_;
  std::vector<Tap> taps_;
};

// Of all three axes.
struct AllWindowTaps {
  WindowTaps axis0, axis1, axis2;
  explicit AllWindowTaps(const Window& w) : axis0(w, 0), axis1(w, 1), axis2(w, 2) {}
};

}  // namespace act
