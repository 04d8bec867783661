// What a tool does where the system gives no memory.
#pragma once

namespace act {

// From now on, the first request of memory that fails ends the process: temporary files are removed, the
// error is one line "TOOL: error: out of memory: ...", and the exit code is 1. So does LLVM's fatal error,
// with its reason.
void HandleExhaustedMemory(const char* tool);

}  // namespace act
