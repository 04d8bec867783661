// Presets that swap: which codes wait on the host, where the copies are in the order of nodes, and
// that nothing else changes.
#include <set>

#include "passes/pass_table.h"
#include "runtime/levels/allocate_codecs.h"
#include "runtime/memory/report.h"
#include "runtime/plan/plan_check.h"
#include "runtime/plan/swap.h"
#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using small_networks::Network;
using testing_step::Take;

CompileOptions OptionsOf(const std::string& level) {
  CompileOptions options = testing_step::Checked(level, "none");
  options.group_size = 64;  // so that tensors of this size have codes
  return options;
}

// The values that SwapOut reads.
std::set<ValueId> SwappedIn(const Graph& graph) {
  std::set<ValueId> swapped;
  for (const Node& node : graph.nodes)
    if (node.op == kSwapOut) swapped.insert(node.inputs[0]);
  return swapped;
}

class SwapCodes : public ::testing::TestWithParam<unsigned> {
 protected:
  Plan CompileAt(const std::string& level) const {
    return Take(Compile(Network(GetParam()).Build(), OptionsOf(level)));
  }
};

TEST_P(SwapCodes, LossyCodesWaitOnTheHost) {
  for (const char* level : {"actnn-L4", "actnn-L5", "gact-L3"}) {
    SCOPED_TRACE(level);
    const Plan plan = CompileAt(level);
    const std::set<ValueId> swapped = SwappedIn(plan.train.graph);
    size_t expected = 0;
    const std::vector<std::string> forms = FormsOfEdges(plan);
    for (size_t e = 0; e < plan.edges.size(); ++e) {
      const SavedEdge& edge = plan.edges[e];
      const bool swaps =
          edge.form.starts_with("uniform") || (plan.level == "gact-L3" && edge.form == "mask1");
      EXPECT_EQ(swapped.count(edge.stored) != 0, swaps) << edge.name << ": " << edge.form;
      EXPECT_EQ(edge.reason.find("host") != std::string::npos, swaps) << edge.reason;
      EXPECT_EQ(forms[e], edge.form + (swaps ? ", swapped" : ""));
      expected += swaps;
    }
    EXPECT_EQ(swapped.size(), expected);
  }
}

TEST_P(SwapCodes, EachGoesAndComesBackOnceNextToItsMakerAndFirstReader) {
  CompileOptions options = OptionsOf("actnn-L4");
  size_t seen = 0, most_readers = 0;
  options.after_pass = [&](const std::string& pass, const Graph& graph) {
    if (pass != "swap-codes") return;
    std::set<ValueId> on_host, back;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      if (node.op == kSwapOut) {
        ++seen;
        EXPECT_EQ(node.phase, Phase::kForward);
        // After the loop that makes it. Only copies of other codes of that loop come in between.
        size_t maker = i - 1;
        while (graph.nodes[maker].op == kSwapOut) --maker;
        const std::vector<ValueId>& made = graph.nodes[maker].outputs;
        EXPECT_NE(std::find(made.begin(), made.end(), node.inputs[0]), made.end()) << node.name;
        EXPECT_TRUE(on_host.insert(node.outputs[0]).second);
      } else if (node.op == kSwapIn) {
        EXPECT_EQ(node.phase, Phase::kBackward);
        EXPECT_EQ(on_host.erase(node.inputs[0]), 1u) << "one copy serves all readers";
        size_t reader = i + 1;
        while (graph.nodes[reader].op == kSwapIn) ++reader;
        const std::vector<ValueId>& read = graph.nodes[reader].inputs;
        EXPECT_NE(std::find(read.begin(), read.end(), node.outputs[0]), read.end()) << node.name;
        size_t readers = 0;
        for (const Node& other : graph.nodes)
          readers +=
              static_cast<size_t>(std::count(other.inputs.begin(), other.inputs.end(), node.outputs[0]));
        most_readers = std::max(most_readers, readers);
      }
    }
    EXPECT_TRUE(on_host.empty()) << "what nothing reads is not swapped";
    // The device's code is read by its SwapOut alone.
    for (const ValueId code : SwappedIn(graph)) {
      int64_t readers = 0;
      for (const Node& node : graph.nodes)
        readers += std::count(node.inputs.begin(), node.inputs.end(), code);
      EXPECT_EQ(readers, 1);
    }
  };
  Network network(GetParam());
  const Plan plan = Take(Compile(network.Build(), options));
  EXPECT_EQ(seen, SwappedIn(plan.train.graph).size());
  for (const SavedEdge& edge : plan.edges)
    if (edge.name.find("Normalize") != std::string::npos && edge.form.starts_with("uniform")) {
      EXPECT_GE(most_readers, 2u) << "the sums of a BatchNorm's gradient, and then the gradient";
    }
}

