// The numbers of levels that a checkpoint of actrun --adapt-every holds.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>

#include "runtime/levels/adapt_levels.h"

namespace act {

struct ResumedLevels {
  CodeLevels levels;
  // with these levels; null: the checkpoint has no levels for this plan
  std::unique_ptr<Plan> plan;
};
// Reads the levels of the checkpoint `path`. An empty path means that there is no checkpoint. Warns
// if the levels belong to another plan. Errors: a file that is not a checkpoint, levels that no
// code of the plan can have.
llvm::Expected<ResumedLevels> ReadResumedLevels(const std::string& path, const Plan& plan);
// Continues with these levels, or warns that the executor's memory cannot hold them.
llvm::Error GoOnWithLevels(const std::string& path, ResumedLevels resumed, LevelAdapter& adapter,
                           Executor& executor);

}  // namespace act
