// Plans that bring code and engines for a card: what a run then does not do, and what it does where they are
// for another card, library or batch, or damaged. The card is one that the processor plays.
#include "kernels/cuda/prepare.h"

#include <algorithm>

#include "passes/planning/assign_storage.h"
#include "runtime/plan/plan_check.h"
#include "runtime/plan/plan_io.h"
#include "runtime/plan/sample_loops.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/trainer.h"
#include "tests/compiler/cuda_card.h"
#include "tests/compiler/random_epochs.h"
#include "tests/compiler/small_networks.h"
#include "tests/unit/temporary_folder.h"

namespace act {
namespace {

using fake::Controls;
using testing::Contents;
using testing::TemporaryFolder;
using testing_step::Text;

constexpr int64_t kBatch = 5;
constexpr unsigned kNetwork = 8;  // with convolutions by windows, forward and backward

class CudaPrepared : public ::testing::Test {
 protected:
  void SetUp() override {
    if (IsRealCard()) GTEST_SKIP() << "only the fake card counts what is compiled and searched";
  }
  void TearDown() override {
    for (const std::string& name : variables_) unsetenv(name.c_str());
  }
  void Set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    variables_.push_back(name);
  }

  static Plan CompileAt(const std::string& level) {
    CompileOptions options = testing_step::Checked(level, "adam");
    options.group_size = 64;
    options.batch = kBatch;
    return Take(Compile(small_networks::Network(kNetwork).Build(), options));
  }

  // The plan with what it needs on the fake card.
  static Plan WithPrepared(Plan plan) {
    KernelRegistry host;
    RegisterCpuKernels(host);
    plan.prepared = Take(
        cuda::Prepare(OpenTestCard().toolkit, plan, Take(LayOut(plan, kBatch, TargetKind::kCuda)), host, {}));
    return plan;
  }
  // As it is after a way through a file.
  Plan Reread(const Plan& plan) const {
    EXPECT_EQ(Text(WritePlan(plan, folder_ / "plan")), "");
    return Take(ReadPlan(folder_ / "plan"));
  }
  // A change of what the plan brings.
  template <class Change>
  static Plan Changed(Plan plan, Change change) {
    Prepared prepared = *plan.prepared;
    change(prepared);
    plan.prepared = std::make_shared<const Prepared>(std::move(prepared));
    return plan;
  }

  struct Outcome {
    std::string end;  // checkpoint and losses
    Controls::Work work;
    std::vector<std::string> lines;
  };
  // Trains and evaluates an epoch of two batches.
  Outcome RunOn(const Plan& plan, int64_t batch = kBatch) const {
    Outcome outcome;
    const auto say = [&](const std::string& line) { outcome.lines.push_back(line); };
    CudaCard card({.kernels = {.say = say, .prepared = plan.prepared}});
    const auto executor = card.Open(plan, batch);
    RandomEpochs data(InputSlots(plan.train.graph), 2 * batch), eval(InputSlots(plan.eval.graph), 2 * batch);
    TrainPosition position{.seed = 7};
    const TrainResult result =
        Take(Train(*executor, data, &eval,
                   {.epochs = 1, .hyper = {.lr = .05, .beta1 = .9, .beta2 = .99, .eps = 1e-6}}, position));
    EXPECT_EQ(Text(SaveCheckpoint(folder_ / "end", *executor, position, {})), "");
    outcome.end = Contents(folder_ / "end");
    for (const double loss : result.losses) outcome.end += std::to_string(loss) + "\n";
    outcome.work = card.controls().WorkSoFar();
    return outcome;
  }

  const TemporaryFolder folder_;

