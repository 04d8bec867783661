#include "runtime/base/error.h"

#include <gtest/gtest.h>

#include <string>

namespace act {
namespace {

// Names in errors come from files, which may hold anything.
TEST(Error, ControlCharactersAreWrittenOutAndLettersStay) {
  const std::string text = llvm::toString(
      MakeError("m.onnx: node 'a\nb'", "reads '\033[2J\x7f\r' and 'schön'", "first\nsecond\a"));
  EXPECT_EQ(text,
            "m.onnx: node 'a\\x0Ab': reads '\\x1B[2J\\x7F\\x0D' and 'schön'\n"
            "hint: first\nsecond\\x07");
}

}  // namespace
}  // namespace act
