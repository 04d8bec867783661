// actrun --variance, compared with its definition, recomputed from dumps of single steps.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/e2e/golden_case.h"
#include "tests/e2e/process.h"
#include "tests/e2e/refusal.h"
#include "tests/e2e/tensors.h"
#include "tests/e2e/variance_run.h"
#include "tests/paths.h"
#include "tests/take.h"

namespace act::e2e {
namespace {

std::string Golden(const std::string& name, const std::string& file) {
  return GoldenFolder() + "/" + name + "/" + file;
}

class Variance : public VarianceRun {
 protected:
  std::string CompileCase(const std::string& name, const std::string& level) {
    const std::string plan = scratch_ / (name + level);
    ExpectDone({ToolPath("actc"), Golden(name, "model.onnx"), "-O", level, "-o", plan, "--report=none"});
    return plan;
  }
};

// The exact gradient is L0's, from a run of its own. The noise is that of training
// with other seeds.
TEST_F(Variance, IsTheSpreadOfTheGradientsOfTrainingOverSeeds) {
  constexpr int kSeeds = 40;
  const GoldenCase golden = Take(LoadGoldenCase("resnet_basic"));
  const std::string exact_plan = CompileCase("resnet_basic", "L0"), plan = CompileCase("resnet_basic", "L3");
  const Tensors exact = Take(Train(golden, exact_plan, 1, 1, scratch_)).step;
  std::vector<double> squares;
  double gradient = 0;
  for (const auto& [name, tensor] : exact)
    if (name.starts_with("grad.")) gradient += Norm(tensor) * Norm(tensor);
  for (int seed = 1; seed <= kSeeds; ++seed) {
    const Tensors step = Take(Train(golden, plan, 1, seed, scratch_)).step;
    double square = 0;
    for (const auto& [name, tensor] : exact)
      if (name.starts_with("grad.")) square += std::pow(Distance(step.at(name), tensor), 2);
    squares.push_back(square / gradient);
  }
  double mean = 0, deviation = 0;
  for (const double s : squares) mean += s / kSeeds;
  for (const double s : squares) deviation += (s - mean) * (s - mean) / (kSeeds - 1);
  const double error = std::sqrt(deviation / kSeeds);

  const llvm::json::Object measured =
      Measure(plan, {"--batch=4", "--variance=40",
                     "--variance-edges=", "--inputs=" + Golden("resnet_basic", "inputs.safetensors")});
  // Five standard errors of the difference between two independent means.
  const double both = std::hypot(error, Number(measured, "variance_error"));
  EXPECT_NEAR(Number(measured, "variance"), mean, 5 * both) << "standard error of each about " << error;
  EXPECT_LT(both, .05 * mean) << "too few seeds to tell anything";
  EXPECT_GT(mean, 1e-3) << "L3 stores nothing with an error here";
}

TEST_F(Variance, OfTheEdgesAddsUpToThatOfAll) {
  for (const char* level : {"L2", "L3"}) {
    const llvm::json::Object measured =
        Measure(CompileCase("resnet_basic", level),
                {"--batch=4", "--variance=24", "--inputs=" + Golden("resnet_basic", "inputs.safetensors")});
    // Errors of different codes are independent and unbiased, so that only their second-order terms
    // remain: a few per cent (the codec study measures 2 %).
    EXPECT_NEAR(Number(measured, "sum_of_edges") / Number(measured, "variance"), 1, .06) << level;
    EXPECT_GE(measured.getArray("edges")->size(), 8u);
    EXPECT_GE(Number(measured, "rounded_products"), 4) << level;
    EXPECT_LT(std::fabs(Number(measured, "bias")), 5 * Number(measured, "bias_error")) << level;
  }
}

// What L4 re-runs and encodes is a part of v, but no edge of the report.
TEST_F(Variance, ItsEdgesAreThoseOfTheReport) {
  const std::string plan = scratch_ / "L4", report = scratch_ / "report.json";
  ExpectDone({ToolPath("actc"), ModelsFolder() + "/digits_resnet.onnx", "-O", "L4", "-o", plan, "--batch=32",
              "--report-json=" + report});
  std::set<std::string> names;
  const llvm::json::Object reported = Take(ReadJson(report));
  for (const llvm::json::Value& edge : *reported.getArray("edges"))
    names.insert(edge.getAsObject()->getString("name")->str());
  const llvm::json::Object measured = Measure(plan, {"--variance=2"});
  EXPECT_GE(measured.getArray("edges")->size(), 1u);
  EXPECT_GE(measured.getArray("rerun")->size(), 5u) << "L4 runs nothing again";
  double sum = 0;
  for (const char* kind : {"edges", "rerun"}) {
    for (const llvm::json::Value& edge : *measured.getArray(kind)) {
      const std::string name = edge.getAsObject()->getString("name")->str();
      EXPECT_EQ(names.count(name), kind == std::string("edges")) << name;
      sum += *edge.getAsObject()->getNumber("variance");
    }
  }
  EXPECT_NEAR(Number(measured, "sum_of_edges"), sum, 1e-9);
  EXPECT_EQ(measured.getInteger("saved_bytes"), reported.getInteger("saved_bytes"));
}

TEST_F(Variance, OfAnExactPlanIsZero) {
  const llvm::json::Object measured =
      Measure(CompileCase("lenet", "L0"),
              {"--batch=4", "--variance=2", "--inputs=" + Golden("lenet", "inputs.safetensors")});
  EXPECT_EQ(Number(measured, "variance"), 0);
  EXPECT_GT(Number(measured, "gradient_norm"), 0);
}

// A data set, a checkpoint, and that repeated measurements give the same result.
TEST_F(Variance, IsMeasuredOnSeveralMiniBatchesAtAPointOfTraining) {
  const std::string plan = scratch_ / "digits", saved = scratch_ / "saved.safetensors";
  const std::string digits = ModelsFolder() + "/data/digits/";
  const std::string data = "--data=image=" + digits + "train_image.npy,label=" + digits + "train_label.npy";
  ExpectDone({ToolPath("actc"), ModelsFolder() + "/digits_resnet.onnx", "-O", "L3", "-o", plan,
              "--report=none", "--batch=32"});
  ExpectDone({ToolPath("actrun"), plan, "--threads=1", data, "--steps=10", "--lr=0.05", "--save=" + saved});
  const std::vector<std::string> request = {"--variance=3", "--variance-batches=3",
                                            "--variance-edges=*conv1*", data};
  std::vector<std::string> later = request;
  later.push_back("--load=" + saved);
  const llvm::json::Object start = Measure(plan, request), trained = Measure(plan, later);
  EXPECT_EQ(Number(start, "mini_batches"), 3);
  EXPECT_GT(Number(start, "variance"), 0);
  EXPECT_GT(Number(start, "variance_error"), 0);
  EXPECT_NE(Number(start, "variance"), Number(trained, "variance"));
  EXPECT_EQ(Number(trained, "variance"), Number(Measure(plan, later), "variance"));
}

// Levels move to where they matter. This also holds on mini-batches to which they were not fitted,
// and by the predicted amount.
TEST_F(Variance, IsLessInTheSameBytesAfterCalibration) {
  const std::string digits = ModelsFolder() + "/data/digits/";
  const std::string plan = scratch_ / "plan", calibrated = scratch_ / "calibrated";
  const std::string data = "--data=image=" + digits + "train_image.npy,label=" + digits + "train_label.npy";
  ExpectDone({ToolPath("actc"), ModelsFolder() + "/digits_resnet.onnx", "-O", "L2", "-o", plan,
              "--report=none", "--batch=32"});
  const llvm::json::Object report = Measure(plan, {data, "--calibrate=3", "--save-plan=" + calibrated});
  EXPECT_LE(Number(report, "bytes"), Number(report, "bytes_before"));
  EXPECT_LT(Number(report, "predicted"), .8 * Number(report, "sum_of_edges"));
  const double gain = Number(report, "variance") / Number(report, "variance_before");
  // Three mini-batches with four gradients each: 3 % each way (their standard errors).
  EXPECT_NEAR(gain, Number(report, "predicted") / Number(report, "sum_of_edges"), .1);
  ExpectDone({ToolPath("actplan"), "verify", calibrated});
  ExpectDone({ToolPath("actrun"), calibrated, "--threads=1", data, "--steps=2", "--check-memory"});

  const llvm::json::Object smaller =
      Measure(plan, {data, "--calibrate=1", "--bits=2.5", "--save-plan=" + calibrated});
  // --bits counts metadata and codes. It does not count the up to 15 bytes of alignment after each,
  // in each of the 32 samples.
  const llvm::json::Array* edges = smaller.getArray("edges");
  ASSERT_TRUE(edges && !edges->empty());
  const double gaps = 2. * 15 * 32 * static_cast<double>(edges->size());
  EXPECT_LE(Number(smaller, "bytes"), Number(smaller, "bytes_before") * 2.5 / 4.125 + gaps);
  EXPECT_GE(Number(smaller, "bytes"), Number(smaller, "bytes_before") * 2.4 / 4.125);
  ExpectRefused({ToolPath("actrun"), plan, "--threads=1", data, "--calibrate=1", "--bits=0.5",
                 "--save-plan=" + (scratch_ / "impossible")},
                {"--bits: an average of 0.500 bits an element"});
  EXPECT_FALSE(Exists(scratch_ / "impossible"));
}

TEST_F(Variance, RefusesWhatItCannotMeasure) {
  const std::string plan = CompileCase("lenet", "L3");
  const auto command = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {ToolPath("actrun"), plan, "--batch=4", "--threads=1"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  ExpectWrongUsage(command({"--variance=0"}), {"--variance"});
  ExpectWrongUsage(command({"--variance=2", "--variance-batches=0"}), {"--variance-batches"});
  ExpectWrongUsage(command({"--variance=2", "--steps=3"}), {"--steps", "training"});
  ExpectWrongUsage(command({"--variance=2", "--save=x"}), {"--save"});
  ExpectWrongUsage(command({"--calibrate=0"}), {"--calibrate"});
  ExpectWrongUsage(command({"--calibrate=2"}), {"--save-plan"});
  ExpectWrongUsage(command({"--save-plan=x"}), {"--calibrate"});
  ExpectWrongUsage(command({"--calibrate=2", "--save-plan=x", "--bits=-1"}), {"--bits"});
  ExpectRefused({ToolPath("actrun"), CompileCase("lenet", "L0"), "--batch=4", "--threads=1", "--calibrate=1",
                 "--save-plan=" + (scratch_ / "x")},
                {"nothing in levels"});
  EXPECT_FALSE(Exists(scratch_ / "x"));
  ExpectRefused(command({"--variance=2", "--variance-edges=[a"}), {"--variance-edges"});
  const std::string digits = ModelsFolder() + "/data/digits/";
  ExpectRefused(command({"--variance=2", "--inputs=" + Golden("resnet_basic", "inputs.safetensors")}),
                {"image"});
}

// Data whose shape is not the model's gives an error that names the input, and no plan is written.
TEST_F(Variance, CalibrationRefusesDataOfAnotherShape) {
  const std::string digits = ModelsFolder() + "/data/digits/";
  ExpectRefused({ToolPath("actrun"), CompileCase("lenet", "L3"), "--batch=4", "--threads=1", "--calibrate=1",
                 "--save-plan=" + (scratch_ / "x"),
                 "--data=image=" + digits + "train_image.npy,label=" + digits + "train_label.npy"},
                {"image", "16"});
  ExpectRefused(
      {ToolPath("actrun"), CompileCase("lenet", "L3"), "--batch=4", "--threads=1", "--calibrate=1",
       "--save-plan=" + (scratch_ / "x"), "--inputs=" + Golden("resnet_basic", "inputs.safetensors")},
      {"image"});
  EXPECT_FALSE(Exists(scratch_ / "x"));
}

TEST_F(Variance, NamesAGradientThatIsNotFinite) {
  auto inputs = Take(ReadTensors(Golden("lenet", "inputs.safetensors")));
  inputs["image"].data[3] = INFINITY;
  WriteTensors(scratch_ / "inputs.safetensors", inputs);
  ExpectRefused({ToolPath("actrun"), CompileCase("lenet", "L3"), "--batch=4", "--threads=1", "--variance=2",
                 "--inputs=" + (scratch_ / "inputs.safetensors")},
                {"gradient", "not finite"});
}

}  // namespace
}  // namespace act::e2e
