// Full-size models without their weights: reports at large batches, and small-batch runs whose peak
// is the planned one.
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <tuple>

#include "tests/e2e/process.h"
#include "tests/e2e/tensors.h"
#include "tests/paths.h"

namespace act::e2e {
namespace {

std::string ZooModel(const std::string& name) { return ModelsFolder() + "/zoo/" + name + ".onnx"; }

int64_t Integer(const llvm::json::Object& report, const char* key) {
  return report.getInteger(key).value_or(-1);
}

llvm::json::Object Report(const std::string& model, const std::string& level, int64_t batch,
                          const std::string& file) {
  const std::vector<std::string> args = {
      ToolPath("actc"),       ZooModel(model), "-O", level, "--batch=" + std::to_string(batch),
      "--report-json=" + file};
  const Outcome outcome = RunTool(args);
  EXPECT_EQ(outcome.exit_code, 0) << Describe(args, outcome);
  auto report = ReadJson(file);
  if (report) return std::move(*report);
  ADD_FAILURE() << llvm::toString(report.takeError());
  return {};
}

using Parameters = std::tuple<std::string, std::string>;  // model, level

std::string Name(const testing::TestParamInfo<Parameters>& info) {
  return std::get<0>(info.param) + "_" + std::get<1>(info.param);
}

class ZooReport : public testing::TestWithParam<Parameters> {};

TEST_P(ZooReport, AddsUpAndNeedsNoWeights) {
  const auto& [model, level] = GetParam();
  const ScratchFolder scratch;
  const llvm::json::Object report = Report(model, level, 64, scratch / "report.json");
  const int64_t peak = Integer(report, "peak_bytes");
  EXPECT_GT(peak, 0);
  EXPECT_GE(peak, Integer(report, "lower_bound_bytes"));
  EXPECT_LE(Integer(report, "saved_bytes"), Integer(report, "saved_bytes_uncompressed"));
  const llvm::json::Array* edges = report.getArray("edges");
  ASSERT_TRUE(edges);
  int64_t saved = 0, uncompressed = 0;
  for (const auto& edge : *edges) {
    saved += Integer(*edge.getAsObject(), "bytes");
    uncompressed += Integer(*edge.getAsObject(), "bytes_uncompressed");
  }
  EXPECT_EQ(saved, Integer(report, "saved_bytes"));
  EXPECT_EQ(uncompressed, Integer(report, "saved_bytes_uncompressed"));
}

INSTANTIATE_TEST_SUITE_P(, ZooReport,
                         testing::Combine(testing::Values("resnet18", "resnet50", "vgg16", "densenet121",
                                                          "mobilenet_v2"),
                                          testing::Values("L0", "L1", "L2", "L3")),
                         Name);

// A capacity planner waits for the answer: the time is printed, but not judged.
TEST(ZooReportOfALargeModel, ResNet152AtBatch512) {
  const ScratchFolder scratch;
  const auto start = std::chrono::steady_clock::now();
  const llvm::json::Object compressed = Report("resnet152", "L3", 512, scratch / "l3.json");
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::cout << "resnet152, batch 512, L3: report in " << seconds.count() << " s, peak "
            << Integer(compressed, "peak_bytes") << " bytes\n";
  const llvm::json::Object exact = Report("resnet152", "L0", 512, scratch / "l0.json");
  EXPECT_LT(Integer(compressed, "peak_bytes"), Integer(exact, "peak_bytes") / 4);
}

class ZooRun : public testing::TestWithParam<Parameters> {};

// Random inputs and seeded weights. Memory is checked, at a size where kernels need workspaces.
TEST_P(ZooRun, UsesThePlannedPeak) {
  const auto& [model, level] = GetParam();
  const ScratchFolder scratch;
  const std::string plan = scratch / "plan.bin", planned = scratch / "plan.json", used = scratch / "run.json";
  const std::vector<std::string> compile = {
      ToolPath("actc"), ZooModel(model),           "-O", level, "-o", plan, "--init=he",
      "--batch=2",      "--report-json=" + planned};
  const Outcome compiled = RunTool(compile);
  ASSERT_EQ(compiled.exit_code, 0) << Describe(compile, compiled);
  const std::vector<std::string> train = {ToolPath("actrun"),     plan,        "--batch=2",
                                          "--threads=2",          "--steps=2", "--lr=1e-4",
                                          "--report-json=" + used};
  const Outcome trained = RunTool(train);
  ASSERT_EQ(trained.exit_code, 0) << Describe(train, trained);
  auto promise = ReadJson(planned), measured = ReadJson(used);
  ASSERT_TRUE(promise && measured);
  EXPECT_EQ(Integer(*promise, "peak_bytes"), Integer(*measured, "peak_bytes"));
}

INSTANTIATE_TEST_SUITE_P(, ZooRun,
                         testing::Combine(testing::Values("resnet18", "resnet50", "mobilenet_v2"),
                                          testing::Values("L0", "L3")),
                         Name);

class LightRun : public testing::TestWithParam<Parameters> {};

// Old opsets, weights made by ConstantOfShape nodes, and a batch of one in every shape.
TEST_P(LightRun, ComputedWeightsTrainInThePlannedMemory) {
  const auto& [model, level] = GetParam();
  const ScratchFolder scratch;
  const std::string plan = scratch / "plan.bin", planned = scratch / "plan.json", used = scratch / "run.json";
  const std::vector<std::string> compile = {ToolPath("actc"),
                                            ModelsFolder() + "/light/light_" + model + ".onnx",
                                            "-O",
                                            level,
                                            "-o",
                                            plan,
                                            "--init=he",
                                            "--loss=cross-entropy",
                                            "--report-json=" + planned};
  const Outcome compiled = RunTool(compile);
  ASSERT_EQ(compiled.exit_code, 0) << Describe(compile, compiled);
  // No learning is expected: without normalization, inception_v1's scores are of order 1e15
  // from the first step.
  const std::vector<std::string> train = {ToolPath("actrun"), plan,     "--batch=1",
                                          "--steps=2",        "--lr=0", "--report-json=" + used};
  const Outcome trained = RunTool(train);
  ASSERT_EQ(trained.exit_code, 0) << Describe(train, trained);
  auto promise = ReadJson(planned), measured = ReadJson(used);
  ASSERT_TRUE(promise && measured);
  EXPECT_EQ(Integer(*promise, "peak_bytes"), Integer(*measured, "peak_bytes"));
  // The weights are parameters, not constants.
  EXPECT_GT(Integer(*promise, "parameters_bytes"), 1 << 20);
}

INSTANTIATE_TEST_SUITE_P(, LightRun,
                         testing::Combine(testing::Values("squeezenet", "shufflenet", "inception_v1"),
                                          testing::Values("L3")),
                         Name);

class SmallRun : public testing::TestWithParam<Parameters> {};

// Models that come with their weights learn something from a batch that stays the
// same, at every level.
TEST_P(SmallRun, LearnsInThePlannedMemory) {
  const auto& [model, level] = GetParam();
  const ScratchFolder scratch;
  const std::string plan = scratch / "plan.bin", planned = scratch / "plan.json", used = scratch / "run.json";
  const std::vector<std::string> compile = {ToolPath("actc"),
                                            ModelsFolder() + "/" + model + ".onnx",
                                            "-O",
                                            level,
                                            "-o",
                                            plan,
                                            "--batch=8",
                                            "--optimizer=adam",
                                            "--report-json=" + planned};
  const Outcome compiled = RunTool(compile);
  ASSERT_EQ(compiled.exit_code, 0) << Describe(compile, compiled);
  const std::vector<std::string> train = {ToolPath("actrun"), plan,        "--batch=8",
                                          "--steps=10",       "--lr=1e-3", "--report-json=" + used};
  const Outcome trained = RunTool(train);
  ASSERT_EQ(trained.exit_code, 0) << Describe(train, trained);
  auto promise = ReadJson(planned), measured = ReadJson(used);
  ASSERT_TRUE(promise && measured);
  EXPECT_EQ(Integer(*promise, "peak_bytes"), Integer(*measured, "peak_bytes"));
  const llvm::json::Array* losses = measured->getArray("losses");
  ASSERT_TRUE(losses && losses->size() == 10);
  EXPECT_LT(losses->back().getAsNumber().value_or(1e9), .9 * losses->front().getAsNumber().value_or(0));
}

INSTANTIATE_TEST_SUITE_P(, SmallRun,
                         testing::Combine(testing::Values("char_gpt", "digits_resnet"),
                                          testing::Values("L0", "L3", "L4")),
                         Name);

// The model's queries, keys and values have 64 numbers each, stored one after another.
TEST(SmallReport, QueriesKeysAndValuesShareNoGroup) {
  const ScratchFolder scratch;
  const std::string file = scratch / "report.json";
  const std::vector<std::string> args = {
      ToolPath("actc"), ModelsFolder() + "/char_gpt.onnx", "-O", "L3", "--bits=3", "--report-json=" + file};
  const Outcome outcome = RunTool(args);
  ASSERT_EQ(outcome.exit_code, 0) << Describe(args, outcome);
  auto report = ReadJson(file);
  ASSERT_TRUE(bool(report));
  int found = 0;
  for (const auto& edge : *report->getArray("edges")) {
    const auto form = edge.getAsObject()->getString("form").value_or("");
    found += form == "uniform5,g64,dither";
  }
  EXPECT_EQ(found, 4);  // one per block
}

}  // namespace
}  // namespace act::e2e
