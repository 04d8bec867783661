// exceptions.txt: the node tests of claimed operators that do not pass, with the reason.
#pragma once

#include <map>
#include <string>

#include "tests/conformance/node_test.h"

namespace act::conformance {

struct Exception {
  Outcome outcome = Outcome::kRefused;
  std::string reason;
};

// The reasons by test. A line that cannot be read, or a second line for a test, fails
// the running test.
const std::map<std::string, Exception>& Exceptions();

}  // namespace act::conformance
