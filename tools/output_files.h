// The files that a command writes.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

namespace act {

struct OutputPath {
  std::string flag;  // "--save"
  std::string path;  // empty: not given
};

// Before the work: errors are a path that cannot be written, one that names the file `input`, which would be lost, and
// one that another flag names, too.
llvm::Error CheckOutputs(const std::string& input, const std::vector<OutputPath>& outputs);

}  // namespace act
