// Text that a user gives: the first character says to which parser. Flags, sizes, schedules, targets, descriptions of
// cards, data sets, and the file of kernels that were chosen by time.
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/CommandLine.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/size.h"
#include "runtime/data/dataset.h"
#include "runtime/executor/choice_file.h"
#include "runtime/train/schedule.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet.h"
#include "tests/fuzz/require.h"
#include "tests/fuzz/scratch_file.h"
#include "tools/flags.h"
#include "tools/optimizer_flags.h"
#include "tools/target_flag.h"

namespace act::fuzz {
namespace {

namespace cl = llvm::cl;

// A flag of each type that the tools have.
struct Flags {
  cl::OptionCategory group{"Fuzz"};
  cl::opt<std::string> plan{cl::Positional, cl::desc("PLAN"), cl::cat(group)};
  cl::opt<std::string> level{"O", cl::init("L0"), cl::cat(group)};
  cl::opt<std::string> explain{"explain", cl::ValueOptional, cl::cat(group)};
  cl::list<std::string> freeze{"freeze", cl::CommaSeparated, cl::cat(group)};
  WholeNumberFlag batch{"batch", cl::cat(group)};
  SeedFlag seed{"seed", cl::cat(group)};
  NumberFlag bits{"bits", cl::cat(group)};
  SwitchFlag profile{"profile", cl::cat(group)};
  OptimizerFlags hyper{group};
};

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// An argument on each line.
void RunFlags(const std::string& text) {
  static Flags flags;
  std::vector<std::string> arguments = Lines(text);
  std::vector<const char*> argv = {"fuzz"};
  for (const std::string& argument : arguments) {
    // These end the process, and an argument that begins with @ names a file of further ones.
    for (const char* ends : {"help", "version", "print-", "-h"})
      if (argument.find(ends) != std::string::npos) return;
    if (argument.find('\0') != std::string::npos || argument.starts_with("@")) return;
    argv.push_back(argument.c_str());
  }
  bool read = false;
  {
    const Quiet quiet;
    read = ReadCommandLine("fuzz", "fuzz PLAN", "", static_cast<int>(argv.size()), argv.data());
  }
  if (read && flags.hyper.CheckRanges().empty()) {
    auto hyper = flags.hyper.Resolve("sgd", {});
    if (!hyper) llvm::consumeError(hyper.takeError());
  }
  cl::ResetAllOptionOccurrences();
}

void RunSchedule(const std::string& text) {
  auto schedule = LearningRateSchedule::Parse(text);
  if (!schedule) return llvm::consumeError(schedule.takeError());
  for (const uint64_t step : {uint64_t{0}, uint64_t{1}, uint64_t{1000}, UINT64_MAX})
    for (const uint64_t end : {uint64_t{0}, uint64_t{10}, UINT64_MAX})
      Require(!std::isnan(schedule->At(.1, step, end)), "a learning rate that is no number");
}

void RunTarget(const std::string& text) {
  auto target = ParseTarget(text);
  if (!target) return llvm::consumeError(target.takeError());
  Require(!target->kinds.empty(), "a target of no kind");
  if (target->card)
    Require(!target->card->name.empty() && target->card->memory_bytes > 0 &&
                target->card->ArenaBytes() <= target->card->memory_bytes,
            "a card of an impossible size");
}

void RunChoices(const std::string& text) {
  const TimedMachine machine{.processor = "cpu", .threads = 2, .software = "fuzz"};
  const ReadChoices read = ParseChoices(text, machine);
  const ReadChoices again = ParseChoices(FormatChoices(read.choices, machine), machine);
  Require(again.fault.empty(), "the choices are written so that they do not read: " + again.fault);
  Require(again.choices.size() == read.choices.size(), "choices are lost when they are written");
  for (const auto& [site, choice] : read.choices)
    Require(again.choices.at(site).kernel == choice.kernel, "another kernel is read than was written");
}

// `@` stands for a data file that exists.
void RunDataSet(const std::string& text) {
  // Folders of folders of the whole disk: a million names take some seconds with the sanitizers.
  static constexpr std::string_view kWildcards = "*?[";
  if (std::count_if(text.begin(), text.end(), [](char c) { return kWildcards.find(c) != kWildcards.npos; }) >
      3)
    return;
  static const std::string kArray = std::string("\x93NUMPY\x01\0\x36\0", 10) +
                                    "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}" +
                                    std::string(8, '\0');
  static const ScratchFile file("fuzz.npy");
  file.Write(kArray);
  std::string spec = text;
  for (size_t at = 0; (at = spec.find('@', at)) != std::string::npos; at += file.path().size())
    spec.replace(at, 1, file.path());
  const std::vector<InputSlot> slots = {{.name = "x", .type = {DType::kFloat32, {Dim::Batch()}}},
                                        {.name = "y", .type = {DType::kFloat32, {Dim::Batch()}}}};
  auto data = OpenDataSet(slots, 2, "--data", spec, {});
  if (!data) llvm::consumeError(data.takeError());
}

void Run(const std::string& text) {
  const std::string rest = text.substr(1);
  switch (text[0]) {
    case 's':
      if (const auto bytes = ParseSize(rest))
        Require(*bytes >= 0 && *bytes < kTooLarge && !FormatSize(*bytes).empty(), "an impossible size");
      break;
    case 'l':
      return RunSchedule(rest);
    case 't':
      return RunTarget(rest);
    case 'j': {
      static const ScratchFile file("json");
      file.Write(rest);
      return RunTarget("cuda:" + file.path());
    }
    case 'k':
      return RunChoices(rest);
    case 'd':
      return RunDataSet(rest);
    default:
      RunFlags(rest);
  }
}

}  // namespace
}  // namespace act::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return -1;
  act::fuzz::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
