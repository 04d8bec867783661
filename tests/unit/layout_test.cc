#include "runtime/memory/layout.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <numeric>
#include <random>

#include "runtime/memory/categories.h"
#include "runtime/plan/plan_check.h"
#include "tests/unit/small_plan.h"

namespace act {
namespace {

using testing::SmallPlan;
using testing::StepBuilder;

int64_t At(const StepLayout& layout, MemoryCategory category) {
  return layout.category_bytes[static_cast<int>(category)];
}

// A training step like that of a network: `layers` forward nodes, whose results are read again in
// the backward pass, with parameters, gradients, updates, workspaces, and some results in place.
Plan RandomPlan(uint32_t seed, int layers) {
  std::mt19937 random(seed);
  const auto draw = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  StepBuilder b;
  ValueId last = b.Add("x", ValueKind::kInput, DType::kFloat32, {Dim::Batch(), draw(1, 500)});
  std::vector<ValueId> saved;
  for (int i = 0; i < layers; ++i) {
    const std::string name = "layer" + std::to_string(i);
    const ValueId w = b.Add(name + ".w", ValueKind::kParameter, DType::kFloat32, {draw(0, 300)});
    const ValueId y = b.Activation(name, {Dim::Batch(), draw(0, 700)});
    b.AddNode("Conv", name, Phase::kForward, {last, w}, {y}, draw(0, 1) * draw(0, 900));
    saved.push_back(last);
    last = y;
  }
  const ValueId loss = b.Activation("loss", {});
  b.AddNode("ReduceMean", "loss", Phase::kForward, {last}, {loss});
  ValueId gradient = b.Activation("dlast", b.step.graph.value(last).type.dims);
  b.AddNode("SoftmaxGrad", "dlast", Phase::kBackward, {loss, last}, {gradient});
  for (int i = layers - 1; i >= 0; --i) {
    const std::string name = "layer" + std::to_string(i);
    const ValueId x = saved[static_cast<size_t>(i)];
    const ValueId w = 1 + 2 * i;
    const ValueId dw = b.Activation(name + ".dw", b.step.graph.value(w).type.dims);
    b.AddNode("ConvGradWeight", name + "/dw", Phase::kBackward, {gradient, x}, {dw}, Dim(0, draw(0, 50)));
    const bool in_place = draw(0, 2) == 0;
    const ValueId dx = b.Activation(name + ".dx", b.step.graph.value(x).type.dims,
                                    in_place ? b.storage(gradient) : StorageId{-1});
    b.AddNode(in_place ? "Rnn" : "ConvGradInput", name + "/dx", Phase::kBackward, {gradient, w}, {dx});
    Node& update = b.AddNode("Fused", name + "/update", Phase::kUpdate, {w, dw}, {});
    update.mutates = {0};
    testing::MakeLoopOfUpdate(update, b.step.graph.value(w).type.dims);
    update.attrs.Set("gradients", std::vector<int64_t>{0, 1});
    gradient = dx;
  }
  b.step.graph.outputs = {loss};
  Plan plan;
  plan.optimizer = "sgd";
  plan.train = std::move(b.step);
  return plan;
}

// A plan file may contain such a graph, whose inputs are its outputs. (The planner once wrote
// before the start of its timeline here.)
TEST(Layout, AGraphWithoutNodesKeepsWhatItHandsOn) {
  StepBuilder b;
  const ValueId x = b.Add("x", ValueKind::kInput, DType::kFloat32, {Dim::Batch(), 100});
  b.step.graph.outputs = {x};
  Plan plan;
  plan.train = plan.eval = b.step;
  auto layout = LayOut(plan, 3);
  ASSERT_TRUE(static_cast<bool>(layout));
  EXPECT_FALSE(ValidateLayout(plan, *layout));
  EXPECT_EQ(layout->arena_bytes, 1216);  // 1200, aligned
  EXPECT_GE(layout->train.offset[0], 0);
}

TEST(Layout, CountsTheSmallPlanToTheByte) {
  const Plan plan = SmallPlan();
  const MemoryLayout layout = llvm::cantFail(LayOut(plan, 2));
  llvm::cantFail(ValidateLayout(plan, layout));
  // w 1024, velocity 1024, one 64; eval.scale 64
  EXPECT_EQ(layout.persistent_bytes, 2176);
  // Above it: x 512 until its code (128) is made, label 64, y 64, loss 64, prob 64, dy
  // 64, decoded 512, dw 1024. Workspaces: 1000 -> 1024 at node 0 and 64 + 128 * 2
  // = 320 at node 5.
  EXPECT_EQ(layout.train.timeline, (std::vector<int64_t>{3840, 2944, 2560, 2560, 2944, 4160, 3264}));
  EXPECT_EQ(layout.train.peak_node, 5);
  EXPECT_EQ(layout.train.lower_bound_bytes, 4160);
  EXPECT_EQ(layout.train.peak_bytes, 4160);
  EXPECT_EQ(At(layout.train, MemoryCategory::kParameters), 1024 + 64 + 64);
  EXPECT_EQ(At(layout.train, MemoryCategory::kOptimizer), 1024);
  EXPECT_EQ(At(layout.train, MemoryCategory::kGradients), 1024);
  EXPECT_EQ(At(layout.train, MemoryCategory::kSaved), 0);
  EXPECT_EQ(At(layout.train, MemoryCategory::kTransient), 64 + 64 + 512);
  EXPECT_EQ(At(layout.train, MemoryCategory::kWorkspace), 320);
  EXPECT_EQ(layout.arena_bytes, 4160);
}

// Aligned for the CPU is not aligned for a card.
TEST(ValidateLayout, AsksForTheAlignmentOfTheTarget) {
  const Plan plan = SmallPlan();
  MemoryLayout layout = llvm::cantFail(LayOut(plan, 2, TargetKind::kCuda));
  layout.train.workspace_offset[5] += AlignmentOf(TargetKind::kCpu);
  const std::string message = llvm::toString(ValidateLayout(plan, layout));
  EXPECT_NE(message.find("is not aligned"), std::string::npos) << message;
}

TEST(Layout, OnCudaCountsItsWorkspacesAndItsAlignment) {
  const Plan plan = SmallPlan();
  const MemoryLayout layout = llvm::cantFail(LayOut(plan, 2, TargetKind::kCuda));
  llvm::cantFail(ValidateLayout(plan, layout));
  EXPECT_EQ(layout.target, TargetKind::kCuda);
  // As above, but in units of 256 bytes: w, velocity 1024 each, one and eval.scale 256.
  EXPECT_EQ(layout.persistent_bytes, 2560);
  // x 512, decoded 512, dw 1024, all others 256. Workspaces: 3000 -> 3072 at node 0 and 3 (64 + 128 * 2)
  // -> 1024 at node 5.
  EXPECT_EQ(layout.train.timeline, (std::vector<int64_t>{6656, 3840, 3840, 3840, 3840, 5632, 3840}));
  EXPECT_EQ(layout.train.peak_node, 0);
  EXPECT_EQ(layout.train.peak_bytes, 6656);
  EXPECT_EQ(At(layout.train, MemoryCategory::kWorkspace), 3072);
  // A workspace grows no further than its limit: 2^20 bytes in units of 256.
  EXPECT_EQ(llvm::cantFail(LayOut(plan, 1'000'000, TargetKind::kCuda)).train.workspace_bytes[5], 1 << 20);
}

TEST(Layout, PersistentValuesKeepTheirPlaceInEvaluation) {
  const Plan plan = SmallPlan();
  const MemoryLayout layout = llvm::cantFail(LayOut(plan, 3));
  EXPECT_EQ(layout.train.offset[2], layout.eval.offset[3]);  // w
  EXPECT_GE(layout.eval.offset[2],
            layout.train.offset[4] + 64);  // eval.scale comes after all that training uses
}

TEST(Layout, RandomStepsAreValidAndCategoriesAddUp) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Plan plan = RandomPlan(seed, 1 + static_cast<int>(seed % 23));
    ASSERT_EQ(llvm::toString(CheckPlan(plan)), "") << "seed " << seed;
    for (const auto& [batch, target] : {std::pair(1, TargetKind::kCpu), std::pair(2, TargetKind::kCuda),
                                        std::pair(7, TargetKind::kCpu), std::pair(64, TargetKind::kCuda)}) {
      const MemoryLayout layout = llvm::cantFail(LayOut(plan, batch, target));
      for (const StepLayout* step : {&layout.train, &layout.eval})
        for (const auto* places : {&step->offset, &step->workspace_offset})
          for (const int64_t offset : *places)
            ASSERT_TRUE(offset < 0 || offset % AlignmentOf(target) == 0) << offset;
      ASSERT_EQ(llvm::toString(ValidateLayout(plan, layout)), "") << "seed " << seed << " batch " << batch;
      const StepLayout& train = layout.train;
      EXPECT_GE(train.peak_bytes, train.lower_bound_bytes);
      EXPECT_EQ(std::accumulate(train.category_bytes, train.category_bytes + kMemoryCategories, int64_t{0}),
                train.peak_bytes);
      const auto by_category = CategoryTimeline(plan.train, train, layout.persistent_bytes);
      for (size_t t = 0; t < train.timeline.size(); ++t) {
        ASSERT_EQ(std::accumulate(by_category[t].begin(), by_category[t].end(), int64_t{0}),
                  train.timeline[t])
            << "seed " << seed << " node " << t;
      }
    }
  }
}

