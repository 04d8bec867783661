// The form of CLI errors: exit 1, "<tool>: error: <place>: <what>", then at most one
// line "hint: ...".
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/e2e/process.h"

namespace act::e2e {

// Runs args and expects a refusal: the first line of standard error holds each of `words`, and
// standard output is empty. Returns the whole standard error.
std::string ExpectRefused(const std::vector<std::string>& args, const std::vector<std::string>& words,
                          const Limits& limits = {});

// Exit 2, for wrong usage. Standard error is one line "<tool>: error: ..." and at most one "hint:
// ...". The words may be anywhere in them.
void ExpectWrongUsage(const std::vector<std::string>& args, const std::vector<std::string>& words);

// Exit 0. Returns standard output.
std::string ExpectDone(const std::vector<std::string>& args);

}  // namespace act::e2e
