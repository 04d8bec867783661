#include "runtime/base/error.h"

#include <gtest/gtest.h>

#include <string>

namespace act {
namespace {

// Names in errors come from files, which may hold anything.
TEST(Error, ControlCharactersAreWrittenOutAndLettersStay) {
  const std::string text = llvm::toString(MakeError(
      "m.onnx: node 'a\nb'", "2 reasons:\n  reads '\033[2J\x7f\r' and 'schön'", "first\n  second\n\a"));
  EXPECT_EQ(text,
            "m.onnx: node 'a\\x0Ab': 2 reasons:\n  reads '\\x1B[2J\\x7F\\x0D' and 'schön'\n"
            "hint: first\n  second\\x0A\\x07");
}

}  // namespace
}  // namespace act
