// Values that are swapped are checked as part of a plan, laid out in an arena of their own,
// and watched there.
#include "runtime/plan/swap.h"
#include "kernels/site/dereference.h"
#include "tests/unit/test_device.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <random>

#include "runtime/executor/executor.h"
#include "runtime/memory/categories.h"
#include "runtime/plan/plan_check.h"
#include "tests/unit/kernel_testing.h"
#include "tests/unit/small_plan.h"
#include "tests/unit/toy_plan.h"

namespace act {
namespace {

using testing::SmallPlan;
using testing::StepBuilder;

template <class T>
T Take(llvm::Expected<T> value) {
  if (value) return std::move(*value);
  ADD_FAILURE() << llvm::toString(value.takeError());
  std::abort();
}
std::string Text(llvm::Error error) { return llvm::toString(std::move(error)); }

// Positions in the plan below.
enum NodeAt { kFc, kEncode, kOut, kCrossEntropy, kCrossEntropyGrad, kIn, kDecode };

// The small plan, with a code that waits on the host: x.code -> SwapOut -> x.host ->
// SwapIn -> x.back.
Plan SwappingPlan() {
  Plan plan = SmallPlan();
  StepBuilder b;
  b.step = std::move(plan.train);
  const auto code = static_cast<ValueId>(6);
  const TensorType type = b.step.graph.value(code).type;
  const ValueId host = b.Add("x.host", ValueKind::kActivation, type.dtype, type.dims);
  const ValueId back = b.Add("x.back", ValueKind::kActivation, type.dtype, type.dims);
  std::vector<Node>& nodes = b.step.graph.nodes;
  nodes[kDecode - 2].inputs = {back};
  b.AddNode(kSwapOut, "out", Phase::kForward, {code}, {host});
  std::rotate(nodes.begin() + kOut, nodes.end() - 1, nodes.end());
  b.AddNode(kSwapIn, "in", Phase::kBackward, {host}, {back});
  std::rotate(nodes.begin() + kIn, nodes.end() - 1, nodes.end());
  plan.train = std::move(b.step);
  return plan;
}

ValueId Named(const Plan& plan, const std::string& name) {
  for (size_t v = 0; v < plan.train.graph.values.size(); ++v)
    if (plan.train.graph.values[v].name == name) return static_cast<ValueId>(v);
  ADD_FAILURE() << name;
  return 0;
}
StorageId& StorageOf(Plan& plan, const std::string& name) {
  return plan.train.storage_of[static_cast<size_t>(Named(plan, name))];
}
size_t StorageAt(const Plan& plan, const std::string& name) {
  return static_cast<size_t>(plan.train.storage_of[static_cast<size_t>(Named(plan, name))]);
}

TEST(Swap, TheHostsBytesAreNotInThePeak) {
  const Plan plan = SwappingPlan();
  ASSERT_EQ(Text(CheckPlan(plan)), "");
  const MemoryLayout layout = Take(LayOut(plan, 2));
  ASSERT_EQ(Text(ValidateLayout(plan, layout)), "");
  EXPECT_EQ(layout.host_bytes, 128) << "the code";
  EXPECT_EQ(layout.train.on_host[StorageAt(plan, "x.host")], true);
  EXPECT_EQ(std::count(layout.train.on_host.begin(), layout.train.on_host.end(), true), 1);
  // As without swapping (layout_test.cc), except for the code: it is present at SwapOut and from
  // SwapIn on, but not at the cross entropy and its gradient.
  EXPECT_EQ(layout.train.timeline,
            (std::vector<int64_t>{3840, 2944, 2432, 2432, 2432, 2432, 2944, 4160, 3264}));
  const auto by_category = CategoryTimeline(plan.train, layout.train, layout.persistent_bytes);
  for (size_t t = 0; t < by_category.size(); ++t)
    EXPECT_EQ(std::accumulate(by_category[t].begin(), by_category[t].end(), int64_t{0}),
              layout.train.timeline[t]);
}

TEST(Swap, WithoutItTheStepIsWhatItWas) {
  Plan plan = SwappingPlan();
  const Plan before = SmallPlan();
  RemoveSwaps(plan.train);
  EXPECT_EQ(Text(CheckPlan(plan)), "");
  ASSERT_EQ(plan.train.graph.nodes.size(), before.train.graph.nodes.size());
  for (size_t i = 0; i < before.train.graph.nodes.size(); ++i)
    EXPECT_EQ(plan.train.graph.nodes[i].inputs, before.train.graph.nodes[i].inputs) << i;
  const MemoryLayout layout = Take(LayOut(plan, 2));
  EXPECT_EQ(layout.train.timeline, Take(LayOut(before, 2)).train.timeline);
  EXPECT_EQ(layout.host_bytes, 0);
}

// Each possible fault, and what the check of an untrusted plan says about it.
TEST(CheckPlan, RefusesWrongSwaps) {
  const struct {
    const char* what;
    std::function<void(Plan&)> damage;
    const char* message;
  } cases[] = {
      {"a loop reads the host's memory",
       [](Plan& p) { p.train.graph.nodes[kDecode].inputs = {Named(p, "x.host")}; }, "touches value 'x.host'"},
      {"a value of the arena in the host's storage",
       [](Plan& p) { StorageOf(p, "x.decoded") = StorageOf(p, "x.host"); }, "touches value 'x.decoded'"},
      {"a parameter there", [](Plan& p) { StorageOf(p, "x.host") = StorageOf(p, "w"); }, "touches value 'w'"},
      {"an optimizer state that no node reads there",
       [](Plan& p) {
         p.train.graph.values.push_back({"unread", {DType::kFloat32, {1}}, ValueKind::kOptimizer, {}});
         p.train.storage_of.push_back(StorageOf(p, "x.host"));
       },
       "value 'unread': is in the host's memory"},
      {"the loss handed out from there", [](Plan& p) { p.train.graph.outputs.push_back(Named(p, "x.host")); },
       "value 'x.host': is in the host's"},
      {"back from where nothing was swapped",
       [](Plan& p) { p.train.graph.nodes[kIn].inputs = {Named(p, "x.code")}; },
       "node 'in' (SwapIn): does not copy from the host's memory"},
      {"both sides in one memory", [](Plan& p) { StorageOf(p, "x.back") = StorageOf(p, "x.host"); },
       "node 'in' (SwapIn): does not copy from the host's memory"},
      {"in place", [](Plan& p) { StorageOf(p, "x.host") = StorageOf(p, "x.code"); },
       "touches value 'x.code'"},
      {"another type", [](Plan& p) { p.train.graph.value(Named(p, "x.host")).type.dims.push_back(1); },
       "is not"},
      {"two operands", [](Plan& p) { p.train.graph.nodes[kOut].inputs.push_back(Named(p, "x")); },
       "has 2 operands, not 1"},
      {"a tile at a time",
       [](Plan& p) {
         p.train.graph.loops = {{.first = kOut, .last = kOut + 1, .tiles = 2, .least_samples = 1}};
       },
       "is in a loop over samples, but an operator that does not run in tiles"},
      {"read before it is back",
       [](Plan& p) { std::swap(p.train.graph.nodes[kIn], p.train.graph.nodes[kDecode]); },
       "before it is made"},
  };
  for (const auto& c : cases) {
    Plan plan = SwappingPlan();
    c.damage(plan);
    const std::string message = Text(CheckPlan(plan));
    EXPECT_NE(message.find(c.message), std::string::npos) << c.what << ": '" << message << "'";
  }
}

// Codes that wait, each for a while, beside a few tensors of the arena.
Plan ManyCodes(uint32_t seed, int codes) {
  std::mt19937 random(seed);
  const auto draw = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  StepBuilder b;
  const ValueId x = b.Add("x", ValueKind::kInput, DType::kFloat32, {Dim::Batch(), 32});
  std::vector<ValueId> host;
  for (int i = 0; i < codes; ++i) {
    const Dims dims{Dim::Batch(), draw(0, 400)};
    const std::string name = std::to_string(i);
    const ValueId code = b.Add("code" + name, ValueKind::kActivation, DType::kUint8, dims);
    host.push_back(b.Add("host" + name, ValueKind::kActivation, DType::kUint8, dims));
    b.AddNode("Slice", "encode" + name, Phase::kForward, {x}, {code});
    b.AddNode(kSwapOut, "out" + name, Phase::kForward, {code}, {host.back()});
  }
  const ValueId loss = b.Activation("loss", {});
  b.AddNode("ReduceSum", "loss", Phase::kForward, {x}, {loss});
  std::shuffle(host.begin(), host.end(), random);
  for (const ValueId h : host) {
    const ValueId back =
        b.Add("back", ValueKind::kActivation, DType::kUint8, b.step.graph.value(h).type.dims);
    const ValueId sum = b.Activation("sum", {});
    b.AddNode(kSwapIn, "in", Phase::kBackward, {h}, {back});
    b.AddNode("ReduceSum", "sum", Phase::kBackward, {back}, {sum}, draw(0, 1000));
  }
  b.step.graph.outputs = {loss};
  Plan plan;
  plan.optimizer = "none";
  plan.train = std::move(b.step);
  return plan;
}

TEST(Swap, TheTwoArenasArePackedApart) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const Plan plan = ManyCodes(seed, 1 + static_cast<int>(seed % 17));
    ASSERT_EQ(Text(CheckPlan(plan)), "") << seed;
    for (const int64_t batch : {1, 3, 64}) {
      const MemoryLayout layout = Take(LayOut(plan, batch));
      ASSERT_EQ(Text(ValidateLayout(plan, layout)), "") << seed;
      int64_t codes = 0;  // all of them wait at the loss
      for (size_t s = 0; s < layout.train.bytes.size(); ++s)
        if (layout.train.on_host[s]) codes += layout.train.bytes[s];
      EXPECT_EQ(layout.host_bytes, codes) << seed;
      Plan kept = plan;
      RemoveSwaps(kept.train);
      const MemoryLayout all = Take(LayOut(kept, batch));
      EXPECT_EQ(all.host_bytes, 0);
      EXPECT_LE(layout.arena_bytes, all.arena_bytes) << seed;
      EXPECT_LE(BytesOf(all, Arenas::kBoth), BytesOf(layout, Arenas::kBoth))
          << "a code in two places is larger";
    }
  }
}

