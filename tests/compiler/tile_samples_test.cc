// A step in tiles of samples is the step: the same codes, the same gradient, less memory.
#include <algorithm>
#include <cmath>
#include <span>

#include "compiler/ops/op_table.h"
#include "passes/pass_table.h"
#include "passes/planning/assign_storage.h"
#include "passes/planning/live_window.h"
#include "passes/planning/moving_step.h"
#include "runtime/memory/layout.h"
#include "runtime/plan/plan_check.h"
#include "runtime/plan/sample_loops.h"
#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using small_networks::Network;
using testing_step::Take;

constexpr unsigned kNetworks = 10;
constexpr int64_t kBatch = 19;  // two tiles of 8 samples and one of 3

using testing_step::Distance;
using testing_step::Gradients;

Plan CompileAt(unsigned seed, const std::string& level, TargetKind target = TargetKind::kCpu) {
  CompileOptions options = testing_step::Checked(level, "none");
  options.group_size = 64;         // so that tensors of this size have codes,
  options.workspace_limit = 1024;  // and set the peak
  options.target = target;
  return Take(Compile(Network(seed).Build(), options));
}

Gradients RunOn(unsigned seed, const Plan& plan, const KernelRegistry& kernels) {
  Network network(seed);
  network.Build();
  testing_step::StepOptions options;
  options.batch = kBatch;
  options.check_memory = true;
  return Take(testing_step::RunStep(plan, kernels, network.Inputs(plan.train.graph, kBatch), options));
}

// Loops around all that runs in tiles. They are as long as their position allows.
void TileAll(StepGraph& step) {
  Graph& graph = step.graph;
  std::vector<bool> sum_of_loop(graph.values.size());
  const auto may_follow = [&](const Node& node) {
    return !WhyNotTileable(graph, node) &&
           std::none_of(node.inputs.begin(), node.inputs.end(),
                        [&](ValueId id) { return id != kNoValue && sum_of_loop[static_cast<size_t>(id)]; });
  };
  graph.loops.clear();
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const Node& node = graph.nodes[i];
    if (WhyNotTileable(graph, node)) continue;
    const bool grows = !graph.loops.empty() && graph.loops.back().last == at && may_follow(node);
    if (!grows) {
      std::fill(sum_of_loop.begin(), sum_of_loop.end(), false);
      graph.loops.push_back({at, at, 5, 2});
    }
    graph.loops.back().last = at + 1;
    for (const ValueId id : node.outputs)
      if (TileRoleOf(graph.value(id).type) == TileRole::kSame) sum_of_loop[static_cast<size_t>(id)] = true;
  }
  AssignStorages(step);
}

TEST(TileSamples, AllThatMayRunInTilesDoes) {
  for (unsigned seed = 0; seed < kNetworks; ++seed) {
    for (const char* level : {"L0", "L4"}) {
      SCOPED_TRACE(std::to_string(seed) + " " + level);
      Plan whole = CompileAt(seed, level);
      whole.train.graph.loops.clear();
      Plan tiled = whole;
      TileAll(tiled.train);
      EXPECT_EQ(testing_step::Text(CheckPlan(tiled)), "");
      for (const KernelRegistry* kernels : {&testing_step::CpuKernels(), &testing_step::ReferenceKernels()})
        EXPECT_LE(Distance(RunOn(seed, tiled, *kernels), RunOn(seed, whole, *kernels)), 1e-11);
    }
  }
}

// Makes products twice, and tiles all that may run in tiles. Returns how many products.
int64_t MakeTwiceInTiles(Plan& plan) {
  PassContext context;
  context.repeated_elements = 1;
  EXPECT_EQ(testing_step::Text(RepeatProducts(plan.train.graph, context)), "");
  EXPECT_EQ(testing_step::Text(Verify(plan.train.graph, Stage::kFused)), "");
  EXPECT_EQ(testing_step::Text(AssignStorage(plan.train, context)), "");
  TileAll(plan.train);
  EXPECT_EQ(testing_step::Text(CheckPlan(plan)), "");
  const auto count = [&](const char* op) {
    const auto& nodes = plan.train.graph.nodes;
    return std::count_if(nodes.begin(), nodes.end(), [op](const Node& node) { return node.op == op; });
  };
  EXPECT_EQ(count("BatchNormMoments"), count("BatchNormFromMoments"));
  return count("BatchNormMoments");
}

