#include <algorithm>
#include <cmath>

#include "kernels/cpu/softmax.h"
#include "kernels/cpu/special.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/loss_shape.h"

namespace act {
namespace {

// The losses of this many groups of rows are added in order, so that the bits do not depend on the
// number of threads.
constexpr int64_t kParts = 64;

std::unique_ptr<Kernel> SoftmaxCrossEntropy(const KernelSite& site, std::string* why) {
  const auto shape = CrossEntropyShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const float* logits = args.inputs[0].as<float>();
    const int64_t* label = args.inputs[1].as<int64_t>();
    const float* weight = WeightsOf(args, 2);
    float* prob = args.outputs[1].as<float>();
    if (std::string wrong = s.CheckLabels(label); !wrong.empty()) return wrong;
    double parts[kParts] = {};
#pragma omp parallel for schedule(static, 1) if (s.rows * s.classes > kParallelElements)
    for (int64_t p = 0; p < kParts; ++p)
      for (int64_t r = s.rows * p / kParts; r < s.rows * (p + 1) / kParts; ++r) {
        const float* row = logits + r * s.classes;
        const double log_sum = SoftmaxRow(row, s.classes, prob + r * s.classes);
        if (!s.Ignored(label[r])) parts[p] += (weight ? weight[label[r]] : 1.0) * (log_sum - row[label[r]]);
      }
    double loss = 0;
    for (double part : parts) loss += part;
    *args.outputs[0].as<float>() = static_cast<float>(loss / s.Denominator(label, weight));
    return "";
  });
}

std::unique_ptr<Kernel> SoftmaxCrossEntropyGrad(const KernelSite& site, std::string* why) {
  const auto shape = CrossEntropyGradShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const float* prob = args.inputs[1].as<float>();
    const int64_t* label = args.inputs[2].as<int64_t>();
    const float* weight = WeightsOf(args, 3);
    if (std::string wrong = s.CheckLabels(label); !wrong.empty()) return wrong;
    const double scale = *args.inputs[0].as<float>() / s.Denominator(label, weight);
#pragma omp parallel for schedule(static) if (s.rows * s.classes > kParallelElements)
    for (int64_t r = 0; r < s.rows; ++r) {
      float* row = args.outputs[0].as<float>() + r * s.classes;
      if (s.Ignored(label[r])) {
        std::fill_n(row, s.classes, 0.0f);
        continue;
      }
      const auto row_scale = static_cast<float>(scale * (weight ? weight[label[r]] : 1.0));
      for (int64_t c = 0; c < s.classes; ++c) row[c] = row_scale * prob[r * s.classes + c];
      // Recomputes the element that matters most: prob - 1 loses nothing in float, but row_scale *
      // prob - row_scale could.
      row[label[r]] = row_scale * (prob[r * s.classes + label[r]] - 1.0f);
    }
    return "";
  });
}

std::unique_ptr<Kernel> CountCorrect(const KernelSite& site, std::string* why) {
  const auto shape = LossShapeOf(site.node->attrs, site.inputs[0], site.inputs[1], nullptr, why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const int64_t* label = args.inputs[1].as<int64_t>();
    int64_t correct = 0;
#pragma omp parallel for schedule(static) reduction(+ : correct) if (s.rows * s.classes > kParallelElements)
    for (int64_t r = 0; r < s.rows; ++r) {
      const float* row = args.inputs[0].as<float>() + r * s.classes;
      correct += !s.Ignored(label[r]) && label[r] == std::max_element(row, row + s.classes) - row;
    }
    *args.outputs[0].as<float>() = static_cast<float>(correct);
    return "";
  });
}

}  // namespace

void RegisterCpuLoss(KernelRegistry& registry) {
  registry.Add("SoftmaxCrossEntropy", {"cpu.softmax_cross_entropy", SoftmaxCrossEntropy});
  registry.Add("SoftmaxCrossEntropyGrad", {"cpu.softmax_cross_entropy_grad", SoftmaxCrossEntropyGrad});
  registry.Add("CountCorrect", {"cpu.count_correct", CountCorrect});
}

}  // namespace act
