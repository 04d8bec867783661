// --memory-limit: what is chosen fits, more memory is never worse, and what cannot fit is explained.
#include "passes/pipeline/memory_limit.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

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
  step.SetIn(options);
  return Take(LayOut(Take(Compile(model, options)), kBatch)).arena_bytes;
}

// Its weights have thousands of elements, so that their state is smaller in 8 bits.
ImportResult Perceptron() {
  Graph graph;
  GraphBuilder builder(graph);
  const auto weight = [&](const char* name, int64_t rows, int64_t columns) {
    const std::vector<float> values(static_cast<size_t>(rows * columns), .01f);
    return builder.Input(name, {DType::kFloat32, {Dim(rows), Dim(columns)}}, ValueKind::kParameter,
                         testing_step::HostFloats(values));
  };
  ValueId x = builder.Input("x", {DType::kFloat32, {Dim::Batch(), Dim(96)}}, ValueKind::kInput);
  const ValueId w1 = weight("w1", 96, 128), w2 = weight("w2", 128, 96), w3 = weight("w3", 96, 128);
  for (const ValueId w : {w1, w2, w3}) {
    x = Take(builder.Add1("MatMul", {x, w}));
    x = Take(builder.Add1("Gelu", {x}));
  }
  graph.outputs = {Take(builder.Add1("ReduceMean", {x}, Over({0, 1}, false), "loss"))};
  return testing_step::ModelOf(std::move(graph));
}

struct Allowed {
  bool bfloat16, quantized_state;
};

class Limits : public testing::TestWithParam<Allowed> {
 protected:
  StepChoices Choices() const {
    return {.bfloat16 = GetParam().bfloat16, .quantized_state = GetParam().quantized_state};
  }

  static CompileOptions Options() {
    CompileOptions options = AtBatch();
    options.optimizer = "adam";
    return options;
  }

  static int64_t PeakWithAdam(const ImportResult& model, const RankedStep& step) {
    CompileOptions options = Options();
    step.SetIn(options);
    return Take(LayOut(Take(Compile(model, options)), kBatch)).arena_bytes;
  }

  // Tries growing limits. Returns the steps that were chosen, by rank.
  std::map<int, RankedStep> ChooseUnderGrowingLimits(const ImportResult& model) const {
    constexpr int kLimits = 40;
    const int64_t exact = PeakWithAdam(model, {.level = "L0"});
    RankedSteps steps(model, Options(), Choices());
    int last_rank = std::numeric_limits<int>::max();
    std::map<int, RankedStep> found;
    for (int i = 0; i <= kLimits; ++i) {
      const int64_t limit = exact / 4 + exact * 3 / 4 * i / kLimits;
      llvm::Expected<StepChoice> choice = steps.Choose(limit);
      if (!choice) {
        EXPECT_TRUE(found.empty()) << "a larger limit has no step";
        EXPECT_NE(testing_step::Text(choice.takeError()).find("--memory-limit"), std::string::npos);
        continue;
      }
      const RankedStep& chosen = choice->chosen;
      EXPECT_LE(chosen.peak_bytes, limit);
      EXPECT_LE(chosen.rank, last_rank);
      last_rank = chosen.rank;
      if (found.emplace(chosen.rank, chosen).second) {
        EXPECT_EQ(chosen.peak_bytes, PeakWithAdam(model, chosen)) << chosen.Name();
      }
      EXPECT_TRUE(GetParam().bfloat16 || !chosen.bfloat16);
      EXPECT_TRUE(GetParam().quantized_state || !chosen.quantized_state);
      if (chosen.rank == 0) continue;
      EXPECT_TRUE(choice->better);
      if (!choice->better) continue;
      EXPECT_LT(choice->better->rank, chosen.rank);
      EXPECT_GT(choice->better->peak_bytes, limit);
    }
    EXPECT_EQ(last_rank, 0) << "the exact step's own peak is enough for it";
    return found;
  }
};

TEST_P(Limits, WhatIsChosenFitsAndMoreMemoryIsNeverWorse) {
  const unsigned networks = GetParam().bfloat16 ? 3 : 6;  // it takes the time
  for (unsigned seed = 0; seed < networks; ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_GE(ChooseUnderGrowingLimits(small_networks::Network(seed).Build()).size(), 3u)
        << "the limits decide nothing";
  }
}

