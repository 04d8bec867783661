// Flags of the tools, and one form of error for every command line that is wrong.
#pragma once

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/CommandLine.h>

namespace act {

inline constexpr int kWrongUsage = 2;

// LLVM's own parsers of numbers and switches print what is wrong in a form of their own. These note
// it for ReadCommandLine.
struct WholeNumberParser : llvm::cl::parser<long long> {
  using parser::parser;
  bool parse(llvm::cl::Option& flag, llvm::StringRef name, llvm::StringRef text, long long& value);
};
struct SeedParser : llvm::cl::parser<unsigned long long> {
  using parser::parser;
  bool parse(llvm::cl::Option& flag, llvm::StringRef name, llvm::StringRef text, unsigned long long& value);
};
struct NumberParser : llvm::cl::parser<double> {
  using parser::parser;
  bool parse(llvm::cl::Option& flag, llvm::StringRef name, llvm::StringRef text, double& value);
};
struct SwitchParser : llvm::cl::parser<bool> {
  using parser::parser;
  bool parse(llvm::cl::Option& flag, llvm::StringRef name, llvm::StringRef text, bool& value);
};

// Every flag of a tool that is a number or a switch has one of these types.
using WholeNumberFlag = llvm::cl::opt<long long, false, WholeNumberParser>;
using SeedFlag = llvm::cl::opt<unsigned long long, false, SeedParser>;  // 0 to 2^64 - 1
using NumberFlag = llvm::cl::opt<double, false, NumberParser>;
using SwitchFlag = llvm::cl::opt<bool, false, SwitchParser>;

// Reads the command line into the tool's flags. Where it is wrong, prints the first error and a
// hint, and returns false: the tool exits with kWrongUsage. `usage` is the hint for a file or
// command that is missing or too many, `overview` the head of --help.
bool ReadCommandLine(llvm::StringRef tool, llvm::StringRef usage, llvm::StringRef overview, int argc,
                     const char* const* argv);

// Prints "tool: error: MESSAGE", where a second line of the message becomes the hint. Returns
// kWrongUsage.
int UsageError(llvm::StringRef tool, llvm::StringRef message);

}  // namespace act
