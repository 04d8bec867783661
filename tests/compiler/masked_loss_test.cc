// Losses of what a mask selects: loss(prediction[mask], target[mask]). Exporters write a NonZero for each of the two.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "compiler/import/import_onnx.h"
#include "tests/compiler/compiled_step.h"
#include "tests/compiler/onnx_model.h"

namespace act {
namespace {

using testing::Attr;
using testing::OnnxModel;
using testing::TemporaryFolder;
using Ints = std::vector<int64_t>;

constexpr int64_t kRows = 6, kColumns = 4;
using Weights = std::vector<double>;  // of each column

// h = x w, and what the mask m > 0 selects of x, h and the classes y: "x_kept", "h_kept", "y_kept" [K, ..]. Each mask is
// computed by a node of its own.
OnnxModel Selected(int64_t opset = 17) {
  OnnxModel m(opset);
  m.Input("x", {"N", kColumns}).Input("m", {"N"}).Input("y", {"N"}, onnx::TensorProto::INT64);
  m.Weight("w", {1, kColumns}).Node("Mul", {"x", "w"}, {"h"});
  m.Integers("zero", {0}, true)
      .Node("Cast", {"zero"}, {"none"}, {Attr("to", int64_t{onnx::TensorProto::FLOAT})});
  for (const std::string name : {"x", "h", "y"})
    m.Node("Greater", {"m", "none"}, {name + "_mask"})
        .Node("NonZero", {name + "_mask"}, {name + "_found"})
        .Node("Transpose", {name + "_found"}, {name + "_places"})
        .Node("GatherND", {name, name + "_places"}, {name + "_kept"});
  return m;
}

struct Batch {
  std::vector<float> x = std::vector<float>(kRows * kColumns), m = std::vector<float>(kRows);
  Ints y = Ints(kRows);

