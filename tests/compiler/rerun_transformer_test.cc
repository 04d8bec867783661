// L4 on transformers: a block stores the results of its normalizations, and what is re-run from
// them equals what the forward pass computed.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "tests/compiler/small_transformer.h"

namespace act {
namespace {

using small_transformer::Kind;
using small_transformer::Transformer;
using testing_step::Take;

std::vector<std::vector<float>> Gradients(const Plan& plan, uint64_t rounding = 0) {
  constexpr int64_t kSamples = 3;
  const int64_t batch = plan.fixed_batch ? 1 : kSamples;
  std::vector<float> tokens(static_cast<size_t>(kSamples * Transformer::kTokens * Transformer::kWidth));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = std::sin(static_cast<float>(i * i));
  return Take(testing_step::RunStep(
      plan, testing_step::CpuKernels(), {{"tokens", testing_step::BytesOf(tokens)}},
      {.batch = batch, .check_memory = true, .threads = 1, .state = {.seed = 7, .rounding = rounding}}));
}

// |a - b|^2 / |b|^2 over all gradients.
double RelativeError(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  double squares = 0, errors = 0;
  for (size_t i = 1; i < b.size(); ++i)
    for (size_t k = 0; k < b[i].size(); ++k) {
      const double exact = b[i][k], d = a[i][k] - exact;
      squares += exact * exact;
      errors += d * d;
    }
  return errors / squares;
}

Plan CompileAt(const std::string& level, Dim samples, Kind kind, double bits = 0) {
  Transformer model(samples, kind);
  model.Block("a");
  model.Block("b");
  CompileOptions options = testing_step::Checked(level, "none");
  options.group_size = 64;
  options.bits = bits;
  ImportResult built = model.Build();
  built.fixed_batch = samples.IsFixed();
  return Take(Compile(std::move(built), options));
}

int64_t Count(const Plan& plan, const std::string& op, Phase phase) {
  const std::vector<Node>& nodes = plan.train.graph.nodes;
  return std::count_if(nodes.begin(), nodes.end(),
                       [&](const Node& n) { return n.op == op && n.phase == phase; });
}

// Tensors with more elements than rows: neither means nor deviations.
std::vector<std::string> FullSize(const Plan& plan) {
  std::vector<std::string> names;
  for (const SavedEdge& edge : plan.edges)
    if (edge.bytes_uncompressed.At(8) > 8 * Transformer::kTokens * 4) names.push_back(edge.name);
  std::sort(names.begin(), names.end());
  return names;
}

class RerunTransformer : public testing::TestWithParam<Kind> {};

TEST_P(RerunTransformer, StoresWhatItsNormalizationsMade) {
  const Plan plan = CompileAt("L4", Dim::Batch(), GetParam());
  const std::vector<std::string> expected{"a.ln1.grad (Standardize)", "a.ln2.grad (Standardize)",
                                          "b.ln1.grad (Standardize)", "b.ln2.grad (Standardize)",
                                          "head.ln.grad (Standardize)"};
  EXPECT_EQ(FullSize(plan), expected);
  for (const SavedEdge& edge : plan.edges)
    if (edge.name == "a.ln1.grad (Standardize)") {
      EXPECT_TRUE(edge.form.starts_with("uniform")) << edge.form;
      EXPECT_GE(edge.bits, 5);
      const char* const made =
          GetParam() == Kind::kGated
              ? "a.v (MatMul), a.rotated_q (Add), a.rotated_k (Add), a.attention (Attention)"
              : "a.q (MatMul), a.k (MatMul), a.v (MatMul), a.attention (Attention)";
      EXPECT_NE(edge.reason.find(made), std::string::npos) << edge.reason;
    }
  EXPECT_EQ(Count(plan, "Attention", Phase::kBackward), 2);
}

// Heads have 8 elements, so a scale of 1 / sqrt(8) is usual, and with 4 scores are 11 times as large.
TEST_P(RerunTransformer, QueriesOfLargeScoresTakeMoreBits) {
  const auto compile = [](const std::string& level, double scale) {
    Transformer model(Dim::Batch(), GetParam());
    model.NormalizeQueries(scale);
    model.Block("a");
    model.Block("b");
    CompileOptions options = testing_step::Checked(level, "none");
    options.group_size = 64;
    return Take(Compile(model.Build(), options));
  };
  const std::vector<std::vector<float>> exact = Gradients(compile("L0", 4));
  for (const char* level : {"L1", "L2", "L3", "L4"}) {
    SCOPED_TRACE(level);
    const auto of_large_scores = [](const Plan& plan) {
      int count = 0;
      for (const SavedEdge& edge : plan.edges) {
        if (edge.reason.find("softmax of large scores") == std::string::npos) continue;
        EXPECT_GE(edge.bits, 8) << edge.name;
        ++count;
      }
      return count;
    };
    const Plan large = compile(level, 4);
    EXPECT_EQ(of_large_scores(large), 4) << "queries and keys of two blocks";
    EXPECT_EQ(of_large_scores(compile(level, .35)), 0);
    // With the bits of other queries and keys it is .14 to 1.9.
    EXPECT_LT(RelativeError(Gradients(large, 1), exact), .1);
  }
}

// A sum of two tensors that nothing else reads takes less memory than these.
TEST(RerunOnce, QueriesWithRotaryEmbeddingsAreMadeOnce) {
  const Plan plan = CompileAt("L4", Dim::Batch(), Kind::kGated);
  std::map<std::string, std::vector<ValueId>> queries_and_keys;  // by the name of the block's attention
  for (const Node& node : plan.train.graph.nodes) {
    if (node.phase != Phase::kBackward) continue;
    const size_t first = node.op == "AttentionGrad" ? 1 : 0;
    if (node.op != "Attention" && first == 0) continue;
    const std::string block = node.name.substr(0, 1);
    for (const size_t i : {first, first + 1}) queries_and_keys[block].push_back(node.inputs[i]);
  }
  ASSERT_EQ(queries_and_keys.size(), 2u);
  for (const auto& [block, values] : queries_and_keys) {
    ASSERT_EQ(values.size(), 4u) << block;
    EXPECT_EQ(values[0], values[2]) << block << ": q of the re-run and of the gradient";
    EXPECT_EQ(values[1], values[3]) << block << ": k";
  }
}

// A model with a fixed batch keeps tensors of less than 16 groups exactly. So re-running, dropout
// included, gives the same values, and each gradient is L0's to float32's precision.
TEST_P(RerunTransformer, FromExactNormalizedValuesItIsTheExactGradient) {
  const Plan exact = CompileAt("L0", 3, GetParam()), rerun = CompileAt("L4", 3, GetParam());
  EXPECT_EQ(Count(exact, "Attention", Phase::kBackward), 0);
  EXPECT_EQ(Count(rerun, "Attention", Phase::kBackward), 2);
  EXPECT_LT(FullSize(rerun).size(), FullSize(exact).size() / 2);
  EXPECT_LT(RelativeError(Gradients(rerun), Gradients(exact)), 1e-11);
}

// With codes of 8 bits the gradients are nearly exact: each rounding adds 1e-5 of the
// values' variance.
TEST_P(RerunTransformer, FromFineCodesItIsNearlyTheExactGradient) {
  const Plan exact = CompileAt("L0", Dim::Batch(), GetParam()),
             rerun = CompileAt("L4", Dim::Batch(), GetParam(), 8);
  EXPECT_EQ(Count(rerun, "Attention", Phase::kBackward), 2);
  const double error = RelativeError(Gradients(rerun), Gradients(exact));
  EXPECT_GT(error, 1e-9);
  EXPECT_LT(error, 1e-3);
}

struct Noise {
  double variance = 0, bias = 0;  // relative to |g|^2 (docs/gradient_variance.md)
};

Noise NoiseOf(const Plan& plan, const std::vector<std::vector<float>>& exact) {
  constexpr int kGradients = 24;
  std::vector<double> sum;
  double squares = 0, norm = 0;
  for (int r = 1; r <= kGradients; ++r) {
    const std::vector<std::vector<float>> g = Gradients(plan, static_cast<uint64_t>(r));
    size_t at = 0;
    for (size_t i = 1; i < g.size(); ++i)
      for (size_t k = 0; k < g[i].size(); ++k, ++at) {
        const double d = g[i][k] - exact[i][k];
        if (sum.size() <= at) sum.push_back(0);
        sum[at] += d;
        squares += d * d;
        norm += exact[i][k] * exact[i][k] / kGradients;
      }
  }
  double of_sum = 0;
  for (double d : sum) of_sum += d * d;
  return {squares / kGradients / norm, (of_sum - squares) / (kGradients * (kGradients - 1)) / norm};
}

// Functions of decoded values are biased. At an anchor's 5 bits the bias is small, and the noise is
// less than that of codes of 4 bits for everything.
TEST_P(RerunTransformer, AtFiveBitsBiasIsSmallAndNoiseBelowThatOfCodesForAll) {
  const std::vector<std::vector<float>> exact = Gradients(CompileAt("L0", Dim::Batch(), GetParam()));
  const Noise rerun = NoiseOf(CompileAt("L4", Dim::Batch(), GetParam()), exact),
              all = NoiseOf(CompileAt("gact-L1", Dim::Batch(), GetParam()), exact);
  EXPECT_LT(std::abs(rerun.bias), .002);
  EXPECT_LT(rerun.variance, all.variance);
  RecordProperty("variance",
                 std::to_string(rerun.variance) + ", of codes for all " + std::to_string(all.variance));
  RecordProperty("bias", std::to_string(rerun.bias));
}

// A code of 3 bits would bias what is not linear in it.
TEST(RerunBits, CoarseAnchorsCarryNoFunctions) {
  const Plan plan = CompileAt("L4", Dim::Batch(), Kind::kGelu, 1);
  EXPECT_EQ(Count(plan, "Attention", Phase::kBackward), 0);
}

std::string Name(const testing::TestParamInfo<Kind>& param) {
  return param.param == Kind::kGelu ? "Gelu" : "Gated";
}

INSTANTIATE_TEST_SUITE_P(, RerunTransformer, testing::Values(Kind::kGelu, Kind::kGated), Name);

}  // namespace
}  // namespace act