// A smaller last batch runs at the offsets of the full batch.
TEST(Layout, ASmallerBatchFitsIntoTheSamePlaces) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const Plan plan = RandomPlan(seed, 12);
    const MemoryLayout full = llvm::cantFail(LayOut(plan, 64)), part = llvm::cantFail(LayOut(plan, 9));
    for (size_t s = 0; s < full.train.bytes.size(); ++s) EXPECT_LE(part.train.bytes[s], full.train.bytes[s]);
    for (size_t t = 0; t < full.train.workspace_bytes.size(); ++t)
      EXPECT_LE(part.train.workspace_bytes[t], full.train.workspace_bytes[t]);
  }
}

// Each possible fault, and what the check must say about it.
TEST(ValidateLayout, FindsWhatIsWrong) {
  const Plan plan = SmallPlan();
  const MemoryLayout good = llvm::cantFail(LayOut(plan, 2));
  const auto storage = [&](const char* name) -> size_t {
    for (size_t v = 0; v < plan.train.graph.values.size(); ++v)
      if (plan.train.graph.values[v].name == name) return static_cast<size_t>(plan.train.storage_of[v]);
    return 0;
  };
  const struct {
    const char* what;
    std::function<void(MemoryLayout&)> damage;
    const char* message;
  } cases[] = {
      {"two live ranges at one place",
       [&](auto& l) { l.train.offset[storage("label")] = l.train.offset[storage("x")]; }, "overlaps"},
      {"workspace on a live value",
       [&](auto& l) { l.train.workspace_offset[0] = l.train.offset[storage("x")]; }, "overlaps"},
      {"live for too short", [&](auto& l) { l.train.upper[storage("x.code")] -= 1; }, "is used at node 4"},
      {"live too late", [&](auto& l) { l.train.lower[storage("x.code")] += 1; }, "is used at node 1"},
      {"an input that is not there at the start", [&](auto& l) { l.train.lower[storage("label")] = 1; },
       "is used at node 0"},
      {"a loss that is gone at the end", [&](auto& l) { l.train.upper[storage("loss")] -= 1; },
       "is used at node 6"},
      {"too few bytes", [&](auto& l) { l.train.bytes[storage("dw")] = 1023; }, "larger than its storage"},
      {"no place", [&](auto& l) { l.train.offset[storage("dw")] = -1; }, "has no place"},
      {"not aligned", [&](auto& l) { l.train.offset[storage("loss")] += 4; }, "is not aligned"},
      {"among the persistent ones", [&](auto& l) { l.train.offset[storage("loss")] = 0; },
       "outside its part"},
      {"above the arena", [&](auto& l) { l.train.offset[storage("loss")] = l.arena_bytes; },
       "outside its part"},
      {"another place in evaluation", [&](auto& l) { l.eval.offset[3] += 64; }, "in evaluation"},
      {"a constant of evaluation on a parameter",
       [&](auto& l) { l.eval.offset[2] = l.train.offset[storage("w.velocity")]; }, "overlaps"},
      {"another target", [](auto& l) { l.target = TargetKind::kCuda; }, "not of its target"},
      {"another target's workspaces",
       [](auto& l) {
         l.target = TargetKind::kCuda;
         l.train.alignment = l.eval.alignment = AlignmentOf(l.target);
       },
       "too little workspace"},
      {"too little workspace", [&](auto& l) { l.train.workspace_bytes[5] = 256; }, "too little workspace"},
      {"a peak that is too low", [&](auto& l) { l.train.peak_bytes -= 64; }, "outside its part"},
      {"a peak that is too high", [&](auto& l) { l.train.peak_bytes += 64; }, "the peak"},
      {"an arena that is too small", [&](auto& l) { l.arena_bytes -= 64; }, "the arena is smaller"},
      {"another plan's layout", [&](auto& l) { l.train.offset.pop_back(); }, "not of this plan"},
  };
  for (const auto& c : cases) {
    MemoryLayout bad = good;
    c.damage(bad);
    const std::string message = llvm::toString(ValidateLayout(plan, bad));
    EXPECT_NE(message.find(c.message), std::string::npos) << c.what << ": '" << message << "'";
  }
}

