// Rows of ONNX operators that put pixels together from blocks.
#pragma once

#include "tests/compiler/op_cases_imported.h"

namespace act::gradient_case {

struct Col2ImRow {
  int64_t samples = 1, channels = 1;
  Ints image, block;
  Ints dilations = {}, pads = {}, strides = {};

  int64_t Attribute(const Ints& values, size_t axis) const { return values.empty() ? 1 : values[axis]; }
  Ints Steps() const {
    Ints steps;
    for (size_t d = 0; d < image.size(); ++d) {
      const int64_t padding = pads.empty() ? 0 : pads[d] + pads[d + image.size()];
      const int64_t reach = Attribute(dilations, d) * (block[d] - 1) + 1;
      steps.push_back((image[d] + padding - reach) / Attribute(strides, d) + 1);
    }
    return steps;
  }
};

// Each element of each block is added where it belongs, if that is in the image.
inline Tensor ImageOf(const Tensor& x, const Col2ImRow& row) {
  const Ints steps = row.Steps();
  Ints dims{row.samples, row.channels};
  dims.insert(dims.end(), row.image.begin(), row.image.end());
  Tensor y(dims);
  truth::ForEach({row.samples, row.channels}, [&](const Ints& nc) {
    int64_t element = 0;
    truth::ForEach(row.block, [&](const Ints& k) {
      int64_t step = 0;
      truth::ForEach(steps, [&](const Ints& l) {
        Ints at = nc;
        bool inside = true;
        for (size_t d = 0; d < k.size(); ++d) {
          at.push_back(l[d] * row.Attribute(row.strides, d) + k[d] * row.Attribute(row.dilations, d) -
                       (row.pads.empty() ? 0 : row.pads[d]));
          inside = inside && at.back() >= 0 && at.back() < row.image[d];
        }
        if (inside) y.at(at) += x.at({nc[0], nc[1] * truth::Count(row.block) + element, step});
        ++step;
      });
      ++element;
    });
  });
  return y;
}

inline std::vector<OpCase> ImageCases() {
  std::vector<OpCase> cases;
  for (const Col2ImRow& row : std::vector<Col2ImRow>{
           {2, 3, {5, 5}, {1, 5}},
           {1, 2, {5, 6}, {2, 3}},
           {2, 1, {4, 4}, {2, 2}, {}, {}, {2, 2}},  // blocks that do not overlap
           {2, 2, {5, 7}, {3, 2}, {1, 2}, {1, 0, 2, 3}, {2, 3}},
           {2, 2, {6, 6}, {3, 3}, {2, 2}, {2, 2, 2, 2}},
           {2, 3, {7}, {3}, {}, {1, 1}, {2}},
           {1, 1, {3, 4, 3}, {2, 2, 2}, {}, {0, 1, 0, 1, 0, 1}},
           {1, 2, {2, 2}, {1, 1}, {}, {1, 1, 1, 1}, {3, 3}},  // pixels on which no block lies
       }) {
    std::vector<onnx::AttributeProto> attrs;
    for (const auto& [name, values] : {std::pair("dilations", row.dilations), std::pair("pads", row.pads),
                                       std::pair("strides", row.strides)})
      if (!values.empty()) attrs.push_back(testing::Attr(name, values));
    cases.push_back({"Col2Im",
                     {{{row.samples, row.channels * truth::Count(row.block), truth::Count(row.Steps())}}},
                     Imported("Col2Im", attrs, {row.image, row.block}),
                     [row](const Tensors& t) {
                       Col2ImRow r = row;
                       r.samples = t[0].dim(0);
                       return ImageOf(t[0], r);
                     },
                     {0}});
  }
  return cases;
}

}  // namespace act::gradient_case
