// Loops over tokens inside the blocks of a model with long samples: the same step, and no hidden tensor exists whole.
#include <algorithm>
#include <cmath>
#include <random>

#include "compiler/ops/graph_builder.h"
#include "passes/planning/assign_storage.h"
#include "runtime/memory/layout.h"
#include "runtime/plan/sample_loops.h"
#include "tests/compiler/compiled_step.h"

namespace act {
namespace {

using testing_step::Distance;
using testing_step::Take;

// A block of a transformer on tokens [N,T,512]: a norm, a product to `hidden` numbers a token, GELU, dropout, a
// product back, and the residual sum. The loss is the mean square of what a norm makes of that.
class LongPerceptron {
 public:
  LongPerceptron(int64_t tokens, int64_t hidden) : b_(graph_) {
    const ValueId x = b_.Input("x", {DType::kFloat32, {Dim::Batch(), tokens, kWidth}}, ValueKind::kInput);
    const ValueId stream = Product(x, kWidth, kWidth);
    const ValueId active = Take(b_.Add1("Gelu", {Product(Norm(stream), kWidth, hidden)}));
    Attributes dropout;
    dropout.Set("probability", .2);
    dropout.Set("stream", int64_t{1000});
    const ValueId kept = Take(b_.Add1("Dropout", {active}, dropout));
    const ValueId sum = Take(b_.Add1("Add", {stream, Product(kept, hidden, kWidth)}));
    Attributes all;
    all.Set("axes", std::vector<int64_t>{0, 1, 2});
    all.Set("keepdims", int64_t{0});
    const ValueId squares = Take(b_.Add1("Square", {Product(Norm(sum), kWidth, 1)}));
    graph_.outputs = {Take(b_.Add1("ReduceMean", {squares}, all, "loss"))};
  }
  Plan Compiled(const std::string& level, TargetKind target = TargetKind::kCpu) const {
    CompileOptions options = testing_step::Checked(level, "none");
    options.target = target;
    return Take(Compile(testing_step::ModelOf(graph_), options));
  }

 private:
  static constexpr int64_t kWidth = 512;

  ValueId Weight(const Dims& dims, float mean, float deviation) {
    const TensorType type{DType::kFloat32, dims};
    std::vector<float> values(static_cast<size_t>(type.Elements().fixed));
    for (float& v : values) v = std::normal_distribution<float>(mean, deviation)(engine_);
    return b_.Input("w" + std::to_string(weights_++), type, ValueKind::kParameter,
                    testing_step::HostFloats(values));
  }
  ValueId Product(ValueId x, int64_t from, int64_t to) {
    const ValueId w = Weight({from, to}, 0, .04f);
    return Take(b_.Add1("Add", {Take(b_.Add1("MatMul", {x, w})), Weight({to}, 0, .1f)}));
  }
  ValueId Norm(ValueId x) {
    Attributes attrs;
    attrs.Set("axes", std::vector<int64_t>{2});
    attrs.Set("epsilon", 1e-5);
    return Take(b_.Add1("LayerNorm", {x, Weight({kWidth}, 1, .1f), Weight({kWidth}, 0, .1f)}, attrs));
  }

  Graph graph_;
  GraphBuilder b_;
  std::mt19937 engine_{3};
  int weights_ = 0;
};

// Tiles are of 1,024 tokens, so 2,049 tokens are cut within a sample, and a tile is of two samples at batch 3.
TEST(TileTokens, PerceptronsOfLongSamplesRunForSomeTokens) {
  constexpr int64_t kTokens = 2049;
  for (const char* level : {"L3", "L4"}) {
    const Plan plan = LongPerceptron(kTokens, 768).Compiled(level);
    size_t with_codes = 0;
    for (const SampleLoop& loop : plan.train.graph.loops)
      for (int64_t i = loop.first; loop.tokens == kTokens && i < loop.last; ++i) {
        const Program& program = plan.train.graph.nodes[static_cast<size_t>(i)].program;
        with_codes +=
            std::any_of(program.inputs.begin(), program.inputs.end(),
                        [](const ProgramInput& input) { return input.codec.kind != CodecKind::kNone; });
      }
    EXPECT_GT(with_codes, 0u);
    Plan whole = plan;
    whole.train.graph.loops.clear();
    AssignStorages(whole.train);
    EXPECT_LT(Take(LayOut(plan, 1)).arena_bytes, Take(LayOut(whole, 1)).arena_bytes);
    for (const int64_t batch : {1, 3}) {
      SCOPED_TRACE(std::string(level) + " batch " + std::to_string(batch));
      std::vector<float> x(static_cast<size_t>(batch * kTokens * 512));
      for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i % 7919));
      testing_step::StepOptions options;
      options.batch = batch;
      options.check_memory = true;
      const auto run = [&](const Plan& p) {
        return Take(
            testing_step::RunStep(p, testing_step::CpuKernels(), {{"x", testing_step::BytesOf(x)}}, options));
      };
      // The codes and what is dropped are the same bits. Sums over tokens are added in another order.
      EXPECT_LE(Distance(run(plan), run(whole)), 1e-11);
    }
  }
}

// What perceptrons need beside the stream and the codes does not grow with the context.
TEST(TileTokens, NoHiddenTensorOfALongSampleExistsWhole) {
  constexpr int64_t kTokens = 16392, kHidden = 4096;
  for (const TargetKind target : kTargets)
    for (const char* level : {"L3", "L4"}) {
      const Plan plan = LongPerceptron(kTokens, kHidden).Compiled(level, target);
      const Graph& graph = plan.train.graph;
      const std::vector<int32_t> loop_of = LoopOfValues(graph);
      size_t seen = 0;
      for (size_t v = 0; v < graph.values.size(); ++v) {
        const TensorType& type = graph.values[v].type;
        if (type.dtype != DType::kFloat32 || type.Elements().At(1) != kTokens * kHidden) continue;
        ++seen;
        EXPECT_GE(loop_of[v], 0) << level << " on " << ToString(target) << ": " << graph.values[v].name;
      }
      EXPECT_GT(seen, 2u);
    }
}

}  // namespace
}  // namespace act
