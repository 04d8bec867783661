#include "runtime/executor/executor.h"
#include "kernels/site/dereference.h"
#include "tests/unit/test_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>

#include "runtime/base/error.h"
#include "runtime/data/safetensors.h"
#include "runtime/executor/machine.h"
#include "runtime/executor/profile.h"
#include "runtime/train/step_dump.h"
#include "tests/take.h"
#include "tests/unit/toy_plan.h"

namespace {
std::atomic<int64_t> g_allocations = 0;
}

#ifndef ACT_SANITIZER  // those of the sanitizer do not mix with these
// Allocations are counted, so that a test can require that a step allocates nothing.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++g_allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace act {
namespace {

struct Fixture {
  explicit Fixture(int64_t batch = 3, bool check_memory = false) {
    toy::RegisterToyKernels(registry);
    Make(batch, check_memory);
  }
  // Opens the plan again, after `plan` or `registry` was changed.
  void Make(int64_t batch, bool check_memory = false) {
    executor = Take(Executor::Create(plan, Take(LayOut(plan, batch)), TestDevice(), registry,
                                     {.threads = 1, .check_memory = check_memory}));
  }
  llvm::Error Step(int64_t batch, std::span<NodeObserver* const> observers = {}) {
    BoundGraph* graph = Take(executor->Train(batch));
    llvm::cantFail(executor->BeginStep());
    FillX(*graph);
    return executor->Run(*graph, {.update = {.hyper = {.lr = 0.5, .momentum = 0.5}}}, observers);
  }
  // x = 1, 2, 3, ...
  static void FillX(const BoundGraph& graph) {
    const TensorView& x = graph.view(graph.step().graph.inputs[0]);
    for (int64_t i = 0; i < x.elements; ++i) x.as<float>()[i] = static_cast<float>(i + 1);
  }
  float Loss(int64_t batch) {
    return *Take(executor->Train(batch))->view(plan.train.graph.outputs[0]).as<float>();
  }
  const TensorView& Persistent(const std::string& name) {
    for (const PersistentTensor& tensor : executor->persistents()) {
      if (tensor.name == name) return tensor.view;
    }
    ADD_FAILURE() << "no persistent tensor " << name;
    std::abort();
  }

