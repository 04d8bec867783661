// Standard streams that are closed, full, or read by nobody; limits of a process; paths that are no files.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>

#include "tests/e2e/fault_server.h"
#include "tests/e2e/process.h"
#include "tests/e2e/refusal.h"
#include "tests/paths.h"

namespace act::e2e {
namespace {

class Streams : public testing::Test {
 protected:
  void SetUp() override {
    ExpectDone({ToolPath("actc"), Model(), "-O", "L3", "-o", Plan(), "--report=none"});
    ExpectDone({"/bin/sh", "-c", Train()});
    complete_ = ReadFile(Saved());
    ASSERT_FALSE(complete_.empty());
    std::filesystem::remove(Saved());
  }

  static std::string Model() { return GoldenFolder() + "/mlp/model.onnx"; }
  std::string Plan() const { return folder_ / "plan"; }
  std::string Saved() const { return folder_ / "checkpoint"; }
  std::string Show() const { return ToolPath("actplan") + " show --nodes " + Plan(); }
  std::string Train() const {
    return ToolPath("actrun") + " " + Plan() + " --batch=4 --threads=1 --steps=2 --save=" + Saved();
  }
  // Runs a line of the shell.
  Outcome Shell(const std::string& line) const { return RunTool({"/bin/sh", "-c", line}); }
  void ExpectFailed(const std::string& line, const std::string& error) const {
    const Outcome outcome = Shell(line);
    EXPECT_EQ(outcome.exit_code, 1) << Describe({line}, outcome);
    EXPECT_NE(outcome.err.find(error), std::string::npos) << Describe({line}, outcome);
  }
  bool IsSaved() const { return ReadFile(Saved()) == complete_; }
  size_t complete_bytes() const { return complete_.size(); }
  const ScratchFolder& folder() const { return folder_; }

