#include "compiler/import/ops/window.h"

namespace act::onnx_import {

using Ints = std::vector<int64_t>;

Attributes Window::ToAttributes() const {
  Attributes attrs;
  attrs.Set("strides", strides);
  attrs.Set("dilations", dilations);
  attrs.Set("pads", pads);
  return attrs;
}

llvm::Expected<Window> ReadWindow(const NodeContext& c, Ints kernel, const Dims& dims) {
  const size_t axes = kernel.size();
  if (axes < 1 || dims.size() != axes + 2)
    return c.Fail("a kernel with " + std::to_string(axes) + " axes does not fit an input " + ToString(dims));
  Window w{std::move(kernel), c.attrs.Ints("strides", Ints(axes, 1)),
           c.attrs.Ints("dilations", Ints(axes, 1)), c.attrs.Ints("pads", Ints(2 * axes, 0))};
  if (w.strides.size() != axes || w.dilations.size() != axes || w.pads.size() != 2 * axes)
    return c.Fail("strides, dilations and pads must have an entry for each spatial axis");
  for (const Ints* list : {&w.kernel, &w.strides, &w.dilations})
    for (int64_t value : *list)
      if (value < 1 || value > INT32_MAX) return c.Fail("kernel, strides and dilations must be positive");
  for (int64_t pad : w.pads)
    if (pad < 0 || pad > INT32_MAX) return c.Fail("pads must not be negative");

  const std::string mode = c.attrs.String("auto_pad", "NOTSET");
  if (mode == "NOTSET" || mode.empty()) return w;
  w.pads.assign(2 * axes, 0);
  if (mode == "VALID") return w;
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER") return c.Fail("auto_pad " + mode + " is not supported");
  for (size_t i = 0; i < axes; ++i) {
    const Dim& extent = dims[i + 2];
    if (!extent.IsFixed())
      return c.Fail("auto_pad needs spatial extents that do not vary with the batch size");
    const int64_t outputs = (extent.fixed + w.strides[i] - 1) / w.strides[i];
    const int64_t reach =
        SaturatingAdd(SaturatingMul(outputs - 1, w.strides[i]), (w.kernel[i] - 1) * w.dilations[i] + 1);
    const int64_t total = std::max<int64_t>(0, reach - extent.fixed);
    w.pads[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.pads[i + axes] = total - w.pads[i];
  }
  return w;
}

llvm::Expected<Ints> KernelOfWeight(const NodeContext& c, const Dims& weight) {
  if (weight.size() < 3) return c.Fail("the weight is " + ToString(weight) + "; it needs a spatial axis");
  Ints kernel;
  for (size_t i = 2; i < weight.size(); ++i) kernel.push_back(weight[i].fixed);
  if (c.attrs.Has("kernel_shape") && c.attrs.Ints("kernel_shape") != kernel)
    return c.Fail("kernel_shape does not fit the weight " + ToString(weight));
  return kernel;
}

}  // namespace act::onnx_import
