#include "tools/resumed_levels.h"

#include <llvm/Support/raw_ostream.h>

#include <optional>
#include <utility>

#include "runtime/base/error.h"

namespace act {

llvm::Expected<ResumedLevels> ReadResumedLevels(const std::string& path, const Plan& plan) {
  ResumedLevels result;
  if (path.empty()) return result;
  ACT_TRY(result.levels, ReadCodeLevels(path));
  if (result.levels.counts.empty()) return result;
  llvm::Expected<std::optional<Plan>> resumed = WithLevels(plan, result.levels);
  if (!resumed) return WithPlace(resumed.takeError(), path);
  if (*resumed)
    result.plan = std::make_unique<Plan>(std::move(**resumed));
  else
    llvm::errs() << "actrun: warning: " << path
                 << ": its numbers of levels are of another plan; this one's are used\n";
  return result;
}

llvm::Error GoOnWithLevels(const std::string& path, ResumedLevels resumed, LevelAdapter& adapter,
                           Executor& executor) {
  if (!resumed.plan) return llvm::Error::success();
  ACT_TRY(const bool holds, adapter.Resume(executor, std::move(*resumed.plan), resumed.levels));
  if (!holds)
    llvm::errs() << "actrun: warning: " << path << ": its numbers of levels were chosen at another batch "
                 << "size and take more than the promised memory at this one; the plan's own are used\n";
  return llvm::Error::success();
}

}  // namespace act