 private:
  std::vector<std::string> variables_;
};

int64_t Engines(const Plan& plan) { return static_cast<int64_t>(plan.prepared->engines.size()); }

// The only line; without one, or with more, an empty text.
std::string TheLine(const std::vector<std::string>& lines) {
  EXPECT_EQ(lines.size(), 1u);
  const std::string line = lines.size() == 1 ? lines[0] : "";
  EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  return line;
}

void ExpectParts(const std::string& line, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(line.find(part), std::string::npos) << part << " in " << line;
}

TEST_F(CudaPrepared, ARunNeitherCompilesNorSearches) {
  for (const char* level : {"L0", "L3", "L4"}) {
    SCOPED_TRACE(level);
    const Plan without = CompileAt(level), plan = Reread(WithPrepared(without));
    const Outcome plain = RunOn(without), prepared = RunOn(plan);
    EXPECT_GT(plain.work.compiled, 10);
    EXPECT_GT(plain.work.searched, 2);
    EXPECT_EQ(plain.work.loaded, 0);
    EXPECT_EQ(prepared.work.compiled, 0);
    EXPECT_EQ(prepared.work.searched, 0);
    EXPECT_EQ(prepared.work.loaded, plain.work.searched);
    EXPECT_EQ(prepared.lines, std::vector<std::string>());
    EXPECT_TRUE(prepared.end == plain.end);
  }
}

TEST_F(CudaPrepared, WhatItSaysIsOfTheCard) {
  Set("ACT_FAKE_LIBRARY_WORKSPACE", "96");
  const Plan plan = Reread(WithPrepared(CompileAt("L3")));
  EXPECT_EQ(plan.prepared->card, OpenTestCard().toolkit->driver().card().name);
  EXPECT_EQ(plan.prepared->library, "loops 1 with 4 multiprocessors");
  EXPECT_EQ(plan.prepared->batch, kBatch);
  // Each problem is there for both arithmetics.
  EXPECT_GE(Engines(plan), 6);
  for (const PreparedEngine& engine : plan.prepared->engines) {
    EXPECT_EQ(engine.engine, "fake");
    EXPECT_EQ(engine.workspace_bytes, 96);
    EXPECT_NE(engine.problem.find(" 5x"), std::string::npos) << engine.problem;
  }
}

// The last tile of a loop over samples has fewer of them, and so an engine of its own.
TEST_F(CudaPrepared, TilesOfTwoSizesHaveTheirEngines) {
  Plan plan = CompileAt("L0");
  Graph& graph = plan.train.graph;
  graph.loops.clear();
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (graph.nodes[i].op == "Conv" && !WhyNotTileable(graph, graph.nodes[i]))
      graph.loops.push_back({at, at + 1, 3, 1});
  }
  ASSERT_FALSE(graph.loops.empty());
  ASSERT_EQ(kBatch % TileSamples(graph.loops[0], kBatch), 1);
  AssignStorages(plan.train);
  ASSERT_EQ(Text(CheckPlan(plan)), "");
  const Outcome plain = RunOn(plan), prepared = RunOn(WithPrepared(plan));
  EXPECT_EQ(prepared.work.searched, 0);
  EXPECT_EQ(prepared.work.compiled, 0);
  EXPECT_EQ(prepared.lines, std::vector<std::string>());
  EXPECT_TRUE(prepared.end == plain.end);
}

TEST_F(CudaPrepared, AConvolutionWithoutAnEngineIsNotSearchedAgain) {
  Set("ACT_FAKE_NO_CONVOLUTIONS", "1");
  const Plan plan = Reread(WithPrepared(CompileAt("L3")));
  ASSERT_GT(Engines(plan), 0);
  for (const PreparedEngine& engine : plan.prepared->engines) {
    EXPECT_EQ(engine.plan.bytes, 0);
    EXPECT_EQ(engine.engine, "the environment asks the fake to refuse convolutions");
  }
  const Outcome outcome = RunOn(plan);
  EXPECT_EQ(outcome.work, (Controls::Work{}));
  EXPECT_EQ(outcome.lines, std::vector<std::string>());
}

TEST_F(CudaPrepared, AnotherBatchHasItsEnginesSearchedAndNoCodeCompiled) {
  const Plan plan = WithPrepared(CompileAt("L3"));
  const Outcome outcome = RunOn(plan, kBatch - 1);
  EXPECT_EQ(outcome.work.compiled, 0);
  EXPECT_GT(outcome.work.searched, 2);
  EXPECT_EQ(outcome.work.loaded, 0);
  ExpectParts(TheLine(outcome.lines),
              {"the plan brings engines for batch 5, but not for all convolutions of this run"});
}

