#include "kernels/loops/operands.h"

#include <algorithm>

namespace act {
namespace {

std::vector<int64_t> WithoutLeadingOnes(const std::vector<int64_t>& dims) {
  return {std::find_if(dims.begin(), dims.end(), [](int64_t d) { return d != 1; }), dims.end()};
}

// Whether dims are trailing axes of the space.
bool IsTrailing(const std::vector<int64_t>& dims, const std::vector<int64_t>& space) {
  return dims.size() <= space.size() && std::equal(dims.rbegin(), dims.rend(), space.rbegin());
}

// Whether it has one value a row: the space's dims, with ones in place of the rows' axes.
bool IsOneARow(const TensorView& view, const FusedShape& shape, int32_t row_axes) {
  std::vector<int64_t> dims = shape.dims;
  std::fill(dims.end() - row_axes, dims.end(), 1);
  return row_axes > 0 && view.dims == dims;
}

LoopOperand Classify(const ProgramInput& input, const TensorView& view, const FusedShape& shape,
                     int32_t row_axes, int64_t longest_column) {
  if (input.codec.kind != CodecKind::kNone) return {OperandKind::kCode};
  if (view.elements == shape.count && view.dtype == DType::kFloat32) return {OperandKind::kElements};
  if (view.elements <= longest_column && view.elements < shape.count &&
      IsTrailing(WithoutLeadingOnes(view.dims), shape.dims))
    return {OperandKind::kColumn, view.elements};
  if (IsOneARow(view, shape, row_axes)) return {OperandKind::kRow};
  return {OperandKind::kBroadcast};
}

}  // namespace

std::vector<LoopOperand> ClassifyOperands(const KernelSite& site, const FusedShape& shape,
                                          int64_t longest_column) {
  const Program& program = site.node->program;
  std::vector<LoopOperand> operands;
  for (size_t i = 0; i < program.inputs.size(); ++i)
    operands.push_back(Classify(program.inputs[i], site.inputs[i], shape, program.row_axes, longest_column));
  return operands;
}

// Merges neighbouring axes that one stride describes.
ReadPattern PatternOf(const TensorView& view, const FusedShape& shape) {
  const std::vector<int64_t> strides = BroadcastStrides(view.dims, shape.dims);
  ReadPattern p;
  for (size_t i = 0; i < shape.dims.size(); ++i) {
    if (shape.dims[i] == 1) continue;
    if (!p.extents.empty() && p.strides.back() == strides[i] * shape.dims[i]) {
      p.extents.back() *= shape.dims[i];
      p.strides.back() = strides[i];
    } else {
      p.extents.push_back(shape.dims[i]);
      p.strides.push_back(strides[i]);
    }
  }
  return p;
}

}  // namespace act
