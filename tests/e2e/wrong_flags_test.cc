// Every wrong command line gives one line "<tool>: error: ..." and a hint, with exit code 2. LLVM's
// command line has other messages for most of these.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/e2e/process.h"

namespace act::e2e {
namespace {

struct WrongLine {
  std::string name;
  std::string tool;
  std::vector<std::string> args;
  std::string error, hint;
};

const char kWhole[] = "write it in digits, as 64";
const char kReal[] = "write it as 0.1 or 1e-3";
const char kActcHelp[] = "'actc --help' lists the flags";
const char kActcUsage[] = "actc MODEL.onnx -O LEVEL -o PLAN; actc --help lists the flags";
const char kActplanUsage[] =
    "actplan show|verify|layout PLAN, or actplan diff PLAN PLAN; actplan COMMAND --help lists the flags";

const std::vector<WrongLine>& WrongLines() {
  static const std::vector<WrongLine> lines = {
      // numbers
      {"actc_batch",
       "actc",
       {"m.onnx", "--batch=two"},
       "--batch: expected a whole number, found 'two'",
       kWhole},
      {"value_apart",
       "actc",
       {"m.onnx", "--batch", "two"},
       "--batch: expected a whole number, found 'two'",
       kWhole},
      {"one_dash", "actc", {"m.onnx", "-batch=two"}, "--batch: expected a whole number, found 'two'", kWhole},
      {"fraction",
       "actc",
       {"m.onnx", "--group-size=1.5"},
       "--group-size: expected a whole number, found '1.5'",
       kWhole},
      {"too_large",
       "actc",
       {"m.onnx", "--batch=99999999999999999999"},
       "--batch: expected a whole number of at most 63 bits, found '99999999999999999999'",
       kWhole},
      {"empty",
       "actc",
       {"m.onnx", "--accumulate="},
       "--accumulate: expected a whole number, found ''",
       kWhole},
      {"no_float32",
       "actc",
       {"m.onnx", "--clip-norm=1e40"},
       "--clip-norm: expected a number that float32 holds, found '1e40'",
       kReal},
      {"zero_as_float32",
       "actrun",
       {"m.plan", "--lr=1e-50"},
       "--lr: expected a number that float32 holds, found '1e-50'",
       kReal},
      {"factor_that_is_no_float32",
       "actc",
       {"m.onnx", "--lr-factor=*=1e40"},
       "--lr-factor=*=1e40: expected GLOB=X with a factor above 0",
       "--freeze=GLOB takes parameters out"},
      {"bits", "actc", {"m.onnx", "--bits=x"}, "--bits: expected a number, found 'x'", kReal},
      {"exact_at_L0",
       "actc",
       {"m.onnx", "--exact=.5"},
       "--exact: L0 does not choose between codes and exact storage",
       "use -O L1, L2, L3, L4 or L5"},
      {"negative_seed",
       "actc",
       {"m.onnx", "--seed=-1"},
       "--seed: expected a whole number that is not negative, found '-1'",
       kWhole},
      {"seed_too_large",
       "actrun",
       {"m.plan", "--seed=18446744073709551616"},
       "--seed: expected a whole number of at most 64 bits, found '18446744073709551616'",
       kWhole},
      {"threads",
       "actrun",
       {"p.bin", "--threads=0x"},
       "--threads: expected a whole number, found '0x'",
       kWhole},
      {"rate", "actrun", {"p.bin", "--lr=fast"}, "--lr: expected a number, found 'fast'", kReal},
      {"unit",
       "actrun",
       {"p.bin", "--weight-decay=1e-3x"},
       "--weight-decay: expected a number, found '1e-3x'",
       kReal},
      {"variance",
       "actrun",
       {"p.bin", "--variance=R"},
       "--variance: expected a whole number, found 'R'",
       kWhole},
      {"actplan_batch",
       "actplan",
       {"show", "p.bin", "--batch=x"},
       "--batch: expected a whole number, found 'x'",
       kWhole},
      {"first_of_two",
       "actrun",
       {"p.bin", "--lr=a", "--steps=b"},
       "--lr: expected a number, found 'a'",
       kReal},
      // switches and choices
      {"switch",
       "actc",
       {"m.onnx", "--freeze-bn=maybe"},
       "--freeze-bn: expected true or false, found 'maybe'",
       "the flag alone means true"},
      {"nesterov",
       "actrun",
       {"p.bin", "--nesterov=2"},
       "--nesterov: expected true or false, found '2'",
       "the flag alone means true"},
      {"report", "actc", {"m.onnx", "--report=pdf"}, "--report: expected text or none, found 'pdf'", ""},
      {"device",
       "actrun",
       {"p.bin", "--device=tpu"},
       "--device: expected cpu, cuda or auto, found 'tpu'",
       ""},
      {"verbose", "actrun", {"p.bin", "--verbose=all"}, "--verbose: expected dispatch, found 'all'", ""},
      {"empty_switch",
       "actc",
       {"m.onnx", "--freeze-bn="},
       "--freeze-bn: expected true or false, found ''",
       "the flag alone means true"},
      {"dim",
       "actc",
       {"m.onnx", "--dim=T=x"},
       "--dim: expected NAME=EXTENT, found 'T=x'",
       "EXTENT is a number of at least 1, or N if the axis is the batch"},
      // texts: a shell's variable that is not set must not mean that nothing is written
      {"no_output", "actc", {"m.onnx", "-o", ""}, "-o: expected PLAN, found ''", ""},
      {"no_checkpoint", "actrun", {"p.bin", "--save="}, "--save: expected FILE, found ''", ""},
      {"no_name",
       "actc",
       {"m.onnx", "--no-decay="},
       "--no-decay: expected GLOB, found ''",
       "the flag alone, without =, needs none"},
      {"name_missing_in_a_list",
       "actc",
       {"m.onnx", "--no-decay=w,"},
       "--no-decay: expected GLOB, found ''",
       "the flag alone, without =, needs none"},
      {"line_break",
       "actc",
       {"m.onnx", "--batch=1\n2"},
       "--batch: expected a whole number, found '1\\x0A2'",
       kWhole},
      {"terminal_command", "actc", {"m.onnx", "--x\033[2J"}, "--x\\x1B[2J: no such flag", kActcHelp},
      // flags
      {"unknown", "actc", {"m.onnx", "--frobnicate"}, "--frobnicate: no such flag", kActcHelp},
      {"near",
       "actc",
       {"m.onnx", "--btach=3"},
       "--btach: no such flag",
       std::string("did you mean --batch? ") + kActcHelp},
      {"glued", "actc", {"m.onnx", "-OL3"}, "-OL3: no such flag", "write -O LEVEL, as -O L3"},
      {"no_value",
       "actc",
       {"m.onnx", "--batch"},
       "--batch: expected a value, found none",
       "write --batch=VALUE"},
      {"no_level", "actc", {"m.onnx", "-O"}, "-O: expected a value, found none", "write -O VALUE"},
      {"data_without_a_name",
       "actrun",
       {"p.bin", "--data=image"},
       "--data: 'image' is not NAME=FILE.npy, NAME=FILE.safetensors[:TENSOR] or FILE.safetensors",
       "as --data=image=x.npy,label=y.npy"},
      {"flag_of_a_command",
       "actplan",
       {"show", "p.bin", "--bathc=1"},
       "--bathc: no such flag",
       "did you mean --batch? 'actplan show --help' lists the flags"},
      {"of_another_command",
       "actplan",
       {"layout", "p.bin", "--edges"},
       "--edges: no such flag",
       "'actplan layout --help' lists the flags"},
      // files and commands
      {"no_model", "actc", {}, "no file is given", kActcUsage},
      {"two_models", "actc", {"a.onnx", "b.onnx"}, "there are too many files", kActcUsage},
      {"no_command", "actplan", {}, "no command is given", kActplanUsage},
      {"unknown_command", "actplan", {"frobnicate", "p.bin"}, "'frobnicate': no such command", kActplanUsage},
      {"command_without_file", "actplan", {"show"}, "no file is given", kActplanUsage},
  };
  return lines;
}

class WrongFlags : public testing::TestWithParam<WrongLine> {};

TEST_P(WrongFlags, AreOneErrorAndAHint) {
  const WrongLine& line = GetParam();
  std::vector<std::string> command = {ToolPath(line.tool)};
  command.insert(command.end(), line.args.begin(), line.args.end());
  const Outcome outcome = RunTool(command);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, line.tool + ": error: " + line.error + "\n" +
                             (line.hint.empty() ? "" : "hint: " + line.hint + "\n"));
}

// Its hint has a line for each pass.
TEST(WrongPass, IsWrongUsageBeforeAnyWorkAndTheHintListsThePasses) {
  const Outcome outcome = RunTool({ToolPath("actc"), "m.onnx", "--print-after=nosuch"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err.rfind("actc: error: --print-after=nosuch: no such pass\nhint: it is import, all", 0),
            0U)
      << outcome.err;
  EXPECT_NE(outcome.err.find("\n  fuse-loops "), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("\\x0A"), std::string::npos)
      << outcome.err;  // a line's end that was written out
  for (const std::string pass : {"fuse-loops", "eval.fuse-loops", "import", "all"}) {
    const Outcome known = RunTool({ToolPath("actc"), "m.onnx", "--print-after=" + pass});
    EXPECT_EQ(known.exit_code, 1) << known.err;  // there is no m.onnx
  }
}

INSTANTIATE_TEST_SUITE_P(All, WrongFlags, testing::ValuesIn(WrongLines()),
                         [](const auto& line) { return line.param.name; });

}  // namespace
}  // namespace act::e2e
