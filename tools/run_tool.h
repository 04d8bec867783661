// What holds for the process of every tool, whatever the tool does: how it ends when memory is
// exhausted, when a signal comes, and when its output cannot be written.
#pragma once

#include <csignal>

namespace act {

// Calls `tool_main`, and returns what main() returns. Besides:
// * Exhausted memory, and an exception or a fatal error of a library, are one line "TOOL: error: ..." and
//   exit code 1.
// * SIGINT, SIGTERM and SIGHUP end the process as they do by default, but temporary files are removed. A
//   signal that the parent ignores (nohup) stays ignored.
// * Standard output that cannot be written is an error, and exit code 1. If its reader is gone, the
//   process ends by SIGPIPE, but not before its work is done.
// * Messages that standard error does not take are lost, which is no error.
// * A write beyond the limit of a file's size (ulimit -f) is an error of the write, and no signal.
int RunTool(const char* tool, int argc, char** argv, int (*tool_main)(int, char**));

// From now on, SIGINT, SIGTERM and SIGHUP set `stop`, and the tool ends by itself. Another SIGINT or
// SIGTERM ends the process at once. Another SIGHUP does not: a terminal that closes sends two.
void StopAtSignals(volatile std::sig_atomic_t* stop);

}  // namespace act