TEST(ValidateLayout, FindsWhatIsWrongOnTheHost) {
  const Plan plan = ManyCodes(3, 5);
  const MemoryLayout good = Take(LayOut(plan, 64));
  const size_t first = StorageAt(plan, "host0"), second = StorageAt(plan, "host1");
  const struct {
    const char* what;
    std::function<void(MemoryLayout&)> damage;
    const char* message;
  } cases[] = {
      {"two at one place", [&](auto& l) { l.train.offset[second] = l.train.offset[first]; }, "overlaps"},
      {"in the arena", [&](auto& l) { l.train.on_host[first] = false; }, "in another memory"},
      {"a tensor of the arena on the host", [&](auto& l) { l.train.on_host[StorageAt(plan, "x")] = true; },
       "in another memory"},
      {"above the host's arena", [&](auto& l) { l.train.offset[first] = l.train.host_peak_bytes; },
       "outside its part"},
      {"a peak that is too high", [&](auto& l) { l.train.host_peak_bytes += 64; }, "the peak"},
      {"an arena that is too small", [&](auto& l) { l.host_bytes -= 64; }, "the arena is smaller"},
      {"gone too early", [&](auto& l) { l.train.upper[first] -= 1; }, "is used at node"},
  };
  for (const auto& c : cases) {
    MemoryLayout bad = good;
    c.damage(bad);
    const std::string message = Text(ValidateLayout(plan, bad));
    EXPECT_NE(message.find(c.message), std::string::npos) << c.what << ": '" << message << "'";
  }
  // A fault in the plan itself.
  Plan wrong = plan;
  for (Node& node : wrong.train.graph.nodes)
    if (node.name == "loss") node.inputs.push_back(Named(wrong, "host0"));
  const std::string message = Text(ValidateLayout(wrong, Take(LayOut(wrong, 64))));
  EXPECT_NE(message.find("node 'loss' (ReduceSum) reads or writes in another memory"), std::string::npos)
      << message;
}

