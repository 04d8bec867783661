#include "compiler/import/core/refusals.h"

#include <algorithm>

#include "compiler/import/core/subgraphs.h"
#include "runtime/base/error.h"

namespace act::onnx_import {

bool Refusals::Follows(const onnx::NodeProto& node) {
  if (missing_.empty()) return false;
  const auto read = ReadNames(node);
  const bool follows = std::any_of(read.begin(), read.end(),
                                   [this](const std::string& name) { return missing_.count(name) > 0; });
  if (follows) missing_.insert(node.output().begin(), node.output().end());
  missing_.erase("");
  return follows;
}

void Refusals::Add(const onnx::NodeProto& node, llvm::Error why) {
  llvm::handleAllErrors(std::move(why), [this](const ActError& e) {
    causes_.push_back({e.place(), e.what(), e.hint()});
  });
  missing_.insert(node.output().begin(), node.output().end());
  missing_.erase("");
}

llvm::Error Refusals::Take() {
  constexpr size_t kShown = 20;
  if (causes_.empty()) return llvm::Error::success();
  if (causes_.size() == 1) return MakeError(causes_[0].place, causes_[0].what, causes_[0].hint);
  std::string lines, hint;
  std::set<std::string> hints;
  for (size_t i = 0; i < causes_.size() && i < kShown; ++i) {
    const Cause& cause = causes_[i];
    lines += "\n  " + cause.place + ": " + cause.what;
    if (!cause.hint.empty() && hints.insert(cause.hint).second)
      hint += (hint.empty() ? "" : "; ") + cause.hint;
  }
  if (causes_.size() > kShown) lines += "\n  and " + std::to_string(causes_.size() - kShown) + " more";
  return MakeError("", std::to_string(causes_.size()) + " nodes cannot be imported:" + lines, hint);
}

}  // namespace act::onnx_import
