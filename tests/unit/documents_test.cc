// The documents have short lines, and do not refer to files that do not exist.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/paths.h"
#include "tests/unit/temporary_folder.h"

namespace act {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = SourceFolder();
constexpr size_t kLongestLine = 120;

// Files of the sources. Files of builds, of git and of what setup.sh installs are left out.
const std::vector<fs::path>& Files() {
  static const auto* const files = [] {
    auto* found = new std::vector<fs::path>;
    for (auto it = fs::recursive_directory_iterator(kRoot); it != fs::recursive_directory_iterator(); ++it) {
      const std::string name = it->path().filename().string();
      if (it->is_directory() && (name[0] == '.' || name.rfind("build", 0) == 0)) {
        it.disable_recursion_pending();
      } else if (it->is_regular_file()) {
        found->push_back(it->path());
      }
    }
    std::sort(found->begin(), found->end());
    return found;
  }();
  return *files;
}

// The project's Markdown. Markdown beside data from others belongs to them.
std::vector<fs::path> Documents() {
  std::vector<fs::path> documents;
  for (const fs::path& file : Files())
    if (file.extension() == ".md") documents.push_back(file);
  return documents;
}

std::string Name(const fs::path& file) { return fs::relative(file, kRoot).string(); }

// The first group of each match.
std::vector<std::string> Matches(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), pattern); it != std::sregex_iterator(); ++it)
    found.push_back((*it)[1]);
  return found;
}

// The number of characters: bytes without those that continue a character of UTF-8.
size_t Characters(const std::string& line) {
  return std::count_if(line.begin(), line.end(), [](unsigned char c) { return (c & 0xC0) != 0x80; });
}

// `*` stands for any characters of a file's name, and so does a name in capitals: MODEL.onnx.
bool Exists(const std::string& path) {
  if (fs::exists(kRoot / path)) return true;
  std::string pattern = std::regex_replace(path, std::regex("\\."), "\\.");
  pattern = std::regex_replace(pattern, std::regex("\\*|\\b(?!README)[A-Z]{3,}\\b"), "[^/]*");
  const std::regex expected(pattern);
  return std::any_of(Files().begin(), Files().end(),
                     [&](const fs::path& file) { return std::regex_match(Name(file), expected); });
}

TEST(Documents, AreFound) {
  const std::vector<fs::path> documents = Documents();
  for (const char* file : {"README.md", "docs/README.md", "docs/measurements/levels.md", "python/README.md"})
    EXPECT_EQ(std::count(documents.begin(), documents.end(), kRoot / file), 1) << file;
}

TEST(Documents, HaveShortLines) {
  for (const fs::path& document : Documents()) {
    std::istringstream lines(testing::Contents(document));
    size_t number = 0;
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE((++number, Characters(line)), kLongestLine) << Name(document) << ":" << number;
  }
}

TEST(Documents, LinksLeadToFiles) {
  const std::regex link(R"(\[[^\]]+\]\(([^)#\s]+)[^)]*\))");
  for (const fs::path& document : Documents())
    for (const std::string& target : Matches(testing::Contents(document), link)) {
      if (target.find("://") != std::string::npos) continue;
      EXPECT_TRUE(fs::exists(document.parent_path() / target)) << Name(document) << ": " << target;
    }
}

// "levels.md" in a sentence: of the same folder, of docs, or a path from the root.
TEST(Documents, DocumentsInSentencesExist) {
  const std::regex mention(R"((?:^|[^\w./-])((?:[\w-]+/)*[\w-]+\.md)\b)");
  for (const fs::path& document : Documents())
    for (const std::string& name : Matches(testing::Contents(document), mention))
      EXPECT_TRUE(fs::exists(document.parent_path() / name) || fs::exists(kRoot / "docs" / name) ||
                  fs::exists(kRoot / name))
          << Name(document) << ": " << name;
}

TEST(Documents, PathsExist) {
  // `compiler/ops/update.cc`, `passes/`, `kernels/cpu/fused_run.*`: what begins with a
  // folder of the root.
  const std::regex path(R"(`([a-z_]+/[\w./*-]*)`)");
  std::set<std::string> folders;
  for (const auto& entry : fs::directory_iterator(kRoot))
    if (entry.is_directory()) folders.insert(entry.path().filename().string());
  folders.erase("build");
  size_t checked = 0;
  for (const fs::path& document : Documents())
    for (std::string name : Matches(testing::Contents(document), path)) {
      if (!folders.count(name.substr(0, name.find('/')))) continue;
      ++checked;
      EXPECT_TRUE(Exists(name)) << Name(document) << ": " << name;
    }
  EXPECT_GT(checked, 50u);
}

TEST(Documents, NamesOfSourceFilesExist) {
  std::set<std::string> names;
  for (const fs::path& file : Files()) names.insert(file.filename().string());
  const std::regex source(R"(`([a-z]\w*(?:-inl)?\.(?:h|cc|c|fbs|py|sh))`)");
  for (const fs::path& document : Documents())
    for (const std::string& name : Matches(testing::Contents(document), source))
      EXPECT_TRUE(names.count(name)) << Name(document) << ": " << name;
}

// Comments and hints of errors name documents as paths from the root.
TEST(Sources, NameDocumentsThatExist) {
  const std::set<std::string> extensions = {".h", ".cc", ".c", ".fbs", ".py", ".sh", ".txt"};
  const std::regex mention(R"(\b(docs/[\w/]+\.(?:md|svg)))");
  size_t checked = 0;
  for (const fs::path& file : Files()) {
    if (!extensions.count(file.extension().string()) && file.filename() != "Makefile") continue;
    for (const std::string& name : Matches(testing::Contents(file), mention)) {
      ++checked;
      EXPECT_TRUE(fs::exists(kRoot / name)) << Name(file) << ": " << name;
    }
  }
  EXPECT_GT(checked, 20u);
}

}  // namespace
}  // namespace act