// The loops are those of the plan without swapping, so the gradients are equal to the last bit.
TEST_P(SwapCodes, GradientsAreThoseOfTheLevelBelow) {
  for (const auto& [level, below] : {std::pair{"actnn-L4", "actnn-L3"}, std::pair{"actnn-L5", "actnn-L4"},
                                     std::pair{"gact-L3", "gact-L2"}}) {
    const Plan swapping = CompileAt(level), keeping = CompileAt(below);
    for (const KernelRegistry* kernels : {&testing_step::CpuKernels(), &testing_step::ReferenceKernels()})
      for (const int64_t batch : {1, 5})
        for (const int threads : {1, 2}) {
          Network network(GetParam());
          network.Build();
          const auto inputs = network.Inputs(swapping.train.graph, batch);
          const testing_step::StepOptions step{.batch = batch, .check_memory = true, .threads = threads};
          EXPECT_EQ(Take(testing_step::RunStep(swapping, *kernels, inputs, step)),
                    Take(testing_step::RunStep(keeping, *kernels, inputs, step)))
              << level << ", batch " << batch << ", " << threads << " threads";
        }
  }
}

TEST_P(SwapCodes, ThePeakIsLowerByWhatIsSwapped) {
  constexpr int64_t kBatch = 64;
  const Plan swapping = CompileAt("actnn-L4"), keeping = CompileAt("actnn-L3");
  const MemoryLayout with = Take(LayOut(swapping, kBatch)), without = Take(LayOut(keeping, kBatch));
  int64_t codes = 0;
  for (const ValueId code : SwappedIn(swapping.train.graph))
    codes += (swapping.train.graph.value(code).type.Bytes().At(kBatch) + 63) / 64 * 64;
  EXPECT_EQ(with.host_bytes, codes) << "all of them wait at the turn";
  EXPECT_EQ(without.host_bytes, 0);
  EXPECT_LE(with.train.lower_bound_bytes, without.train.lower_bound_bytes);
}

// A change of a code's levels reaches all copies of the code. The numbers are those without
// swapping.
TEST_P(SwapCodes, LevelsMoveInEveryCopyOfACode) {
  Plan swapping = CompileAt("gact-L3"), keeping = CompileAt("gact-L2");
  const std::vector<PlanCode> codes = CodesWithLevels(swapping);
  ASSERT_EQ(codes.size(), CodesWithLevels(keeping).size());
  for (size_t c = 0; c < codes.size(); ++c) {
    const std::vector<Codec> choices = LevelChoices(codes[c].coded.codec);
    const Codec& choice = choices[c % choices.size()];
    SetCodec(swapping, codes[c].edge, choice);
    SetCodec(keeping, codes[c].edge, choice);
  }
  ASSERT_EQ(testing_step::Text(CheckPlan(swapping)), "");
  Network network(GetParam());
  network.Build();
  const auto inputs = network.Inputs(swapping.train.graph, 3);
  const testing_step::StepOptions step{.batch = 3, .check_memory = true};
  EXPECT_EQ(Take(testing_step::RunStep(swapping, testing_step::CpuKernels(), inputs, step)),
            Take(testing_step::RunStep(keeping, testing_step::CpuKernels(), inputs, step)));
}

INSTANTIATE_TEST_SUITE_P(Seeds, SwapCodes, ::testing::Range(0u, 8u));

