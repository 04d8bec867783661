// A strided view as contiguous rows, each of which one memcpy can move, or with as few axes as describe it.
#pragma once

#include <algorithm>

#include "kernels/site/strided.h"

namespace act {

struct Rows {
  Strided outer;       // where each row starts
  int64_t length = 1;  // elements of a row
};

// Removes the trailing contiguous axes from the view. Axes of extent 1 go too.
inline Rows RowsOf(const Strided& view) {
  Rows rows{view, 1};
  while (!rows.outer.dims.empty() &&
         (rows.outer.dims.back() == 1 || rows.outer.strides.back() == rows.length)) {
    rows.length *= rows.outer.dims.back();
    rows.outer.dims.pop_back();
    rows.outer.strides.pop_back();
  }
  return rows;
}

// The same elements in the same order, with neighbouring axes merged if one stride describes both.
inline Strided Merged(const Strided& view) {
  Strided merged{{}, {}, view.offset};
  for (size_t d = 0; d < view.dims.size(); ++d) {
    if (view.dims[d] == 1) continue;
    if (!merged.dims.empty() && merged.strides.back() == view.strides[d] * view.dims[d]) {
      merged.dims.back() *= view.dims[d];
      merged.strides.back() = view.strides[d];
    } else {
      merged.dims.push_back(view.dims[d]);
      merged.strides.push_back(view.strides[d]);
    }
  }
  return merged;
}

}  // namespace act
