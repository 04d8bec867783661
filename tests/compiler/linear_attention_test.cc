// Attention with ReLU in the place of a softmax (Katharopoulos et al. 2020; EfficientViT): y = q (K^T V) / (q sum(K) +
// epsilon). A token whose query is all 0 divides by epsilon. What it has no part in is multiplied by its zeros, and they
// are as exact in codes as without them: 1e-15 would make any other number huge.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "tests/compiler/compiled_step.h"

namespace act {
namespace {

using testing_step::Take;

constexpr int64_t kTokens = 64, kWidth = 4, kSamples = 4;

class LinearAttention {
 public:
  ImportResult Build() {
    const Dims tokens{Dim::Batch(), kTokens, kWidth};
    const ValueId x = builder_.Input("tokens", {DType::kFloat32, tokens}, ValueKind::kInput);
    const auto rectified = [&](const std::string& name) {  // of two scales, as EfficientViT has it
      return Op("Concat", {Op("Relu", {Product(x, name + "1", 2)}), Op("Relu", {Product(x, name + "2", 2)})},
                Last());
    };
    const ValueId q = Transposed(rectified("q")), k = Transposed(rectified("k"));  // [N,4,T]
    const ValueId outer = Op("MatMul", {k, Product(x, "v")});                      // [N,4,4]
    const ValueId above = Op("MatMul", {Transposed(q), outer});
    const ValueId below = Op("MatMul", {Transposed(q), Op("ReduceSum", {k}, Axes({2}))});  // [N,T,1]
    const ValueId y = Op("Div", {above, Op("Add", {below, Number(1e-15f)})});
    const ValueId z = Op("Square", {Product(Op("Add", {y, x}), "head")});
    graph_.outputs = {Op("ReduceMean", {z}, Axes({0, 1, 2}, false))};
    return testing_step::ModelOf(graph_);
  }

 private:
  static Attributes Axes(std::vector<int64_t> axes, bool keep = true) {
    Attributes attrs;
    attrs.Set("axes", std::move(axes));
    attrs.Set("keepdims", int64_t{keep});
    return attrs;
  }
  ValueId Op(const std::string& op, std::vector<ValueId> operands, const Attributes& attrs = {}) {
    return Take(builder_.Add1(op, std::move(operands), attrs, op));
  }
  ValueId Transposed(ValueId x) {
    Attributes attrs;
    attrs.Set("perm", std::vector<int64_t>{0, 2, 1});
    return Op("Transpose", {x}, attrs);
  }
  ValueId Number(float number) {
    return builder_.Constant("", {DType::kFloat32, {}}, testing_step::HostFloats({number}));
  }
  static Attributes Last() {
    Attributes attrs;
    attrs.Set("axis", int64_t{2});
    return attrs;
  }
  ValueId Product(ValueId x, const std::string& name, int64_t width = kWidth) {
    std::vector<float> weights(static_cast<size_t>(kWidth * width));
    for (float& w : weights) w = std::normal_distribution<float>(0, .7f)(engine_);
    return Op("MatMul", {x, builder_.Input(name, {DType::kFloat32, {kWidth, width}}, ValueKind::kParameter,
                                           testing_step::HostFloats(weights))});
  }

  Graph graph_;
  GraphBuilder builder_{graph_};
  std::mt19937 engine_{5};
};

testing_step::Gradients GradientsAt(const std::string& level) {
  CompileOptions options = testing_step::Checked(level, "none");
  options.group_size = 64;
  const Plan plan = Take(Compile(LinearAttention().Build(), options));
  std::vector<float> tokens(kSamples * kTokens * kWidth);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = std::sin(static_cast<float>(i * i));
  return Take(
      testing_step::RunStep(plan, testing_step::CpuKernels(), {{"tokens", testing_step::BytesOf(tokens)}},
                            {.batch = kSamples, .check_memory = true, .threads = 1, .state = {.seed = 7}}));
}

TEST(LinearAttention, ZerosStayZerosBesideHugeQuotients) {
  const auto exact = GradientsAt("L0");
  for (const char* level : {"L1", "L2", "L3", "L4", "L5"}) {
    // With codes of quotients, or of zeros that decode to other numbers, it is 1e18 or more.
    EXPECT_LT(testing_step::Distance(GradientsAt(level), exact), .5) << level;
  }
}

}  // namespace
}  // namespace act
