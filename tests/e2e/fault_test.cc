// Every call on a file, of a thread, and of memory fails once. Then the run ends with one error line and exit
// code 1, or does without; each file is complete or as it was; and nothing else is left.
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <tuple>

#include "tests/e2e/fault_cases.h"

namespace act::e2e {
namespace {

class Faults : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!CanInjectFaults()) GTEST_SKIP() << "the sanitizers' library must be loaded first";
    bench_.emplace(GetParam());
  }
  FaultBench& bench() { return *bench_; }

 private:
  std::optional<FaultBench> bench_;
};

TEST_P(Faults, OnFiles) {
  bench().ExpectEach("open", "fail", EIO);
  bench().ExpectEach("open", "fail", EMFILE);
  bench().ExpectEach("open", "fail", EROFS);
  bench().ExpectEach("stat", "fail", EIO);
  bench().ExpectEach("read", "fail", EIO);
  bench().ExpectEach("write", "fail", EIO);
  bench().ExpectEach("write", "fail-on", ENOSPC);
  bench().ExpectEach("map", "fail", ENOMEM);
  bench().ExpectEach("sync", "fail", EIO);
  bench().ExpectEach("rename", "fail", EACCES);
  bench().ExpectEach("close", "fail", EIO);
}

// A signal that is handled may end a call early: the call is made again, and nothing is wrong.
TEST_P(Faults, CallsThatAreCutShortGoOn) {
  for (const char* kind : {"open", "read", "write", "sync"})
    for (int64_t at = 1; at <= bench().calls().at(kind); ++at)
      EXPECT_EQ(bench().Expect({kind, at, "fail", EINTR}), 0) << kind << " " << at;
  for (const char* kind : {"read", "write"})
    for (int64_t at = 1; at <= bench().calls().at(kind); ++at)
      EXPECT_EQ(bench().Expect({kind, at, "short", 0}), 0) << kind << " " << at;
}

// A file is flushed to disk before it gets its name, and its name after that.
TEST_P(Faults, FilesAreFlushedBeforeTheyAreRenamedAndFoldersAfter) {
  const std::vector<std::string> calls = bench().Trace();
  size_t renames = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].rfind("rename ", 0) != 0) continue;
    ++renames;
    const std::string from = calls[i].substr(7, calls[i].find(' ', 7) - 7);
    const std::string name = from.substr(from.rfind('/') + 1), folder = bench() / "";
    ASSERT_GT(i, 0u);
    ASSERT_LT(i + 1, calls.size());
    EXPECT_EQ(calls[i - 1], "sync " + folder + name) << "before " << calls[i];
    EXPECT_EQ(calls[i + 1] + "/", "sync " + folder) << "after " << calls[i];
    for (size_t later = i; later < calls.size(); ++later)
      EXPECT_NE(calls[later], "write " + folder + name) << "after " << calls[i];
  }
  size_t outputs = 0;
  for (const std::string& call : calls) outputs += call.rfind("sync ", 0) == 0;
  EXPECT_EQ(outputs, 2 * renames);
  EXPECT_EQ(renames == 0, GetParam() == "actplan");
}

// Memory of the C library, whoever asks: the tools, the C++ library, LLVM, protobuf, oneDNN, OpenMP.
TEST_P(Faults, SomeRequestsOfMemory) {
  constexpr int64_t kRuns = 60, kLeast = 1000;
  ASSERT_GT(bench().calls().at("memory"), kLeast)
      << "a tool makes more; has it an allocator that is not watched?";
  bench().ExpectEach("memory", "fail", ENOMEM, bench().calls().at("memory") / kRuns + 1);
}

TEST_P(Faults, EveryRequestOfMemoryAtTheEnd) {
  // The last ones are while files are open.
  const int64_t calls = bench().calls().at("memory");
  for (int64_t at = std::max<int64_t>(1, calls - 60); at <= calls; ++at)
    bench().Expect({"memory", at, "fail", ENOMEM});
}

// A thread that OpenMP cannot start.
TEST(FaultsOfThreads, AreAnError) {
  if (!CanInjectFaults()) GTEST_SKIP() << "the sanitizers' library must be loaded first";
  FaultBench bench("actrun_threads");
  ASSERT_GT(bench.calls().at("thread"), 0);
  EXPECT_EQ(bench.Expect({"thread", 1, "fail", EAGAIN}), 1);
}

// Reading and writing the file of timed kernels may fail: a run does without.
TEST(FaultsOfTuning, AreNoErrorOfTheRun) {
  if (!CanInjectFaults()) GTEST_SKIP() << "the sanitizers' library must be loaded first";
  FaultBench bench("actrun_tune");
  for (const char* kind : {"open", "write", "sync", "rename"}) bench.ExpectEach(kind, "fail", EIO);
}

// All of them, in parts that end within a test's time.
class LongFaults : public testing::TestWithParam<std::tuple<std::string, int>> {};

constexpr int kParts = 8;

TEST_P(LongFaults, EveryRequestOfMemory) {
  if (!CanInjectFaults()) GTEST_SKIP() << "the sanitizers' library must be loaded first";
  const auto& [name, part] = GetParam();
  FaultBench(name).ExpectEach("memory", "fail", ENOMEM, kParts, 1 + part);
}

const auto kTools = testing::Values("actc", "actplan", "actrun", "actrun_load");
INSTANTIATE_TEST_SUITE_P(Tools, Faults, kTools, [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(Long, LongFaults, testing::Combine(kTools, testing::Range(0, kParts)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace act::e2e
