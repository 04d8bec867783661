#include "tests/e2e/refusal.h"

#include <filesystem>
#include <sstream>

namespace act::e2e {
namespace {

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool Holds(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

}  // namespace

std::string ExpectRefused(const std::vector<std::string>& args, const std::vector<std::string>& words,
                          const Limits& limits) {
  const Outcome outcome = RunTool(args, limits);
  const std::string what = Describe(args, outcome);
  EXPECT_EQ(outcome.exit_code, 1) << what;
  // Progress and warnings may come first. The error is the first line that starts with
  // the tool's name.
  const std::string start = std::filesystem::path(args[0]).filename().string() + ": error: ";
  const std::vector<std::string> lines = Lines(outcome.err);
  size_t at = 0;
  while (at < lines.size() && lines[at].rfind(start, 0) != 0) ++at;
  if (at == lines.size()) {
    ADD_FAILURE() << "no line starts with '" << start << "'\n" << what;
    return outcome.err;
  }
  // <place>: <what>
  EXPECT_TRUE(Holds(lines[at].substr(start.size()), ": ")) << what;
  for (const std::string& word : words)
    EXPECT_TRUE(Holds(lines[at], word)) << "no '" << word << "' in\n" << what;
  const bool hinted = at + 1 < lines.size();
  EXPECT_TRUE(!hinted || lines[at + 1].rfind("hint: ", 0) == 0) << what;
  EXPECT_LE(lines.size(), at + 2) << what;
  return outcome.err;
}

void ExpectWrongUsage(const std::vector<std::string>& args, const std::vector<std::string>& words) {
  const Outcome outcome = RunTool(args);
  const std::string what = Describe(args, outcome);
  EXPECT_EQ(outcome.exit_code, 2) << what;
  const std::string start = std::filesystem::path(args[0]).filename().string() + ": error: ";
  const std::vector<std::string> lines = Lines(outcome.err);
  EXPECT_TRUE(!lines.empty() && lines[0].rfind(start, 0) == 0) << what;
  EXPECT_TRUE(lines.size() < 2 || lines[1].rfind("hint: ", 0) == 0) << what;
  EXPECT_LE(lines.size(), size_t{2}) << what;
  for (const std::string& word : words) EXPECT_TRUE(Holds(outcome.err, word)) << what;
}

std::string ExpectDone(const std::vector<std::string>& args) {
  const Outcome outcome = RunTool(args);
  EXPECT_EQ(outcome.exit_code, 0) << Describe(args, outcome);
  return outcome.out;
}

}  // namespace act::e2e
