// --memory-limit: what is chosen fits, more memory is never worse, and what cannot fit is explained.
#include "passes/pipeline/memory_limit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>

#include "runtime/memory/layout.h"
#include "runtime/memory/step_sizes.h"
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

MemoryLayout LayoutOf(const ImportResult& model, CompileOptions options, const RankedStep& step) {
  step.SetIn(options);
  return Take(LayOut(Take(Compile(model, options)), kBatch, options.target));
}

int64_t PeakOf(const ImportResult& model, const RankedStep& step) {
  return LayoutOf(model, AtBatch(), step).arena_bytes;
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
  int64_t host_limit;
};

class Limits : public testing::TestWithParam<Allowed> {
 protected:
  StepChoices Choices() const {
    return {.bfloat16 = GetParam().bfloat16,
            .quantized_state = GetParam().quantized_state,
            .host_limit = GetParam().host_limit};
  }

  static CompileOptions Options() {
    CompileOptions options = AtBatch();
    options.optimizer = "adam";
    if (GetParam().host_limit > 0) options.target = TargetKind::kCuda;
    return options;
  }

  // Tries growing limits. Returns the steps that were chosen, by rank.
  std::map<int, RankedStep> ChooseUnderGrowingLimits(const ImportResult& model) const {
    constexpr int kLimits = 40;
    const int64_t exact = LayoutOf(model, Options(), {.level = "L0"}).arena_bytes;
    RankedSteps steps(model, Options(), Choices());
    int last_rank = std::numeric_limits<int>::max();
    int64_t last_swapped = 0;
    std::map<int, RankedStep> found;
    for (int i = 0; i <= kLimits; ++i) {
      const int64_t limit = exact / 4 + exact * 3 / 4 * i / kLimits;
      llvm::Expected<StepChoice> choice = steps.Choose(limit);
      if (!choice) {
        EXPECT_TRUE(found.empty()) << "a larger limit has no step";
        const std::string error = testing_step::Text(choice.takeError());
        EXPECT_NE(error.find("--memory-limit"), std::string::npos) << error;
        continue;
      }
      const RankedStep& chosen = choice->chosen;
      EXPECT_LE(chosen.peak_bytes, limit);
      EXPECT_LE(chosen.host_bytes, GetParam().host_limit);
      EXPECT_LE(chosen.rank, last_rank);
      if (chosen.rank == last_rank) {
        EXPECT_LE(chosen.swapped, last_swapped) << "more copies than with less memory";
      }
      last_rank = chosen.rank;
      last_swapped = chosen.swapped;
      if (found.emplace(chosen.rank, chosen).second) {
        const MemoryLayout layout = LayoutOf(model, Options(), chosen);
        EXPECT_EQ(chosen.peak_bytes, layout.arena_bytes) << chosen.Name();
        EXPECT_EQ(chosen.host_bytes, layout.host_bytes) << chosen.Name();
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
  bool bfloat16 = false, quantized_state = false, swaps = false;
  for (const auto& [rank, step] : ChooseUnderGrowingLimits(Perceptron())) {
    bfloat16 |= step.bfloat16;
    quantized_state |= step.quantized_state;
    swaps |= step.host_limit > 0;
  }
  EXPECT_EQ(quantized_state, GetParam().quantized_state);
  EXPECT_EQ(swaps, GetParam().host_limit > 0);
  if (!GetParam().quantized_state) {
    EXPECT_EQ(bfloat16, GetParam().bfloat16);
  }
}

INSTANTIATE_TEST_SUITE_P(MemoryLimit, Limits,
                         testing::Values(Allowed{false, false, 0}, Allowed{true, false, 0},
                                         Allowed{false, true, 0}, Allowed{true, true, 0},
                                         Allowed{false, false, 1 << 20}),
                         [](const auto& of) {
                           return std::string(of.param.bfloat16 ? "BFloat16" : "Float32") +
                                  (of.param.quantized_state ? "SmallState" : "") +
                                  (of.param.host_limit > 0 ? "Host" : "");
                         });

// Without its second weight to train, the perceptron has the steps in which that lies in few bits.
TEST(MemoryLimit, FrozenWeightsTakeFewBitsWhereThatHelps) {
  ImportResult model = Perceptron();
  const StepChoices choices{.frozen_weights = true};
  EXPECT_NE(testing_step::Text(RankedSteps(model, AtBatch(), choices).Choose(1 << 30).takeError())
                .find("--frozen-weights: there are none"),
            std::string::npos);
  model.trainable.erase(model.trainable.begin() + 1);
  const int64_t exact = PeakOf(model, {.level = "L0"});
  RankedSteps steps(model, AtBatch(), choices), plain(model, AtBatch());
  std::map<std::string, int> seen;
  int64_t limit = exact;
  for (; limit > 0; limit -= exact / 60) {
    llvm::Expected<StepChoice> choice = steps.Choose(limit);
    if (!choice) {
      llvm::consumeError(choice.takeError());
      break;
    }
    const RankedStep& chosen = choice->chosen;
    EXPECT_LE(chosen.peak_bytes, limit);
    if (++seen[chosen.frozen_weights] == 1) {
      EXPECT_EQ(chosen.peak_bytes, PeakOf(model, chosen)) << chosen.Name();
      for (const StepPart& part : Take(steps.PartsOf(chosen))) {
        if (part.name != "codes of frozen weights") continue;
        EXPECT_EQ(part.without.frozen_weights, "");
        EXPECT_GT(part.without.peak_bytes, chosen.peak_bytes);
      }
    }
  }
  for (const char* form : {"", "8bit", "4bit"})
    EXPECT_GE(seen[form], 1) << "'" << form << "' decides nothing";
  // With the limit that 4 bits alone keep, the flag is named.
  const std::string refusal = testing_step::Text(plain.Choose(limit + exact / 60).takeError());
  EXPECT_NE(refusal.find("with --frozen-weights=auto there is a step of"), std::string::npos) << refusal;
}

// Bounds answer as the layout does, at limits around the least that any layout takes and around what this one takes.
TEST(StepPeak, FitsAsTheLayoutDoes) {
  int packed_above = 0;
  for (unsigned seed = 0; seed < 6; ++seed) {
    const Plan plan = [&] {
      CompileOptions options = AtBatch();
      options.level = seed % 2 == 0 ? "L3" : "L0";
      return Take(Compile(small_networks::Network(seed).Build(), options));
    }();
    const int64_t taken = BytesOf(Take(LayOut(plan, kBatch)), Arenas::kBoth);
    const MemoryLayout sizes = Take(PlanSizes(plan, TargetKind::kCpu).At(kBatch));
    const int64_t least = StepPeak(sizes, Arenas::kBoth).Least();
    packed_above += taken > least;
    for (const int64_t limit :
         {least - 1, least, (least + taken) / 2, taken - 1, taken, taken + 1, 2 * taken}) {
      StepPeak peak(sizes, Arenas::kBoth);
      EXPECT_EQ(peak.Fits(limit), taken <= limit) << "seed " << seed << ", limit " << limit;
      EXPECT_EQ(peak.Bytes(), taken);
      EXPECT_EQ(peak.Fits(limit), taken <= limit) << "seed " << seed << ", limit " << limit << ", again";
    }
  }
  EXPECT_GE(packed_above, 1) << "every layout takes the least there is";
}

// A limit that L5 alone reaches is none that nothing fits.
TEST(MemoryLimit, TheLeastPeakOfAllLevelsIsReached) {
  int by_l5 = 0;
  for (unsigned seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    const ImportResult model = small_networks::Network(seed).Build();
    RankedSteps steps(model, AtBatch());
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const char* level : {"L0", "L3", "L4", "L5"})
      least = std::min(least, PeakOf(model, {.level = level}));
    llvm::Expected<StepChoice> choice = steps.Choose(least);
    ASSERT_TRUE(static_cast<bool>(choice)) << testing_step::Text(choice.takeError());
    EXPECT_LE(choice->chosen.peak_bytes, least);
    by_l5 += choice->chosen.level == "L5";
  }
  EXPECT_GE(by_l5, 1) << "L5 decides nothing";
}

// What is said of a part is the peak of the step without it.
TEST(MemoryLimit, PartsAreToldByThePeakWithoutThem) {
  const ImportResult model = small_networks::Network(2).Build();
  RankedSteps steps(model, AtBatch());
  std::map<std::string, int> seen;
  const int64_t exact = PeakOf(model, {.level = "L0"});
  EXPECT_TRUE(Take(steps.PartsOf(Take(steps.Choose(exact)).chosen)).empty());
  for (int64_t limit = exact; limit > 0; limit -= exact / 40) {
    llvm::Expected<StepChoice> choice = steps.Choose(limit);
    if (!choice) {
      llvm::consumeError(choice.takeError());
      break;
    }
    for (const StepPart& part : Take(steps.PartsOf(choice->chosen))) {
      if (++seen[part.name] > 1) continue;
      EXPECT_LT(part.without.rank, choice->chosen.rank) << part.name;
      EXPECT_EQ(part.without.peak_bytes, PeakOf(model, part.without)) << part.name;
    }
  }
  for (const char* name : {"codes", "its last codes", "its fewer bits", "re-runs"})
    EXPECT_GE(seen[name], 1) << name;
}

// What is allowed adds steps to the list and moves none of those that were there.
TEST(MemoryLimit, TheListIsOrderedByVarianceAndThenByTime) {
  const std::vector<RankedStep> plain = ListSteps({}),
                                all = ListSteps({.bfloat16 = true, .quantized_state = true});
  ASSERT_EQ(all.size(), 4 * plain.size());
  EXPECT_EQ(plain[0].Name(), "L0");
  // Each level first with less and less stored exactly, then with codes for all.
  size_t rank = 1;
  for (const char* level : {"L3", "L4", "L5"}) {
    EXPECT_EQ(plain[rank].Name(), std::string(level) + " with --bits=8 --exact=0.9375");
    for (; plain[rank].exact_part > 0; ++rank) {
      EXPECT_EQ(plain[rank].level, level);
      EXPECT_GT(plain[rank].exact_part, plain[rank + 1].exact_part);
    }
    EXPECT_EQ(plain[rank++].Name(), std::string(level) + " with --bits=8");
  }
  EXPECT_EQ(plain[rank].Name(), "L3 with --bits=7.625");
  const std::vector<RankedStep> swapping = ListSteps({.host_limit = 1});
  ASSERT_EQ(swapping.size(), 2 * plain.size());
  for (size_t s = 0; s < plain.size(); ++s) {
    EXPECT_EQ(swapping[2 * s].Name(), plain[s].Name());
    EXPECT_NE(swapping[2 * s + 1].Name().find("codes on the host"), std::string::npos);
    EXPECT_EQ(swapping[2 * s + 1].bits, plain[s].bits);
  }
  EXPECT_EQ(all[1].Name(), "L0 with --optimizer-state=8bit");
  EXPECT_EQ(ListSteps({.bfloat16 = true, .frozen_weights = true}).size(), 8 * plain.size());
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
  const std::vector<RankedStep> frozen = ListSteps({.frozen_weights = true});
  ASSERT_EQ(frozen.size(), 4 * plain.size());
  for (const RankedStep& step : frozen) rank_of[step.Name()] = step.rank;
  // Codes of weights cost as much as those of activations of some 7.5, 5.5 and 3 bits.
  const std::pair<const char*, std::array<const char*, 2>> costs[] = {
      {"bf16", {"7.375", "7.125"}}, {"8bit", {"5.375", "5.125"}}, {"4bit", {"2.875", "2.625"}}};
  for (const auto& [form, bits] : costs) {
    const int rank_of_form = rank_of.at(std::string("L0 with --frozen-weights=") + form);
    EXPECT_LT(rank_of.at(std::string("L5 with --bits=") + bits[0]), rank_of_form) << form;
    EXPECT_LT(rank_of_form, rank_of.at(std::string("L3 with --bits=") + bits[1])) << form;
  }
  size_t steps = 0;
  for (const std::vector<int>& column : ColumnsOf(all)) {
    steps += column.size();
    const auto worse = [&](int a, int b) {
      const RankedStep &x = all[static_cast<size_t>(a)], &y = all[static_cast<size_t>(b)];
      return std::tuple(-x.bits, -x.exact_part) < std::tuple(-y.bits, -y.exact_part);
    };
    EXPECT_TRUE(std::is_sorted(column.begin(), column.end(), worse));
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
  for (const char* words : {"with --optimizer-state=auto there is a step of", "alone take", "; at batch ",
                            "the least peak is", "hint: no batch fits"})
    EXPECT_NE(error.find(words), std::string::npos) << error;
  EXPECT_NE(refusal(200 << 10, {}).find("hint: an optimizer with less state may fit"), std::string::npos)
      << "parameters alone would fit";
  EXPECT_EQ(refusal(4096, {.bfloat16 = true, .quantized_state = true}).find("auto"), std::string::npos)
      << "it is allowed already";
  // What is said to fit does.
  const MemoryLayout layout = Take(LayOut(Take(Compile(model, options)), kBatch));
  bool fitted = false;
  for (int64_t limit = layout.persistent_bytes; limit < layout.arena_bytes; limit += 4096) {
    const std::string text = refusal(limit, {});
    if (text.find("--optimizer-state=auto there is a step of") == std::string::npos ||
        text.find("which fits") == std::string::npos)
      continue;
    fitted = true;
    EXPECT_EQ(refusal(limit, {.bfloat16 = true, .quantized_state = true}), "") << limit;
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
  // Its state is too small for 8 bits, so that both flags together are no better than one.
  EXPECT_NE(error.find("with --compute=auto there is a step of"), std::string::npos) << error;
  EXPECT_EQ(error.find("and --compute=auto"), std::string::npos) << error;
}

// A loop's name joins those of its nodes, of which an error needs one.
TEST(MemoryLimit, LoopsHaveShortNamesWhereNothingFits) {
  const ImportResult model = small_networks::Network(0).Build();
  const MemoryLayout layout = Take(LayOut(Take(Compile(model, AtBatch())), kBatch));
  llvm::Expected<StepChoice> none =
      RankedSteps(model, AtBatch()).Choose(layout.persistent_bytes + layout.arena_bytes / 20);
  ASSERT_FALSE(none);
  const std::string error = testing_step::Text(none.takeError());
  EXPECT_NE(error.find(" of Fused bn.grad.rebuild and 1 more"), std::string::npos) << error;
  EXPECT_EQ(error.find('+'), std::string::npos) << error;
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
