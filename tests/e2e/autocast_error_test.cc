// The gradient of --compute=bf16 is at least as close to the truth as that of PyTorch's autocast, on
// the same models and batches. tests/golden_autocast/make.py has measured autocast's, and says how.
//
// Errors are |g - truth| / |truth| over all parameters together, and root mean squares over kBatches
// batches: at one batch, which numbers near 0 a rounding moves over a ReLU's edge decides by luck.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "tests/e2e/golden_case.h"
#include "tests/take.h"

namespace act::e2e {
namespace {

constexpr int kBatches = 16;  // as many as the script has

struct Measured {
  GoldenModel model;
  // At the case's own parameters, or after five exact steps (LoadCaseWithGradients).
  std::string point;
};
void PrintTo(const Measured& measured, std::ostream* out) {
  *out << TestName(measured.model) << "_" << measured.point;
}

llvm::json::Object AutocastsErrors() {
  return Take(ReadJson(std::string(ACT_GOLDEN_DIR) + "/../golden_autocast/errors.json"));
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

class AutocastError : public testing::TestWithParam<Measured> {};

TEST_P(AutocastError, IsNotLessThanOurs) {
  const auto& [model, point] = GetParam();
  const ScratchFolder scratch;
  GoldenCase golden =
      Take(point == "start" ? LoadGoldenCase(model.name) : LoadCaseWithGradients(model, scratch));
  const std::string float32 = scratch / "float32.bin", bfloat16 = scratch / "bfloat16.bin";
  Take(Compile(golden, model.file, "L0", float32, scratch));
  Take(Compile(golden, model.file, "L0", bfloat16, scratch, {"--compute=bf16"}));

  Errors sum;
  for (int k = 0; k < kBatches; ++k) {
    golden.inputs = scratch / "batch.safetensors";
    WriteTensors(golden.inputs, Batch(golden, k));
    // golden_test.cc compares L0's float32 with PyTorch: its error is some 1e-6.
    const Tensors truth = Take(Train(golden, float32, /*steps=*/1, /*seed=*/1, scratch)).step;
    const Errors ours = ErrorsOf(Take(Train(golden, bfloat16, /*steps=*/1, /*seed=*/1, scratch)).step, truth);
    sum.gradient += ours.gradient * ours.gradient;
    sum.loss += ours.loss * ours.loss;
  }
  const Errors ours = {std::sqrt(sum.gradient / kBatches), std::sqrt(sum.loss / kBatches)};

  const llvm::json::Object errors = AutocastsErrors();
  const llvm::json::Object& autocast = *errors.getObject("cases")->getObject(model.name)->getObject(point);
  ASSERT_EQ(autocast.getArray("batches")->size(), size_t{kBatches});
  const Errors theirs = {autocast.getNumber("gradient").value_or(NAN),
                         autocast.getNumber("loss").value_or(NAN)};
  RecordProperty("gradient", std::to_string(ours.gradient) + " of " + std::to_string(theirs.gradient));
  RecordProperty("loss", std::to_string(ours.loss) + " of " + std::to_string(theirs.loss));
  EXPECT_LE(ours.gradient, theirs.gradient);
  EXPECT_LE(ours.loss, theirs.loss);
  // Were nothing rounded, this test would compare nothing.
  EXPECT_GT(ours.gradient, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(, AutocastError, testing::ValuesIn(AllMeasured()),
                         [](const auto& of) { return testing::PrintToString(of.param); });

}  // namespace
}  // namespace act::e2e