// Nothing has a code, so all that differs is rounding.
TEST(RepeatProducts, MakesTheSameGradient) {
  const Plan once = Take(Compile(small_networks::FrozenConvolution(), testing_step::Checked("L0", "none")));
  Plan twice = once;
  EXPECT_EQ(MakeTwiceInTiles(twice), 1);
  for (const KernelRegistry* kernels : {&testing_step::CpuKernels(), &testing_step::ReferenceKernels()}) {
    testing_step::StepOptions options;
    options.batch = kBatch;
    options.check_memory = true;
    const auto run = [&](const Plan& plan) {
      std::vector<float> image(static_cast<size_t>(kBatch * 5 * 5 * 3));
      for (size_t i = 0; i < image.size(); ++i) image[i] = std::sin(static_cast<float>(i * i));
      return Take(testing_step::RunStep(plan, *kernels, {{"image", testing_step::BytesOf(image)}}, options));
    };
    EXPECT_LE(Distance(run(twice), run(once)), 1e-12);
  }
}

// Means that are rounded otherwise, by 1e-7 of a deviation, move one in 1e7 numbers across a threshold of its code. Its
// error changes by a step, .9 of a deviation in 3 bits. So the gradient changes by some 1e-7, squared.
TEST(RepeatProducts, MovesFewCodes) {
  int64_t products = 0;
  for (unsigned seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE(seed);
    const Plan once = CompileAt(seed, "L3");
    Plan twice = once;
    products += MakeTwiceInTiles(twice);
    for (const KernelRegistry* kernels : {&testing_step::CpuKernels(), &testing_step::ReferenceKernels()})
      EXPECT_LE(Distance(RunOn(seed, twice, *kernels), RunOn(seed, once, *kernels)), 1e-5);
  }
  EXPECT_GE(products, int64_t{kNetworks} / 2);  // otherwise nothing was tested
}

// LiveBytes measures the step with its storages, in which the tensors of a loss lie apart as attempts at loops see them. A
// window knows neither, but the same bytes, around each loop and for the whole step.
TEST(LiveWindow, HasTheBytesOfTheStorages) {
  size_t loops = 0, shared = 0;
  for (unsigned seed = 0; seed < kNetworks; ++seed) {
    for (const char* level : {"L0", "L3", "L4"}) {
      SCOPED_TRACE(std::to_string(seed) + " " + level);
      StepGraph step = CompileAt(seed, level).train;
      if (seed % 2 == 0) TileAll(step);
      AssignStorages(step, /*over_scores=*/false);
      const MovingStep moving(step);
      std::vector<NodeNumber> nodes;
      for (size_t i = 0; i < step.graph.nodes.size(); ++i) {
        nodes.push_back(moving.At(i));
        shared += moving.OverwritesOf(nodes.back()).size();
      }
      for (const int64_t batch : {kBatch, int64_t{256}}) {
        const std::vector<int64_t> live = LiveBytes(step, batch, TargetKind::kCpu);
        const LiveWindow window(moving, batch, TargetKind::kCpu);
        EXPECT_EQ(window.BytesAt(0, nodes), live);
        for (const SampleLoop& loop : step.graph.loops) {
          const auto first = static_cast<size_t>(loop.first), last = static_cast<size_t>(loop.last);
          const std::vector<int64_t> here(live.begin() + loop.first, live.begin() + loop.last);
          EXPECT_EQ(window.BytesAt(first, std::span(nodes).subspan(first, last - first)), here);
          ++loops;
        }
      }
    }
  }
  EXPECT_GE(loops, kNetworks);  // otherwise little was tested
  EXPECT_GE(shared, kNetworks);
}

