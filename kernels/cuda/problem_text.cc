#include "kernels/cuda/problem_text.h"

namespace act::cuda {
namespace {

std::string Dims(const std::vector<int64_t>& dims) {
  std::string text;
  for (const int64_t dim : dims) text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text;
}

const char* NameOf(FloatMath math) {
  static constexpr const char* kNames[] = {"float32", "tf32", "bfloat16"};
  return kNames[static_cast<int>(math)];
}

}  // namespace

std::string TextOf(const ConvolutionProblem& p) {
  static constexpr const char* kDirections[] = {"convolution", "input gradient", "weight gradient"};
  return std::string(kDirections[static_cast<int>(p.direction)]) + " x " + Dims(p.x) + " w " + Dims(p.w) +
         " y " + Dims(p.y) + " strides " + Dims(p.strides) + " dilations " + Dims(p.dilations) + " pads " +
         Dims(p.pads_begin) + " " + Dims(p.pads_end) + " groups " + std::to_string(p.groups) + " " +
         (p.accumulates ? "added to, " : "") + NameOf(p.math) + " aligned " + std::to_string(p.alignment);
}

std::string TextOf(const ConvolutionProblem& p, int64_t limit) {
  return TextOf(p) + " within " + std::to_string(limit) + " bytes";
}

std::string TextOf(const ProductProblem& p) {
  const auto matrix = [](bool transposed, int64_t rows, int64_t columns, int64_t lead, int64_t stride) {
    return Dims({rows, columns}) + (transposed ? "^T" : "") + " (lead " + std::to_string(lead) + ", stride " +
           std::to_string(stride) + ")";
  };
  return "product " + std::to_string(p.batch) + " of a " + matrix(p.trans_a, p.m, p.k, p.lead_a, p.stride_a) +
         " b " + matrix(p.trans_b, p.k, p.n, p.lead_b, p.stride_b) + " c " +
         matrix(false, p.m, p.n, p.lead_c, p.stride_c) + (p.has_bias ? " bias " : " ") +
         (p.accumulates ? "added to, " : "") + NameOf(p.math) + (p.bfloat16_result ? " to bfloat16" : "") +
         " aligned " + std::to_string(p.alignment);
}

}  // namespace act::cuda
