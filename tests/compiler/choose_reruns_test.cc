// What level L4 re-runs: which of the plans that were tried it takes.
#include "passes/storage/choose_reruns.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <set>

#include "compiler/ir/dump.h"
#include "compiler/ops/graph_builder.h"
#include "runtime/memory/layout.h"
#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using testing_step::Take;

RerunCandidate Candidate(double peak, double saved, double variance) {
  return {.peak_bytes = peak, .saved_bytes = saved, .variance = variance};
}

TEST(ChooseReruns, TakesWhatStoresLeastAmongTheLowestPeaks) {
  const std::vector<RerunCandidate> candidates = {Candidate(100, 50, 1), Candidate(110, 20, 9),
                                                  Candidate(130, 5, 20)};
  EXPECT_EQ(ChooseReruns(candidates, false), 1u);
}

TEST(ChooseReruns, TakesTheLeastVarianceWhereBytesAreBounded) {
  const std::vector<RerunCandidate> candidates = {Candidate(100, 50, 3), Candidate(110, 20, 9),
                                                  Candidate(105, 50, 2), Candidate(130, 50, 1)};
  EXPECT_EQ(ChooseReruns(candidates, true), 2u) << "the last one's peak is too high";
}

TEST(ChooseReruns, OfEqualVarianceWhatStoresLess) {
  EXPECT_EQ(ChooseReruns({Candidate(100, 50, 2), Candidate(100, 40, 2)}, true), 1u);
}

TEST(ChooseReruns, AtL5OnlyPeaksThatHardlyDiffer) {
  const std::vector<RerunCandidate> candidates = {Candidate(100, 50, 3), Candidate(110, 20, 1),
                                                  Candidate(100.1, 60, 2)};
  EXPECT_EQ(ChooseReruns(candidates, true, 1.002), 2u);
}

// Convolutions with ReLUs in a row, two of which halve the image.
ImportResult Chain(int convolutions = 10) {
  Graph graph;
  GraphBuilder b(graph);
  ValueId x = b.Input("image", {DType::kFloat32, {Dim::Batch(), 16, 16, 8}}, ValueKind::kInput);
  for (int i = 0; i < convolutions; ++i) {
    const std::string name = "conv" + std::to_string(i);
    const Attributes attrs = small_networks::Window(3, i % 2 == 1 && i < 4 ? 2 : 1, 1);
    const ValueId weight = b.Input(name + ".weight", {DType::kFloat32, {8, 8, 3, 3}}, ValueKind::kParameter,
                                   testing_step::HostFloats(std::vector<float>(8 * 8 * 9, .1F)));
    x = Take(b.Add1("Conv", {x, weight}, attrs, name));
    x = Take(b.Add1("Relu", {x}, {}, name + ".relu"));
  }
  Attributes all;
  all.Set("axes", std::vector<int64_t>{0, 1, 2, 3});
  all.Set("keepdims", int64_t{0});
  graph.outputs = {Take(b.Add1("ReduceMean", {x}, all, "loss"))};
  return testing_step::ModelOf(graph);
}

std::vector<RerunCandidate> ChoicesOf(int64_t saved_limit) {
  CompileOptions options = testing_step::Checked("L3", "none");
  options.group_size = 64;
  std::vector<RerunCandidate> choices;
  options.after_pass = [&](const std::string& pass, const Graph& graph) {
    if (pass != "place-derived") return;  // where the search starts
    PassContext context;
    context.policy = Take(MakePolicy("L4", 0, 64));
    context.policy.saved_limit = saved_limit;
    choices = RerunChoices(graph, context);
  };
  EXPECT_TRUE(static_cast<bool>(Compile(Chain(), options)));
  return choices;
}

TEST(RerunChoices, AreSizesAndUnderALimitDistancesToo) {
  const std::vector<RerunCandidate> free = ChoicesOf(0), bound = ChoicesOf(1 << 20);
  EXPECT_GE(free.size(), 3u) << "nothing, the smallest results, all";
  std::set<int64_t> spacings, free_spacings;
  int without = 0;
  for (const RerunCandidate& choice : bound) {
    spacings.insert(choice.spacing);
    without += choice.elements == 0;
  }
  for (const RerunCandidate& choice : free) free_spacings.insert(choice.spacing);
  EXPECT_EQ(free_spacings.size(), 1u);
  EXPECT_EQ(spacings.size(), 3u);
  EXPECT_EQ(without, 1) << "to run nothing again is one choice, whatever the distance";
}

