// Presets that swap, as users run them: they give the numbers of the level below, in the two arenas
// that were promised.
#include <gtest/gtest.h>

#include "tests/e2e/process.h"
#include "tests/e2e/refusal.h"
#include "tests/e2e/tensors.h"
#include "tests/paths.h"

namespace act::e2e {
namespace {

llvm::json::Object Json(const std::string& path) {
  auto json = ReadJson(path);
  if (json) return std::move(*json);
  ADD_FAILURE() << llvm::toString(json.takeError());
  return {};
}

class Swap : public testing::Test {
 protected:
  std::string CompileAt(const std::string& level, int batch = 32) {
    const std::string plan = scratch_ / level;
    text_ = ExpectDone({ToolPath("actc"), ModelsFolder() + "/digits_resnet.onnx", "-O", level, "-o", plan,
                        "--batch=" + std::to_string(batch), "--report-json=" + plan + ".json"});
    return plan;
  }
  llvm::json::Object Promise(const std::string& plan) { return Json(plan + ".json"); }
  // Runs with the training set. With --batch, it runs on random inputs instead.
  std::string Run(const std::string& plan, const std::vector<std::string>& more) {
    std::vector<std::string> args = {ToolPath("actrun"), plan, "--report-json=" + (scratch_ / "run.json")};
    args.insert(args.end(), more.begin(), more.end());
    return ExpectDone(args);
  }
  static std::string Digits() {
    const std::string digits = ModelsFolder() + "/data/digits/";
    return "--data=image=" + digits + "train_image.npy,label=" + digits + "train_label.npy";
  }

  ScratchFolder scratch_;
  std::string text_;
};

TEST_F(Swap, UsesBothArenasAsPlannedAndComputesTheSameBits) {
  for (const auto& [level, below] :
       {std::pair<std::string, std::string>{"actnn-L4", "actnn-L3"}, {"gact-L3", "gact-L2"}})
    for (const int batch : {1, 33}) {
      const std::string swapping = CompileAt(level, batch), text = text_, keeping = CompileAt(below, batch);
      const llvm::json::Object promise = Promise(swapping), promise_below = Promise(keeping);
      EXPECT_NE(text.find("host's memory"), std::string::npos) << text;
      EXPECT_EQ(text_.find("host's memory"), std::string::npos) << text_;
      EXPECT_GT(promise.getInteger("host_bytes"), 0);
      EXPECT_EQ(promise_below.getInteger("host_bytes"), 0);
      EXPECT_LT(promise.getInteger("peak_bytes"), promise_below.getInteger("peak_bytes"));
      EXPECT_EQ(promise.getInteger("saved_bytes"), promise_below.getInteger("saved_bytes"));
      for (const char* threads : {"--threads=1", "--threads=2"}) {
        const std::vector<std::string> flags = {"--batch=" + std::to_string(batch), "--steps=1", threads};
        const auto run = [&](const std::string& plan, bool check) {
          std::vector<std::string> all = flags;
          all.push_back("--dump-step=" + plan + ".step");
          if (check) all.emplace_back("--check-memory");
          return Run(plan, all);
        };
        run(keeping, false);
        const std::string report = run(swapping, true);
        EXPECT_NE(report.find("for swapped values"), std::string::npos) << report;
        const llvm::json::Object used = Json(scratch_ / "run.json");
        EXPECT_EQ(used.getInteger("peak_bytes"), promise.getInteger("peak_bytes"));
        EXPECT_EQ(used.getInteger("planned_peak_bytes"), promise.getInteger("peak_bytes"));
        EXPECT_EQ(used.getInteger("host_bytes"), promise.getInteger("host_bytes"));
        EXPECT_EQ(used.getInteger("planned_host_bytes"), promise.getInteger("host_bytes"));
        EXPECT_TRUE(ReadFile(swapping + ".step") == ReadFile(keeping + ".step"))
            << level << ", batch " << batch << ", " << threads;
      }
    }
}

TEST_F(Swap, ResumesBitIdentically) {
  const std::string plan = CompileAt("actnn-L5"), straight = scratch_ / "straight", half = scratch_ / "half",
                    resumed = scratch_ / "resumed";
  Run(plan, {Digits(), "--threads=1", "--steps=7", "--save=" + straight});
  Run(plan, {Digits(), "--threads=1", "--steps=3", "--save=" + half});
  Run(plan, {Digits(), "--threads=1", "--steps=4", "--load=" + half, "--save=" + resumed});
  EXPECT_TRUE(ReadFile(straight) == ReadFile(resumed));
}

TEST_F(Swap, IsMeasuredAndCalibratedAsWithout) {
  const std::string swapping = CompileAt("gact-L3"), keeping = CompileAt("gact-L2");
  const std::vector<std::string> measure = {Digits(), "--threads=1", "--variance=2", "--variance-batches=1",
                                            "--variance-edges="};
  Run(swapping, measure);
  const auto with = Json(scratch_ / "run.json").getNumber("variance");
  Run(keeping, measure);
  EXPECT_EQ(with, Json(scratch_ / "run.json").getNumber("variance"));
  EXPECT_GT(with, 0);

  const std::string better = scratch_ / "better";
  Run(swapping, {Digits(), "--threads=1", "--calibrate=1", "--variance=2", "--save-plan=" + better});
  ExpectDone({ToolPath("actplan"), "verify", better});
  Run(better, {Digits(), "--threads=1", "--steps=2", "--check-memory"});
  const llvm::json::Object used = Json(scratch_ / "run.json");
  EXPECT_EQ(used.getInteger("host_bytes"), used.getInteger("planned_host_bytes"));
  EXPECT_EQ(used.getInteger("peak_bytes"), used.getInteger("planned_peak_bytes"));
  const std::string edges = ExpectDone({ToolPath("actplan"), "show", "--edges", better});
  EXPECT_NE(edges.find("levels),g256, swapped"), std::string::npos) << edges;
}

TEST_F(Swap, IsShownInThePlan) {
  const std::string plan = CompileAt("actnn-L4"), below = CompileAt("actnn-L3");
  const std::string layout = ExpectDone({ToolPath("actplan"), "layout", plan});
  const int64_t host = Promise(plan).getInteger("host_bytes").value_or(0);
  EXPECT_NE(layout.find("host " + std::to_string(host) + "\n"), std::string::npos) << layout;
  EXPECT_NE(layout.find("  host        "), std::string::npos) << layout;
  EXPECT_NE(ExpectDone({ToolPath("actplan"), "verify", plan}).find(", of the host "), std::string::npos);
  const std::string diff = ExpectDone({ToolPath("actplan"), "diff", below, plan});
  for (const char* words : {"uniform2,g256 -> uniform2,g256, swapped", "host's memory at batch 32: 0 B -> ",
                            "operator SwapIn: none -> "})
    EXPECT_NE(diff.find(words), std::string::npos) << diff;
  const std::string explained =
      ExpectDone({ToolPath("actc"), ModelsFolder() + "/digits_resnet.onnx", "-O", "actnn-L4", "--report=none",
                  "--explain", "--emit-onnx=" + (scratch_ / "graph.onnx")});
  EXPECT_NE(explained.find("until it is read its code waits in the host's memory"), std::string::npos);
  EXPECT_TRUE(Exists(scratch_ / "graph.onnx"));
}

}  // namespace
}  // namespace act::e2e