TEST(Layout, RefusesImpossibleBatches) {
  Plan plan = SmallPlan();
  EXPECT_EQ(llvm::toString(LayOut(plan, 0).takeError()), "--batch=0: a batch has at least one sample");
  EXPECT_NE(llvm::toString(LayOut(plan, kTooLarge / 8).takeError()).find("more than 2^60 bytes"),
            std::string::npos);
  plan.fixed_batch = true;
  llvm::cantFail(LayOut(plan, 2));
  EXPECT_NE(llvm::toString(LayOut(plan, 3).takeError()).find("fixed at 2"), std::string::npos);
}

// A graph's nodes and edges: two inputs that begin with different numbers, and no axis N.
TEST(Layout, AFixedBatchIsTheFirstExtentOfAnyInput) {
  Plan plan = SmallPlan();
  plan.fixed_batch = true;
  Value edges;
  edges.name = "edges";
  edges.kind = ValueKind::kInput;
  edges.type = {DType::kInt64, {5, 40}};
  plan.train.graph.inputs.push_back(static_cast<ValueId>(plan.train.graph.values.size()));
  plan.train.graph.values.push_back(edges);
  plan.train.storage_of.push_back(plan.train.storages++);
  llvm::cantFail(LayOut(plan, 5));
  EXPECT_NE(llvm::toString(LayOut(plan, 40).takeError()).find("fixed at 2"), std::string::npos);
}

