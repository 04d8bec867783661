#include "runtime/executor/choice_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/take.h"
#include "tests/unit/temporary_folder.h"

namespace act {
namespace {

const TimedMachine kMachine{
    .processor = "Intel(R) Xeon(R) CPU @ 2.70GHz", .threads = 2, .software = "actrun 1, dnnl 2"};

ChoicesBySite SomeChoices() {
  return {{"MatMul a=1 f32:2x3 to f32:2",
           {.kernel = "dnnl.matmul", .candidates = {{"cpu.x", 2e-3}, {"dnnl.matmul", 1.5e-3}}}},
          {"Conv f32:8 -> f32:1 threads=2", {.kernel = "dnnl.conv", .candidates = {{"dnnl.conv", 0}}}}};
}

TEST(ChoiceFile, ReadsWhatItWrote) {
  const ReadChoices read = ParseChoices(FormatChoices(SomeChoices(), kMachine), kMachine);
  EXPECT_EQ(read.choices, SomeChoices());
  EXPECT_EQ(read.fault, "");
}

TEST(ChoiceFile, IsOfOneMachine) {
  const std::string text = FormatChoices(SomeChoices(), kMachine);
  std::set<std::string> names = {kMachine.FileName()};
  for (const TimedMachine& other :
       {TimedMachine{"AMD", 2, kMachine.software}, TimedMachine{kMachine.processor, 3, kMachine.software},
        TimedMachine{kMachine.processor, 2, "actrun 2"}}) {
    EXPECT_TRUE(ParseChoices(text, other).choices.empty());
    EXPECT_EQ(ParseChoices(text, other).fault, "line 2 is not 'machine: " + other.Text() + "'");
    EXPECT_TRUE(names.insert(other.FileName()).second) << other.FileName();
  }
  EXPECT_EQ(kMachine.FileName().rfind("kernels-intel-r-xeon-r-cpu-2-70ghz-2-threads-", 0), 0u)
      << kMachine.FileName();
}

TEST(ChoiceFile, AFileThatWasCutOffHasNothingWrong) {
  const std::string text = FormatChoices(SomeChoices(), kMachine);
  const ChoicesBySite all = SomeChoices();
  for (size_t end = 0; end < text.size(); ++end) {
    const ReadChoices read = ParseChoices(text.substr(0, end), kMachine);
    for (const auto& [site, choice] : read.choices) {
      const auto found = all.find(site);
      ASSERT_NE(found, all.end()) << end;
      EXPECT_EQ(choice, found->second) << end;
    }
    // Cut between two lines, it is a file of fewer sites.
    const bool between = end > text.find("\nmachine: ") + 1 && text[end - 1] == '\n';
    EXPECT_EQ(read.fault.empty(), between) << end << read.fault;
  }
}

TEST(ChoiceFile, LeavesOutLinesThatAreWrong) {
  const std::string head = FormatChoices({}, kMachine), good = "site -> dnnl.x # dnnl.x 1.0 us\n";
  for (const char* line :
       {"nonsense", "-> ", " -> dnnl.x # dnnl.x 1.0 us", "site ->", "site -> dnnl.x", "site -> dnnl.x # ",
        "site -> # dnnl.x 1.0 us", "site -> dnnl.x # dnnl.x", "site -> dnnl.x # dnnl.x 1.0",
        "site -> dnnl.x # dnnl.x 1.0 ms", "site -> dnnl.x # dnnl.x nan us", "site -> dnnl.x # dnnl.x -1 us",
        "site -> dnnl.x # dnnl.x 1e300 us", "site -> dnnl.x # dnnl.y 1.0 us",
        "site -> dnnl.x # dnnl.x 1.0 us,", "site -> a b # a b 1.0 us",
        "site -> \x01\xff # \x01\xff 1.0 us"}) {
    const ReadChoices read = ParseChoices(head + line + "\n" + good, kMachine);
    EXPECT_EQ(read.choices.size(), 1u) << line;
    EXPECT_EQ(read.fault, "line 3 is not 'site -> kernel # times'") << line;
  }
  EXPECT_EQ(ParseChoices(head + "\n# a remark\n" + good, kMachine).fault, "");
}

TEST(ChoiceFile, AddsToWhatIsThere) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "a/b/choices.txt";
  EXPECT_TRUE(ReadChoiceFile(path, kMachine).choices.empty());
  EXPECT_EQ(ReadChoiceFile(path, kMachine).fault, "");
  ChoicesBySite all = SomeChoices();
  const ChoicesBySite first = {*all.begin()};
  ASSERT_EQ(Text(MergeIntoChoiceFile(path, kMachine, first)), "");
  ASSERT_EQ(Text(MergeIntoChoiceFile(path, kMachine, {*all.rbegin()})), "");
  EXPECT_EQ(ReadChoiceFile(path, kMachine).choices, all);
  KernelChoice& changed = all.begin()->second;
  changed = {.kernel = "other", .candidates = {{"other", 1e-3}}};
  ASSERT_EQ(Text(MergeIntoChoiceFile(path, kMachine, {*all.begin()})), "");
  EXPECT_EQ(ReadChoiceFile(path, kMachine).choices, all);
}

TEST(ChoiceFile, AFolderInItsPlaceIsAFault) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(ReadChoiceFile(folder.path().string(), kMachine).fault, "a folder, not a file");
  EXPECT_NE(Text(MergeIntoChoiceFile(folder.path().string(), kMachine, SomeChoices())), "");
}

TEST(VersionOf, ChangesWithTheListOfKernels) {
  const auto version = [](const std::vector<std::string>& names) {
    KernelRegistry registry;
    for (const std::string& name : names) registry.Add("Conv", {name, {}});
    return VersionOf(registry);
  };
  EXPECT_EQ(version({"a", "b"}), version({"a", "b"}));
  EXPECT_NE(version({"a", "b"}), version({"b", "a"}));
  EXPECT_NE(version({"a", "b"}), version({"a"}));
}

}  // namespace
}  // namespace act
