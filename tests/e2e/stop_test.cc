// Signals at every call that a run makes of the system, and clocks that jump. A run that is told to end leaves a
// complete checkpoint or the earlier one.
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <regex>

#include "tests/e2e/fault_cases.h"
#include "tests/e2e/tensors.h"

namespace act::e2e {
namespace {

constexpr const char* kFileCalls[] = {"open", "stat",   "read",   "write", "map",
                                      "sync", "rename", "unlink", "close"};

class Stop : public testing::Test {
 protected:
  void SetUp() override {
    if (!CanInjectFaults()) GTEST_SKIP() << "the sanitizers' library must be loaded first";
  }
};

TEST_F(Stop, ASignalAtAnyCallEndsARunWithItsFilesWhole) {
  FaultBench bench("actrun");
  for (const char* kind : kFileCalls) bench.ExpectEach(kind, "signal", SIGTERM);
  bench.ExpectEach("clock", "signal", SIGINT, 3);
  bench.ExpectEach("memory", "signal", SIGTERM, bench.calls().at("memory") / 40 + 1);
  bench.ExpectEach("clock", "signal", SIGHUP, 3);
}

TEST_F(Stop, ARunThatIsStoppedAfterItsStartIsDone) {
  FaultBench bench("actrun");
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    EXPECT_EQ(bench.Expect({"clock", 1, "signal", signal}, signal), 0);
    EXPECT_NE(bench.last().err.find("interrupted after step 1"), std::string::npos) << bench.last().err;
  }
  const Tensors checkpoint = llvm::cantFail(ReadTensors(bench / "checkpoint"));
  EXPECT_EQ(checkpoint.at("step").data.at(0), 1);
}

// A terminal that closes sends SIGHUP from the shell and from the kernel.
TEST_F(Stop, ASecondSignalEndsARunAtOnceUnlessATerminalCloses) {
  FaultBench bench("actrun");
  bench.ExpectEach("write", "signal-on", SIGTERM);
  EXPECT_EQ(bench.Expect({"clock", 1, "signal-on", SIGTERM}, SIGTERM), 128 + SIGTERM);
  EXPECT_EQ(bench.Expect({"clock", 1, "signal-on", SIGHUP}, SIGHUP), 0);
}

TEST_F(Stop, ACompilationEndsBySignalsAndLeavesNothing) {
  FaultBench bench("actc");
  for (const char* kind : kFileCalls) bench.ExpectEach(kind, "signal", SIGINT);
}

// As when the machine fails, or the system has no memory left and chooses this process.
TEST_F(Stop, AProcessThatIsKilledLeavesTheEarlierFileOrTheNewOne) {
  FaultBench bench("actrun");
  for (const char* kind : kFileCalls) bench.ExpectEach(kind, "signal", SIGKILL);
}

// Every number of seconds, or of something a second, in a report.
void ExpectTimes(const llvm::json::Value& value, bool is_time) {
  if (const auto number = value.getAsNumber(); number && is_time) {
    EXPECT_GE(*number, 0);
    EXPECT_TRUE(std::isfinite(*number));
  }
  if (const llvm::json::Array* array = value.getAsArray())
    for (const llvm::json::Value& element : *array) ExpectTimes(element, is_time);
  if (const llvm::json::Object* object = value.getAsObject())
    for (const auto& [key, element] : *object)
      ExpectTimes(element, is_time || llvm::StringRef(key).contains("second"));
}

TEST_F(Stop, TimesAreNeverNegativeWhenClocksJump) {
  for (const char* name : {"actrun", "actrun_tune"}) {
    FaultBench bench(name);
    ASSERT_GT(bench.calls().at("clock"), 0);
    for (const int64_t seconds : {-1'000'000, 1'000'000}) {
      for (int64_t at = 1; at <= bench.calls().at("clock") && !HasFailure(); at += 3) {
        ASSERT_EQ(bench.Expect({"clock", at, "jump", seconds}), 0);
        const std::string text = bench.last().out + bench.last().err;
        EXPECT_FALSE(std::regex_search(text, std::regex("(^|\\s)-[0-9]|nan|inf"))) << text;
        ExpectTimes(llvm::json::Value(llvm::cantFail(ReadJson(bench / "report.json"))), false);
      }
    }
  }
}

}  // namespace
}  // namespace act::e2e
