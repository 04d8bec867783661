// actrun --variance-reference, compared with its definition, recomputed from dumps of single steps.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/e2e/golden_case.h"
#include "tests/e2e/onnx_models.h"
#include "tests/e2e/process.h"
#include "tests/e2e/refusal.h"
#include "tests/e2e/tensors.h"
#include "tests/e2e/variance_run.h"
#include "tests/take.h"

namespace act::e2e {
namespace {

constexpr const char* kReference = "--variance-reference=";

class VarianceReference : public VarianceRun {
 protected:
  std::string CompileCase(const GoldenCase& golden, const std::string& level,
                          const std::vector<std::string>& flags = {}) {
    const std::string plan = scratch_ / ("plan" + std::to_string(plans_++));
    Take(Compile(golden, "model.onnx", level, plan, scratch_, flags));
    return plan;
  }
  static std::vector<std::string> On(const GoldenCase& golden, const std::string& reference, int repeats) {
    return {"--batch=" + std::to_string(golden.batch), "--inputs=" + golden.inputs,
            "--variance=" + std::to_string(repeats), "--variance-edges=", kReference + reference};
  }
  static double Square(const Tensors& step) {
    double square = 0;
    for (const auto& [name, tensor] : step)
      if (name.starts_with("grad.")) square += std::pow(Norm(tensor), 2);
    return square;
  }
  static double SquareDistance(const Tensors& step, const Tensors& exact) {
    double square = 0;
    for (const auto& [name, tensor] : exact)
      if (name.starts_with("grad.")) square += std::pow(Distance(step.at(name), tensor), 2);
    return square;
  }

