// A misspelled operator compiles. A comparison with it is never true, and a builder refuses it
// only when the line runs. So this test looks up every name that the sources compare with,
// build or register.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>

#include "compiler/ops/op_table.h"
#include "tests/paths.h"
#include "tests/unit/temporary_folder.h"

namespace act {
namespace {

struct Literal {
  std::string name, file;
  int64_t line = 0;
};

// The last group of each match of `pattern` in the sources of these folders.
std::vector<Literal> Literals(std::initializer_list<const char*> folders, const std::regex& pattern) {
  std::vector<Literal> found;
  for (const char* folder : folders)
    for (const auto& entry : std::filesystem::recursive_directory_iterator(SourceFolder() + "/" + folder)) {
      const std::string file = entry.path().string();
      if (!file.ends_with(".cc") && !file.ends_with(".h")) continue;
      const std::string text = testing::Contents(file);
      for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
        found.push_back({it->str(it->size() - 1), file,
                         std::count(text.begin(), text.begin() + it->position(), '\n') + 1});
    }
  return found;
}

// There must be at least `at_least` literals. Fewer mean that the pattern no longer fits how the
// sources are written.
void ExpectOperators(const std::vector<Literal>& literals, size_t at_least) {
  EXPECT_GE(literals.size(), at_least);
  for (const Literal& literal : literals)
    EXPECT_TRUE(FindOp(literal.name))
        << literal.file << ":" << literal.line << " names '" << literal.name << "', which is no operator";
}

// compiler/import is left out, since its names are ONNX's.
TEST(OperatorLiterals, EachThatIsComparedExists) {
  const std::initializer_list<const char*> folders = {"compiler/ir",     "compiler/ops", "compiler/autodiff",
                                                      "compiler/policy", "passes",       "runtime",
                                                      "kernels",         "tools"};
  ExpectOperators(Literals(folders, std::regex(R"rx(op\s*[=!]?=\s*"(\w+)")rx")), 20);
  ExpectOperators(Literals({"passes"}, std::regex(R"rx(Maker\([^;"]*,\s*"(\w+)"\))rx")), 5);
}

TEST(OperatorLiterals, EachThatIsBuiltExists) {
  ExpectOperators(
      Literals(
          {"compiler", "passes"},
          std::regex(R"rx(\b(Add1|AddTyped|Add|Emit|EmitTyped|EmitMany|Derive|DeriveTyped)\("(\w+)")rx")),
      150);
  ExpectOperators(Literals({"passes/recognize"}, std::regex(R"rx(Become\(\*?\w+,\s*"(\w+)")rx")), 3);
}

TEST(OperatorLiterals, EachThatHasAKernelExists) {
  ExpectOperators(Literals({"kernels"}, std::regex(R"rx(registry\.Add\("(\w+)")rx")), 20);
}

}  // namespace
}  // namespace act
