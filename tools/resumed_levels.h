// The numbers of levels that a checkpoint of actrun --adapt-every holds.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>

#include "runtime/levels/adapt_levels.h"

namespace act {

struct ResumedLevels {
  CodeLevels levels;
  std::unique_ptr<Plan> plan;  // with these levels; null: the checkpoint has none that are of use here
};
// Of the checkpoint `path`; empty: there is none. Warns of levels that are another plan's. Errors: a file
// that is none, levels that no code of the plan can have.
llvm::Expected<ResumedLevels> ReadResumedLevels(const std::string& path, const Plan& plan);
// Goes on with them, or warns that the executor's memory does not hold them.
llvm::Error GoOnWithLevels(const std::string& path, ResumedLevels resumed, LevelAdapter& adapter,
                           Executor& executor);

}  // namespace act