// A copy to the host takes no memory of the device, and frees the code's. So the scheduler moves it
// before the nodes that make large tensors.
TEST(SwapCodes, TheScheduleCountsTheDevicesBytes) {
  Graph graph;
  const auto value = [&](int64_t bytes, ValueKind kind = ValueKind::kActivation) {
    graph.values.push_back({"", {DType::kUint8, {Dim(0, bytes)}}, kind, {}});
    return static_cast<ValueId>(graph.values.size() - 1);
  };
  const auto node = [&](const char* op, ValueId in, ValueId out, Phase phase) {
    Node made;
    made.op = op;
    made.inputs = {in};
    made.outputs = {out};
    made.phase = phase;
    graph.nodes.push_back(std::move(made));
  };
  const ValueId x = value(4000, ValueKind::kInput), y = value(10, ValueKind::kInput), code = value(1000),
                large = value(5000), small = value(1), host = value(1000), back = value(1000),
                read = value(1), loss = value(1);
  graph.inputs = {x, y};
  graph.outputs = {loss, read};
  node("Encode", x, code, Phase::kForward);
  node("Grow", y, large, Phase::kForward);
  node("Sum", large, small, Phase::kForward);
  node(kSwapOut, code, host, Phase::kForward);
  node("Loss", small, loss, Phase::kForward);
  node(kSwapIn, host, back, Phase::kBackward);
  node("Read", back, read, Phase::kBackward);
  PassContext context;
  ASSERT_EQ(testing_step::Text(ScheduleNodes(graph, context)), "");
  const auto position = [&](const std::string& op) {
    return std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return n.op == op; }) -
           graph.nodes.begin();
  };
  EXPECT_LT(position(kSwapOut), position("Grow")) << "the code is on the device beside what is large";
}

// A stack of equal convolutions, BatchNorms and ReLUs. Between forward and backward pass, its codes
// are most of the live bytes.
TEST(SwapCodes, WhereCodesAreThePeakItFallsByThem) {
  const auto compile = [](const std::string& level) {
    Graph graph;
    GraphBuilder b(graph);
    const auto weight = [&](const std::string& name, const Dims& dims,
                            ValueKind kind = ValueKind::kParameter) {
      const TensorType type{DType::kFloat32, dims};
      std::vector<float> values(static_cast<size_t>(type.Elements().fixed), .1f);
      return b.Input(name, type, kind, testing_step::HostFloats(values));
    };
    Attributes window;
    window.Set("strides", std::vector<int64_t>{1, 1});
    window.Set("dilations", std::vector<int64_t>{1, 1});
    window.Set("pads", std::vector<int64_t>(4, 0));
    ValueId x = b.Input("image", {DType::kFloat32, {Dim::Batch(), 16, 16, 4}}, ValueKind::kInput);
    for (int layer = 0; layer < 60; ++layer) {
      const std::string name = "l" + std::to_string(layer);
      x = Take(b.Add1("Conv", {x, weight(name + ".w", {4, 4, 1, 1})}, window, name));
      x = Take(b.Add1(
          "BatchNorm",
          {x, weight(name + ".gamma", {4}), weight(name + ".beta", {4}),
           weight(name + ".mean", {4}, ValueKind::kBuffer), weight(name + ".var", {4}, ValueKind::kBuffer)},
          {}, name + ".bn"));
      x = Take(b.Add1("Relu", {x}, {}, name + ".relu"));
    }
    Attributes all;
    all.Set("axes", std::vector<int64_t>{0, 1, 2, 3});
    all.Set("keepdims", int64_t{0});
    graph.outputs = {Take(b.Add1("ReduceMean", {x}, all, "loss"))};
    return Take(Compile(testing_step::ModelOf(graph), OptionsOf(level)));
  };
  constexpr int64_t kBatch = 64;
  const MemoryLayout keeping = Take(LayOut(compile("actnn-L3"), kBatch)),
                     swapping = Take(LayOut(compile("actnn-L4"), kBatch));
  EXPECT_GT(swapping.host_bytes, 1'000'000);
  // At the peak one or two codes are on the device.
  EXPECT_LT(swapping.train.peak_bytes, keeping.train.peak_bytes - swapping.host_bytes * 9 / 10);
}

}  // namespace
}  // namespace act
