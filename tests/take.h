// What a test does with results that may be errors.
#pragma once

#include <gtest/gtest.h>
#include <llvm/Support/Error.h>

#include <cstdlib>
#include <string>
#include <utility>

namespace act {

// The value, for a test that cannot continue without it.
template <class T>
T Take(llvm::Expected<T> value) {
  if (value) return std::move(*value);
  ADD_FAILURE() << llvm::toString(value.takeError());
  std::abort();
}

// The error's message. It is empty if there was no error.
inline std::string Text(llvm::Error error) { return llvm::toString(std::move(error)); }

}  // namespace act
