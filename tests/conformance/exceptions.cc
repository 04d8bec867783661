#include "tests/conformance/exceptions.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/paths.h"

namespace act::conformance {

const std::map<std::string, Exception>& Exceptions() {
  static const std::map<std::string, Exception> exceptions = [] {
    std::map<std::string, Exception> map;
    std::ifstream file(SourceFolder() + "/tests/conformance/exceptions.txt");
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      std::istringstream words(line);
      std::string kind, test, reason;
      words >> kind >> test;
      std::getline(words >> std::ws, reason);
      EXPECT_TRUE(kind == "refused" || kind == "differs") << line;
      EXPECT_FALSE(reason.empty()) << line;
      const Outcome outcome = kind == "differs" ? Outcome::kDiffers : Outcome::kRefused;
      EXPECT_TRUE(map.emplace(test, Exception{outcome, reason}).second) << "twice: " << line;
    }
    return map;
  }();
  return exceptions;
}

}  // namespace act::conformance