// The same number of bytes is live at every node, in pieces that no two nodes divide alike. No
// layout reaches that bound.
Plan TangledPlan(uint32_t seed) {
  constexpr int64_t kPair = 100;  // two pieces together, in elements per sample
  std::mt19937 random(seed);
  StepBuilder b;
  std::vector<ValueId> live;
  const auto size = [&](ValueId v) { return b.step.graph.value(v).type.dims[1].fixed; };
  const auto node = [&](const std::vector<ValueId>& read) {
    const std::string name = "node" + std::to_string(b.step.graph.nodes.size());
    const auto part = static_cast<int64_t>(1 + random() % 9) * 10;
    const std::vector<ValueId> made = {b.Activation(name + ".a", {Dim::Batch(), part}),
                                       b.Activation(name + ".b", {Dim::Batch(), kPair - part})};
    live.insert(live.end(), made.begin(), made.end());
    b.AddNode("Cut", name, Phase::kForward, read, made);
  };
  const ValueId x = b.Add("x", ValueKind::kInput, DType::kFloat32, {Dim::Batch(), 1});
  for (int i = 0; i < 5; ++i) node({x});
  for (int i = 0; i < 60; ++i) {
    const auto take = [&](std::vector<ValueId>::iterator at) {
      const ValueId v = *at;
      live.erase(at);
      return v;
    };
    const ValueId one = take(live.begin() + static_cast<std::ptrdiff_t>(random() % live.size()));
    const ValueId other =
        take(std::find_if(live.begin(), live.end(), [&](ValueId v) { return size(v) == kPair - size(one); }));
    node({one, other});
  }
  b.step.graph.outputs = live;
  Plan plan;
  plan.optimizer = "none";
  plan.train = std::move(b.step);
  return plan;
}