 private:
  ScratchFolder folder_;
  std::string complete_;
};

TEST_F(Streams, AReportThatCannotBeWrittenIsAnError) {
  const std::string full = "standard output: cannot write: No space left on device\n";
  ExpectFailed(Show() + " >/dev/full", "actplan: error: " + full);
  ExpectFailed(ToolPath("actc") + " " + Model() + " >/dev/full", "actc: error: " + full);
  ExpectFailed(ToolPath("actrun") + " --help >/dev/full", "actrun: error: " + full);
  ExpectFailed(ToolPath("actrun") + " --version >/dev/full", "actrun: error: " + full);
  ExpectFailed(Train() + " >/dev/full", "actrun: error: " + full);
  EXPECT_TRUE(IsSaved());  // it comes before the report
}

// The report must not go into a file that happens to get the number of the closed stream.
TEST_F(Streams, StandardOutputMayBeClosed) {
  ExpectFailed(Show() + " >&-", "actplan: error: standard output: cannot write: ");
  ExpectFailed(Train() + " >&-", "actrun: error: standard output: cannot write: ");
  EXPECT_TRUE(IsSaved());
}

TEST_F(Streams, MessagesThatNobodyTakesAreNoError) {
  for (const char* streams : {" 2>&-", " 2>/dev/full", " <&- 2>&-"}) {
    std::filesystem::remove(Saved());
    const Outcome outcome = Shell(Train() + streams);
    EXPECT_EQ(outcome.exit_code, 0) << Describe({streams}, outcome);
    EXPECT_TRUE(IsSaved()) << streams;
    EXPECT_NE(outcome.out.find("=== Performance ==="), std::string::npos);
  }
}

TEST_F(Streams, AReaderThatIsGoneEndsAToolBySigpipeWhenItsWorkIsDone) {
  const std::string status = folder() / "status";
  // `true` is gone before the tool begins.
  const auto run = [&](const std::string& line) {
    Shell("(sleep 0.2; " + line + "; echo $? >" + status + ") | true");
    return ReadFile(status);
  };
  const std::string ended = std::to_string(128 + SIGPIPE) + "\n";
  EXPECT_EQ(run(Show()), ended);
  EXPECT_EQ(run(Train() + " 2>&1"), ended);
  EXPECT_TRUE(IsSaved());
}

TEST_F(Streams, ASignalThatTheParentIgnoresStaysIgnored) {
  for (const char* signal : {"INT", "HUP"}) {
    const Outcome outcome =
        Shell("trap '' " + std::string(signal) + "; " + ToolPath("actrun") + " " + Plan() +
              " --batch=4 --threads=1 --steps=5000 2>&1 & sleep 0.1; kill -" + signal + " $!; wait $!");
    EXPECT_EQ(outcome.exit_code, 0) << Describe({signal}, outcome);
    EXPECT_EQ(outcome.out.find("interrupted"), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("step 5000/5000"), std::string::npos) << outcome.out;
  }
}

// Without a handler, SIGXFSZ would end the process and leave the temporary file.
TEST_F(Streams, ALimitOfTheSizeOfFilesIsAnErrorOfTheWrite) {
  const size_t files = List(folder().path()).size();
  ExpectFailed(
      "ulimit -f 1; " + ToolPath("actc") + " " + Model() + " --report=none -o " + (folder() / "other"),
      "other: cannot write: File too large");
  EXPECT_EQ(List(folder().path()).size(), files);
}

// Limits of address space, from one with which a tool just starts to one with which it is done.
TEST_F(Streams, ALimitOfMemoryIsAnError) {
  if (!CanInjectFaults()) GTEST_SKIP() << "sanitizers reserve more memory than any limit";
  int done = 0, refused = 0;
  for (int mib = 64; mib <= 1024; mib += mib < 128 ? 4 : 128) {
    const std::string limit = "ulimit -v " + std::to_string(mib * 1024) + "; ";
    // Below, the system's loader refuses to start the tool.
    if (Shell(limit + ToolPath("actrun") + " --version").exit_code != 0) continue;
    std::filesystem::remove(Saved());
    const Outcome outcome = Shell(limit + Train());
    ++(outcome.exit_code == 0 ? done : refused);
    // Where there is no memory for a kernel's code, another kernel is chosen, whose bits differ.
    EXPECT_EQ(ReadFile(Saved()).size(), outcome.exit_code == 0 ? complete_bytes() : 0)
        << Describe({limit}, outcome);
    if (outcome.exit_code == 0) continue;
    EXPECT_EQ(outcome.exit_code, 1) << Describe({limit}, outcome);
    EXPECT_NE(outcome.err.find("actrun: error: "), std::string::npos) << Describe({limit}, outcome);
  }
  EXPECT_GT(done, 0);
  EXPECT_GT(refused, 0);
}

TEST_F(Streams, PathsThatAreNoFilesAreRefused) {
  const std::string fifo = folder() / "pipe";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  ExpectRefused({ToolPath("actplan"), "show", fifo}, {"pipe: not a regular file"});
  ExpectRefused({ToolPath("actplan"), "show", folder().path()}, {"a folder, not a file"});
  ExpectRefused({ToolPath("actc"), Model(), "-o", folder().path()}, {"cannot write: it is a folder"});
  ExpectRefused({ToolPath("actc"), Model(), "-o", Plan() + "/below"},
                {"below: cannot write: Not a directory"});
  ExpectRefused({ToolPath("actc"), Model(), "-o", folder() / "absent/plan"},
                {"plan: cannot write: No such file or directory"});
}

// Without one, opening a pipe for writing would wait for a reader.
TEST_F(Streams, APipeIsWrittenIfSomebodyReadsIt) {
  const std::string fifo = folder() / "pipe";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string flag : {"--log", "--report-html", "--save"})
    ExpectRefused({ToolPath("actrun"), Plan(), "--batch=4", "--steps=1", flag + "=" + fifo},
                  {"pipe: cannot write: nobody reads this pipe"}, {.seconds = 60});
  // The shell holds both ends, and the four lines of the log fit into the pipe.
  const Outcome outcome = Shell("exec 9<>" + fifo + "; " + Train() + " --log=" + fifo + " && head -n 4 <&9");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("\"kind\":\"step\",\"step\":1,"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace act::e2e
