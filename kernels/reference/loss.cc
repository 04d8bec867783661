#include <cmath>
#include <limits>

#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/float_types.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/loss_shape.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

// loss = sum over rows of weight[label] * (log(sum exp logits) - logits[label]) / denominator
std::unique_ptr<Kernel> SoftmaxCrossEntropy(const KernelSite& site, std::string* why) {
  const auto shape = CrossEntropyShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const float* logits = args.inputs[0].as<float>();
    const int64_t* label = args.inputs[1].as<int64_t>();
    const float* weight = OptionalFloats(args, 2);
    float* prob = args.outputs[1].as<float>();
    if (std::string wrong = s.CheckLabels(label); !wrong.empty()) return wrong;
    double loss = 0;
    for (int64_t r = 0; r < s.rows; ++r) {
      // prob may lie where the logits do.
      const float* row = logits + r * s.classes;
      const bool ignored = s.Ignored(label[r]);
      const double at_label = ignored ? 0 : row[label[r]];
      double max = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t c = 0; c < s.classes; ++c) max = std::fmax(max, row[c]);
      for (int64_t c = 0; c < s.classes; ++c) sum += std::exp(row[c] - max);
      for (int64_t c = 0; c < s.classes; ++c)
        prob[r * s.classes + c] = static_cast<float>(std::exp(row[c] - max) / sum);
      if (!ignored) loss += (weight ? weight[label[r]] : 1.0) * (std::log(sum) + max - at_label);
    }
    *args.outputs[0].as<float>() =
        static_cast<float>(loss / s.Denominator(label, weight, OptionalFloats(args, 3)));
    return "";
  });
}

// dlogits = dloss * weight[label] / denominator * (prob - onehot(label)); 0 if the label is ignored
std::unique_ptr<Kernel> SoftmaxCrossEntropyGrad(const KernelSite& site, std::string* why) {
  const auto shape = CrossEntropyGradShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const float* prob = args.inputs[1].as<float>();
    const int64_t* label = args.inputs[2].as<int64_t>();
    const float* weight = OptionalFloats(args, 3);
    if (std::string wrong = s.CheckLabels(label); !wrong.empty()) return wrong;
    const double scale = *args.inputs[0].as<float>() / s.Denominator(label, weight, OptionalFloats(args, 4));
    WithFloatType(args.outputs[0].dtype, [&](auto type) {
      using T = decltype(type);
      T* dlogits = args.outputs[0].as<T>();
      for (int64_t r = 0; r < s.rows; ++r) {
        const bool ignored = s.Ignored(label[r]);
        const double row_scale = ignored ? 0 : scale * (weight ? weight[label[r]] : 1.0);
        for (int64_t c = 0; c < s.classes; ++c) {
          const double difference = double{prob[r * s.classes + c]} - (c == label[r] ? 1 : 0);
          dlogits[r * s.classes + c] =
              FromFloat<T>(ignored ? 0.0f : static_cast<float>(row_scale * difference));
        }
      }
    });
    return "";
  });
}

// The sum of weight[label], 1 without weights, of the labels that are not ignored
std::unique_ptr<Kernel> LossDenominator(const KernelSite& site, std::string* why) {
  const auto shape = LossDenominatorShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const int64_t* label = args.inputs[0].as<int64_t>();
    if (std::string wrong = s.CheckLabels(label); !wrong.empty()) return wrong;
    *args.outputs[0].as<float>() = static_cast<float>(s.SumOfWeights(label, OptionalFloats(args, 1)));
    return "";
  });
}

std::unique_ptr<Kernel> CountCorrect(const KernelSite& site, std::string* why) {
  const auto shape = CountCorrectShapeOf(site, why);
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

void RegisterReferenceLoss(KernelRegistry& registry) {
  registry.Add("SoftmaxCrossEntropy", {"reference.softmax_cross_entropy", SoftmaxCrossEntropy});
  registry.Add("SoftmaxCrossEntropyGrad", {"reference.softmax_cross_entropy_grad", SoftmaxCrossEntropyGrad});
  registry.Add(kLossDenominator, {"reference.loss_denominator", LossDenominator});
  registry.Add("CountCorrect", {"reference.count_correct", CountCorrect});
}

}  // namespace act