TEST_P(Limits, WhatIsAllowedIsTakenWhereItHelps) {
  bool bfloat16 = false, quantized_state = false;
  for (const auto& [rank, step] : ChooseUnderGrowingLimits(Perceptron())) {
    bfloat16 |= step.bfloat16;
    quantized_state |= step.quantized_state;
  }
  EXPECT_EQ(quantized_state, GetParam().quantized_state);
  if (!GetParam().quantized_state) {
    EXPECT_EQ(bfloat16, GetParam().bfloat16);
  }
}

INSTANTIATE_TEST_SUITE_P(MemoryLimit, Limits,
                         testing::Values(Allowed{false, false}, Allowed{true, false}, Allowed{false, true},
                                         Allowed{true, true}),
                         [](const auto& of) {
                           return std::string(of.param.bfloat16 ? "BFloat16" : "Float32") +
                                  (of.param.quantized_state ? "SmallState" : "");
                         });

// What is allowed adds steps to the list and moves none of those that were there.
TEST(MemoryLimit, TheListIsOrderedByVarianceAndThenByTime) {
  const std::vector<RankedStep> plain = ListSteps({}), all = ListSteps({true, true});
  ASSERT_EQ(all.size(), 4 * plain.size());
  EXPECT_EQ(plain[0].Name(), "L0");
  EXPECT_EQ(plain[1].Name(), "L3 with --bits=8");
  EXPECT_EQ(plain[2].Name(), "L4 with --bits=8");
  EXPECT_EQ(all[1].Name(), "L0 with --optimizer-state=8bit");
  std::vector<std::string> kept;
  std::map<std::string, int> rank_of;
  for (size_t s = 0; s < all.size(); ++s) {
    EXPECT_EQ(all[s].rank, static_cast<int>(s));
    if (!all[s].bfloat16 && !all[s].quantized_state) kept.push_back(all[s].Name());
    EXPECT_TRUE(rank_of.emplace(all[s].Name(), all[s].rank).second) << all[s].Name() << " is there twice";
  }
  for (size_t s = 0; s < plain.size(); ++s) EXPECT_EQ(kept[s], plain[s].Name());
  // bfloat16 costs as much as codes of some 3 bits.
  EXPECT_LT(rank_of.at("L4 with --bits=4.375"), rank_of.at("L0 with --compute=bf16"));
  EXPECT_LT(rank_of.at("L0 with --compute=bf16"), rank_of.at("L3 with --bits=2.875"));
  size_t steps = 0;
  for (const std::vector<int>& column : ColumnsOf(all)) {
    steps += column.size();
    for (size_t i = 0; i + 1 < column.size(); ++i)
      EXPECT_GT(all[static_cast<size_t>(column[i])].bits, all[static_cast<size_t>(column[i + 1])].bits);
  }
  EXPECT_EQ(steps, all.size());
}

TEST(MemoryLimit, WhatIsNotAllowedIsNamedIfItHelps) {
  const ImportResult model = Perceptron();
  CompileOptions options = AtBatch();
  options.optimizer = "adam";
  const auto refusal = [&](int64_t limit, const StepChoices& choices) {
    llvm::Expected<StepChoice> choice = RankedSteps(model, options, choices).Choose(limit);
    return choice ? "" : testing_step::Text(choice.takeError());
  };
  const std::string error = refusal(4096, {});
  for (const char* words : {"with --optimizer-state=auto there is a step of", "alone take"})
    EXPECT_NE(error.find(words), std::string::npos) << error;
  EXPECT_EQ(refusal(4096, {true, true}).find("auto"), std::string::npos) << "it is allowed already";
  // What is said to fit does.
  const MemoryLayout layout = Take(LayOut(Take(Compile(model, options)), kBatch));
  bool fitted = false;
  for (int64_t limit = layout.persistent_bytes; limit < layout.arena_bytes; limit += 4096) {
    const std::string text = refusal(limit, {});
    if (text.find("--optimizer-state=auto there is a step of") == std::string::npos ||
        text.find("which fits") == std::string::npos)
      continue;
    fitted = true;
    EXPECT_EQ(refusal(limit, {true, true}), "") << limit;
    break;
  }
  EXPECT_TRUE(fitted);
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
