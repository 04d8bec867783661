// The gradient of --compute=bf16 is at least as close to the truth as that of PyTorch's autocast, on
// the same models and batches. tests/golden_autocast/make.py has measured autocast's, and says how.
//
// Errors are |g - truth| / |truth| over all parameters together. At one batch, luck decides which
// numbers near 0 a rounding moves over a ReLU's edge, and each of them changes the gradient more
// than all other roundings do. In convolutional networks both round the same values (operands and
// results of convolutions), so that the ratio of the errors is 1 but for luck. So the logarithm of
// that ratio is averaged over kBatches batches, and its mean may be above 0 by three standard errors.
#include <gtest/gtest.h>
#include <llvm/Support/FormatVariadic.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "tests/e2e/golden_case.h"
#include "tests/paths.h"
#include "tests/take.h"

namespace act::e2e {
namespace {

constexpr int kBatches = 16;   // as many as the script has
constexpr double kErrors = 3;  // standard errors that are allowed

struct Measured {
  GoldenModel model;
  // At the case's own parameters, or after five exact steps (LoadCaseWithGradients).
  std::string point;
};
void PrintTo(const Measured& measured, std::ostream* out) {
  *out << TestName(measured.model) << "_" << measured.point;
}

llvm::json::Object AutocastsErrors() {
  return Take(ReadJson(GoldenFolder() + "/../golden_autocast/errors.json"));
}

// All models and points of errors.json.
const std::vector<Measured>& AllMeasured() {
  static const std::vector<Measured> all = [] {
    std::vector<Measured> found;
    const llvm::json::Object errors = AutocastsErrors();
    for (const GoldenModel& model : GoldenModels())
      if (const llvm::json::Object* points = errors.getObject("cases")->getObject(model.name))
        for (const char* point : {"start", "trained"})
          if (points->get(point)) found.push_back({model, point});
    return found;
  }();
  return all;
}

// The script's Case.batch.
Tensors Batch(const GoldenCase& golden, int k) {
  Tensors inputs = Take(ReadTensors(golden.File("inputs.safetensors")));
  for (auto& [name, tensor] : inputs) {
    const int vocabulary = name == "input_ids" ? 40 : name == "token" ? 20 : 0;
    for (double& x : tensor.data) {
      if (name == "image") x *= 1 + k / static_cast<double>(kBatches);
      if (vocabulary > 0) x = std::fmod(x + k, vocabulary);
    }
  }
  return inputs;
}

struct Errors {
  double gradient = 0, loss = 0;
};

Errors ErrorsOf(const Tensors& found, const Tensors& truth) {
  double distance = 0, square = 0;
  for (const auto& [name, tensor] : truth) {
    if (!name.starts_with("grad.")) continue;
    distance += std::pow(Distance(found.at(name), tensor), 2);
    square += std::pow(Norm(tensor), 2);
  }
  const Tensor& loss = truth.at("loss");
  return {std::sqrt(distance / square), Distance(found.at("loss"), loss) / Norm(loss)};
}

// Ratios of our errors to theirs, on a logarithmic scale.
class Ratios {
 public:
  // The errors of one batch. What float32 rounds itself (6e-8) is not compared.
  void Add(double ours, double theirs) {
    if (logs_.empty()) own_ = llvm::formatv("{0:e2} of {1:e2}", ours, theirs);
    logs_.push_back(std::log(std::max(ours, 1e-7) / std::max(theirs, 1e-7)));
  }
  double Mean() const { return std::accumulate(logs_.begin(), logs_.end(), 0.) / Count(); }
  double StandardError() const {
    double squares = 0;
    for (const double x : logs_) squares += (x - Mean()) * (x - Mean());
    return std::sqrt(squares / (Count() - 1) / Count());
  }
  // "0.982 times autocast's, +- 0.7 %; 8.09e-02 of 8.18e-02 in the case's own batch".
  std::string Text() const {
    return llvm::formatv("{0:f3} times autocast's, +- {1:f1} %; {2} in the case's own batch",
                         std::exp(Mean()), 100 * StandardError(), own_);
  }

 private:
  double Count() const { return static_cast<double>(logs_.size()); }

  std::vector<double> logs_;
  std::string own_;
};

class AutocastError : public testing::TestWithParam<Measured> {};

TEST_P(AutocastError, IsNotLessThanOurs) {
  const auto& [model, point] = GetParam();
  const ScratchFolder scratch;
  GoldenCase golden =
      Take(point == "start" ? LoadGoldenCase(model.name) : LoadCaseWithGradients(model, scratch));
  const std::string float32 = scratch / "float32.bin", bfloat16 = scratch / "bfloat16.bin";
  Take(Compile(golden, model.file, "L0", float32, scratch));
  Take(Compile(golden, model.file, "L0", bfloat16, scratch, {"--compute=bf16"}));
  const llvm::json::Object errors = AutocastsErrors();
  const llvm::json::Array& autocast =
      *errors.getObject("cases")->getObject(model.name)->getObject(point)->getArray("batches");
  ASSERT_EQ(autocast.size(), size_t{kBatches});

  Ratios gradient, loss;
  for (int k = 0; k < kBatches; ++k) {
    golden.inputs = scratch / "batch.safetensors";
    WriteTensors(golden.inputs, Batch(golden, k));
    // golden_test.cc compares L0's float32 with PyTorch: its error is some 1e-6.
    const Tensors truth = Take(Train(golden, float32, /*steps=*/1, /*seed=*/1, scratch)).step;
    const Errors ours = ErrorsOf(Take(Train(golden, bfloat16, /*steps=*/1, /*seed=*/1, scratch)).step, truth);
    EXPECT_GT(ours.gradient, 1e-4) << "nothing was rounded";
    const llvm::json::Object& theirs = *autocast[static_cast<size_t>(k)].getAsObject();
    gradient.Add(ours.gradient, theirs.getNumber("gradient").value_or(NAN));
    loss.Add(ours.loss, theirs.getNumber("loss").value_or(NAN));
  }
  RecordProperty("gradient", gradient.Text());
  RecordProperty("loss", loss.Text());
  EXPECT_LE(gradient.Mean(), kErrors * gradient.StandardError()) << gradient.Text();
  EXPECT_LE(loss.Mean(), kErrors * loss.StandardError()) << loss.Text();
}

INSTANTIATE_TEST_SUITE_P(, AutocastError, testing::ValuesIn(AllMeasured()),
                         [](const auto& of) { return testing::PrintToString(of.param); });

}  // namespace
}  // namespace act::e2e