TEST(LargestBatch, CountsTheHostsArenaWhereBothAreOneMemory) {
  const Plan plan = ManyCodes(5, 9);
  for (const int64_t bytes : {20'000, 345'678}) {
    for (const Arenas arenas : {Arenas::kDevice, Arenas::kBoth}) {
      const int64_t batch = Take(LargestBatch(plan, bytes, arenas));
      ASSERT_GT(batch, 0);
      EXPECT_LE(BytesOf(Take(LayOut(plan, batch)), arenas), bytes);
      EXPECT_GT(BytesOf(Take(LayOut(plan, batch + 1)), arenas), bytes);
    }
  }
  const MemoryLayout layout = Take(LayOut(plan, 100));
  const int64_t both = layout.arena_bytes + layout.host_bytes;
  EXPECT_EQ(Text(CheckFits(plan, layout, {.free_bytes = both})), "");
  const std::string text = Text(CheckFits(plan, layout, {.free_bytes = both - 1}));
  EXPECT_NE(text.find("the largest batch that fits is 99"), std::string::npos) << text;
}

// Copies in both directions, of sizes that one thread copies, and of sizes that all threads copy.
TEST(Swap, KernelsCopyEveryByte) {
  for (const char* op : {kSwapOut, kSwapIn})
    for (const int64_t bytes : {0, 1, 63, 4097, 5'000'001}) {
      OpCase c{op, {}, {Empty({bytes}, DType::kUint8)}, {Empty({bytes}, DType::kUint8)}, {}, {}};
      std::mt19937 engine(7);
      for (std::byte& b : c.inputs[0].bytes) b = static_cast<std::byte>(engine());
      const OpResult y = RunReference(c);
      ASSERT_FALSE(y.refused) << y.error;
      EXPECT_TRUE(y.tensors[0].bytes == c.inputs[0].bytes) << op << " of " << bytes;
      EXPECT_GT(CompareWithReference(c, 0), 0);
    }
}

