// What the tests of actrun --variance share: a run, and its JSON report.
#pragma once

#include <gtest/gtest.h>
#include <llvm/Support/JSON.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/e2e/process.h"
#include "tests/e2e/refusal.h"
#include "tests/e2e/tensors.h"
#include "tests/take.h"

namespace act::e2e {

class VarianceRun : public testing::Test {
 protected:
  llvm::json::Object Measure(const std::string& plan, const std::vector<std::string>& more) {
    const std::string report = scratch_ / "variance.json";
    std::vector<std::string> args = {ToolPath("actrun"), plan, "--threads=1", "--report-json=" + report};
    args.insert(args.end(), more.begin(), more.end());
    ExpectDone(args);
    return Take(ReadJson(report));
  }
  static double Number(const llvm::json::Object& json, const std::string& key) {
    return json.getNumber(key).value_or(NAN);
  }

  ScratchFolder scratch_;
};

}  // namespace act::e2e
