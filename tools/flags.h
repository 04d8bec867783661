// What a tool says of a wrong command line, in the tools' common form.
#pragma once

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/raw_ostream.h>

namespace act {

inline constexpr int kWrongUsage = 2;

// LLVM's message, "tool: what.  Try: ...", in our form; empty where LLVM has printed it itself (numbers that
// are none). Returns the exit status.
inline int UsageError(llvm::StringRef tool, llvm::StringRef message) {
  if (message.empty()) return kWrongUsage;
  message.consume_front((tool + ": ").str());
  auto [first, rest] = message.split('\n');
  rest.consume_front((tool + ": ").str());
  llvm::errs() << tool << ": error: " << first << "\n";
  if (!rest.trim().empty()) llvm::errs() << "hint: " << rest.trim() << "\n";
  return kWrongUsage;
}

}  // namespace act
