// Models that are wrong or hostile, and what a refusal of one looks like.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "compiler/import/import_onnx.h"
#include "runtime/base/error.h"
#include "tests/compiler/onnx_model.h"

namespace act::testing {

struct Hostile {
  const char* name;
  std::function<OnnxModel()> make;
  const char* expected;  // part of the error
};

// Expects one error, after the file's name.
inline void ExpectOneClearError(const Hostile& hostile) {
  const TemporaryFolder folder;
  const std::string path = hostile.make().Write(folder);
  auto result = ImportOnnx(path, {});
  ASSERT_FALSE(result) << "it was imported";
  const std::string error = llvm::toString(result.takeError());
  EXPECT_NE(error.find(hostile.expected), std::string::npos) << error;
  EXPECT_EQ(error.rfind(path + ": ", 0), 0u) << error;
}

}  // namespace act::testing
