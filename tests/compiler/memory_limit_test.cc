// --memory-limit: what is chosen fits, more memory is never worse, and what cannot fit is explained.
#include "passes/pipeline/memory_limit.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "runtime/memory/layout.h"
#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using testing_step::Take;

constexpr int64_t kBatch = 64;

CompileOptions AtBatch() {
  CompileOptions options;
  options.batch = kBatch;
  options.group_size = 64;         // so that tensors of this size have codes,
  options.workspace_limit = 1024;  // and set the peak
  return options;
}

int64_t PeakOf(const ImportResult& model, const RankedStep& step) {
  CompileOptions options = AtBatch();
  options.level = step.level;
  options.bits = step.bits;
  return Take(LayOut(Take(Compile(model, options)), kBatch)).arena_bytes;
}

TEST(MemoryLimit, WhatIsChosenFitsAndMoreMemoryIsNeverWorse) {
  constexpr int kLimits = 40;
  for (unsigned seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    const ImportResult model = small_networks::Network(seed).Build();
    const int64_t exact = PeakOf(model, {.level = "L0"});
    RankedSteps steps(model, AtBatch());
    int last_rank = std::numeric_limits<int>::max(), found = 0;
    std::set<int> ranks;
    for (int i = 0; i <= kLimits; ++i) {
      const int64_t limit = exact / 4 + exact * 3 / 4 * i / kLimits;
      llvm::Expected<StepChoice> choice = steps.Choose(limit);
      if (!choice) {
        EXPECT_EQ(found, 0) << "a larger limit has no step";
        EXPECT_NE(testing_step::Text(choice.takeError()).find("no step fits"), std::string::npos);
        continue;
      }
      ++found;
      const RankedStep& chosen = choice->chosen;
      EXPECT_LE(chosen.peak_bytes, limit);
      EXPECT_LE(chosen.rank, last_rank);
      last_rank = chosen.rank;
      if (ranks.insert(chosen.rank).second) {
        EXPECT_EQ(chosen.peak_bytes, PeakOf(model, chosen));
      }
      if (chosen.rank == 0) continue;
      ASSERT_TRUE(choice->better);
      EXPECT_EQ(choice->better->rank, chosen.rank - 1);
      EXPECT_GT(choice->better->peak_bytes, limit);
    }
    EXPECT_EQ(last_rank, 0) << "the exact step's own peak is enough for it";
    EXPECT_GE(ranks.size(), 3u) << "the limits decide nothing";
  }
}

TEST(MemoryLimit, WhatCannotFitIsExplained) {
  const ImportResult model = small_networks::Network(1).Build();
  const Plan plan = Take(Compile(model, AtBatch()));
  const MemoryLayout layout = Take(LayOut(plan, kBatch));
  const auto refusal = [&](int64_t limit) {
    llvm::Expected<StepChoice> choice = RankedSteps(model, AtBatch()).Choose(limit);
    return choice ? "" : testing_step::Text(choice.takeError());
  };
  EXPECT_NE(refusal(layout.persistent_bytes - 1).find("parameters and the optimizer's state alone"),
            std::string::npos);
  // Room for a few samples more than the parameters.
  const std::string error = refusal(layout.persistent_bytes + layout.arena_bytes / 10);
  for (const char* words : {"the least peak is", "at batch 64", "where the largest are", "a batch of "})
    EXPECT_NE(error.find(words), std::string::npos) << error;
}

// The batch that the hint names does fit.
TEST(MemoryLimit, TheBatchThatIsNamedFits) {
  const ImportResult model = small_networks::Network(2).Build();
  const int64_t limit = PeakOf(model, {.level = "L0"}) / 5;
  llvm::Expected<StepChoice> none = RankedSteps(model, AtBatch()).Choose(limit);
  ASSERT_FALSE(none);
  const std::string error = testing_step::Text(none.takeError()), before = "hint: a batch of ";
  ASSERT_NE(error.find(before), std::string::npos) << error;
  CompileOptions smaller = AtBatch();
  smaller.batch = std::stoll(error.substr(error.find(before) + before.size()));
  EXPECT_LT(smaller.batch, kBatch);
  EXPECT_LE(Take(RankedSteps(model, smaller).Choose(limit)).chosen.peak_bytes, limit);
}

}  // namespace
}  // namespace act