// Between the fit of one target and that of the other.
TEST(LargestBatch, IsThatOfTheTarget) {
  const Plan plan = SmallPlan();
  for (const int64_t bytes : {20'000, 1'234'567}) {
    const int64_t on_cpu = llvm::cantFail(LargestBatch(plan, bytes));
    const int64_t on_cuda = llvm::cantFail(LargestBatch(plan, bytes, Arenas::kDevice, TargetKind::kCuda));
    EXPECT_LT(on_cuda, on_cpu);
    EXPECT_LE(llvm::cantFail(LayOut(plan, on_cuda, TargetKind::kCuda)).arena_bytes, bytes);
    EXPECT_GT(llvm::cantFail(LayOut(plan, on_cuda + 1, TargetKind::kCuda)).arena_bytes, bytes);
  }
}

// A step is a part of every batch that it is for, and a smaller part of those below 65,536 samples.
TEST(LargestBatch, StepsGrowWithTheBatch) {
  EXPECT_EQ(LargestBatchStep(1), 1);
  EXPECT_EQ(LargestBatchStep(1023), 1);
  EXPECT_EQ(LargestBatchStep(1024), 2);
  EXPECT_EQ(LargestBatchStep(65'535), 64);
  EXPECT_EQ(LargestBatchStep(65'536), 1024);
  EXPECT_EQ(LargestBatchStep(753'274), 8192);
}

TEST(LargestBatch, IsTheLastThatFits) {
  int above_bound = 0;
  for (uint32_t seed = 0; seed < 13; ++seed) {
    const Plan plan = seed == 0   ? SmallPlan()
                      : seed < 12 ? RandomPlan(seed, 3 + static_cast<int>(seed))
                                  : TangledPlan(seed);
    for (const int64_t bytes : {20'000, 100'000, 1'234'567, 50'000'000}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " bytes " + std::to_string(bytes));
      const int64_t batch = llvm::cantFail(LargestBatch(plan, bytes));
      if (batch > 0) {
        const StepLayout layout = llvm::cantFail(LayOut(plan, batch)).train;
        EXPECT_LE(layout.peak_bytes, bytes);
        above_bound += layout.peak_bytes > layout.lower_bound_bytes;
      }
      const auto ends_at = [&](int64_t step) {
        return llvm::cantFail(LayOut(plan, batch + step)).arena_bytes > bytes;
      };
      // Where a packing is above its bound, the bound's batch sets the step.
      EXPECT_TRUE(ends_at(1) || ends_at(LargestBatchStep(batch)) || ends_at(2 * LargestBatchStep(batch)));
    }
    EXPECT_EQ(llvm::cantFail(LargestBatch(plan, 100)), 0);
  }
  EXPECT_GE(above_bound, 2) << "else no search was needed";
  Plan fixed = SmallPlan();
  fixed.fixed_batch = true;
  EXPECT_EQ(llvm::cantFail(LargestBatch(fixed, 1 << 20)), 2);
  EXPECT_EQ(llvm::cantFail(LargestBatch(fixed, 4159)), 0);
}

TEST(Layout, ThousandsOfNodesTakeMilliseconds) {
  const Plan plan = RandomPlan(3, 620);  // 2,482 nodes: the size of a ResNet-152's step
  const auto start = std::chrono::steady_clock::now();
  const MemoryLayout layout = llvm::cantFail(LayOut(plan, 64));
  llvm::cantFail(ValidateLayout(plan, layout));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  RecordProperty("milliseconds", std::to_string(seconds.count() * 1e3));
  // For measurements, see docs/plan_format.md. The bound leaves room for sanitizers and a busy
  // machine, and still fails if something becomes quadratic.
  EXPECT_LT(seconds.count(), 2.0) << plan.train.graph.nodes.size() << " nodes";
}

}  // namespace
}  // namespace act