// Candidates are compiled by several threads, some before it is known whether they are needed.
TEST(SearchReruns, TakesTheSameWithAnyNumberOfThreads) {
  const int threads = omp_get_max_threads();
  for (unsigned seed = 0; seed < 4; ++seed) {
    const ImportResult model = small_networks::Network(seed).Build();
    for (const auto& [level, saved_limit] :
         {std::pair("L4", 0), {"L4", 1 << 16}, {"L5", 0}, {"L4", 1 << 8}}) {
      SCOPED_TRACE(std::to_string(seed) + " " + level + " " + std::to_string(saved_limit));
      CompileOptions options = testing_step::Checked(level, "sgd");
      options.group_size = 64;
      options.batch = 16;
      options.saved_limit = saved_limit;
      const auto made = [&](int count) -> std::string {
        omp_set_num_threads(count);
        RerunCandidate reruns;
        llvm::Expected<Plan> plan = Compile(model, options, nullptr, nullptr, &reruns);
        if (!plan) return llvm::toString(plan.takeError());
        return std::to_string(reruns.spacing) + " " + std::to_string(reruns.elements) + " " +
               std::to_string(reruns.segments) + " " + std::to_string(reruns.repeated_elements) + " " +
               std::to_string(reruns.parted_elements) + " " + std::to_string(reruns.bytes_part) + " " +
               std::to_string(plan->train.graph.nodes.size()) + " " +
               std::to_string(Take(LayOut(*plan, 16)).train.peak_bytes);
      };
      const std::string alone = made(1);
      for (const int count : {2, 3, 16}) EXPECT_EQ(made(count), alone) << count << " threads";
    }
  }
  omp_set_num_threads(threads);
}

// Five segments. The codes of the last ones are gone before the backward pass comes to the large tensors of the first.
TEST(SearchReruns, ReRunsTheFewestSegmentsOfTheLeastPeak) {
  constexpr int64_t kBatch = 64, kSegments = 5;
  // A shorter chain runs in tiles from end to end, where re-runs save next to nothing.
  const ImportResult model = Chain(80);
  CompileOptions options = testing_step::Checked("L4", "sgd");
  options.group_size = 64;
  options.batch = kBatch;
  RerunCandidate chosen;
  Take(Compile(model, options, nullptr, nullptr, &chosen));
  std::vector<int64_t> peaks;
  for (int64_t segments = 0; segments <= kSegments; ++segments) {
    RerunCandidate candidate = chosen;
    candidate.segments = segments;
    options.reruns = {candidate};
    peaks.push_back(Take(LayOut(Take(Compile(model, options)), kBatch)).train.peak_bytes);
  }
  const int64_t alike = *std::min_element(peaks.begin(), peaks.end()) * 101 / 100;
  const auto fewest = std::find_if(peaks.begin(), peaks.end(), [&](int64_t peak) { return peak <= alike; });
  EXPECT_EQ(chosen.segments, fewest - peaks.begin());
  EXPECT_GT(chosen.segments, 0) << "without re-runs the peak is no higher";
  EXPECT_LT(chosen.segments, kSegments) << "each re-run lowers the peak";
}

// The search keeps the plan of the best candidate. Where somebody looks on (--time-passes), it is compiled once more.
TEST(SearchReruns, KeepsThePlanThatItsChoiceMakes) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    const ImportResult model = small_networks::Network(seed).Build();
    for (const char* level : {"L4", "L5"}) {
      SCOPED_TRACE(std::to_string(seed) + " " + level);
      CompileOptions options = testing_step::Checked(level, "sgd");
      options.group_size = 64;
      options.batch = 16;
      std::vector<PassTime> times;
      const Plan kept = Take(Compile(model, options)), again = Take(Compile(model, options, &times));
      EXPECT_EQ(Dump(kept.train.graph), Dump(again.train.graph));
      EXPECT_EQ(kept.train.graph.loops, again.train.graph.loops);
      EXPECT_EQ(kept.train.storage_of, again.train.storage_of);
      ASSERT_EQ(kept.edges.size(), again.edges.size());
      for (size_t e = 0; e < kept.edges.size(); ++e) {
        EXPECT_EQ(kept.edges[e].stored, again.edges[e].stored);
        EXPECT_EQ(kept.edges[e].form, again.edges[e].form);
      }
    }
  }
}

// L5's loops are made for 16 samples or more. In a smaller batch another level's plan may have the lower peak.
TEST(LeastPeak, OfASmallBatchIsThatOfTheBestLevel) {
  constexpr int64_t kBatch = 4;
  int of_other_levels = 0;
  for (unsigned seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    const ImportResult model = small_networks::Network(seed).Build();
    RerunCandidate reruns;
    const auto peak = [&](const char* level) {
      CompileOptions options = testing_step::Checked(level, "sgd");
      options.group_size = 64;
      options.batch = kBatch;
      options.workspace_limit = 1024;
      return Take(LayOut(Take(Compile(model, options, nullptr, nullptr, &reruns)), kBatch)).train.peak_bytes;
    };
    const int64_t others = std::min(peak("L3"), peak("L4"));
    EXPECT_LE(peak("L5"), others * 101 / 100) << "peaks within 1 % count as equal";
    of_other_levels += !reruns.least_peak;
  }
  EXPECT_GE(of_other_levels, 1) << "L5's own plan always is the least";
}

}  // namespace
}  // namespace act
