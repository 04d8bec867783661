// Reading a log of actrun --log.
#pragma once

#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "runtime/train/checkpoint.h"

namespace act {

// Calls `see` with each line that is a whole JSON object, and where it begins. Ends once that returns false.
void ForEachLine(std::string_view log,
                 const std::function<bool(const llvm::json::Object& line, int64_t begin)>& see);

// The bytes of a log that a run from `start` on keeps: those before the first line that it will write again.
// Errors: `log` is no log, or one of another run than `header` tells.
llvm::Expected<int64_t> BytesToKeep(std::string_view log, const std::string& path,
                                    const llvm::json::Object& header, const TrainPosition& start);

}  // namespace act