TEST(TileSamples, TheGradientIsThatOfTheWholeBatch) {
  size_t loops = 0;
  for (unsigned seed = 0; seed < kNetworks; ++seed) {
    for (const char* level : {"L3", "L4"}) {
      SCOPED_TRACE(std::to_string(seed) + " " + level);
      const Plan plan = CompileAt(seed, level);
      EXPECT_EQ(testing_step::Text(CheckPlan(plan)), "");
      loops += plan.train.graph.loops.size();
      Plan whole = plan;
      whole.train.graph.loops.clear();
      // The codes are the same bits. Sums over samples are added in another order (6e-8, squared,
      // times a condition number of up to 1e3).
      for (const KernelRegistry* kernels : {&testing_step::CpuKernels(), &testing_step::ReferenceKernels()})
        EXPECT_LE(Distance(RunOn(seed, plan, *kernels), RunOn(seed, whole, *kernels)), 1e-11);
    }
  }
  EXPECT_GE(loops, kNetworks);  // otherwise nothing was tested
}

TEST(TileSamples, LowersThePeakOfALargeBatchOnItsTarget) {
  for (const TargetKind target : kTargets) {
    size_t lower = 0;
    for (unsigned seed = 0; seed < kNetworks; ++seed) {
      SCOPED_TRACE(std::string(ToString(target)) + " " + std::to_string(seed));
      const Plan plan = CompileAt(seed, "L3", target);
      Plan whole = plan;
      whole.train.graph.loops.clear();
      AssignStorages(whole.train);
      const int64_t peak = Take(LayOut(plan, 256, target)).train.lower_bound_bytes;
      const int64_t peak_whole = Take(LayOut(whole, 256, target)).train.lower_bound_bytes;
      EXPECT_LE(peak, peak_whole);
      lower += peak < peak_whole;
      // Sums of weight gradients may take what samples save at a small batch, but not more than a hundredth of its peak.
      EXPECT_LE(Take(LayOut(plan, 16, target)).train.lower_bound_bytes,
                1.01 * Take(LayOut(whole, 16, target)).train.lower_bound_bytes);
    }
    EXPECT_GE(lower, kNetworks / 2);
  }
}

// A token's label is the next token. Models drop the scores of the last one, or give it a label that is ignored.
enum class Shift : uint8_t { kNone, kSlicedScores, kPaddedLabels };

// What a language model's loss is: rows of tokens, many classes, labels that do not count.
struct LossCase {
  const char* reduction;
  bool ignores, weighted;
  Shift shift = Shift::kNone;

  int64_t Tokens() const { return shift == Shift::kSlicedScores ? 33 : 32; }
};

ImportResult LargeLoss(const LossCase& c) {
  constexpr int64_t kClasses = 8192;
  Graph graph;
  GraphBuilder b(graph);
  const ValueId tokens =
      b.Input("tokens", {DType::kFloat32, {Dim::Batch(), c.Tokens(), 8}}, ValueKind::kInput);
  ValueId label = b.Input("label", {DType::kInt64, {Dim::Batch(), c.Tokens()}}, ValueKind::kInput);
  std::vector<float> numbers(8 * kClasses), weights(kClasses);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<float>(i));
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 3);
  const ValueId w = b.Input("w", {DType::kFloat32, {8, kClasses}}, ValueKind::kParameter,
                            testing_step::HostFloats(numbers));
  const ValueId bias = b.Input("bias", {DType::kFloat32, {kClasses}}, ValueKind::kParameter,
                               testing_step::HostFloats(std::vector<float>(kClasses, .5f)));
  ValueId scores = Take(b.Add1("Add", {Take(b.Add1("MatMul", {tokens, w})), bias}));
  if (c.shift == Shift::kPaddedLabels) {
    Attributes pad;
    pad.Set("pads", std::vector<int64_t>{0, 0, 0, 1});
    pad.Set("mode", std::string("constant"));
    pad.Set("value", -100.);
    label = Take(b.Add1("Pad", {label}, pad));
  }
  if (c.shift != Shift::kNone) label = Take(b.Slice(label, {0, 1}, {Dim::Batch(), 32}, {1, 1}, "next"));
  if (c.shift == Shift::kSlicedScores)
    scores = Take(b.Slice(scores, {0, 0, 0}, {Dim::Batch(), 32, kClasses}, {1, 1, 1}, "but_last"));
  Attributes attrs;
  attrs.Set("reduction", std::string(c.reduction));
  if (c.ignores) attrs.Set("ignore_index", int64_t{-100});
  std::vector<ValueId> operands{scores, label};
  if (c.weighted)
    operands.push_back(
        b.Constant("weights", {DType::kFloat32, {kClasses}}, testing_step::HostFloats(weights)));
  graph.outputs = {Take(b.Add("SoftmaxCrossEntropy", operands, attrs, "loss", 2))[0]};
  return testing_step::ModelOf(std::move(graph));
}

