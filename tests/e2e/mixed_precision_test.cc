// Plans of --compute=bf16: every golden case trains, and keeps the peak that actc printed. What they
// compute is compared with PyTorch's autocast in autocast_error_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <tuple>

#include "tests/e2e/golden_case.h"
#include "tests/e2e/refusal.h"
#include "tests/take.h"

namespace act::e2e {
namespace {

constexpr int kSteps = 5;

using Parameters = std::tuple<GoldenModel, std::string>;  // model, level

std::vector<double> Losses(const llvm::json::Object& report) {
  std::vector<double> losses;
  for (const llvm::json::Value& loss : *report.getArray("losses"))
    losses.push_back(loss.getAsNumber().value_or(NAN));
  return losses;
}

class MixedPrecision : public testing::TestWithParam<Parameters> {};

TEST_P(MixedPrecision, TrainsAndKeepsItsPeak) {
  const auto& [model, level] = GetParam();
  const ScratchFolder scratch;
  const GoldenCase golden = Take(LoadGoldenCase(model.name));
  const std::string plan = scratch / "plan.bin";
  const llvm::json::Object compiled =
      Take(Compile(golden, model.file, level, plan, scratch, {"--compute=bf16"}));
  const llvm::json::Object report = Take(Train(golden, plan, kSteps, /*seed=*/1, scratch)).report;

  EXPECT_GT(compiled.getInteger("peak_bytes").value_or(0), 0);
  EXPECT_EQ(compiled.getInteger("peak_bytes"), report.getInteger("peak_bytes"));
  const std::vector<double> losses = Losses(report);
  ASSERT_EQ(losses.size(), size_t{kSteps});
  for (const double loss : losses) EXPECT_TRUE(std::isfinite(loss)) << loss;
  EXPECT_LT(losses.back(), losses.front());
}

INSTANTIATE_TEST_SUITE_P(
    , MixedPrecision, testing::Combine(testing::ValuesIn(GoldenModels()), testing::Values("L0", "L3", "L4")),
    [](const auto& of) { return TestName(std::get<0>(of.param)) + "_" + std::get<1>(of.param); });

double RootMeanSquare(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

// A processor without the instructions of bfloat16, and those without AVX-512 and AVX2, run the same plan.
TEST(MixedPrecisionInstructions, LossesAreTheSameWithoutThoseOfBFloat16) {
  for (const char* name : {"resnet_basic", "unet", "bert", "vit", "lstm"}) {
    SCOPED_TRACE(name);
    const ScratchFolder scratch;
    const GoldenCase golden = Take(LoadGoldenCase(name));
    const std::string exact = scratch / "f32.bin", plan = scratch / "bf16.bin";
    Take(Compile(golden, "model.onnx", "L0", exact, scratch));
    Take(Compile(golden, "model.onnx", "L0", plan, scratch, {"--compute=bf16"}));
    const auto losses = [&](const std::string& file) {
      return Losses(Take(Train(golden, file, kSteps, /*seed=*/1, scratch)).report);
    };
    const std::vector<double> expected = losses(plan);
    const double rounding = RootMeanSquare(expected, losses(exact));
    for (const char* limit : {"AVX512_CORE", "AVX2", "SSE41"}) {
      SCOPED_TRACE(limit);
      setenv("ONEDNN_MAX_CPU_ISA", limit, 1);
      const std::vector<double> limited = losses(plan);
      unsetenv("ONEDNN_MAX_CPU_ISA");
      // Sums in another order round some values of bfloat16 the other way. So the two runs differ as two that
      // are rounded independently do, by sqrt(2) times what each is off; and by a float32's last bits.
      EXPECT_LE(RootMeanSquare(limited, expected), 2 * rounding + 1e-6 * expected.front());
    }
  }
}

// The measured variance, less the squared bias, is the spread of the gradients of training with
// other seeds: both are of the plan's own codes, and a plan's other roundings are the same each time.
TEST(MixedPrecisionVariance, IsTheSpreadOfTheGradientsOfTrainingOverSeeds) {
  constexpr int kSeeds = 40;
  for (const GoldenModel& model : {GoldenModel{"resnet_basic", "model.onnx"}, {"bert", "model.onnx"}}) {
    SCOPED_TRACE(model.name);
    const ScratchFolder scratch;
    const GoldenCase golden = Take(LoadGoldenCase(model.name));
    const std::string plan = scratch / "plan.bin", report = scratch / "variance.json";
    Take(Compile(golden, model.file, "L3", plan, scratch, {"--compute=bf16", "--group-size=64"}));

    std::vector<Tensors> steps;
    Tensors mean;
    for (int seed = 1; seed <= kSeeds; ++seed) {
      steps.push_back(Take(Train(golden, plan, /*steps=*/1, static_cast<uint64_t>(seed), scratch)).step);
      for (const auto& [name, tensor] : steps.back()) {
        if (!name.starts_with("grad.")) continue;
        Tensor& sum = mean[name];
        sum.data.resize(tensor.data.size());
        for (size_t i = 0; i < tensor.data.size(); ++i) sum.data[i] += tensor.data[i] / kSeeds;
      }
    }
    std::vector<double> squares;  // |g_i - mean|^2, of which n - 1 are free
    for (const Tensors& step : steps) {
      double square = 0;
      for (const auto& [name, tensor] : mean) square += std::pow(Distance(step.at(name), tensor), 2);
      squares.push_back(square * kSeeds / (kSeeds - 1));
    }
    double spread = 0, deviation = 0;
    for (const double s : squares) spread += s / kSeeds;
    for (const double s : squares) deviation += (s - spread) * (s - spread) / (kSeeds - 1);

    ExpectDone({ToolPath("actrun"), plan, "--threads=1", "--batch=" + std::to_string(golden.batch),
                "--inputs=" + golden.inputs, "--variance=" + std::to_string(kSeeds),
                "--variance-edges=", "--report-json=" + report});
    const llvm::json::Object measured = Take(ReadJson(report));
    const auto number = [&measured](const char* key) { return measured.getNumber(key).value_or(NAN); };
    const double square = std::pow(number("gradient_norm"), 2);
    const double error =
        std::hypot(std::sqrt(deviation / kSeeds) / square, number("variance_error"), number("bias_error"));
    // Five standard errors of the difference between two independent means.
    EXPECT_NEAR(number("variance") - number("bias"), spread / square, 5 * error);
    EXPECT_LT(5 * error, spread / square) << "too few seeds to tell anything";
    EXPECT_GT(spread / square, 1e-5) << "L3 stores nothing with an error here";
  }
}

}  // namespace
}  // namespace act::e2e
