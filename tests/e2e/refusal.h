// What CLI errors look like: exit 1, "<tool>: error: <place>: <what>" first, then at most a line "hint: ...".
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/e2e/process.h"

namespace act::e2e {

// Runs args and expects a refusal whose first line of standard error holds every one of `words`, and nothing
// on standard output. Returns the whole standard error.
std::string ExpectRefused(const std::vector<std::string>& args, const std::vector<std::string>& words,
                          const Limits& limits = {});

// Exit 2: wrong usage. Standard error is one line "<tool>: error: ..." and at most one "hint: ...", with words
// anywhere in them.
void ExpectWrongUsage(const std::vector<std::string>& args, const std::vector<std::string>& words);

// Exit 0; returns standard output.
std::string ExpectDone(const std::vector<std::string>& args);

}  // namespace act::e2e