TEST(TileSamples, ALossOverManyClassesIsThatOfTheWholeBatch) {
  constexpr int64_t kSamples = 5;
  for (const LossCase& c : {LossCase{"mean", false, false},
                            {"mean", true, false},
                            {"mean", true, true},
                            {"mean", false, true},
                            {"sum", true, false},
                            {"mean", true, true, Shift::kSlicedScores},
                            {"mean", true, false, Shift::kPaddedLabels}}) {
    SCOPED_TRACE(std::string(c.reduction) + (c.ignores ? ", some ignored" : "") +
                 (c.weighted ? ", weighted" : "") + ", shift " + std::to_string(static_cast<int>(c.shift)));
    const auto of_sample = static_cast<size_t>(c.Tokens());
    std::vector<float> tokens(kSamples * of_sample * 8);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = std::cos(static_cast<float>(3 * i));
    std::vector<int64_t> labels(kSamples * of_sample);
    for (size_t i = 0; i < labels.size(); ++i)
      labels[i] = c.ignores && i % 7 < 2 ? -100 : static_cast<int64_t>(i * 50 % 8192);
    // A sample of which no label counts.
    if (c.ignores) std::fill_n(labels.begin() + c.Tokens(), of_sample, int64_t{-100});
    Plan tiled = Take(Compile(LargeLoss(c), testing_step::Checked("L3", "none")));
    const Plan whole = Take(Compile(LargeLoss(c), testing_step::Checked("L0", "none")));
    EXPECT_TRUE(whole.train.graph.loops.empty());
    ASSERT_EQ(tiled.train.graph.loops.size(), 1u);
    size_t of_loss = 0;
    SampleLoop& loop = tiled.train.graph.loops[0];
    for (int64_t i = loop.first; i < loop.last; ++i) {
      const OpDef& op = *FindOp(tiled.train.graph.nodes[static_cast<size_t>(i)].op);
      of_loss += op.loss || op.loss_gradient;
    }
    EXPECT_EQ(of_loss, 2u) << "the loss and its gradient are not in one loop";
    loop.tiles = kSamples, loop.least_samples = 1;
    ASSERT_EQ(testing_step::Text(CheckPlan(tiled)), "");

    const auto run = [&](const Plan& plan, const KernelRegistry& kernels) {
      testing_step::StepOptions options;
      options.batch = kSamples;
      options.check_memory = true;
      return Take(testing_step::RunStep(
          plan, kernels,
          {{"tokens", testing_step::BytesOf(tokens)}, {"label", testing_step::BytesOf(labels)}}, options));
    };
    // Nothing is stored with an error; sums over samples are added in another order.
    for (const KernelRegistry* kernels : {&testing_step::CpuKernels(), &testing_step::ReferenceKernels()})
      EXPECT_LE(Distance(run(tiled, *kernels), run(whole, *kernels)), 1e-11);

    // Tiles of 5 tokens: some are of two samples, and the last one is shorter.
    loop.tokens = static_cast<int64_t>(of_sample);
    loop.tiles = loop.tokens * static_cast<int64_t>(kSamples);
    loop.least_samples = 5;
    for (int64_t i = loop.first; i < loop.last; ++i)
      AssignWorkspace(tiled.train.graph, tiled.train.graph.nodes[static_cast<size_t>(i)], loop.tokens, 0);
    if (c.shift == Shift::kSlicedScores) {
      EXPECT_NE(testing_step::Text(CheckPlan(tiled)), "") << "a sample's last token has no loss";
      continue;
    }
    ASSERT_EQ(testing_step::Text(CheckPlan(tiled)), "");
    for (const KernelRegistry* kernels : {&testing_step::CpuKernels(), &testing_step::ReferenceKernels()})
      EXPECT_LE(Distance(run(tiled, *kernels), run(whole, *kernels)), 1e-11) << "tiles of tokens";
  }
}

