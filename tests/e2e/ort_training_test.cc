// Training graphs of ONNX Runtime, read with their own backward pass (tests/data/ort_training):
// their numbers, their saved activations, and errors for damaged ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/e2e/golden_case.h"
#include "tests/e2e/refusal.h"
#include "tests/paths.h"

namespace act::e2e {
namespace {

// Two correct implementations in float32 differ by 2e-7 in the gradients and by 7e-6
// after three steps. All numbers here are about 1. Gradients that are 0 but for rounding
// need an absolute bound.
constexpr double kGradientLimit = 1e-6, kLossLimit = 5e-6, kEndLimit = 2e-5;

std::string Data(const std::string& name, const std::string& file) {
  return TestDataFolder() + "/ort_training/" + name + "/" + file;
}

// Empty, and a test failure, if the file cannot be read.
Tensors ReadData(const std::string& name, const std::string& file) {
  auto tensors = ReadTensors(Data(name, file));
  if (tensors) return std::move(*tensors);
  ADD_FAILURE() << llvm::toString(tensors.takeError());
  return {};
}

double LargestError(const Tensor& a, const Tensor& b) {
  if (a.data.size() != b.data.size()) return INFINITY;
  double worst = 0;
  for (size_t i = 0; i < a.data.size(); ++i) {
    const double error = std::fabs(a.data[i] - b.data[i]);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

struct Run {
  llvm::json::Object plan, report;
  Tensors step, end;
  std::vector<double> losses;
};

llvm::Expected<Run> CompileAndRun(const std::string& model, const std::string& inputs,
                                  std::vector<std::string> flags, std::vector<std::string> run_flags) {
  const ScratchFolder scratch;
  const auto call = [&](std::vector<std::string> args, const std::vector<std::string>& more) -> llvm::Error {
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = RunTool(args);
    if (outcome.exit_code == 0) return llvm::Error::success();
    return llvm::createStringError(llvm::inconvertibleErrorCode(), Describe(args, outcome));
  };
  if (auto error = call({ToolPath("actc"), model, "-o", scratch / "plan", "--batch=4", "--verify-each",
                         "--report-json=" + (scratch / "plan.json")},
                        flags))
    return error;
  if (auto error = call({ToolPath("actrun"), scratch / "plan", "--batch=4", "--steps=3", "--threads=1",
                         "--check-memory", "--inputs=" + inputs, "--dump-step=" + (scratch / "step"),
                         "--save=" + (scratch / "end"), "--report-json=" + (scratch / "run.json")},
                        run_flags))
    return error;
  Run run;
  for (const auto& [object, file] : {std::pair(&run.plan, "plan.json"), std::pair(&run.report, "run.json")}) {
    auto json = ReadJson(scratch / file);
    if (!json) return json.takeError();
    *object = std::move(*json);
  }
  for (const auto& [tensors, file] : {std::pair(&run.step, "step"), std::pair(&run.end, "end")}) {
    auto read = ReadTensors(scratch / file);
    if (!read) return read.takeError();
    *tensors = std::move(*read);
  }
  if (const auto* losses = run.report.getArray("losses"))
    for (const auto& loss : *losses) run.losses.push_back(loss.getAsNumber().value_or(NAN));
  return run;
}

void ExpectGradients(const Run& run, const Tensors& expected) {
  ASSERT_EQ(run.losses.size(), 3u);
  EXPECT_NEAR(run.losses[0], expected.at("loss.0").data.at(0), kLossLimit);
  int gradients = 0;
  for (const auto& [name, tensor] : expected) {
    if (name.rfind("grad.", 0) != 0) continue;
    ++gradients;
    const auto found = run.step.find(name);
    ASSERT_NE(found, run.step.end()) << name << " is missing";
    EXPECT_LE(LargestError(found->second, tensor), kGradientLimit) << name;
  }
  EXPECT_GT(gradients, 3);
}

void ExpectEnd(const Run& run, const Tensors& expected) {
  for (size_t k = 0; k < 3; ++k)
    EXPECT_NEAR(run.losses.at(k), expected.at("loss." + std::to_string(k)).data.at(0), kLossLimit) << k;
  for (const auto& [name, tensor] : expected) {
    if (name.rfind("param.3.", 0) != 0) continue;
    const std::string key = name.substr(8);
    const auto found = run.end.find((run.end.count("buffer." + key) ? "buffer." : "param.") + key);
    ASSERT_NE(found, run.end.end()) << key << " is missing";
    EXPECT_LE(LargestError(found->second, tensor), kEndLimit) << name;
  }
}

void ExpectPlannedPeak(const Run& run) {
  EXPECT_EQ(run.plan.getInteger("peak_bytes"), run.report.getInteger("peak_bytes"));
  EXPECT_GT(run.plan.getInteger("peak_bytes").value_or(0), 0);
}

llvm::Expected<Run> RunCase(const std::string& name, std::vector<std::string> flags,
                            std::vector<std::string> run_flags) {
  return CompileAndRun(Data(name, "training_model.onnx"), Data(name, "inputs.safetensors"), std::move(flags),
                       std::move(run_flags));
}

class OrtTraining : public ::testing::TestWithParam<const char*> {};

TEST_P(OrtTraining, GradientsAreThoseOfOnnxRuntime) {
  const Tensors expected = ReadData(GetParam(), "expected.safetensors");
  auto run = RunCase(GetParam(), {"--optimizer=sgd"}, {});
  ASSERT_TRUE(static_cast<bool>(run)) << llvm::toString(run.takeError());
  ExpectGradients(*run, expected);
  ExpectPlannedPeak(*run);
}

// Two ways to the same gradient: the model's backward pass, and ours for its forward graph.
TEST_P(OrtTraining, ForwardGraphGivesTheSame) {
  const std::string model = Data(GetParam(), "forward.onnx");
  if (!Exists(model)) GTEST_SKIP() << "the forward graph is that of mlp_sgd";
  const Tensors expected = ReadData(GetParam(), "expected.safetensors");
  Tensors inputs = ReadData(GetParam(), "inputs.safetensors");
  inputs["label"] = inputs["labels"];
  inputs.erase("labels");
  const ScratchFolder scratch;
  WriteTensors(scratch / "inputs", inputs);
  auto run = CompileAndRun(model, scratch / "inputs", {"--loss=cross-entropy", "--optimizer=sgd"}, {});
  ASSERT_TRUE(static_cast<bool>(run)) << llvm::toString(run.takeError());
  ExpectGradients(*run, expected);
}

// Codes are unbiased, so that they change three small steps of training only slightly.
TEST_P(OrtTraining, EveryLevelRunsAsPlanned) {
  const Tensors expected = ReadData(GetParam(), "expected.safetensors");
  int64_t saved = INT64_MAX;
  for (const char* level : {"L0", "L2", "L3"}) {
    auto run = RunCase(GetParam(), {"-O", level, "--optimizer=sgd"}, {});
    ASSERT_TRUE(static_cast<bool>(run)) << llvm::toString(run.takeError());
    ExpectPlannedPeak(*run);
    EXPECT_NEAR(run->losses.at(0), expected.at("loss.0").data.at(0), kLossLimit) << level;
    EXPECT_LT(run->losses.at(2), run->losses.at(0)) << level;
    const int64_t bytes = run->plan.getInteger("saved_bytes").value_or(-1);
    EXPECT_LE(bytes, saved) << level;
    saved = bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(All, OrtTraining,
                         ::testing::Values("mlp", "mlp_sgd", "lenet", "resnet_small", "tiny_transformer"),
                         [](const auto& test_info) { return std::string(test_info.param); });

// With the optimizer model beside it: its hyperparameters and its clipping. The rate is the run's.
TEST_P(OrtTraining, EndsWhereOnnxRuntimeDoes) {
  const bool sgd = std::string(GetParam()) == "mlp_sgd";
  auto run = RunCase(GetParam(), {}, {sgd ? "--lr=.1" : "--lr=.01"});
  ASSERT_TRUE(static_cast<bool>(run)) << llvm::toString(run.takeError());
  ExpectEnd(*run, ReadData(GetParam(), "expected.safetensors"));
  ExpectPlannedPeak(*run);
}

// The nodes that produce the saved activations, by the model's own names and in its order. A mask
// made for a ReluGrad has the name of the node that reads it. The first edge is the model's
// input, channels-last.
std::vector<std::string> SavedBy(const std::string& name) {
  const std::string text = ExpectDone(
      {ToolPath("actc"), Data(name, "training_model.onnx"), "-O", "L0", "--report=none", "--explain"});
  std::vector<std::string> producers;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    if (!line.empty() && line[0] != ' ' && line.find(": read by ") != std::string::npos)
      producers.push_back(line.substr(0, line.find(": read by ")));
    if (text.find('\n', at) == std::string::npos) break;
  }
  return producers;
}

TEST(OrtTraining, SavedActivationsAreThoseThatItsBackwardPassReads) {
  const std::string bn = "/bn1/BatchNormalization_BatchNormInternal.stats (BatchNormStats)";
  EXPECT_EQ(
      SavedBy("lenet"),
      (std::vector<std::string>{
          "/conv1/Conv (Conv)", bn, bn, "/Relu_Grad/ReluGrad_0.grad (ReluDerivative)", "/MaxPool (MaxPool)",
          "/MaxPool (MaxPool)", "/Relu_1_Grad/ReluGrad_0.grad (ReluDerivative)", "/MaxPool_1 (MaxPool)",
          "/Flatten (Reshape)", "/Relu_2 (Relu)", "onnx::SoftmaxCrossEntropyLoss::4 (SoftmaxCrossEntropy)"}));
  std::vector<std::string> resnet;
  const auto block = [&resnet](const std::string& path, const std::string& conv, const std::string& norm) {
    resnet.push_back(path + conv + "/Conv (Conv)");
    for (int i = 0; i < 2; ++i)
      resnet.push_back(path + norm + "/BatchNormalization_BatchNormInternal.stats (BatchNormStats)");
  };
  block("/", "conv", "bn");
  resnet.push_back("/Relu (Relu)");
  block("/layer1/", "conv1", "bn1");
  resnet.push_back("/layer1/Relu (Relu)");
  block("/layer1/", "conv2", "bn2");
  resnet.push_back("/layer1/Relu_1 (Relu)");
  block("/layer2/", "down/down.0", "down/down.1");
  block("/layer2/", "conv1", "bn1");
  resnet.push_back("/layer2/Relu (Relu)");
  block("/layer2/", "conv2", "bn2");
  resnet.push_back("/layer2/Relu_1_Grad/ReluGrad_0.grad (ReluDerivative)");
  resnet.push_back("/Flatten (Reshape)");
  resnet.push_back("onnx::SoftmaxCrossEntropyLoss::4 (SoftmaxCrossEntropy)");
  EXPECT_EQ(SavedBy("resnet_small"), resnet);
}

// The exported model is an ordinary forward graph. It trains on from where the
// training graph would.
TEST(OrtTraining, ExportsItsForwardPartWithTrainedParameters) {
  const ScratchFolder scratch;
  const std::string plan = scratch / "plan", exported = scratch / "trained.onnx";
  const std::string inputs = Data("tiny_transformer", "inputs.safetensors");
  ExpectDone(
      {ToolPath("actc"), Data("tiny_transformer", "training_model.onnx"), "-o", plan, "--optimizer=sgd"});
  ExpectDone({ToolPath("actrun"), plan, "--batch=4", "--inputs=" + inputs, "--lr=.1", "--momentum=0",
              "--steps=2", "--export-onnx=" + exported});
  auto straight = RunCase("tiny_transformer", {"--optimizer=sgd"}, {"--lr=.1", "--momentum=0"});
  ASSERT_TRUE(static_cast<bool>(straight)) << llvm::toString(straight.takeError());
  Tensors batch = ReadData("tiny_transformer", "inputs.safetensors");
  batch["label"] = batch["labels"];
  batch.erase("labels");
  WriteTensors(scratch / "inputs", batch);
  auto resumed = CompileAndRun(exported, scratch / "inputs", {"--loss=cross-entropy", "--optimizer=sgd"}, {});
  ASSERT_TRUE(static_cast<bool>(resumed)) << llvm::toString(resumed.takeError());
  EXPECT_NEAR(resumed->losses.at(0), straight->losses.at(2), kLossLimit);
}

TEST(OrtTraining, OptimizerModelsAreChosenAndReplaced) {
  const ScratchFolder scratch;
  const std::string model = Data("tiny_transformer", "training_model.onnx"), plan = scratch / "plan";
  const auto optimizer = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {ToolPath("actc"), model, "-o", plan, "--report=none"});
    ExpectDone(flags);
    ExpectDone({ToolPath("actrun"), plan, "--batch=1", "--steps=1", "--report-json=" + (scratch / "run")});
    auto json = ReadJson(scratch / "run");
    if (!json) return llvm::json::Object{{"error", llvm::toString(json.takeError())}};
    llvm::json::Object found = *json->getObject("optimizer");
    found["clip"] = json->getNumber("clip_norm").value_or(-1);
    return found;
  };
  const llvm::json::Object own = optimizer({});
  EXPECT_EQ(own.getString("name"), "ort-adamw");
  EXPECT_EQ(own.getNumber("eps"), 1e-6);
  EXPECT_EQ(own.getNumber("clip"), 1);
  EXPECT_EQ(optimizer({"--clip-norm=3"}).getNumber("clip"), 3);
  const llvm::json::Object given =
      optimizer({"--optimizer-model=" + Data("resnet_small", "optimizer_model.onnx")});
  EXPECT_EQ(given.getNumber("weight-decay"), .05);
  EXPECT_EQ(given.getNumber("clip"), 0);
  EXPECT_EQ(optimizer({"--optimizer=adagrad"}).getString("name"), "adagrad");
  EXPECT_EQ(optimizer({"--optimizer=adagrad"}).getNumber("clip"), 0);
  ExpectWrongUsage({ToolPath("actc"), model, "--optimizer=sgd", "--optimizer-model=x"},
                   {"--optimizer-model"});
  ExpectRefused({ToolPath("actc"), model, "--optimizer-model=" + Data("mlp", "forward.onnx")},
                {"forward.onnx"});
  ExpectRefused({ToolPath("actc"), model, "--optimizer-model=" + model},
                {"is not supported in an optimizer model"});
}

TEST(OrtTraining, WithoutACheckpointThereIsAReportAndNoPlan) {
  const ScratchFolder scratch;
  const std::string model = scratch / "training_model.onnx", checkpoint = Data("mlp", "checkpoint");
  WriteFile(model, ReadFile(Data("mlp", "training_model.onnx")));
  EXPECT_NE(ExpectDone({ToolPath("actc"), model}).find("peak"), std::string::npos);
  ExpectRefused({ToolPath("actc"), model, "-o", scratch / "plan"},
                {"parameter 'fc1.weight'", "has no initial value"});
  ExpectDone({ToolPath("actc"), model, "-o", scratch / "plan", "--checkpoint=" + checkpoint});
  ExpectDone({ToolPath("actc"), model, "-o", scratch / "plan", "--init=he"});
  ExpectRefused({ToolPath("actc"), model, "--checkpoint=" + (scratch / "absent")}, {"absent"});
}

TEST(OrtTraining, DamagedCheckpointsAreRefused) {
  const ScratchFolder scratch;
  const std::string model = Data("mlp", "training_model.onnx"), good = ReadFile(Data("mlp", "checkpoint"));
  ASSERT_GT(good.size(), 1000u);
  const auto refuse = [&](const std::string& bytes, const std::vector<std::string>& words) {
    WriteFile(scratch / "c", bytes);
    ExpectRefused({ToolPath("actc"), model, "-o", scratch / "plan", "--checkpoint=" + (scratch / "c")},
                  words);
  };
  refuse("", {"is no checkpoint of ONNX Runtime"});
  refuse(std::string(64, 'x'), {"is no checkpoint of ONNX Runtime"});
  for (size_t i = 1; i < 12; ++i) refuse(good.substr(0, good.size() * i / 12), {"c: is "});
  // Extents at 4 bytes past a multiple of 8, which the format's verifier accepts.
  refuse(ReadFile(TestDataFolder() + "/../fuzz/corpus/ort_checkpoint/misaligned_extents"),
         {"extents are not aligned"});
  refuse(ReadFile(Data("lenet", "checkpoint")),
         {"parameter 'fc1.weight'", "is f32[32,256] in the checkpoint"});
}

TEST(OrtTraining, FlagsThatContradictTheGraphAreRefused) {
  const std::string model = Data("lenet", "training_model.onnx");
  for (const char* flag : {"--loss=mse", "--loss-output=x", "--freeze-bn"})
    ExpectRefused({ToolPath("actc"), model, flag}, {"the model is a training graph with its own loss"});
  ExpectRefused({ToolPath("actc"), Data("lenet", "forward.onnx"), "--loss=cross-entropy", "--checkpoint=x"},
                {"--checkpoint", "is no training graph"});
  // A frozen parameter keeps its place in the graph, but has no update.
  ExpectDone({ToolPath("actc"), model, "--freeze=conv1.*", "--verify-each"});
}

}  // namespace
}  // namespace act::e2e
