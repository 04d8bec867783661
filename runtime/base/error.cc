#include "runtime/base/error.h"

#include <llvm/Support/raw_ostream.h>

#include "runtime/base/printable.h"

namespace act {

char ActError::ID = 0;

void ActError::log(llvm::raw_ostream& os) const {
  if (!place_.empty()) os << Printable(place_) << ": ";
  os << PrintableLines(what_);
  if (!hint_.empty()) os << "\nhint: " << PrintableLines(hint_);
}

llvm::Error MakeError(std::string place, std::string what, std::string hint) {
  return llvm::make_error<ActError>(std::move(place), std::move(what), std::move(hint));
}

llvm::Error WithPlace(llvm::Error error, const std::string& place) {
  if (!error) return error;
  return llvm::handleErrors(std::move(error), [&](const ActError& e) {
    return MakeError(e.place().empty() ? place : place + ": " + e.place(), e.what(), e.hint());
  });
}

void PrintError(const char* tool, llvm::Error error) {
  llvm::handleAllErrors(std::move(error), [tool](const llvm::ErrorInfoBase& e) {
    llvm::errs() << tool << ": error: ";
    e.log(llvm::errs());
    llvm::errs() << "\n";
  });
}

}  // namespace act
