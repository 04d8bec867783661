// Flags of the tools, and one form of error for every command line that is wrong.
#pragma once

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/CommandLine.h>

#include <string>

namespace act {

inline constexpr int kWrongUsage = 2;

// LLVM's own parsers of numbers and switches print errors in a form of their own. These parsers
// note the error for ReadCommandLine instead.
struct WholeNumberParser : llvm::cl::parser<long long> {
  using parser::parser;
  bool parse(llvm::cl::Option& flag, llvm::StringRef name, llvm::StringRef text, long long& value);
};
struct SeedParser : llvm::cl::parser<unsigned long long> {
  using parser::parser;
  bool parse(llvm::cl::Option& flag, llvm::StringRef name, llvm::StringRef text, unsigned long long& value);
};
// Numbers that float32 holds, in which steps compute.
struct NumberParser : llvm::cl::parser<double> {
  using parser::parser;
  bool parse(llvm::cl::Option& flag, llvm::StringRef name, llvm::StringRef text, double& value);
};
struct SwitchParser : llvm::cl::parser<bool> {
  using parser::parser;
  bool parse(llvm::cl::Option& flag, llvm::StringRef name, llvm::StringRef text, bool& value);
};

// A text of a flag that may stand alone: "" is the flag without a value.
struct OptionalTextParser : llvm::cl::parser<std::string> {
  using parser::parser;
  bool parse(llvm::cl::Option& flag, llvm::StringRef name, llvm::StringRef text, std::string& value);
};

// Whether float32 has the number, up to its precision: not infinity or 0 in its place.
bool HoldsInFloat32(double number);

// Every flag of a tool that is a number or a switch has one of these types.
using WholeNumberFlag = llvm::cl::opt<long long, false, WholeNumberParser>;
using SeedFlag = llvm::cl::opt<unsigned long long, false, SeedParser>;  // 0 to 2^64 - 1
using NumberFlag = llvm::cl::opt<double, false, NumberParser>;
using SwitchFlag = llvm::cl::opt<bool, false, SwitchParser>;

// Reads the command line into the tool's flags. If it is wrong, prints the first error and a hint,
// and returns false; the tool then exits with kWrongUsage. `usage` is the hint if a file or command
// is missing or if there are too many. `overview` is the head of --help.
bool ReadCommandLine(llvm::StringRef tool, llvm::StringRef usage, llvm::StringRef overview, int argc,
                     const char* const* argv);

// Prints "tool: error: MESSAGE", where a second line of the message becomes the hint. Returns
// kWrongUsage.
int UsageError(llvm::StringRef tool, llvm::StringRef message);

}  // namespace act
