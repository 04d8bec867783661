// JSON of files that anybody may have written.
#pragma once

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/JSON.h>

#include <cstdint>
#include <optional>

namespace act {

// LLVM's parser calls itself for each array and object inside of another one, so a file of a megabyte of brackets
// would overrun the stack.
inline constexpr int kMostJsonDepth = 64;

// The value of a text. Errors: no JSON, arrays and objects more than kMostJsonDepth deep.
llvm::Expected<llvm::json::Value> ParseJson(llvm::StringRef text);

// The number if it is whole and below 2^63; nullopt for anything else. LLVM's own function converts 2^63 too, for which
// the language says no result.
std::optional<int64_t> IntegerOf(const llvm::json::Value& value);

// A text as JSON's: names of files, nodes and plans may have any bytes, and JSON is UTF-8.
inline llvm::json::Value JsonText(llvm::StringRef text) { return llvm::json::fixUTF8(text); }

// A number as JSON's, which has no NaN and no infinity: null for these, and where there is no number.
llvm::json::Value NumberOrNull(std::optional<double> number);

}  // namespace act
