// Why nodes cannot be imported. An import goes on after a node that is refused, so that one error
// names all causes and not the first alone.
#pragma once

#include <llvm/Support/Error.h>

#include <set>
#include <string>
#include <vector>

#include "onnx/onnx-ml.pb.h"

namespace act::onnx_import {

class Refusals {
 public:
  // The node reads what a refused node would have made. It is no cause of its own, and what it makes
  // is missing too: true at the node means true at all nodes after it.
  bool Follows(const onnx::NodeProto& node);
  // The node is refused. Nothing that it makes exists.
  void Add(const onnx::NodeProto& node, llvm::Error why);

  // The only cause as it is; several causes as one error with a line for each; success where there
  // is none.
  llvm::Error Take();

 private:
  struct Cause {
    std::string place, what, hint;
  };
  std::vector<Cause> causes_;
  std::set<std::string> missing_;  // names of values
};

}  // namespace act::onnx_import