  int plans_ = 0;
};

TEST_F(VarianceReference, ThePlanItselfGivesTheSameNumbers) {
  const GoldenCase golden = Take(LoadGoldenCase("resnet_basic"));
  const std::string plan = CompileCase(golden, "L3");
  std::vector<std::string> flags = On(golden, plan, 4);
  const llvm::json::Object with = Measure(plan, flags);
  flags.pop_back();
  const llvm::json::Object without = Measure(plan, flags);
  const llvm::json::Object& reference = *with.getObject("reference");
  EXPECT_FALSE(without.getObject("reference"));
  EXPECT_EQ(Number(reference, "without_codes"), 0);
  EXPECT_GT(Number(with, "variance"), 1e-3) << "L3 stores nothing with an error here";
  for (const char* key : {"variance", "variance_error", "bias", "bias_error", "gradient_norm"}) {
    EXPECT_EQ(Number(with, key), Number(without, key)) << key;
    EXPECT_EQ(Number(reference, key), Number(without, key)) << key;
  }
}

// A plan of bfloat16 without codes is off by the same at each pass: its whole error is bias. Dumps of steps tell
// how much.
TEST_F(VarianceReference, TellsTheRoundingOfBFloat16AsBias) {
  for (const char* name : {"resnet_basic", "bert", "lstm"}) {
    SCOPED_TRACE(name);
    const GoldenCase golden = Take(LoadGoldenCase(name));
    const std::string exact = CompileCase(golden, "L0");
    const std::string plan = CompileCase(golden, "L0", {"--compute=bf16"});
    const Tensors expected = Take(Train(golden, exact, 1, 1, scratch_)).step;
    const Tensors step = Take(Train(golden, plan, 1, 1, scratch_)).step;
    const double rounding = SquareDistance(step, expected) / Square(expected);
    EXPECT_GT(rounding, 1e-6);
    const llvm::json::Object measured = Measure(plan, On(golden, exact, 2));
    const llvm::json::Object& reference = *measured.getObject("reference");
    EXPECT_EQ(Number(measured, "variance"), 0);
    // The same passes; squares are added in another order.
    for (const char* key : {"without_codes", "variance", "bias"})
      EXPECT_NEAR(Number(reference, key) / rounding, 1, 1e-5) << key;
    EXPECT_NEAR(std::pow(Number(reference, "gradient_norm"), 2) / Square(expected), 1, 1e-5);
    EXPECT_EQ(reference.getString("compute")->str(), "f32");
  }
}

// Codes and bfloat16 together: the mean square of what training with other seeds is off from L0 in float32.
TEST_F(VarianceReference, IsTheDistanceOfTheGradientsOfTrainingFromFloat32) {
  constexpr int kSeeds = 40;
  const GoldenCase golden = Take(LoadGoldenCase("resnet_basic"));
  const std::string exact = CompileCase(golden, "L0");
  const std::string plan = CompileCase(golden, "L3", {"--compute=bf16", "--group-size=64"});
  const Tensors expected = Take(Train(golden, exact, 1, 1, scratch_)).step;
  std::vector<double> distances;
  for (int seed = 1; seed <= kSeeds; ++seed)
    distances.push_back(SquareDistance(Take(Train(golden, plan, 1, seed, scratch_)).step, expected) /
                        Square(expected));
  double mean = 0, deviation = 0;
  for (const double d : distances) mean += d / kSeeds;
  for (const double d : distances) deviation += (d - mean) * (d - mean) / (kSeeds - 1);
  const double error = std::sqrt(deviation / kSeeds);

  const llvm::json::Object measured = Measure(plan, On(golden, exact, kSeeds));
  const llvm::json::Object& reference = *measured.getObject("reference");
  // Five standard errors of the difference between two independent means.
  const double both = std::hypot(error, Number(reference, "variance_error"));
  EXPECT_NEAR(Number(reference, "variance"), mean, 5 * both);
  EXPECT_LT(5 * both, Number(reference, "without_codes") + Number(measured, "variance"))
      << "too few seeds to tell anything";
  EXPECT_GT(Number(reference, "bias"),
            Number(reference, "without_codes") - 5 * Number(reference, "bias_error"));
  EXPECT_GT(Number(reference, "variance"), Number(measured, "variance"));
}

// A plan without its codes has the gradient of L0, dropout masks included.
TEST_F(VarianceReference, ExactGradientsOfLevelsAreEqual) {
  const std::string model = scratch_ / "model.onnx";
  OnnxModel network;
  network.Input("image", onnx::TensorProto::FLOAT, {"N", 256})
      .Weight("first", {256, 256})
      .Weight("second", {256, 7})
      .Node("one", "MatMul", {"image", "first"}, "hidden")
      .Node("relu", "Relu", {"hidden"}, "positive")
      .Node("dropout", "Dropout", {"positive"}, "dropped")
      .Node("two", "MatMul", {"dropped", "second"}, "result")
      .Node("square", "Mul", {"result", "result"}, "squares")
      .Mean("mean", "squares", "loss")
      .Output("loss", {});
  WriteFile(model, network.Bytes());
  const auto compile = [&](const std::string& level) {
    const std::string plan = scratch_ / level;
    ExpectDone({ToolPath("actc"), model, "-O", level, "-o", plan, "--report=none", "--batch=16"});
    return plan;
  };
  const std::string exact = compile("L0");
  for (const char* level : {"L1", "L2", "L3"}) {
    const llvm::json::Object measured = Measure(compile(level), {"--variance=2", kReference + exact});
    EXPECT_GT(Number(measured, "variance"), 1e-6) << level << " stores nothing with an error";
    // The loops are others, so sums may be added in another order: 6e-8, squared, times a condition number.
    EXPECT_LT(Number(*measured.getObject("reference"), "without_codes"), 1e-11) << level;
  }
}

// The reference takes the parameters of a checkpoint, which need not be of its optimizer.
TEST_F(VarianceReference, HasTheParametersOfTheMeasuredPlan) {
  const GoldenCase golden = Take(LoadGoldenCase("resnet_basic"));
  const std::string plan = CompileCase(golden, "L0");
  const std::string other = CompileCase(golden, "L0", {"--optimizer=adam"});
  Take(Train(golden, plan, 3, 1, scratch_));
  std::vector<std::string> flags = On(golden, other, 1);
  const double start = Number(Measure(plan, flags), "gradient_norm");
  flags.push_back("--load=" + (scratch_ / "end.safetensors"));
  const llvm::json::Object trained = Measure(plan, flags);
  EXPECT_NE(Number(trained, "gradient_norm"), start);
  EXPECT_EQ(Number(*trained.getObject("reference"), "without_codes"), 0);
}

TEST_F(VarianceReference, RefusesPlansThatAreNone) {
  const GoldenCase golden = Take(LoadGoldenCase("resnet_basic"));
  const std::string plan = CompileCase(golden, "L3");
  const auto command = [&](const std::string& reference) {
    std::vector<std::string> args = {ToolPath("actrun"), plan, "--threads=1"};
    for (const std::string& flag : On(golden, reference, 1)) args.push_back(flag);
    return args;
  };
  ExpectRefused(command(scratch_ / "missing"), {"missing"});
  ExpectRefused(command(golden.inputs), {golden.inputs});
  ExpectRefused(command(CompileCase(Take(LoadGoldenCase("mlp")), "L0")), {"--variance-reference"});
  ExpectRefused(command(CompileCase(Take(LoadGoldenCase("resnet_bottleneck")), "L0")),
                {"--variance-reference", "measured plan"});
  ExpectRefused(command(CompileCase(golden, "L0", {"--freeze=*conv1*"})), {"--variance-reference", "trains"});
  ExpectRefused(command(CompileCase(golden, "blpa")), {"--variance-reference", "switched off"});

  ExpectWrongUsage({ToolPath("actrun"), plan, kReference + plan}, {"--variance-reference", "--variance=R"});
  ExpectWrongUsage({ToolPath("actrun"), plan, "--calibrate=1", "--variance=2",
                    "--save-plan=" + (scratch_ / "x"), kReference + plan},
                   {"--variance-reference"});
}

}  // namespace
}  // namespace act::e2e