// The toy plan, whose x [N,4] goes to the host and back before its columns are summed.
struct SwappingToy {
  SwappingToy() {
    toy::RegisterToyKernels(registry);
    plan = toy::ToyPlan();
    StepGraph& step = plan.train;
    const Dims dims = step.graph.value(0).type.dims;
    const ValueId host = toy::Add(step, "host", ValueKind::kActivation, dims);
    const ValueId back = toy::Add(step, "back", ValueKind::kActivation, dims);
    std::vector<Node>& nodes = step.graph.nodes;
    for (Node& node : nodes)
      if (node.op == "ColumnSum") node.inputs = {back};
    toy::AddNode(step, kSwapOut, {0}, {host});
    std::rotate(nodes.begin(), nodes.end() - 1, nodes.end());
    toy::AddNode(step, kSwapIn, {host}, {back});
    std::rotate(nodes.begin() + 1, nodes.end() - 1, nodes.end());
  }
  // A kernel that copies, then writes a float `floats` floats after the start of its output.
  void AddCopies(int64_t floats = 0) {
    for (const char* op : {kSwapOut, kSwapIn})
      registry.Add(op, toy::Always("toy.copy", [floats, op](const KernelArgs& k) {
                     std::memcpy(k.outputs[0].as<void>(), k.inputs[0].as<void>(),
                                 static_cast<size_t>(k.outputs[0].bytes));
                     if (floats > 0 && op == kSwapOut) k.outputs[0].as<float>()[floats] = 42;
                   }));
  }
  std::string Run() {
    executor = Take(Executor::Create(plan, Take(LayOut(plan, 3)), TestDevice(), registry,
                                     {.threads = 1, .check_memory = true}));
    BoundGraph* graph = Take(executor->Train(3));
    llvm::cantFail(executor->BeginStep());
    std::iota(graph->view(0).as<float>(), graph->view(0).as<float>() + 12, 1.f);
    return Text(executor->Run(*graph, {.update = {.hyper = {.lr = 0.5, .momentum = 0.5}}}));
  }

  Plan plan;
  KernelRegistry registry;
  std::unique_ptr<Executor> executor;
};

TEST(Swap, TheHostsArenaIsUsedAsPlanned) {
  SwappingToy toy;
  ASSERT_EQ(Text(CheckSwaps(toy.plan.train)), "");
  toy.AddCopies();
  EXPECT_EQ(toy.Run(), "");
  EXPECT_EQ(toy.executor->host_arena().high_water_bytes(), 64) << "12 floats, aligned";
  EXPECT_EQ(toy.executor->promised_host_bytes(), 64);
  EXPECT_EQ(toy.executor->arena().high_water_bytes(), toy.executor->layout().train.peak_bytes);
}

TEST(MemoryCheck, FindsAStrayWriteToTheHostsArena) {
  SwappingToy toy;
  toy.AddCopies(12);
  const std::string text = toy.Run();
  EXPECT_NE(text.find("node 'toy/SwapOut' (SwapOut): wrote to byte 48 of the host's arena"),
            std::string::npos)
      << text;
}

TEST(Executor, GoesOnWithNoFormThatNeedsMoreOnTheHost) {
  SwappingToy toy;
  toy.AddCopies();
  ASSERT_EQ(toy.Run(), "");
  MemoryLayout larger = toy.executor->layout();
  EXPECT_EQ(Text(toy.executor->Rebind(toy.plan, larger)), "");
  const size_t host = StorageAt(toy.plan, "host");
  larger.train.offset[host] += 64;
  larger.train.host_peak_bytes += 64;
  larger.host_bytes += 64;
  const std::string text = Text(toy.executor->Rebind(toy.plan, larger));
  EXPECT_NE(text.find("does not fit into the arena"), std::string::npos) << text;
}

}  // namespace
}  // namespace act
