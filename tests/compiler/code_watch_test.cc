// Numbers that a code cannot hold, in a step whose loss does not show them, and tensors
// without elements.
#include "runtime/train/code_watch.h"
#include "tests/unit/test_device.h"

#include <cmath>

#include "runtime/train/trainer.h"
#include "tests/compiler/compiled_step.h"

namespace act {
namespace {

using testing_step::Take;

constexpr int64_t kBatch = 3, kWidth = 64;

// x is scaled and multiplied by a matrix whose first row is 0, so that the first element of x does
// not reach the loss.
struct TwoLayers {
  TwoLayers() : b(graph) {
    const ValueId x = b.Input("x", {DType::kFloat32, {Dim::Batch(), kWidth}}, ValueKind::kInput);
    const ValueId scale = b.Input("scale", {DType::kFloat32, {kWidth}}, ValueKind::kParameter,
                                  testing_step::HostFloats(std::vector<float>(kWidth, 1.f)));
    std::vector<float> weights(kWidth * kWidth, .01f);
    std::fill(weights.begin(), weights.begin() + kWidth, 0.f);
    const ValueId w = b.Input("w", {DType::kFloat32, {kWidth, kWidth}}, ValueKind::kParameter,
                              testing_step::HostFloats(weights));
    hidden = Take(b.Add1("Mul", {x, scale}, {}, "hidden"));
    result = Take(b.Add1("MatMul", {hidden, w}, {}, "product"));
  }
  Plan Compile(const std::string& level, Compute compute = Compute::kFloat32) {
    Attributes all;
    all.Set("axes", std::vector<int64_t>{0, 1});
    all.Set("keepdims", int64_t{0});
    graph.outputs = {Take(b.Add1("ReduceMean", {result}, all, "loss"))};
    CompileOptions options = testing_step::Checked(level, "none");
    options.group_size = 64;
    options.compute = compute;
    return Take(act::Compile(testing_step::ModelOf(graph), options));
  }

  Graph graph;
  GraphBuilder b;
  ValueId hidden, result;
};

class OneBatch : public BatchSource {
 public:
  explicit OneBatch(std::vector<float> x) : x_(std::move(x)) {}
  int64_t Next(int64_t batch) override { return batch; }
  void Fill(size_t, std::span<std::byte> to) override { std::memcpy(to.data(), x_.data(), to.size()); }

 private:
  std::vector<float> x_;
};

std::string ErrorsOfTraining(const Plan& plan, float first, bool finite = true) {
  std::vector<float> x(kBatch * kWidth);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  x[0] = first;
  OneBatch data(x);
  const auto executor =
      Take(Executor::Create(plan, Take(LayOut(plan, kBatch)), TestDevice(), testing_step::CpuKernels(), {}));
  TrainPosition position;
  testing::internal::CaptureStderr();
  auto result = Train(*executor, data, nullptr, {.steps = 3}, position);
  std::string errors = testing::internal::GetCapturedStderr();
  EXPECT_EQ(static_cast<bool>(result), finite) << errors;
  llvm::consumeError(result.takeError());
  return errors;
}

TEST(CodeWatch, TellsTheFirstCodeThatHoldsNaNOnce) {
  const Plan plan = TwoLayers().Compile("L2");
  const std::string line =
      "actrun: warning: step 0: saved activation 'hidden (Mul)' (uniform4,g64,dither): 1 of its 3 groups "
      "hold NaN, infinity or numbers beyond 1e36, and decode to NaN\n";
  const std::string errors = ErrorsOfTraining(plan, 2e38f);
  const size_t at = errors.find(line);
  EXPECT_NE(at, std::string::npos) << errors;
  EXPECT_EQ(errors.find("saved activation", at + line.size()), std::string::npos) << errors;
  EXPECT_EQ(ErrorsOfTraining(plan, 1e30f).find("saved activation"), std::string::npos);
  EXPECT_EQ(ErrorsOfTraining(TwoLayers().Compile("L0"), 2e38f).find("saved activation"), std::string::npos)
      << "what is kept as it is has no code that could not hold it";
}

// The largest float32 is rounded up to infinity.
TEST(CodeWatch, TellsTheFirstBFloat16ValueThatOverflows) {
  const Plan plan = TwoLayers().Compile("L0", Compute::kBFloat16);
  const std::string errors = ErrorsOfTraining(plan, std::numeric_limits<float>::max(), false);
  EXPECT_NE(errors.find("actrun: warning: step 0: value 'hidden' (bf16): 1 of its 192 elements are NaN or "
                        "infinite\n"),
            std::string::npos)
      << errors;
  EXPECT_EQ(ErrorsOfTraining(plan, 1e38f).find("warning"), std::string::npos);
}

// An activation without elements beside others, at every level.
TEST(EmptyTensors, AreStoredInNoBytes) {
  for (const char* level : {"L0", "L1", "L2", "L3", "L4", "actnn-L3", "actnn-L4", "gact-L1"}) {
    SCOPED_TRACE(level);
    TwoLayers model;
    Attributes nothing;
    nothing.Set("starts", std::vector<int64_t>{0, 5});
    nothing.Set("steps", std::vector<int64_t>{1, 1});
    const ValueId none = Take(model.b.AddTyped("Slice", {model.hidden},
                                               {DType::kFloat32, {Dim::Batch(), Dim(0)}}, nothing, "none"));
    const ValueId squared = Take(model.b.Add1("Square", {none}, {}, "squared"));
    Attributes axis;
    axis.Set("axis", int64_t{1});
    model.result = Take(model.b.Add1("Concat", {model.result, squared}, axis, "joined"));
    const Plan plan = model.Compile(level);
    std::vector<float> x(kBatch * kWidth, 1.f);
    const auto outputs =
        Take(testing_step::RunStep(plan, testing_step::CpuKernels(), {{"x", testing_step::BytesOf(x)}},
                                   {.batch = kBatch, .check_memory = true}));
    for (const auto& output : outputs)
      for (const float v : output) EXPECT_TRUE(std::isfinite(v));
  }
}

}  // namespace
}  // namespace act
