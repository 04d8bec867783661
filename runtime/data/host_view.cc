#include "runtime/data/host_view.h"

namespace act {

std::string DimsToString(const std::vector<int64_t>& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i ? "," : "") + std::to_string(dims[i]);
  return text + "]";
}

std::string ToString(const HostView& view) {
  return std::string(ToString(view.dtype)) + DimsToString(view.dims);
}

}  // namespace act
