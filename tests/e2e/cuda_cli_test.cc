// What actrun says when a card, its driver or its data are not as they should be. The fake card plays
// the faults (tests/fake_cuda/README.md).
#include <csignal>
#include <filesystem>
#include <map>

#include "tests/e2e/refusal.h"
#include "tests/e2e/tensors.h"
#include "tests/paths.h"

namespace act::e2e {
namespace {

namespace fs = std::filesystem;

// The number of the allocation that is the arena: the step image, results of checks and seven staging
// buffers come before.
constexpr int kArenaAllocation = 10;

class CudaCli : public testing::Test {
 protected:
  void SetUp() override {
    ExpectDone({ToolPath("actc"), kGolden + "model.onnx", "-O", "L3", "-o", plan(), "--report=none"});
  }
  void TearDown() override {
    for (const auto& [name, value] : environment_) unsetenv(name.c_str());
  }
  void Set(const std::string& name, const std::string& value) {
    environment_[name] = value;
    setenv(name.c_str(), value.c_str(), 1);
  }
  std::string plan() const { return scratch_ / "plan.bin"; }
  std::vector<std::string> Command(const std::vector<std::string>& more = {},
                                   const std::string& device = "fake") const {
    std::vector<std::string> args = {ToolPath("actrun"), plan(), "--batch=4", "--steps=3",
                                     "--device=" + device};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  std::string Save(const std::string& name) const { return "--save=" + (scratch_ / name); }
  Tensors Saved(const std::string& name) const {
    auto tensors = ReadTensors(scratch_ / name);
    EXPECT_TRUE(static_cast<bool>(tensors)) << llvm::toString(tensors.takeError());
    return std::move(*tensors);
  }

  const std::string kGolden = GoldenFolder() + "/lenet/";
  const ScratchFolder scratch_;

 private:
  std::map<std::string, std::string> environment_;
};

TEST_F(CudaCli, NoCardAndTooOldADriverAreErrorsWithAHint) {
  Set("ACT_FAKE_NO_DEVICE", "1");
  EXPECT_NE(ExpectRefused(Command(), {"--device=fake", "no device"}).find("hint:"), std::string::npos);
  Set("ACT_FAKE_NO_DEVICE", "0");
  Set("ACT_FAKE_DRIVER", "11000");
  EXPECT_NE(ExpectRefused(Command(), {"--device=fake", "11000", "too old"}).find("hint:"), std::string::npos);
}

TEST_F(CudaCli, WithoutADriverCudaIsRefusedAndAutoTakesTheProcessor) {
  if (fs::exists("/dev/nvidiactl")) GTEST_SKIP() << "this machine has a driver";
  EXPECT_NE(ExpectRefused(Command({}, "cuda"), {"--device=cuda"}).find("hint:"), std::string::npos);
  const Outcome outcome = RunTool(Command({}, "auto"));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.err.find("actrun: the processor runs the plan: "), std::string::npos) << outcome.err;
}

TEST_F(CudaCli, ACardThatIsTooSmallIsToldBeforeAnythingIsAllocated) {
  Set("ACT_FAKE_CARD_BYTES", std::to_string(4 << 20));
  Set("ACT_FAKE_FAIL_ALLOCATION", "1000000");  // would be told instead, were the arena allocated
  const std::string error = ExpectRefused(Command({"--batch=512"}), {"--batch=512", "free"});
  EXPECT_NE(error.find("hint: the largest batch that fits is "), std::string::npos) << error;
}

TEST_F(CudaCli, MemoryThatAnotherProcessTakesInBetweenIsAnError) {
  // The arena is the first allocation of the size of a batch; what fails before it is the device's own.
  Set("ACT_FAKE_FAIL_ALLOCATION", std::to_string(kArenaAllocation));
  const std::string error = ExpectRefused(Command({Save("end")}), {"fake", "cannot allocate"});
  EXPECT_NE(error.find("hint: another process"), std::string::npos) << error;
  EXPECT_FALSE(fs::exists(scratch_ / "end"));
}

TEST_F(CudaCli, AKernelThatFailsEndsTheRunAndSavesNothing) {
  Set("ACT_FAKE_FAIL_LAUNCH", "100");
  ExpectRefused(Command({"--steps=20", Save("end")}), {"fake"});
  EXPECT_FALSE(fs::exists(scratch_ / "end"));
}

TEST_F(CudaCli, ALabelOutOfRangeNamesTheStepTheNodeAndTheLabel) {
  auto inputs = ReadTensors(kGolden + "inputs.safetensors");
  ASSERT_TRUE(static_cast<bool>(inputs));
  for (const double label : {10.0, -1.0, 1e12}) {
    (*inputs)["label"].data[2] = label;
    WriteTensors(scratch_ / "inputs.safetensors", *inputs);
    char number[32];
    std::snprintf(number, sizeof number, "%.0f", label);
    ExpectRefused(Command({"--inputs=" + (scratch_ / "inputs.safetensors"), Save("end")}),
                  {"step 0", "SoftmaxCrossEntropy", number});
  }
  EXPECT_FALSE(fs::exists(scratch_ / "end"));
}

TEST_F(CudaCli, DamagedKernelsAreMadeAgainAndAFolderThatCannotBeWrittenIsTold) {
  const std::string folder = scratch_ / "kernels";
  Set("ACT_KERNEL_CACHE", folder);
  ExpectDone(Command({Save("first")}));
  ASSERT_FALSE(List(folder).empty());
  for (const std::string& name : List(folder)) WriteFile(folder + "/" + name, "damaged");
  ExpectDone(Command({Save("second")}));
  EXPECT_EQ(ReadFile(scratch_ / "first"), ReadFile(scratch_ / "second"));
  EXPECT_NE(ReadFile(folder + "/" + List(folder).front()), "damaged");

  Set("ACT_KERNEL_CACHE", plan() + "/inside_a_file");
  const Outcome outcome = RunTool(Command({Save("third")}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("actrun: compiled kernels are not kept for the next run"), std::string::npos)
      << outcome.err;
  EXPECT_EQ(ReadFile(scratch_ / "first"), ReadFile(scratch_ / "third"));
}

TEST_F(CudaCli, CtrlCDuringAReplayEndsAfterTheStepAndResumesToTheSameBits) {
  const std::string inputs = "--inputs=" + kGolden + "inputs.safetensors";
  const std::vector<std::string> endless = Command({"--steps=1000000", inputs, Save("part")});
  const Outcome outcome = RunTool(endless, {.interrupt_at = "step 1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string said = "actrun: interrupted after step ";
  const size_t at = outcome.err.find(said);
  ASSERT_NE(at, std::string::npos) << outcome.err;
  const int64_t done = std::stoll(outcome.err.substr(at + said.size()));
  ASSERT_GE(done, 1);
  const std::string all = "--steps=" + std::to_string(done + 3);
  ExpectDone(Command({all, inputs, Save("whole")}));
  ExpectDone(Command({"--load=" + (scratch_ / "part"), inputs, Save("resumed")}));
  EXPECT_EQ(ReadFile(scratch_ / "whole"), ReadFile(scratch_ / "resumed"));
}

TEST_F(CudaCli, ACheckpointOfOneDeviceGoesOnOnTheOther) {
  // Exactly stored: a rounding of a code moves with the last bit of what it rounds.
  ExpectDone({ToolPath("actc"), kGolden + "model.onnx", "-O", "L0", "-o", plan(), "--report=none"});
  const std::string start = Save("start"), load = "--load=" + (scratch_ / "start");
  const std::string inputs = "--inputs=" + kGolden + "inputs.safetensors";
  for (const std::string from : {"fake", "cpu"}) {
    ExpectDone(Command({start, inputs}, from));
    ExpectDone(Command({load, inputs, Save("fake")}, "fake"));
    ExpectDone(Command({load, inputs, Save("cpu")}, "cpu"));
    const Tensors fake = Saved("fake"), cpu = Saved("cpu");
    ASSERT_EQ(fake.size(), cpu.size());
    for (const auto& [name, tensor] : cpu) {
      ASSERT_TRUE(fake.contains(name)) << name;
      if (name == "kernels") continue;  // what made it, which differs
      // Three steps in float32, in another order of sums: a few hundred roundings.
      EXPECT_LE(Distance(fake.at(name), tensor), 1e-4 * (Norm(tensor) + 1e-3)) << name;
    }
  }
}

TEST_F(CudaCli, KernelsAreWrittenForPeopleToRead) {
  ExpectDone(Command({"--dump-kernels=" + (scratch_ / "sources")}));
  ASSERT_FALSE(List(scratch_ / "sources").empty());
  for (const std::string& name : List(scratch_ / "sources")) EXPECT_TRUE(name.ends_with(".cu")) << name;
}

TEST_F(CudaCli, EachNodesKernelIsListedAndProfiled) {
  const Outcome outcome = RunTool(Command({"--verbose=dispatch", "--profile"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find(": cuda."), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.out.find("=== Profile ==="), std::string::npos);
}

}  // namespace
}  // namespace act::e2e
