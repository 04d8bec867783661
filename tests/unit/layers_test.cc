// Which folder may include which: every #include of the tree against the table "Folders" in
// docs/architecture.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/paths.h"

namespace act {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

struct Row {
  std::string folder;
  Names may_include;
};

// `runtime/{base,plan}` stands for two names.
Names ExpandBraces(const std::string& name) {
  const size_t open = name.find('{'), close = name.find('}');
  if (open == std::string::npos || close == std::string::npos) return {name};
  Names names;
  std::stringstream inside(name.substr(open + 1, close - open - 1));
  for (std::string part; std::getline(inside, part, ',');)
    names.push_back(name.substr(0, open) + part + name.substr(close + 1));
  return names;
}

// The names in `backquotes`.
Names NamesIn(const std::string& cell) {
  Names names;
  for (size_t open = cell.find('`'); open != std::string::npos;) {
    const size_t close = cell.find('`', open + 1);
    if (close == std::string::npos) break;
    for (const std::string& name : ExpandBraces(cell.substr(open + 1, close - open - 1)))
      names.push_back(name);
    open = cell.find('`', close + 1);
  }
  return names;
}

// The rows of the table whose last column is headed "may include". A row without a folder continues
// the row above it.
std::vector<Row> RowsOf(std::istream& document) {
  std::vector<Row> rows;
  bool inside = false;
  for (std::string line; std::getline(document, line);) {
    Names cells;
    std::stringstream parts(line);
    for (std::string cell; std::getline(parts, cell, '|');) cells.push_back(cell);
    if (line.rfind("| folder |", 0) == 0 && line.find("| may include |") != std::string::npos) {
      inside = true;
    } else if (inside && line.rfind("|", 0) != 0) {
      break;
    } else if (inside && cells.size() == 4 && cells[1].find('`') != std::string::npos) {
      for (const std::string& folder : NamesIn(cells[1])) rows.push_back({folder, NamesIn(cells[3])});
    } else if (inside && cells.size() == 4 && !rows.empty()) {
      for (const std::string& name : NamesIn(cells[3])) rows.back().may_include.push_back(name);
    }
  }
  return rows;
}

// `runtime/*` allows all folders in runtime.
bool Allows(const std::string& entry, const std::string& folder) {
  if (entry.size() > 2 && entry.ends_with("/*"))
    return folder.rfind(entry.substr(0, entry.size() - 1), 0) == 0;
  return entry == folder;
}

bool IsSource(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".h" || extension == ".cc" || extension == ".c";
}

struct Include {
  std::string file, folder, of;  // of: a folder of the tree, or a library's ("llvm/", "dnnl.hpp")
};

// The folder or library of an included name; "": the language's or the system's, or generated.
std::string OwnerOf(const fs::path& root, const std::string& name) {
  if (fs::exists(root / name)) return fs::path(name).parent_path().string();
  const size_t slash = name.find('/');
  if (slash != std::string::npos) return name.rfind("sys/", 0) == 0 ? "" : name.substr(0, slash + 1);
  return name.ends_with(".hpp") ? name : "";
}

void ReadFile(const fs::path& root, const fs::path& path, std::vector<Include>& includes) {
  const fs::path file = fs::relative(path, root);
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const size_t hash = line.find_first_not_of(' ');
    if (hash == std::string::npos || line.compare(hash, 8, "#include") != 0) continue;
    const size_t open = line.find_first_of("\"<", hash), close = line.find_first_of("\">", open + 1);
    if (open == std::string::npos || close == std::string::npos) continue;
    includes.push_back(
        {file.string(), file.parent_path().string(), OwnerOf(root, line.substr(open + 1, close - open - 1))});
  }
}

struct Tree {
  std::set<std::string> folders;  // that hold sources
  std::vector<Include> includes;
};

// All folders but hidden ones, builds and models.
Tree ReadTree(const fs::path& root) {
  Tree tree;
  for (const fs::directory_entry& top : fs::directory_iterator(root)) {
    const std::string name = top.path().filename().string();
    if (!top.is_directory() || name[0] == '.' || name.rfind("build", 0) == 0 || name == "models" ||
        name == "shared")
      continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(top)) {
      if (!IsSource(entry.path())) continue;
      tree.folders.insert(fs::relative(entry.path(), root).parent_path().string());
      ReadFile(root, entry.path(), tree.includes);
    }
  }
  return tree;
}

const Row* FindRow(const std::vector<Row>& rows, const std::string& folder) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.folder == folder; });
  return row == rows.end() ? nullptr : &*row;
}

Names ForbiddenIncludes(const std::vector<Row>& rows, const std::vector<Include>& includes) {
  Names forbidden;
  for (const Include& include : includes) {
    const Row* row = FindRow(rows, include.folder);
    if (!row || include.of.empty() || include.of == include.folder) continue;
    const auto allows = [&](const std::string& entry) { return Allows(entry, include.of); };
    if (std::none_of(row->may_include.begin(), row->may_include.end(), allows))
      forbidden.push_back(include.file + " includes " + include.of);
  }
  return forbidden;
}

// What a row allows though no file of its folder includes it.
Names UnusedEntries(const std::vector<Row>& rows, const std::vector<Include>& includes) {
  Names unused;
  for (const Row& row : rows)
    for (const std::string& entry : row.may_include) {
      const auto uses = [&](const Include& i) { return i.folder == row.folder && Allows(entry, i.of); };
      if (std::none_of(includes.begin(), includes.end(), uses))
        unused.push_back(row.folder + " may include " + entry);
    }
  return unused;
}