// Scores of tokens x 16,384 classes.
ImportResult LargeSample(int64_t tokens) {
  constexpr int64_t kClasses = 16384;
  Graph graph;
  GraphBuilder b(graph);
  const ValueId x = b.Input("x", {DType::kFloat32, {Dim::Batch(), tokens, 8}}, ValueKind::kInput);
  const ValueId label = b.Input("label", {DType::kInt64, {Dim::Batch(), tokens}}, ValueKind::kInput);
  const ValueId w = b.Input("w", {DType::kFloat32, {8, kClasses}}, ValueKind::kParameter,
                            testing_step::HostFloats(std::vector<float>(8 * kClasses, .1f)));
  const ValueId scores = Take(b.Add1("MatMul", {x, w}));
  graph.outputs = {Take(b.Add("SoftmaxCrossEntropy", {scores, label}, {}, "loss", 2))[0]};
  return testing_step::ModelOf(std::move(graph));
}

// A sample of 8,192 tokens has 512 MiB of scores, and one of 768 tokens 48 MiB. So a tile is less than a sample, also
// of the only one, and also where a gradient in bfloat16 takes half of that.
TEST(TileSamples, ALargeSampleIsCutBetweenItsTokens) {
  constexpr int64_t kTileBytes = int64_t{32} << 20, kOthers = int64_t{8} << 20;
  for (const int64_t tokens : {8192, 768})
    for (const Compute compute : {Compute::kFloat32, Compute::kBFloat16}) {
      SCOPED_TRACE(std::to_string(tokens) + (compute == Compute::kFloat32 ? " in float32" : " in bfloat16"));
      CompileOptions options = testing_step::Checked("L3", "none");
      options.compute = compute;
      const Plan plan = Take(Compile(LargeSample(tokens), options));
      ASSERT_EQ(plan.train.graph.loops.size(), 1u);
      EXPECT_EQ(plan.train.graph.loops[0].tokens, tokens);
      // A tile of probabilities, which lie over scores, and of a gradient that may be bfloat16.
      EXPECT_LT(Take(LayOut(plan, 1)).arena_bytes, kTileBytes * 3 / 2 + kOthers);
    }
}

// Scores that no product makes exist whole, and so do their probabilities: these have a code.
TEST(TileSamples, ProbabilitiesAreExactOnlyWhereTheirScoresAreAProducts) {
  for (const bool product : {true, false}) {
    Graph graph;
    GraphBuilder b(graph);
    const ValueId x = b.Input("x", {DType::kFloat32, {Dim::Batch(), 32, 8}}, ValueKind::kInput);
    const ValueId label = b.Input("label", {DType::kInt64, {Dim::Batch(), 32}}, ValueKind::kInput);
    const ValueId w = b.Input("w", {DType::kFloat32, {8, 8192}}, ValueKind::kParameter,
                              testing_step::HostFloats(std::vector<float>(8 * 8192, .1f)));
    ValueId scores = Take(b.Add1("Relu", {Take(b.Add1("MatMul", {x, w}))}));
    if (!product) scores = Take(b.Add1("LogSoftmax", {scores}));
    graph.outputs = {Take(b.Add("SoftmaxCrossEntropy", {scores, label}, {}, "loss", 2))[0]};
    const Plan plan = Take(Compile(testing_step::ModelOf(graph), testing_step::Checked("L3", "none")));
    const auto edge = std::find_if(plan.edges.begin(), plan.edges.end(),
                                   [](const SavedEdge& e) { return e.name.starts_with("loss"); });
    ASSERT_NE(edge, plan.edges.end());
    EXPECT_EQ(edge->form == "keep", product) << edge->form;
  }
}

}  // namespace
}  // namespace act
