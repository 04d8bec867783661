// The promises of the table of passes. Options that name a pass reach every row.
#include "passes/pass_table.h"

#include <gtest/gtest.h>

#include "compiler/ir/dump.h"
#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using testing_step::Take;

// The names of the passes in a column of the table.
std::vector<std::string> Column(PassRun RunsIn::*column, const std::string& prefix) {
  std::vector<std::string> names;
  for (const PassEntry& pass : kPasses)
    if (pass.runs.*column) names.push_back(prefix + pass.name);
  return names;
}

TEST(PassTable, EveryRowRunsInTraining) {
  for (const PassEntry& pass : kPasses) EXPECT_TRUE(static_cast<bool>(pass.runs.training)) << pass.name;
}

TEST(PassTable, StagesOnlyAdvance) {
  Stage before = Stage::kImported;
  for (const PassEntry& pass : kPasses) {
    EXPECT_GE(pass.stage, before) << pass.name;
    before = pass.stage;
  }
}

TEST(PassTable, HelpListsEveryRow) {
  const std::string help = DescribePasses();
  for (const PassEntry& pass : kPasses) {
    EXPECT_NE(help.find(std::string("  ") + pass.name + " "), std::string::npos) << pass.name;
    EXPECT_NE(help.find(pass.why), std::string::npos) << pass.name;
  }
}

// At L4 candidates are compiled too, but they are neither shown nor timed.
TEST(PassTable, EachRowIsShownAndTimedOnce) {
  std::vector<std::string> expected = Column(&RunsIn::training, "");
  for (const std::string& name : Column(&RunsIn::evaluation, "eval.")) expected.push_back(name);
  for (const char* level : {"L0", "L3", "L4", "L5"}) {
    small_networks::Network network(1);
    CompileOptions options = testing_step::Checked(level, "sgd");
    std::vector<std::string> shown, timed;
    options.after_pass = [&](const std::string& pass, const Graph&) { shown.push_back(pass); };
    std::vector<PassTime> times;
    Take(Compile(network.Build(), options, &times));
    for (const PassTime& time : times) timed.push_back(time.pass);
    EXPECT_EQ(shown, expected) << level;
    EXPECT_EQ(timed, expected) << level;
  }
}

TEST(PassTable, WhatThePolicyDoesNotWantChangesNothing) {
  small_networks::Network network(1);
  std::string before;
  CompileOptions options = testing_step::Checked("L3", "sgd");
  options.after_pass = [&](const std::string& pass, const Graph& graph) {
    const std::string after = Dump(graph);
    if (pass == "split-frequencies" || pass == "fix-ranges" || pass == "swap-codes") {
      EXPECT_EQ(before, after) << pass;
    }
    before = after;
  };
  Take(Compile(network.Build(), options));
}

}  // namespace
}  // namespace act