  Plan plan = toy::ToyPlan();
  KernelRegistry registry;
  std::unique_ptr<Executor> executor;
};

TEST(Executor, RunsAStepAndUpdatesParameters) {
  Fixture f;
  ASSERT_EQ(Text(f.Step(3)), "");
  // rows (1 2 3 4), (5 6 7 8), (9 10 11 12): column sums 15 18 21 24; loss = 1*15 +
  // 2*18 + 3*21 + 4*24
  EXPECT_EQ(f.Loss(3), 210);
  const float* w = f.Persistent("w").as<float>();
  EXPECT_EQ(w[0], 1 - 0.5f * 15);
  EXPECT_EQ(w[3], 4 - 0.5f * 24);
  EXPECT_EQ(f.Persistent("w.velocity").as<float>()[1], 18);
  EXPECT_EQ(*f.Persistent("seen").as<float>(), 1);
  ASSERT_EQ(Text(f.Step(3)), "");
  EXPECT_EQ(f.Persistent("w.velocity").as<float>()[1], 0.5f * 18 + 18);  // the state was kept
}

TEST(Executor, MeasuresThePeakThatWasPlanned) {
  for (int64_t batch : {1, 3, 100}) {
    Fixture f(batch);
    EXPECT_EQ(f.executor->arena().high_water_bytes(), f.executor->layout().train.peak_bytes)
        << "batch " << batch;
  }
}

TEST(Executor, AStepAllocatesNothing) {
#ifdef ACT_SANITIZER
  GTEST_SKIP() << "allocations are not counted here";
#endif
  Fixture f;
  ASSERT_EQ(Text(f.Step(3)), "");
  BoundGraph* graph = Take(f.executor->Train(3));
  const StepState state{.update = {.hyper = {.lr = 0.5}}};
  const int64_t before = g_allocations;
  llvm::cantFail(f.executor->BeginStep());
  Fixture::FillX(*graph);
  const bool failed = static_cast<bool>(f.executor->Run(*graph, state));
  const int64_t allocations = g_allocations - before;
  EXPECT_FALSE(failed);
  EXPECT_EQ(allocations, 0);
}

TEST(Executor, RunsASmallerLastBatchAtTheSameOffsets) {
  Fixture f;
  ASSERT_EQ(Text(f.Step(3)), "");
  const DevicePointer full = Take(f.executor->Train(3))->view(0).data;
  ASSERT_EQ(Text(f.Step(2)), "");
  BoundGraph* partial = Take(f.executor->Train(2));
  EXPECT_EQ(partial->view(0).data, full);
  EXPECT_EQ(partial->view(0).dims, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(f.Persistent("w.velocity").as<float>()[0], 0.5f * 15 + (1 + 5));
  EXPECT_EQ(f.executor->arena().high_water_bytes(), f.executor->layout().train.peak_bytes);
  EXPECT_NE(Text(f.executor->Train(4).takeError()).find("outside 1..3"), std::string::npos);
}

TEST(Executor, EvalSharesTheParametersOfTraining) {
  Fixture f;
  ASSERT_EQ(Text(f.Step(3)), "");
  BoundGraph* eval = Take(f.executor->Eval(3));
  Fixture::FillX(*eval);
  ASSERT_EQ(Text(f.executor->Run(*eval, {})), "");
  // w after the step: -6.5 -7 -7.5 -8
  EXPECT_EQ(*eval->view(f.plan.eval.graph.outputs[0]).as<float>(), -6.5f * 15 - 7 * 18 - 7.5f * 21 - 8 * 24);
}

TEST(Executor, AnOperatorWithoutAKernelNamesEveryRefusal) {
  Fixture f;
  KernelRegistry registry;
  for (const char* name : {"fast.mul", "slow.mul"}) {
    registry.Add("Mul", {name, [](const KernelSite&, std::string* why) -> std::unique_ptr<Kernel> {
                           *why = "rank 2 is not supported";
                           return nullptr;
                         }});
  }
  auto executor = Executor::Create(f.plan, Take(LayOut(f.plan, 3)), TestDevice(), registry, {});
  ASSERT_FALSE(static_cast<bool>(executor));
  const std::string text = Text(executor.takeError());
  EXPECT_NE(text.find("node 'toy/Mul' (Mul)"), std::string::npos) << text;
  EXPECT_NE(text.find("fast.mul: rank 2 is not supported; slow.mul: rank 2 is not supported"),
            std::string::npos)
      << text;
}

class GreedyKernel : public Kernel {
 public:
  std::string Run(const KernelArgs&) override { return "must not run"; }
  int64_t WorkspaceBytes() const override { return int64_t{1} << 20; }
};

TEST(Executor, AKernelThatNeedsMoreWorkspaceThanThePlanGivesIsNotChosen) {
  KernelRegistry registry;
  registry.Add("Sum", {"greedy.sum",
                       [](const KernelSite&, std::string*) { return std::make_unique<GreedyKernel>(); }});
  toy::RegisterToyKernels(registry);
  Fixture f;
  f.registry = registry;
  f.Make(3);
  ASSERT_EQ(Text(f.Step(3)), "");
  const BoundNode& sum = Take(f.executor->Train(3))->nodes()[2];
  EXPECT_EQ(sum.kernel_name, "toy.sum");
  EXPECT_EQ(sum.refusals,
            std::vector<std::string>{"greedy.sum: asks for more workspace than the plan gives"});
  EXPECT_NE(FormatDispatch(Take(f.executor->Train(3))->nodes()).find("refused by greedy.sum"),
            std::string::npos);
}

class FailingKernel : public Kernel {
 public:
  std::string Run(const KernelArgs&) override { return "label 12 is outside 0..9"; }
};

TEST(Executor, AFailureOfAKernelNamesTheNode) {
  Fixture f;
  KernelRegistry registry;
  registry.Add(
      "Mul", {"failing", [](const KernelSite&, std::string*) { return std::make_unique<FailingKernel>(); }});
  toy::RegisterToyKernels(registry);
  f.registry = registry;
  f.Make(3);
  EXPECT_EQ(Text(f.Step(3)), "node 'toy/Mul' (Mul): label 12 is outside 0..9");
}

TEST(Executor, WeightsThatThePlanDoesNotHoldAreAnError) {
  Fixture f;
  f.plan.train.graph.value(1).data = {};
  auto executor = Executor::Create(f.plan, Take(LayOut(f.plan, 3)), TestDevice(), f.registry, {});
  ASSERT_FALSE(static_cast<bool>(executor));
  EXPECT_NE(Text(executor.takeError()).find("tensor 'w': the plan holds no value for it"), std::string::npos);
}

TEST(Executor, TooLittleMemoryIsToldWithTheLargestBatchThatFits) {
  const Plan plan = toy::ToyPlan();
  const MemoryLayout big = Take(LayOut(plan, 1000));
  const MemoryLayout small = Take(LayOut(plan, 10));
  EXPECT_EQ(Text(CheckFits(plan, big, {.free_bytes = big.arena_bytes})), "");
  const std::string text = Text(CheckFits(plan, big, {.free_bytes = small.arena_bytes}));
  const int64_t fits = Take(LargestBatch(plan, small.arena_bytes));
  EXPECT_GE(fits, 10);
  EXPECT_NE(text.find("--batch=1000: needs"), std::string::npos) << text;
  EXPECT_NE(text.find("the largest batch that fits is " + std::to_string(fits)), std::string::npos) << text;
}

TEST(Executor, TooLittleMemoryOfACardIsItsOwn) {
  const Plan plan = toy::ToyPlan();
  const MemoryLayout layout = Take(LayOut(plan, 1000, TargetKind::kCuda));
  const Room room{
      .free_bytes = layout.arena_bytes - 1, .place = "the card (Imaginary 1)", .arenas = Arenas::kDevice};
  const std::string text = Text(CheckFits(plan, layout, room));
  EXPECT_NE(text.find(", and the card (Imaginary 1) has "), std::string::npos) << text;
  const int64_t fits = Take(LargestBatch(plan, room.free_bytes, Arenas::kDevice, TargetKind::kCuda));
  EXPECT_NE(text.find("the largest batch that fits is " + std::to_string(fits)), std::string::npos) << text;
}

// Offsets of one target are no offsets of another.
TEST(Executor, ContinuesOnNoOtherTarget) {
  Fixture f;
  MemoryLayout other = Take(LayOut(f.plan, 3, TargetKind::kCuda));
  EXPECT_NE(Text(f.executor->Rebind(f.plan, std::move(other))), "");
}

TEST(NodeTimes, AreThoseOfLaterRunsForTheFirstToo) {
  EXPECT_EQ(NodeTimes().Total(), 0);
  EXPECT_EQ((NodeTimes{.runs = 1, .first = 10}).Total(), 10);
  EXPECT_EQ((NodeTimes{.runs = 3, .first = 10, .others = 4}).Total(), 6);
}

TEST(MemoryCheck, PassesACleanRunWithTheSameNumbers) {
  Fixture f(3, true);
  ASSERT_EQ(Text(f.Step(3)), "");
  EXPECT_EQ(f.Loss(3), 210);
  ASSERT_EQ(Text(f.Step(2)), "");
}

// Replaces Mul's kernel by one that also writes one float, `floats` floats after the
// start of its output.
std::string RunWithStrayWrite(int64_t floats) {
  Fixture f;
  KernelRegistry registry;
  registry.Add("Mul", toy::Always("stray.mul", [floats](const KernelArgs& k) {
                 for (int64_t i = 0; i < k.outputs[0].elements; ++i) k.outputs[0].as<float>()[i] = 0;
                 k.outputs[0].as<float>()[floats] = 42;
               }));
  toy::RegisterToyKernels(registry);
  f.registry = registry;
  f.Make(3, true);
  return Text(f.Step(3));
}

TEST(MemoryCheck, FindsAWriteBehindTheOutput) {
  // 12 floats are the output's; its storage is rounded up to 16
  const std::string text = RunWithStrayWrite(12);
  EXPECT_NE(text.find("node 'toy/Mul' (Mul): wrote to byte"), std::string::npos) << text;
}

TEST(MemoryCheck, FindsAWriteToAnotherLiveTensor) {
  Fixture f;
  BoundGraph* graph = Take(f.executor->Train(3));
  const int64_t to_w = graph->view(1).as<float>() - graph->view(2).as<float>();
  const std::string text = RunWithStrayWrite(to_w);
  EXPECT_NE(text.find("node 'toy/Mul' (Mul): changed tensor 'w'"), std::string::npos) << text;
}

TEST(MemoryCheck, WithoutItAStrayWriteGoesUnnoticed) {
  Fixture f;  // shows that the tests above detect the fault by the check and nothing else
  KernelRegistry registry;
  registry.Add("Mul",
               toy::Always("stray.mul", [](const KernelArgs& k) { k.outputs[0].as<float>()[12] = 42; }));
  toy::RegisterToyKernels(registry);
  f.registry = registry;
  f.Make(3);
  EXPECT_EQ(Text(f.Step(3)), "");
}

TEST(StepDump, HoldsGradientsAsTheyWereBeforeTheUpdate) {
  Fixture f;
  BoundGraph* graph = Take(f.executor->Train(3));
  GradientCapture gradients(*graph);
  NodeObserver* observers[] = {&gradients};
  ASSERT_EQ(Text(f.Step(3, observers)), "");
  const std::string path = ::testing::TempDir() + "step_dump.safetensors";
  ASSERT_EQ(Text(WriteStepDump(path, 210, gradients, *f.executor)), "");
  const Safetensors file = Take(Safetensors::Open(path));
  ASSERT_NE(file.Find("grad.w"), nullptr);
  EXPECT_EQ(reinterpret_cast<const float*>(file.Find("grad.w")->data)[2], 21);
  EXPECT_EQ(*reinterpret_cast<const float*>(file.Find("loss")->data), 210);
  EXPECT_EQ(*reinterpret_cast<const float*>(file.Find("buffer.seen")->data), 1);
  EXPECT_EQ(file.tensors().size(), 3u);
}

TEST(Arena, HandsOutItsRangeAndNothingElse) {
  auto arena = Take(Arena::Allocate(TestDevice(), MemoryKind::kDevice, 1000));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena->base().as<void>()) % 64, 0u);
  EXPECT_EQ(arena->high_water_bytes(), 0);
  *Take(arena->HandOut(999, 1)).as<std::byte>() = std::byte{1};
  Take(arena->HandOut(0, 10));
  EXPECT_EQ(arena->high_water_bytes(), 1000);
  for (const auto& [offset, bytes] :
       {std::pair<int64_t, int64_t>{-1, 1}, {1000, 1}, {999, 2}, {1, INT64_MAX}, {INT64_MAX, 1}}) {
    EXPECT_NE(Text(arena->HandOut(offset, bytes).takeError()), "") << offset << ", " << bytes;
  }
}

TEST(Machine, TellsWhatItHas) {
  EXPECT_GE(PhysicalCores(), 1);
  EXPECT_GT(AvailableMemoryBytes(), int64_t{1} << 20);
  EXPECT_GT(ResidentPeakBytes(), int64_t{1} << 20);
}

}  // namespace
}  // namespace act
