// A folder in which actc compiles a model to a plan.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/e2e/process.h"

namespace act::e2e {

class ActcCommand : public testing::Test {
 protected:
  // Write() makes a model file. Command() compiles it to plan().
  std::string Write(const std::string& bytes, const std::string& name = "model.onnx") {
    WriteFile(scratch_ / name, bytes);
    return scratch_ / name;
  }
  std::vector<std::string> Command(const std::string& model,
                                   const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {ToolPath("actc"), model, "-O", "L3", "-o", plan()};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  std::string plan() const { return scratch_ / "plan.bin"; }
  void ExpectNoPlan() const {
    for (const std::string& name : List(scratch_.path())) EXPECT_EQ(name, "model.onnx");
  }

  ScratchFolder scratch_;
};

}  // namespace act::e2e