  double At(int64_t row, int64_t column) const { return x[static_cast<size_t>(row * kColumns + column)]; }
  Ints Kept() const {
    Ints rows;
    for (int64_t i = 0; i < kRows; ++i)
      if (m[static_cast<size_t>(i)] > 0) rows.push_back(i);
    return rows;
  }
};

struct MaskedLoss {
  const char* name;
  std::function<void(OnnxModel&)> add;  // makes "loss"
  std::function<double(const Batch&, const Weights&)> truth;
};

double MeanOfSquares(const Batch& batch, const Weights& w) {
  double sum = 0;
  for (const int64_t i : batch.Kept())
    for (int64_t k = 0; k < kColumns; ++k)
      sum += std::pow(batch.At(i, k) * (w[static_cast<size_t>(k)] - 1), 2);
  return sum / static_cast<double>(batch.Kept().size() * kColumns);
}

// Of rows whose class is not `ignored`.
double CrossEntropy(const Batch& batch, const Weights& w, bool mean, int64_t ignored) {
  double sum = 0, count = 0;
  for (const int64_t i : batch.Kept()) {
    const int64_t y = batch.y[static_cast<size_t>(i)];
    if (y == ignored) continue;
    double total = 0;
    for (int64_t k = 0; k < kColumns; ++k) total += std::exp(batch.At(i, k) * w[static_cast<size_t>(k)]);
    sum += std::log(total) - batch.At(i, y) * w[static_cast<size_t>(y)];
    ++count;
  }
  return mean ? sum / count : sum;
}

// The sum over the kept rows of the largest softmax, of rows normalized to mean 0 and variance 1.
double SumOfSoftmax(const Batch& batch, const Weights& w) {
  double sum = 0;
  for (const int64_t i : batch.Kept()) {
    double mean = 0, square = 0, total = 0, weighted = 0;
    Weights h(kColumns);
    for (int64_t k = 0; k < kColumns; ++k)
      mean += (h[static_cast<size_t>(k)] = batch.At(i, k) * w[static_cast<size_t>(k)]);
    mean /= kColumns;
    for (double& v : h) square += (v - mean) * (v - mean);
    for (double& v : h) total += std::exp(v = (v - mean) / std::sqrt(square / kColumns + 1e-5));
    for (int64_t k = 0; k < kColumns; ++k)
      weighted += std::exp(h[static_cast<size_t>(k)]) / total * batch.At(i, k);
    sum += weighted;
  }
  return sum;
}

const MaskedLoss kLosses[] = {
    {"MeanOfSquares",
     [](OnnxModel& m) {
       m.Node("Sub", {"h_kept", "x_kept"}, {"error"}).Node("Mul", {"error", "error"}, {"squares"});
       m.Node("ReduceMean", {"squares"}, {"loss"}, {Attr("keepdims", int64_t{0})});
     },
     MeanOfSquares},
    {"MeanOfMeans",  // of each row, kept as a column, and then of the rows
     [](OnnxModel& m) {
       m.Node("Sub", {"h_kept", "x_kept"}, {"error"}).Node("Mul", {"error", "error"}, {"squares"});
       m.Node("ReduceMean", {"squares"}, {"rows"}, {Attr("axes", Ints{1})});
       m.Node("ReduceMean", {"rows"}, {"mean"}, {Attr("axes", Ints{0})}).Node("Squeeze", {"mean"}, {"loss"});
     },
     MeanOfSquares},
    {"SumOverTheLength",
     [](OnnxModel& m) {
       m.Node("Sub", {"h_kept", "x_kept"}, {"error"}).Node("Mul", {"error", "error"}, {"squares"});
       m.Node("ReduceMean", {"squares"}, {"rows"}, {Attr("axes", Ints{1}), Attr("keepdims", int64_t{0})});
       m.Node("ReduceSum", {"rows"}, {"sum"}, {Attr("keepdims", int64_t{0})});
       m.Node("Shape", {"h_kept"}, {"shape"}).Node("Gather", {"shape", "zero"}, {"length"});
       m.Node("Cast", {"length"}, {"count"}, {Attr("to", int64_t{onnx::TensorProto::FLOAT})});
       m.Node("Div", {"sum", "count"}, {"loss"});
     },
     MeanOfSquares},
    {"CrossEntropy",
     [](OnnxModel& m) {
       m.Node("SoftmaxCrossEntropyLoss", {"h_kept", "y_kept"}, {"loss"});
     },
     [](const Batch& batch, const Weights& w) { return CrossEntropy(batch, w, true, -100); }},
    {"CrossEntropyThatIgnoresAClass",
     [](OnnxModel& m) {
       m.Node("LogSoftmax", {"h_kept"}, {"log"})
           .Node("NegativeLogLikelihoodLoss", {"log", "y_kept"}, {"loss"},
                 {Attr("reduction", std::string("sum")), Attr("ignore_index", int64_t{1})});
     },
     [](const Batch& batch, const Weights& w) { return CrossEntropy(batch, w, false, 1); }},
    {"SumOfSoftmax",
     [](OnnxModel& m) {
       m.Integers("one", Ints(kColumns, 1));
       m.Node("Cast", {"one"}, {"ones"}, {Attr("to", int64_t{onnx::TensorProto::FLOAT})});
       m.Node("LayerNormalization", {"h_kept", "ones"}, {"normal"}).Node("Softmax", {"normal"}, {"share"});
       m.Node("Mul", {"share", "x_kept"}, {"part"})
           .Node("ReduceSum", {"part"}, {"loss"}, {Attr("keepdims", int64_t{0})});
     },
     SumOfSoftmax},
};

class Masked : public ::testing::TestWithParam<MaskedLoss> {};

TEST_P(Masked, LossCountsWhatIsSelected) {
  OnnxModel m = Selected();
  GetParam().add(m);
  const TemporaryFolder folder;
  ImportResult model = testing_step::Take(ImportOnnx(m.Output("loss").Write(folder), {}));
  const Plan plan = testing_step::Take(Compile(std::move(model), testing_step::Checked("L0", "none")));
  std::mt19937 engine(7);
  for (const uint32_t mask : {0b111111u, 0b000100u, 0b101011u, 0b100000u}) {
    Batch batch;
    for (float& v : batch.x) v = std::uniform_real_distribution<float>(-2, 2)(engine);
    for (size_t i = 0; i < kRows; ++i) {
      batch.m[i] = (mask >> i & 1) ? 1.f : -1.f;
      batch.y[i] = static_cast<int64_t>(i) % kColumns;
    }
    for (const KernelRegistry* kernels : {&testing_step::CpuKernels(), &testing_step::ReferenceKernels()}) {
      const auto got = testing_step::Take(testing_step::RunStep(plan, *kernels,
                                                                {{"x", testing_step::BytesOf(batch.x)},
                                                                 {"m", testing_step::BytesOf(batch.m)},
                                                                 {"y", testing_step::BytesOf(batch.y)}},
                                                                {.batch = kRows, .check_memory = true}));
      const Weights w(kColumns, .5);
      const double loss = GetParam().truth(batch, w);
      EXPECT_NEAR(got[0][0], loss, 1e-5 * std::max(1., std::fabs(loss))) << mask;  // float32 sums of 24 terms
      for (size_t k = 0; k < kColumns; ++k) {
        constexpr double h = 1e-6;
        Weights above = w, below = w;
        above[k] += h;
        below[k] -= h;
        const double slope = (GetParam().truth(batch, above) - GetParam().truth(batch, below)) / (2 * h);
        EXPECT_NEAR(got[1][k], slope, 1e-5 * std::max(1., std::fabs(slope))) << mask << ", column " << k;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Masked, ::testing::ValuesIn(kLosses),
                         [](const auto& test_info) { return std::string(test_info.param.name); });

// Up to opset 12 a softmax is over all axes from its own on, which is the second if it names none.
TEST(Masked, AnOldSoftmaxOverThePlacesIsRefused) {
  OnnxModel m = Selected(12);
  m.Node("Unsqueeze", {"h_kept"}, {"whole"}, {Attr("axes", Ints{0})}).Node("Softmax", {"whole"}, {"share"});
  const TemporaryFolder folder;
  auto result = ImportOnnx(m.MeanLoss("share").Write(folder), {});
  const std::string error = result ? "none" : llvm::toString(result.takeError());
  EXPECT_NE(
      error.find("(Softmax): reads a tensor whose length depends on data (a NonZero), and normalizes it"),
      std::string::npos)
      << error;
}

// Two masks that differ select different places, even if they are as long.
TEST(Masked, TensorsOfDifferentMasksDoNotMix) {
  OnnxModel m = Selected();
  m.Node("Less", {"m", "none"}, {"other_mask"})
      .Node("NonZero", {"other_mask"}, {"other_found"})
      .Node("Transpose", {"other_found"}, {"other_places"})
      .Node("GatherND", {"x", "other_places"}, {"other_kept"})
      .Node("Sub", {"h_kept", "other_kept"}, {"error"});
  const TemporaryFolder folder;
  auto result = ImportOnnx(m.MeanLoss("error").Write(folder), {});
  const std::string error = result ? "none" : llvm::toString(result.takeError());
  EXPECT_NE(error.find("another that data selects in another way"), std::string::npos) << error;
}

}  // namespace
}  // namespace act
