#include "kernels/cuda/row_plan.h"

#include <algorithm>

#include "kernels/cuda/column_plan.h"
#include "kernels/cuda/own_kernel.h"

namespace act::cuda {

RowPlan PlanRows(int64_t columns, int passes, int operands, bool aligned) {
  constexpr int64_t kThreads = 256, kMostThreads = 1024, kWarp = 32;
  const int64_t vector = aligned && columns % 4 == 0 ? 4 : 1;
  // Elements of a row that a thread holds. Beside 32, or 16 that are loaded one by one, a block of 1,024
  // threads has no registers left.
  const int64_t most = (vector == 4 ? 32 : 16) / operands;
  // Enough of memory is under way where a thread loads four elements at a time.
  const int64_t once = std::max<int64_t>(4, vector);
  const int64_t packs = DivideUp(std::max<int64_t>(columns, 1), vector);
  const int64_t wanted = passes > 1 ? most : once;
  int64_t team = std::min(PowerOfTwoAbove(packs), kWarp);
  for (const int64_t larger : {kThreads, kMostThreads})
    if (columns > team * std::max(wanted, most / 2)) team = larger;
  const int64_t slots = std::min(PowerOfTwoAbove(DivideUp(packs, team)), wanted / vector);
  const bool held = slots * vector * team >= columns;
  RowPlan plan;
  plan.threads = static_cast<int>(std::max(kThreads, team));
  plan.teams = plan.threads / team;
  plan.shape = "RowShape" + TemplateArguments(team, slots, vector, held ? "true" : "false");
  return plan;
}

}  // namespace act::cuda
