#include "kernels/site/loss_shape.h"

#include <algorithm>

#include "kernels/site/float_types.h"
#include "kernels/site/strided.h"

namespace act {

std::string LossShape::CheckLabels(const int64_t* label) const {
  for (int64_t r = 0; r < rows; ++r)
    if ((label[r] < 0 || label[r] >= classes) && !Ignored(label[r]))
      return "label " + std::to_string(label[r]) + " at sample " + std::to_string(r / rows_per_sample) +
             " of the batch is outside 0.." + std::to_string(classes - 1) +
             (ignore_index ? " and not " + std::to_string(*ignore_index) + ", which is left out" : "");
  return "";
}

double LossShape::SumOfWeights(const int64_t* label, const float* class_weight) const {
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r)
    if (!Ignored(label[r])) sum += class_weight ? class_weight[label[r]] : 1;
  return sum;
}

double LossShape::Denominator(const int64_t* label, const float* class_weight, const float* given) const {
  if (!mean) return 1;
  return given ? *given : SumOfWeights(label, class_weight);
}

std::optional<LossShape> LossShapeOf(const Attributes& attrs, const TensorView& logits,
                                     const TensorView& label, const TensorView* class_weight,
                                     std::string* why) {
  const auto no = [why](std::string reason) {
    if (why) *why = std::move(reason);
    return std::nullopt;
  };
  if (logits.dtype != DType::kFloat32 || label.dtype != DType::kInt64)
    return no("f32 logits and i64 labels only");
  if (logits.dims.empty() || std::vector(logits.dims.begin(), logits.dims.end() - 1) != label.dims)
    return no("labels " + DimsText(label.dims) + " do not fit logits " + DimsText(logits.dims));
  LossShape s;
  s.rows = label.elements;
  s.classes = logits.dims.back();
  if (!label.dims.empty() && label.dims[0] > 0)
    s.rows_per_sample = std::max<int64_t>(1, s.rows / label.dims[0]);
  if (class_weight && (class_weight->elements != s.classes || class_weight->dtype != DType::kFloat32))
    return no("class weights are not f32 [C]");
  if (s.classes < 1) return no("no classes");
  const std::string reduction = attrs.String("reduction", "mean");
  if (reduction != "mean" && reduction != "sum") return no("no reduction '" + reduction + "'");
  s.mean = reduction == "mean";
  if (attrs.Has("ignore_index")) s.ignore_index = attrs.Int("ignore_index");
  return s;
}

namespace {

bool IsNumberIfGiven(const TensorView* denominator, std::string* why) {
  if (!denominator || (denominator->dtype == DType::kFloat32 && denominator->elements == 1)) return true;
  if (why) *why = "the denominator is not f32 []";
  return false;
}

}  // namespace

std::optional<LossShape> CrossEntropyShapeOf(const KernelSite& site, std::string* why) {
  const TensorView &logits = site.inputs[0], &loss = site.outputs[0], &prob = site.outputs[1];
  const auto shape =
      LossShapeOf(site.node->attrs, logits, site.inputs[1], OptionalInput(site.inputs, 2), why);
  if (shape && !IsNumberIfGiven(OptionalInput(site.inputs, 3), why)) return std::nullopt;
  const bool f32 = loss.dtype == DType::kFloat32 && prob.dtype == DType::kFloat32;
  if (!shape || (f32 && loss.elements == 1 && prob.elements == logits.elements)) return shape;
  if (why) *why = "outputs are not f32: loss [], and prob of the dims of logits";
  return std::nullopt;
}

std::optional<LossShape> CrossEntropyGradShapeOf(const KernelSite& site, std::string* why) {
  const TensorView &dloss = site.inputs[0], &prob = site.inputs[1], &dlogits = site.outputs[0];
  const auto shape = LossShapeOf(site.node->attrs, prob, site.inputs[2], OptionalInput(site.inputs, 3), why);
  if (shape && !IsNumberIfGiven(OptionalInput(site.inputs, 4), why)) return std::nullopt;
  const bool floats = dloss.dtype == DType::kFloat32 && IsFloat32OrBFloat16(dlogits.dtype);
  if (!shape || (floats && dloss.elements == 1 && dlogits.elements == prob.elements)) return shape;
  if (why) *why = "dloss is not f32 [], or dlogits not f32 or bf16 of the dims of prob";
  return std::nullopt;
}

std::optional<LossShape> CountCorrectShapeOf(const KernelSite& site, std::string* why) {
  const TensorView& count = site.outputs[0];
  const auto shape = LossShapeOf(site.node->attrs, site.inputs[0], site.inputs[1], nullptr, why);
  if (!shape || (count.dtype == DType::kFloat32 && count.elements == 1)) return shape;
  if (why) *why = "count is not f32 []";
  return std::nullopt;
}

std::optional<LossShape> LossDenominatorShapeOf(const KernelSite& site, std::string* why) {
  const TensorView &label = site.inputs[0], &sum = site.outputs[0];
  const TensorView* weight = OptionalInput(site.inputs, 1);
  LossShape s;
  s.rows = label.elements;
  s.classes = site.node->attrs.Int("classes");
  if (!label.dims.empty() && label.dims[0] > 0)
    s.rows_per_sample = std::max<int64_t>(1, s.rows / label.dims[0]);
  if (site.node->attrs.Has("ignore_index")) s.ignore_index = site.node->attrs.Int("ignore_index");
  const bool fits = label.dtype == DType::kInt64 && s.classes >= 1 && sum.dtype == DType::kFloat32 &&
                    sum.elements == 1 &&
                    (!weight || (weight->dtype == DType::kFloat32 && weight->elements == s.classes));
  if (fits) return s;
  if (why) *why = "i64 labels, f32 [classes] weights, and f32 [] as the result only";
  return std::nullopt;
}

}  // namespace act
