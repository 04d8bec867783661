// The text of --data and --eval-data: which files hold which input.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace act {

// The files of an input, or of all inputs.
struct DataFiles {
  std::string pattern;  // a path, or a pattern of paths
  std::string tensor;   // of safetensors files; empty: the input's name
};

// "NAME=FILE,NAME=FILE,FILE.safetensors". A file without a name holds every input that is not named.
struct DataSpec {
  std::map<std::string, DataFiles> inputs;
  std::optional<DataFiles> others;

  // `flag` is named in errors ("--data").
  static llvm::Expected<DataSpec> Parse(const std::string& flag, const std::string& text);
};

// The files that a pattern (*, ?, [a-z]) names, in the order of their names' bytes. A path that exists is
// no pattern. Errors: no file matches; more names than most_names were compared with the pattern (one such as
// "/*/*/*/*" goes through the whole disk).
llvm::Expected<std::vector<std::string>> FindFiles(const std::string& pattern,
                                                   int64_t most_names = 1'000'000);

}  // namespace act
