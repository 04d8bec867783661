#include <cmath>
#include <limits>

#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/loss_shape.h"
#include "kernels/site/strided.h"

namespace act {
namespace {

// loss = sum over rows of weight[label] * (log(sum exp logits) - logits[label]) / denominator
std::unique_ptr<Kernel> SoftmaxCrossEntropy(const KernelSite& site, std::string* why) {
  const auto shape =
      LossShapeOf(site.node->attrs, site.inputs[0], site.inputs[1], OptionalInput(site.inputs, 2), why);
  if (!shape) return nullptr;
  if (site.outputs[0].elements != 1 || site.outputs[1].elements != site.inputs[0].elements)
    return Refuse(why, "outputs are not loss [] and prob of the dims of logits");
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const float* logits = args.inputs[0].as<float>();
    const int64_t* label = args.inputs[1].as<int64_t>();
    const float* weight = WeightsOf(args, 2);
    float* prob = args.outputs[1].as<float>();
    if (std::string wrong = s.CheckLabels(label); !wrong.empty()) return wrong;
    double loss = 0;
    for (int64_t r = 0; r < s.rows; ++r) {
      const float* row = logits + r * s.classes;
      double max = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t c = 0; c < s.classes; ++c) max = std::fmax(max, row[c]);
      for (int64_t c = 0; c < s.classes; ++c) sum += std::exp(row[c] - max);
      for (int64_t c = 0; c < s.classes; ++c)
        prob[r * s.classes + c] = static_cast<float>(std::exp(row[c] - max) / sum);
      if (s.Ignored(label[r])) continue;
      loss += (weight ? weight[label[r]] : 1.0) * (std::log(sum) + max - row[label[r]]);
    }
    *args.outputs[0].as<float>() = static_cast<float>(loss / s.Denominator(label, weight));
    return "";
  });
}

// dlogits = dloss * weight[label] / denominator * (prob - onehot(label)); 0 if the label is ignored
std::unique_ptr<Kernel> SoftmaxCrossEntropyGrad(const KernelSite& site, std::string* why) {
  const auto shape =
      LossShapeOf(site.node->attrs, site.inputs[1], site.inputs[2], OptionalInput(site.inputs, 3), why);
  if (!shape) return nullptr;
  if (site.inputs[0].elements != 1 || site.outputs[0].elements != site.inputs[1].elements)
    return Refuse(why, "dloss is not [] or dlogits does not have the dims of prob");
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const float* prob = args.inputs[1].as<float>();
    const int64_t* label = args.inputs[2].as<int64_t>();
    const float* weight = WeightsOf(args, 3);
    float* dlogits = args.outputs[0].as<float>();
    if (std::string wrong = s.CheckLabels(label); !wrong.empty()) return wrong;
    const double scale = *args.inputs[0].as<float>() / s.Denominator(label, weight);
    for (int64_t r = 0; r < s.rows; ++r) {
      const bool ignored = s.Ignored(label[r]);
      const double row_scale = ignored ? 0 : scale * (weight ? weight[label[r]] : 1.0);
      for (int64_t c = 0; c < s.classes; ++c) {
        const double difference = double{prob[r * s.classes + c]} - (c == label[r] ? 1 : 0);
        dlogits[r * s.classes + c] = ignored ? 0.0f : static_cast<float>(row_scale * difference);
      }
    }
    return "";
  });
}

std::unique_ptr<Kernel> CountCorrect(const KernelSite& site, std::string* why) {
  const auto shape = LossShapeOf(site.node->attrs, site.inputs[0], site.inputs[1], nullptr, why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const float* logits = args.inputs[0].as<float>();
    const int64_t* label = args.inputs[1].as<int64_t>();
    int64_t correct = 0;
    for (int64_t r = 0; r < s.rows; ++r) {
      const float* row = logits + r * s.classes;
      int64_t best = 0;
      for (int64_t c = 1; c < s.classes; ++c)
        if (row[c] > row[best]) best = c;
      correct += !s.Ignored(label[r]) && label[r] == best;
    }
    *args.outputs[0].as<float>() = static_cast<float>(correct);
    return "";
  });
}

}  // namespace

std::string LossShape::CheckLabels(const int64_t* label) const {
  for (int64_t r = 0; r < rows; ++r)
    if ((label[r] < 0 || label[r] >= classes) && !Ignored(label[r]))
      return "label " + std::to_string(label[r]) + " at sample " + std::to_string(r / rows_per_sample) +
             " is outside 0.." + std::to_string(classes - 1);
  return "";
}

double LossShape::Denominator(const int64_t* label, const float* class_weight) const {
  if (!mean) return 1;
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r)
    if (!Ignored(label[r])) sum += class_weight ? class_weight[label[r]] : 1;
  return sum;
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
  if (class_weight && class_weight->elements != s.classes) return no("class weights are not [C]");
  if (s.classes < 1) return no("no classes");
  const std::string reduction = attrs.String("reduction", "mean");
  if (reduction != "mean" && reduction != "sum") return no("no reduction '" + reduction + "'");
  s.mean = reduction == "mean";
  if (attrs.Has("ignore_index")) s.ignore_index = attrs.Int("ignore_index");
  return s;
}

void RegisterReferenceLoss(KernelRegistry& registry) {
  registry.Add("SoftmaxCrossEntropy", {"reference.softmax_cross_entropy", SoftmaxCrossEntropy});
  registry.Add("SoftmaxCrossEntropyGrad", {"reference.softmax_cross_entropy_grad", SoftmaxCrossEntropyGrad});
  registry.Add("CountCorrect", {"reference.count_correct", CountCorrect});
}

}  // namespace act
