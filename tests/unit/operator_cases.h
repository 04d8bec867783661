// A small node of every operator of plans that has a kernel, other than fused loops.
#pragma once

#include <cctype>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/recurrent_signature.h"
#include "tests/unit/batch_norm_cases.h"
#include "tests/unit/conv_case.h"
#include "tests/unit/gather_cases.h"
#include "tests/unit/loss_cases.h"
#include "tests/unit/matmul_case.h"
#include "tests/unit/movement_case.h"
#include "tests/unit/pool_case.h"
#include "tests/unit/quantized_update_case.h"
#include "tests/unit/reduce_cases.h"
#include "tests/unit/resize_case.h"
#include "tests/unit/update_rows_case.h"

namespace act {

// 2 samples, 3 steps, 4 units, with all operands.
inline OpCase SmallRecurrence(const RecurrentSignature& signature) {
  const int64_t width = signature.gates * 4;
  const auto dims = [&](char letter) -> std::vector<int64_t> {
    switch (std::toupper(letter)) {
      case 'G':
        return {2, 3, width};
      case 'S':
        return {2, 3, 4};
      case 'N':
        return {2, 4};
      case 'H':
        return {4};
      default:
        return {width, 4};
    }
  };
  OpCase c;
  c.op = signature.op;
  for (const char letter : signature.inputs) c.inputs.push_back(Random(dims(letter), 1));
  for (const char letter : signature.outputs) c.outputs.push_back(Empty(dims(letter)));
  return c;
}

// Operators whose operands follow from nothing but their dims: inputs -> outputs.
inline OpCase SmallCaseOf(const std::string& op, const std::vector<std::vector<int64_t>>& in,
                          const std::vector<std::vector<int64_t>>& out) {
  OpCase c{op, {}, {}, {}, {}, {}};
  for (const auto& dims : in) c.inputs.push_back(Random(dims, 1));
  for (const auto& dims : out) c.outputs.push_back(Empty(dims));
  return c;
}

// Operators that have no float32, or one alone.
inline OpCase SmallIntegerCase(const std::string& op) {
  using Ints = std::vector<int64_t>;
  OpCase c = SmallCaseOf(op, {}, {});
  if (op == "FlatIndex") {
    c.inputs = {Labels({2, 1}, {1, 3})};
    c.outputs = {Empty({2}, DType::kInt64)};
    c.attrs.Set("extents", Ints{4, 0, 0});
  } else if (op == "Range") {
    c.outputs = {Empty({3}, DType::kInt64)};
    c.attrs.Set("start", Ints{1, 0, 0});
    c.attrs.Set("step", int64_t{2});
  } else if (op == "Integer") {
    c.inputs = {Labels({2}, {1, 3}), Labels({2}, {5, 6})};
    c.outputs = {Empty({2}, DType::kInt64)};
    c.attrs.Set("op", std::string("add"));
  } else if (op == "IntegerReduce") {
    c.inputs = {Labels({2, 2}, {1, 3, 4, 5})};
    c.outputs = {Empty({2}, DType::kInt64)};
    c.attrs.Set("op", std::string("add"));
    c.attrs.Set("axes", Ints{1});
  } else if (op == "Random") {
    c.outputs = {Empty({5})};
    c.attrs.Set("distribution", std::string("normal"));
  } else if (op == "StepScalar") {
    c.outputs = {Empty({})};
    c.attrs.Set("name", std::string("lr"));
  } else if (op == "NonZero") {
    c.inputs = {Random({2, 3}, 1)};
    c.outputs = {Empty({2, 6}, DType::kInt64), Empty({6}, DType::kBool)};
  } else if (op == "TopK") {
    c.inputs = {Random({2, 9}, 1)};
    c.outputs = {Empty({2, 3}, DType::kInt64)};
  } else {
    throw std::runtime_error("no case of " + op);
  }
  return c;
}

inline OpCase SmallCase(const std::string& op) {
  using Ints = std::vector<int64_t>;
  const auto with = [](OpCase c, const char* name, auto value) {
    c.attrs.Set(name, value);
    return c;
  };
  if (const RecurrentSignature* signature = FindRecurrentSignature(op)) return SmallRecurrence(*signature);
  const ConvCase& conv = ConvCases().front().second;
  const PoolCase& pool = PoolCases().front();
  const OpCase loss = LossCase({5, 10}, SomeLabels(5, 10), true, "mean");
  const Ints heads{1, 2, 3, 4}, image{1, 4, 4, 2}, points{1, 3, 2, 2};
  if (op == "Conv") return conv.Forward(true);
  if (op == "ConvGradInput") return conv.GradInput();
  if (op == "ConvGradWeight") return conv.GradWeight();
  if (op == "MatMul") return BiasCases().front();
  if (op == "Attention") return SmallCaseOf(op, {heads, heads, heads, {3, 3}}, {heads});
  if (op == "AttentionGrad")
    return SmallCaseOf(op, {heads, heads, heads, heads, {3, 3}}, {heads, heads, heads, {3, 3}});
  if (op == "Softmax" || op == "LogSoftmax") return SmallCaseOf(op, {{4, 9}}, {{4, 9}});
  if (op == "SoftmaxGrad") return SmallCaseOf(op, {{4, 9}, {4, 9}}, {{4, 9}});
  if (op == "MaxPool") return pool.Max(DType::kUint8);
  if (op == "MaxPoolGrad") return pool.MaxGrad(DType::kUint8);
  if (op == "AveragePool") return pool.Average(false);
  if (op == "AveragePoolGrad") return pool.AverageGrad(false);
  if (op == "Resize") return ResizeCases().front().second;
  if (op == "ResizeGrad") return Grad(ResizeCases().front().second);
  if (op.starts_with("GridSample")) {
    OpCase c = op == "GridSample"            ? SmallCaseOf(op, {image, points}, {points})
               : op == "GridSampleGradInput" ? SmallCaseOf(op, {points, points}, {image})
                                             : SmallCaseOf(op, {points, image, points}, {points});
    return with(with(c, "mode", std::string("linear")), "outside", std::string("border"));
  }
  if (op.starts_with("RoiAlign")) {
    const Ints bins{2, 2, 2, 2};
    OpCase c = SmallCaseOf(op, {op == "RoiAlign" ? image : bins}, {op == "RoiAlign" ? bins : image});
    c.inputs.push_back(Floats({2, 4}, {0, 0, 3, 3, 1, 1, 2, 3}));
    c.inputs.push_back(Labels({2}, {0, 0}));
    return with(c, "bins", Ints{2, 2});
  }
  if (op == "Det") return SmallCaseOf(op, {{4, 3, 3}}, {{4}});
  if (op == "DetGrad") return SmallCaseOf(op, {{4}, {4, 3, 3}}, {{4, 3, 3}});
  if (op.starts_with("Reduce")) return ReduceCase(op, {4, 9}, {1}, false);
  if (op == "BatchNormStats") return BatchNormCase(Random({4, 3, 3, 5}, 1));
  if (op == "BatchNormMoments") return BatchNormMomentsCase(Random({4, 3, 3, 5}, 1));
  if (op == "BatchNormFromMoments") return BatchNormFromMomentsCase(5);
  if (op.starts_with("Quantized") && op.ends_with("Rows"))
    return QuantizedRowsCase({{30, 7}, 90}, 7, {op.substr(0, op.size() - 4)});
  if (op.starts_with("Quantized")) return QuantizedUpdate{op}.Case(300, 7);
  if (op == "Transpose") return Transpose({4, 9}, {1, 0}, DType::kFloat32);
  if (op == "Concat") return ConcatCases().front();
  if (op == "Slice") return SliceCases()[1];
  if (op == "SliceGrad") return SliceGrad(SliceCases()[1]);
  if (op == "Pad") return PadCases().front();
  if (op == "SwapOut" || op == "SwapIn") return SmallCaseOf(op, {{4, 9}}, {{4, 9}});
  if (op == "CumSum") return with(SmallCaseOf(op, {{4, 9}}, {{4, 9}}), "axis", int64_t{1});
  if (op == "Gather") return GatherCase({{300, 70}, {900, 1}, {900, 70}});
  if (op == "Scatter") {
    OpCase c = ScatterCase({{30, 7}, {90, 1}, {90, 7}}, "add", true);
    c.inputs.push_back(Random({90}, 5));
    return c;
  }
  if (op == "SoftmaxCrossEntropy") return loss;
  if (op == "SoftmaxCrossEntropyGrad") return LossGradCase(loss, 1.5f);
  if (op == "LossDenominator") return DenominatorCase({5}, SomeLabels(5, 10), Absent(), 10);
  if (op == "CountCorrect") return CountCorrectCase();
  return SmallIntegerCase(op);
}

}  // namespace act
