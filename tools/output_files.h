// The files that a command reads and writes.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

namespace act {

struct InputPath {
  std::string flag;  // "--load"; empty: the file without a flag
  std::string path;  // empty: not given
  std::vector<std::string> replaced_by =
      {};  // flags of outputs that may take its place, once it has been read
};

struct OutputPath {
  std::string flag;      // "--save"
  std::string path;      // empty: not given
  bool appends = false;  // to a file that is there: a log, which is written in place
};

// Before the work: errors are a path that cannot be written, one that names an input, which would be lost, and
// one that another flag names, too.
llvm::Error CheckOutputs(const std::vector<InputPath>& inputs, const std::vector<OutputPath>& outputs);

// Adds the files that the text of --data or --eval-data (`flag`) names, those of patterns one by one. What names
// none is left to the reader of the data, which tells what is wrong.
void AddDataFiles(const std::string& flag, const std::string& text, std::vector<InputPath>& inputs);

}  // namespace act
