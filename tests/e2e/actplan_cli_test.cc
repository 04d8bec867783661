// What actplan promises: it shows good plans, and says what is wrong with bad ones.
#include <gtest/gtest.h>

#include "tests/e2e/process.h"
#include "tests/e2e/refusal.h"
#include "tests/paths.h"

namespace act::e2e {
namespace {

class Actplan : public testing::Test {
 protected:
  std::string Compile(const std::string& level) const {
    const std::string plan = scratch_ / (level + ".bin");
    ExpectDone({ToolPath("actc"), Model(), "-O", level, "-o", plan, "--report=none"});
    return plan;
  }
  static std::string Model() { return GoldenFolder() + "/resnet_basic/model.onnx"; }

  ScratchFolder scratch_;
};

TEST_F(Actplan, ShowsVerifiesAndLaysOut) {
  const std::string plan = Compile("L3");
  EXPECT_NE(ExpectDone({ToolPath("actplan"), "show", plan}).find("Conv"), std::string::npos);
  ExpectDone({ToolPath("actplan"), "verify", plan});
  EXPECT_NE(ExpectDone({ToolPath("actplan"), "layout", plan}).size(), 0u);
}

std::string PeakLine(const std::string& report) {
  const size_t at = report.find("  peak ");
  return report.substr(at, report.find('\n', at) - at);
}

// One plan serves all targets: what it was planned for makes no difference to what it can tell.
TEST_F(Actplan, LaysOutForEachTarget) {
  const std::string plan = Compile("L3");
  const std::string cpu = ExpectDone({ToolPath("actplan"), "show", plan}),
                    cuda = ExpectDone({ToolPath("actplan"), "show", plan, "--target=cuda"}),
                    all = ExpectDone({ToolPath("actplan"), "show", plan, "--target=all"});
  EXPECT_NE(PeakLine(cpu), PeakLine(cuda));
  EXPECT_EQ(cpu.find("target"), std::string::npos);
  EXPECT_NE(cuda.find(", target cuda"), std::string::npos) << cuda;
  for (const std::string& one : {cpu, cuda}) EXPECT_NE(all.find(PeakLine(one)), std::string::npos) << all;
  EXPECT_NE(ExpectDone({ToolPath("actplan"), "show", plan, "--target=cuda:l4"}).find("  l4 "),
            std::string::npos);
  const std::string verified = ExpectDone({ToolPath("actplan"), "verify", plan});
  for (const char* target : {"  cpu   batch", "  cuda  batch"})
    EXPECT_NE(verified.find(target), std::string::npos) << verified;
  const std::string layout = ExpectDone({ToolPath("actplan"), "layout", plan, "--target=cuda"});
  EXPECT_NE(layout.find("training, target cuda: "), std::string::npos) << layout;
  EXPECT_NE(layout, ExpectDone({ToolPath("actplan"), "layout", plan}));
  const std::string bounds = ExpectDone({ToolPath("actplan"), "show", plan, "--workspaces"});
  EXPECT_NE(bounds.find("           cpu          cuda  node"), std::string::npos) << bounds;
  EXPECT_NE(bounds.find("  Conv "), std::string::npos) << bounds;
}

TEST_F(Actplan, TellsTwoPlansApart) {
  const std::string exact = Compile("L0"), compressed = Compile("L3");
  const Outcome same = RunTool({ToolPath("actplan"), "diff", exact, exact});
  const Outcome different = RunTool({ToolPath("actplan"), "diff", exact, compressed});
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_NE(same.out, different.out);
}

TEST_F(Actplan, VerifyRefusesDamage) {
  const std::string plan = Compile("L3");
  std::string bytes = ReadFile(plan);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  WriteFile(plan, bytes);
  ExpectRefused({ToolPath("actplan"), "verify", plan}, {"L3.bin"});
  ExpectRefused({ToolPath("actplan"), "verify", Model()}, {"model.onnx", "an ONNX model, not a plan"});
  ExpectRefused({ToolPath("actplan"), "show", scratch_ / "absent.bin"}, {"absent.bin"});
}

TEST_F(Actplan, WrongUsageIsExit2) {
  ExpectWrongUsage({ToolPath("actplan")}, {});
  ExpectWrongUsage({ToolPath("actplan"), "frobnicate", Model()}, {"frobnicate"});
  ExpectWrongUsage({ToolPath("actplan"), "show", Model(), "--target=tpu"}, {"--target", "'tpu'"});
  for (const char* target : {"--target=all", "--target=cuda:h200"})
    ExpectWrongUsage({ToolPath("actplan"), "layout", Model(), target}, {"--target", "expected cpu or cuda"});
}

}  // namespace
}  // namespace act::e2e
