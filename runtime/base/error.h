// Errors are values that say where they happened: llvm::Expected carries an ActError, which is made
// where the cause is known.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

namespace act {

// A user-facing failure. The tools print "<tool>: error: <place>: <what>" and then "hint: <hint>".
class ActError : public llvm::ErrorInfo<ActError> {
 public:
  static char ID;
  ActError(std::string place, std::string what, std::string hint)
      : place_(std::move(place)), what_(std::move(what)), hint_(std::move(hint)) {}

  void log(llvm::raw_ostream& os) const override;
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

  const std::string& place() const { return place_; }
  const std::string& what() const { return what_; }
  const std::string& hint() const { return hint_; }

 private:
  std::string place_, what_, hint_;
};

// `place` is a file, node or flag ("model.onnx: node '/conv1/Conv'"). `hint` may be empty.
llvm::Error MakeError(std::string place, std::string what, std::string hint = "");

// Puts `place` before the error's own place: "model.onnx" + "node 'x'" -> "model.onnx: node 'x'".
llvm::Error WithPlace(llvm::Error error, const std::string& place);

// Prints the error to standard error in the tools' form, and consumes it.
void PrintError(const char* tool, llvm::Error error);

}  // namespace act

#define ACT_CONCAT_INNER(a, b) a##b
#define ACT_CONCAT(a, b) ACT_CONCAT_INNER(a, b)
// ACT_TRY(auto x, F()) sets x to F()'s value, or returns F()'s error.
#define ACT_TRY(lhs, expr) ACT_TRY_IMPL(ACT_CONCAT(act_try_, __LINE__), lhs, expr)
#define ACT_TRY_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                 \
  if (!tmp) return tmp.takeError();  \
  lhs = std::move(*tmp)
// ACT_CHECK_OK(F()) returns F()'s error if there is one.
#define ACT_CHECK_OK(expr) \
  if (llvm::Error act_error = (expr)) return act_error