// Entries that are no library and stand in no row above: back edges.
Names BackEdges(const std::vector<Row>& rows) {
  Names back;
  std::set<std::string> above;
  for (const Row& row : rows) {
    for (const std::string& entry : row.may_include) {
      const bool library = entry.ends_with("/") || entry.ends_with(".hpp");
      const auto allows = [&](const std::string& folder) { return Allows(entry, folder); };
      if (!library && std::none_of(above.begin(), above.end(), allows))
        back.push_back(row.folder + " includes " + entry + ", which stands below it");
    }
    above.insert(row.folder);
  }
  return back;
}

// act_library(FOLDER DEPS ...) of CMakeLists.txt: what each folder's library links.
std::map<std::string, std::set<std::string>> LibrariesOf(std::istream& cmake) {
  std::stringstream text;
  text << cmake.rdbuf();
  const std::string all = text.str(), call = "\nact_library(";
  std::map<std::string, std::set<std::string>> libraries;
  for (size_t at = all.find(call); at != std::string::npos; at = all.find(call, at + 1)) {
    const size_t begin = at + call.size();
    std::stringstream words(all.substr(begin, all.find(')', begin) - begin));
    std::string folder;
    words >> folder;
    for (std::string word; words >> word;) libraries[folder].insert(word);
  }
  return libraries;
}

// Folders of a row that its library does not link. All of compiler/import is one library.
Names MissingLinks(const std::vector<Row>& rows,
                   const std::map<std::string, std::set<std::string>>& libraries) {
  Names missing;
  for (const Row& row : rows) {
    const auto library = libraries.find(row.folder);
    if (library == libraries.end()) continue;
    for (const std::string& entry : row.may_include) {
      const std::string import = "compiler/import";
      const std::string folder = entry.rfind(import, 0) == 0 ? import : entry;
      const bool is_library = libraries.contains(folder) || folder == import;
      if (is_library && !library->second.contains(folder))
        missing.push_back(row.folder + " does not link " + folder);
    }
  }
  return missing;
}

class Layers : public testing::Test {
 protected:
  Layers() : root_(SourceFolder()), tree_(ReadTree(root_)) {
    std::ifstream document(root_ / "docs" / "architecture.md");
    rows_ = RowsOf(document);
  }
  const fs::path root_;
  const Tree tree_;
  std::vector<Row> rows_;
};

TEST_F(Layers, EveryFolderOfSourcesHasOneRow) {
  ASSERT_GT(rows_.size(), 30U) << "docs/architecture.md has no table with a column 'may include'";
  std::map<std::string, int> count;
  for (const Row& row : rows_) ++count[row.folder];
  for (const std::string& folder : tree_.folders) EXPECT_EQ(count[folder], 1) << folder;
  for (const auto& [folder, rows] : count)
    EXPECT_TRUE(tree_.folders.contains(folder)) << folder << " is no folder";
}

TEST_F(Layers, FilesIncludeWhatTheTableAllows) {
  EXPECT_GT(tree_.includes.size(), 1000U);
  EXPECT_EQ(ForbiddenIncludes(rows_, tree_.includes), Names());
}

TEST_F(Layers, TheTableAllowsNothingThatNoFileIncludes) {
  EXPECT_EQ(UnusedEntries(rows_, tree_.includes), Names());
}

TEST_F(Layers, FoldersIncludeOnlyThoseAbove) { EXPECT_EQ(BackEdges(rows_), Names()); }

TEST_F(Layers, LibrariesLinkWhatTheirFoldersInclude) {
  std::ifstream cmake(root_ / "CMakeLists.txt");
  const auto libraries = LibrariesOf(cmake);
  EXPECT_GT(libraries.size(), 20U);
  EXPECT_EQ(MissingLinks(rows_, libraries), Names());
}

// ---- The checks themselves

TEST(LayersTable, IsReadFromMarkdown) {
  std::istringstream document(
      "| other | table |\n|---|---|\n| `x` | `y` |\n\n"
      "| folder | holds | may include |\n|---|---|---|\n"
      "| `a/low` | base, `Type` | `llvm/` |\n| `a/{mid,top}` | the rest | `a/low`, `b/{x,y}`, |\n| | | "
      "`c/{*}` |\n\n| "
      "`z` | z | |\n");
  const std::vector<Row> rows = RowsOf(document);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].folder, "a/low");
  EXPECT_EQ(rows[0].may_include, Names{"llvm/"});
  EXPECT_EQ(rows[2].folder, "a/top");
  EXPECT_EQ(rows[2].may_include, (Names{"a/low", "b/x", "b/y", "c/*"}));
}

TEST(LayersTable, FaultsAreFound) {
  const std::vector<Row> rows = {{"a", {"b", "llvm/"}}, {"b", {"a", "c/*"}}};
  const std::vector<Include> includes = {{"a/x.h", "a", "b"},
                                         {"a/x.h", "a", "onnx/"},
                                         {"b/y.h", "b", "c/d"},
                                         {"b/y.h", "b", "b"},
                                         {"b/y.h", "b", ""}};
  EXPECT_EQ(ForbiddenIncludes(rows, includes), Names{"a/x.h includes onnx/"});
  EXPECT_EQ(UnusedEntries(rows, includes), (Names{"a may include llvm/", "b may include a"}));
  EXPECT_EQ(BackEdges(rows),
            (Names{"a includes b, which stands below it", "b includes c/*, which stands below it"}));
}

TEST(LayersTable, MissingLinksAreFound) {
  std::istringstream cmake(
      "\nact_library(a DEPS b\n            lib)\nact_library(b)\nact_library(c DEPS a)\n");
  EXPECT_EQ(MissingLinks({{"a", {"b", "c", "lib/"}}, {"c", {"a"}}}, LibrariesOf(cmake)),
            Names{"a does not link c"});
}

}  // namespace
}  // namespace act
