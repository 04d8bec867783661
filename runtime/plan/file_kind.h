// Guesses what kind of file was given as a plan, so that the error message can name it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace act {

struct FileKind {
  std::string name;        // "an ONNX model", with its article
  std::string what_to_do;  // ": compile it with actc", or empty
};

// Looks at the first bytes only.
FileKind GuessFileKind(std::span<const std::byte> bytes);

}  // namespace act