TEST_F(CudaPrepared, AnotherLibraryOrCardChoosesItsEngines) {
  const Plan plan = WithPrepared(CompileAt("L3"));
  const std::string end = RunOn(plan).end;
  for (const auto& [name, value] :
       {std::pair("ACT_FAKE_LIBRARY_VERSION", "2"), std::pair("ACT_FAKE_MULTIPROCESSORS", "6")}) {
    Set(name, value);
    const Outcome outcome = RunOn(plan);
    unsetenv(name);
    EXPECT_EQ(outcome.work.compiled, 0);
    EXPECT_GT(outcome.work.searched, 2);
    EXPECT_EQ(outcome.work.loaded, 0);
    ExpectParts(TheLine(outcome.lines), {"the plan brings engines for ", "loops 1 with 4 multi",
                                         ": engines are chosen for this run"});
    EXPECT_TRUE(outcome.end == end);
  }
}

TEST_F(CudaPrepared, AnotherCompilerCompiles) {
  const Plan plan = Changed(WithPrepared(CompileAt("L3")), [](Prepared& p) {
    p.compiler = "another compiler";
    for (PreparedKernel& kernel : p.kernels) kernel.key += " of another compiler";
  });
  const Outcome outcome = RunOn(Reread(plan));
  EXPECT_GT(outcome.work.compiled, 10);
  EXPECT_EQ(outcome.work.searched, 0);
  ASSERT_EQ(outcome.lines.size(), 2u);  // and that kernels are compiled
  ExpectParts(TheLine({outcome.lines[0]}),
              {"the plan brings code for ", "(another compiler; ", ": kernels are compiled for this run"});
}

TEST_F(CudaPrepared, DamagedCodeIsCompiledAgain) {
  const Plan plan = WithPrepared(CompileAt("L3"));
  const std::string end = RunOn(plan).end;
  // Bytes that are no code, and code of another kernel.
  for (const bool other : {false, true}) {
    const Plan damaged = Changed(plan, [&](Prepared& p) {
      for (const size_t at : {size_t{1}, size_t{4}}) {
        const std::vector<PreparedKernel>& all = plan.prepared->kernels;
        // Kernels that were compiled together have one image, which has the names of all of them.
        const auto another = std::find_if(all.begin(), all.end(), [&](const PreparedKernel& k) {
          const std::string bytes(reinterpret_cast<const char*>(k.image.data),
                                  static_cast<size_t>(k.image.bytes));
          return bytes.find(all[at].name) == std::string::npos;
        });
        ASSERT_NE(another, all.end());
        p.kernels[at].image = other ? another->image : HostTensor::Copy("damaged", 7);
      }
    });
    const Outcome outcome = RunOn(Reread(damaged));
    EXPECT_EQ(outcome.work.compiled, 2);
    EXPECT_EQ(outcome.work.searched, 0);
    // The training step's code is loaded, then the evaluation's. Which of them has a kernel first depends on its place
    // in the plan, which follows from its text.
    EXPECT_GE(outcome.lines.size(), 1u);
    EXPECT_LE(outcome.lines.size(), 2u);
    for (const std::string& line : outcome.lines)
      ExpectParts(line, {"code that the plan brings does not load (kernel ", "): without it ", " compiled"});
    EXPECT_TRUE(outcome.end == end);
  }
}

TEST_F(CudaPrepared, ADamagedEngineIsChosenAgain) {
  const Plan plan = WithPrepared(CompileAt("L3"));
  const std::string end = RunOn(plan).end;
  const Plan damaged = Changed(plan, [](Prepared& p) {
    for (PreparedEngine& engine : p.engines) engine.plan = HostTensor::Copy("damaged", 7);
  });
  const Plan larger = Changed(plan, [](Prepared& p) {
    for (PreparedEngine& engine : p.engines) engine.workspace_bytes = 64;
  });
  for (const auto& [changed, why] : {std::pair(&damaged, "(the fake's engine is damaged)"),
                                     std::pair(&larger, "(it needs 0 bytes of workspace and not 64)")}) {
    const Outcome outcome = RunOn(Reread(*changed));
    EXPECT_EQ(outcome.work.compiled, 0);
    EXPECT_EQ(outcome.work.searched, outcome.work.loaded);
    EXPECT_GT(outcome.work.searched, 2);
    ExpectParts(TheLine(outcome.lines),
                {"an engine that the plan brings does not load: the library chooses ", why});
    EXPECT_TRUE(outcome.end == end);
  }
}

}  // namespace
}  // namespace act
