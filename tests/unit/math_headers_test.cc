// kernels/math is independent: each header compiles by itself for the host, includes only its own
// folder and a few standard headers, and can be called on a device as a whole. The test reads the
// sources in place. The compilers are those of the build (ACT_NVCC is empty if there is none).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/paths.h"
#include "tests/unit/temporary_folder.h"

namespace act {
namespace {

using testing::Contents;
using testing::TemporaryFolder;

const std::string kRoot = SourceFolder();

// "kernels/math/NAME.h", sorted.
std::vector<std::string> Headers() {
  std::vector<std::string> headers;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot + "/kernels/math"))
    headers.push_back("kernels/math/" + entry.path().filename().string());
  std::sort(headers.begin(), headers.end());
  return headers;
}

// The first groups of all matches.
std::vector<std::string> Matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at)
    found.push_back((*at)[1]);
  return found;
}

// Runs a compiler. Returns its output if it fails.
std::string Compile(const std::string& command, const TemporaryFolder& folder) {
  const std::string log = folder / "log";
  const int status = std::system((command + " > '" + log + "' 2>&1").c_str());
  return status == 0 ? "" : command + "\n" + Contents(log);
}

TEST(MathHeaders, IncludeTheirOwnFolderAndFewStandardHeaders) {
  // No streams, memory or containers: only what a device compiler has, or what NVRTC can be
  // given in a few lines.
  const std::set<std::string> allowed = {"cmath", "cstdint", "cstring", "limits", "type_traits"};
  const std::vector<std::string> headers = Headers();
  ASSERT_GE(headers.size(), 10u);
  for (const std::string& header : headers) {
    const std::string text = Contents(kRoot + "/" + header);
    for (const std::string& name : Matches(text, "#include <([^>]*)>"))
      EXPECT_TRUE(allowed.count(name)) << header << " includes <" << name << ">";
    for (const std::string& name : Matches(text, "#include \"([^\"]*)\""))
      EXPECT_NE(std::find(headers.begin(), headers.end(), name), headers.end())
          << header << " includes \"" << name << '"';
  }
}

TEST(MathHeaders, CompileAlone) {
  const TemporaryFolder folder;
  for (const std::string& header : Headers()) {
    const std::string source = folder / "alone.cc";
    std::ofstream(source) << "#include \"" << header << "\"\n";
    EXPECT_EQ(Compile(std::string(ACT_CXX) + " -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I '" + kRoot +
                          "' '" + source + "'",
                      folder),
              "")
        << header;
  }
}

TEST(MathHeaders, EachFunctionIsMarkedForDevicesAndCalledOnOne) {
  const std::string calls = Contents(kRoot + "/tests/unit/math_on_device.cu");
  size_t functions = 0;
  for (const std::string& header : Headers()) {
    const std::string text = Contents(kRoot + "/" + header);
    for (const std::string& name : Matches(text, "ACT_HOST_DEVICE[^;{(]*?([A-Za-z0-9_]+)\\(")) {
      ++functions;
      EXPECT_TRUE(std::regex_search(calls, std::regex("\\b" + name + "(<T>)?\\(")))
          << header << ": math_on_device.cu does not call " << name;
    }
    // Definitions without the mark: a line that ends in "{" after a parameter list, and is
    // no control flow.
    for (const std::string& line :
         Matches(text, "\n([a-z ]*[A-Za-z0-9_:<>&*]+ [A-Za-z0-9_]+\\([^\n]*\\) (const )?\\{)"))
      EXPECT_TRUE(line.find("ACT_HOST_DEVICE") != std::string::npos ||
                  std::regex_search(line, std::regex("^ *(if|for|while|switch|else)\\b")))
          << header << ": " << line;
  }
  EXPECT_GT(functions, 50u);  // otherwise the patterns no longer find them
}

TEST(MathHeaders, CompileForADevice) {
  const std::string nvcc = ACT_NVCC;
  if (nvcc.empty()) GTEST_SKIP() << "no nvcc";
  const TemporaryFolder folder;
  // 186: a number of an unsigned type is compared with 0, in code for all types.
  const std::string device = nvcc +
                             " -std=c++20 -arch=sm_90 -Werror all-warnings -diag-suppress 186 -x cu -c -I '" +
                             kRoot + "' -o '" + (folder / "out.o") + "' ";
  EXPECT_EQ(Compile(device + "'" + kRoot + "/tests/unit/math_on_device.cu'", folder), "");
  // The flags detect functions that are not marked.
  const std::string wrong = folder / "wrong.cu";
  std::ofstream(wrong) << "inline int Host(int x) { return x + 1; }\n"
                          "__global__ void Call(int* x) { x[0] = Host(x[0]); }\n";
  EXPECT_NE(Compile(device + "'" + wrong + "'", folder), "");
}

}  // namespace
}  // namespace act
