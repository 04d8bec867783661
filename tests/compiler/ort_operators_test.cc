// The gradient of every operator, as ONNX Runtime writes it into a training graph, against what it
// computes (tests/data/ort_operators/make.py).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "compiler/import/import_onnx.h"
#include "runtime/data/safetensors.h"
#include "tests/compiler/compiled_step.h"
#include "tests/compiler/onnx_model.h"
#include "tests/paths.h"

namespace act {
namespace {

using testing_step::Take;

const std::string kFolder = TestDataFolder() + "/ort_operators/";

// Two float32 computations of a few hundred terms, relative to the largest element of the gradient.
// A wrong factor, axis or index is off by 1e-1.
constexpr double kLimit = 3e-6;

const Safetensors& Numbers() {
  static const Safetensors numbers = Take(Safetensors::Open(kFolder + "numbers.safetensors"));
  return numbers;
}

// The numbers of a case by their names without `NAME/PREFIX.`.
std::map<std::string, HostView> NumbersOf(const std::string& name, const std::string& prefix) {
  std::map<std::string, HostView> found;
  const std::string start = name + "/" + prefix;
  for (const auto& [key, view] : Numbers().tensors())
    if (key.starts_with(start)) found[key.substr(start.size())] = view;
  return found;
}

std::vector<float> Floats(const HostView& view) {
  std::vector<float> values(static_cast<size_t>(view.bytes) / sizeof(float));
  std::memcpy(values.data(), view.data, static_cast<size_t>(view.bytes));
  return values;
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(kFolder))
    if (file.path().extension() == ".onnx" && !file.path().stem().string().starts_with("refused_"))
      names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

// The loss and the gradients, in the order of the plan's outputs.
struct Step {
  Plan plan;
  std::vector<std::vector<float>> outputs;
};

Step RunCase(const std::string& name, const std::string& level) {
  ImportOptions options;
  options.report_only = true;  // there is no checkpoint: the parameters are set here
  ImportResult model = Take(ImportOnnx(kFolder + name + ".onnx", options));
  const auto parameters = NumbersOf(name, "param.");
  for (Value& value : model.graph.values) {
    const auto it = parameters.find(value.name);
    if (value.kind == ValueKind::kParameter && it != parameters.end())
      value.data = HostTensor::Copy(it->second.data, it->second.bytes);
  }
  Step step{Take(Compile(std::move(model), testing_step::Checked(level, "none"))), {}};
  testing_step::StepInputs inputs;
  for (const auto& [input, view] : NumbersOf(name, "input."))
    inputs[input] = {view.data, view.data + view.bytes};
  constexpr int64_t kBatch = 3;
  step.outputs = Take(testing_step::RunStep(step.plan, testing_step::CpuKernels(), inputs,
                                            {.batch = kBatch, .check_memory = true}));
  return step;
}

class OrtOperators : public ::testing::TestWithParam<std::string> {
 protected:
  // The loss is a mean of terms of both signs; `scale` is that of their magnitudes.
  static void ExpectLoss(const Step& step) {
    const float loss = Floats(NumbersOf(GetParam(), "loss").at(""))[0];
    EXPECT_NEAR(step.outputs[0][0], loss, kLimit * Floats(NumbersOf(GetParam(), "scale").at(""))[0]);
  }
};

TEST_P(OrtOperators, GradientsAreThoseOfOnnxRuntime) {
  const Step step = RunCase(GetParam(), "L0");
  ExpectLoss(step);
  auto expected = NumbersOf(GetParam(), "grad.");
  ASSERT_EQ(step.outputs.size(), expected.size() + 1);
  for (size_t i = 1; i < step.outputs.size(); ++i) {
    const Graph& graph = step.plan.train.graph;
    std::string name = graph.value(graph.outputs[i]).name;
    name = name.substr(name.find('.') + 1);
    ASSERT_TRUE(expected.count(name)) << name;
    const std::vector<float> gradient = Floats(expected.at(name));
    ASSERT_EQ(step.outputs[i].size(), gradient.size()) << name;
    double largest = 0;
    for (float g : gradient) largest = std::max(largest, std::fabs(static_cast<double>(g)));
    EXPECT_GT(largest, 1e-4) << name << ": the test compares zeros";
    for (size_t k = 0; k < gradient.size(); ++k)
      EXPECT_NEAR(step.outputs[i][k], gradient[k], kLimit * largest) << name << " " << k;
  }
}

// Codes, rebuilt values and loops do not change the loss of the first step.
TEST_P(OrtOperators, LossAtTheHighestLevel) {
  const Step step = RunCase(GetParam(), "L3");
  ExpectLoss(step);
}

TEST(OrtOperators, RefusedGradientsSayWhy) {
  ImportOptions options;
  options.report_only = true;
  auto model = ImportOnnx(kFolder + "refused_gru_resets_before.onnx", options);
  ASSERT_FALSE(static_cast<bool>(model));
  EXPECT_NE(llvm::toString(model.takeError()).find("a layer that is written out step by step"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, OrtOperators, ::testing::ValuesIn(Names()),
                         [](const auto& test_info) { return test_info.param; });

}  // namespace
}  // namespace act
