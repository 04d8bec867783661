// What the classification losses share: rows of logits, and the meaning of a row's label.
#pragma once

#include <optional>
#include <string>

#include "kernels/site/optional_input.h"
#include "runtime/executor/kernel.h"

namespace act {

struct LossShape {
  int64_t rows = 0;     // labels
  int64_t classes = 0;  // C
  int64_t rows_per_sample = 1;
  std::optional<int64_t> ignore_index;
  bool mean = true;

  bool Ignored(int64_t label) const { return ignore_index && label == *ignore_index; }
  // "label 12 at sample 3 of the batch is outside 0..9", or empty if all labels are in range or ignored.
  std::string CheckLabels(const int64_t* label) const;
  // The sum of the class weights (1 without them) of the labels that are not ignored.
  double SumOfWeights(const int64_t* label, const float* class_weight) const;
  // What the loss is divided by: 1 for reduction sum, else `given`, the result of a LossDenominator, or if
  // that is null the sum of the weights of these labels.
  double Denominator(const int64_t* label, const float* class_weight, const float* given) const;
};

// class_weight may be null or have bytes 0.
std::optional<LossShape> LossShapeOf(const Attributes& attrs, const TensorView& logits,
                                     const TensorView& label, const TensorView* class_weight,
                                     std::string* why);

// Of the operators SoftmaxCrossEntropy, SoftmaxCrossEntropyGrad (whose result may be bfloat16), CountCorrect and
// LossDenominator.
std::optional<LossShape> CrossEntropyShapeOf(const KernelSite& site, std::string* why);
std::optional<LossShape> CrossEntropyGradShapeOf(const KernelSite& site, std::string* why);
std::optional<LossShape> CountCorrectShapeOf(const KernelSite& site, std::string* why);
std::optional<LossShape> LossDenominatorShapeOf(const KernelSite& site, std::string* why);

}  // namespace act
