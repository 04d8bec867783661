// Rows of Pad. The wrapping mode is of ONNX alone.
#pragma once

#include "tests/compiler/imported_case.h"

namespace act::gradient_case {

inline OpCase PadCase(const Ints& from, const Ints& pads, const std::string& mode,
                      std::vector<size_t> batched = {}) {
  return {"Pad " + mode,
          {{from}},
          [=](GraphBuilder& b, const Values& v) {
            return mode == "wrap" ? Imported("Pad", {testing::Attr("mode", mode)}, {pads}, 1, "", 19)(b, v)
                                  : One("Pad", Attrs({{"pads", pads}, {"mode", mode}, {"value", 1.5}}))(b, v);
          },
          [=](const Tensors& t) {
            Ints dims = from;
            for (size_t a = 0; a < dims.size(); ++a) dims[a] += pads[a] + pads[a + dims.size()];
            return truth::Make(dims, [&](Ints i) {
              for (size_t a = 0; a < i.size(); ++a) {
                int64_t& at = i[a];
                at -= pads[a];
                const int64_t n = from[a];
                if (mode == "edge") at = std::clamp<int64_t>(at, 0, n - 1);
                if (mode == "wrap") {  // of what a negative pad left
                  const int64_t first = std::max<int64_t>(-pads[a], 0),
                                left = n - first - std::max<int64_t>(-pads[a + dims.size()], 0);
                  at = first + ((at - first) % left + left) % left;
                }
                if (mode == "reflect") at = at < 0 ? -at : at >= n ? 2 * (n - 1) - at : at;
                if (at < 0 || at >= n) return 1.5;
              }
              return t[0].at(i);
            });
          },
          std::move(batched)};
}

inline std::vector<OpCase> PadCases() {
  return {
      PadCase({3, 4}, {0, 1, 0, 2}, "constant", {0}),
      PadCase({3, 4}, {1, -1, 2, -2}, "constant"),
      PadCase({2, 4, 5}, {0, 2, 3, 0, 1, 0}, "reflect", {0}),
      PadCase({3, 4}, {2, 3, 1, 3}, "reflect"),
      PadCase({2, 4, 5}, {0, 2, 3, 0, 1, 0}, "edge", {0}),
      PadCase({3, 1}, {2, 3, 1, 4}, "edge"),
      PadCase({2, 4, 5}, {0, 2, 3, 0, 1, 0}, "wrap", {0}),
      PadCase({3, 4}, {-1, 9, 2, -2}, "wrap"),  // around more than twice, and cropped
      PadCase({3, 4}, {-1, -2, 0, -1}, "wrap"),
  };
}

}  // namespace act::gradient_case
