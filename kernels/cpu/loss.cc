#include <algorithm>
#include <cmath>

#include "kernels/cpu/float_block.h"
#include "kernels/cpu/softmax.h"
#include "kernels/cpu/special.h"
#include "kernels/site/dereference.h"
#include "kernels/site/float_types.h"
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
    const float* weight = OptionalFloats(args, 2);
    float* prob = args.outputs[1].as<float>();
    if (std::string wrong = s.CheckLabels(label); !wrong.empty()) return wrong;
    double parts[kParts] = {};
#pragma omp parallel for schedule(static, 1) if (s.rows * s.classes > kParallelElements)
    for (int64_t p = 0; p < kParts; ++p)
      for (int64_t r = s.rows * p / kParts; r < s.rows * (p + 1) / kParts; ++r) {
        // prob may lie where the logits do.
        const float* row = logits + r * s.classes;
        const bool ignored = s.Ignored(label[r]);
        const double at_label = ignored ? 0 : row[label[r]];
        const double log_sum = SoftmaxRow(row, s.classes, prob + r * s.classes);
        if (!ignored) parts[p] += (weight ? weight[label[r]] : 1.0) * (log_sum - at_label);
      }
    double loss = 0;
    for (double part : parts) loss += part;
    *args.outputs[0].as<float>() =
        static_cast<float>(loss / s.Denominator(label, weight, OptionalFloats(args, 3)));
    return "";
  });
}

// to[c] = scale * prob[c], and at the label scale * (prob - 1): prob - 1 loses nothing in float, but scale
// * prob - scale could. `to` may be prob.
template <class T>
void GradientRow(const float* prob, float scale, int64_t label, int64_t classes, T* to) {
  const float at_label = scale * (prob[label] - 1.0f);
  const int64_t block = FloatBlock<T>::Length(classes);
  for (int64_t first = 0; first < classes; first += block) {
    const int64_t count = std::min(block, classes - first), at = label - first;
    FloatBlock<T> row(to + first);
    for (int64_t c = 0; c < count; ++c) row.data()[c] = scale * prob[first + c];
    if (at >= 0 && at < count) row.data()[at] = at_label;
    row.Store(count);
  }
}

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
#pragma omp parallel for schedule(static) if (s.rows * s.classes > kParallelElements)
      for (int64_t r = 0; r < s.rows; ++r) {
        T* row = args.outputs[0].as<T>() + r * s.classes;
        if (s.Ignored(label[r])) {
          std::fill_n(row, s.classes, T{});
          continue;
        }
        const auto row_scale = static_cast<float>(scale * (weight ? weight[label[r]] : 1.0));
        GradientRow(prob + r * s.classes, row_scale, label[r], s.classes, row);
      }
    });
    return "";
  });
}

std::unique_ptr<Kernel> CountCorrect(const KernelSite& site, std::string* why) {
  const auto shape = CountCorrectShapeOf(site, why);
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
