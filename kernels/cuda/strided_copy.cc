#include "kernels/cuda/strided_copy.h"

#include <numeric>

#include "kernels/site/dereference.h"

namespace act::cuda {
namespace {

struct Walk {
  std::vector<int64_t> dims, from, to;  // strides, in bytes
};

// Axes of extent 1 go, and neighbours become one where a stride describes both in either tensor.
Walk Merged(const Strided& from, const Strided& to, int64_t size) {
  Walk walk;
  for (size_t d = 0; d < from.dims.size(); ++d) {
    const int64_t extent = from.dims[d], a = from.strides[d] * size, b = to.strides[d] * size;
    if (extent == 1) continue;
    if (!walk.dims.empty() && walk.from.back() == a * extent && walk.to.back() == b * extent) {
      walk.dims.back() *= extent;
      walk.from.back() = a;
      walk.to.back() = b;
    } else {
      walk.dims.push_back(extent);
      walk.from.push_back(a);
      walk.to.push_back(b);
    }
  }
  return walk;
}

}  // namespace

int64_t UnitBytes(int64_t a, int64_t b) { return std::gcd(int64_t{16}, std::gcd(a, b)); }

const char* UnitType(int64_t bytes) {
  return bytes == 16  ? "uint4"
         : bytes == 8 ? "uint2"
         : bytes == 4 ? "uint32_t"
         : bytes == 2 ? "uint16_t"
                      : "uint8_t";
}

int64_t CommonAlignment(const TensorView& a, const TensorView& b) {
  const auto sample = [](const TensorView& t) {
    return t.dims.empty() || t.elements == 0 ? 0 : t.bytes / t.dims[0];
  };
  return std::gcd(sample(a), sample(b));
}

std::optional<StridedCopy> StridedCopy::Of(const CudaContext& context, const Strided& from_view,
                                           const Strided& to_view, int64_t size, int64_t alignment,
                                           std::string* why) {
  Walk walk = Merged(from_view, to_view, size);
  int64_t items = from_view.Elements(), unit = size;
  if (items > 0 && !walk.dims.empty() && walk.from.back() == size && walk.to.back() == size) {
    unit = UnitBytes(walk.dims.back() * size, alignment);
    unit = UnitBytes(unit, std::gcd(from_view.offset * size, to_view.offset * size));
    for (size_t d = 0; d + 1 < walk.dims.size(); ++d)
      unit = UnitBytes(unit, std::gcd(walk.from[d], walk.to[d]));
    items /= unit / size;
    walk.dims.back() /= unit / size;
    walk.from.back() = walk.to.back() = unit;
  }
  if (walk.dims.size() > kMaxAxes || items >= kMaxCount) {
    *why = walk.dims.size() > kMaxAxes ? "more than 8 axes" : "2^31 elements or more";
    return std::nullopt;
  }
  StridedCopy copy({context, "copy_strided", "StridedCopyParameters", "strided_copy",
                    std::string("CopyStrided<") + UnitType(unit) + ">"});
  copy.from_offset_ = from_view.offset * size;
  copy.to_offset_ = to_view.offset * size;
  copy.parameters_.items = static_cast<int32_t>(items);
  Axes& axes = copy.parameters_.axes;
  axes.count = static_cast<int32_t>(walk.dims.size());
  for (size_t d = 0; d < walk.dims.size(); ++d) {
    axes.dims[d] = DivisorOf(walk.dims[d]);
    axes.from[d] = walk.from[d] / unit;
    axes.to[d] = walk.to[d] / unit;
  }
  return copy;
}

Status StridedCopy::Run(const TensorView& from, const TensorView& to) const {
  StridedCopyParameters p = parameters_;
  p.from = (from.data + from_offset_).as<void>();
  p.to = (to.data + to_offset_).as<void>();
  return kernel_.LaunchItems(p.items, p);
}

}  // namespace act::cuda
