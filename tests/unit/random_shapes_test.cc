// Every kernel of every operator on nodes of random small shapes, compared with the reference kernel.
#include "tests/unit/random_shapes.h"

#include <cstdlib>
#include <functional>
#include <ostream>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace act {
namespace {

using namespace random_shapes;

// oneDNN's kernels for AMX have not been searched like the others, so only the long run has them.
[[maybe_unused]] const bool without_amx = [] {
  return std::getenv("ACT_LONG_TESTS") || setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16", 0) == 0;
}();

struct Generator {
  std::string op;
  std::function<RandomCase(Draw&)> make;
  unsigned count;  // of cases in a run of all tests, by how long one takes
};
std::ostream& operator<<(std::ostream& os, const Generator& g) { return os << g.op; }

std::vector<Generator> Generators() {
  std::vector<Generator> all = {
      {"MatMul", RandomMatMul, 1000},
      {"Conv", RandomConv, 400},
      {"ConvGradInput", RandomConvGradInput, 400},
      {"ConvGradWeight", RandomConvGradWeight, 400},
      {"Attention", RandomAttention, 1000},
      {"AttentionGrad", RandomAttentionGrad, 600},
      {"MaxPool", RandomMaxPool, 600},
      {"MaxPoolGrad", RandomMaxPoolGrad, 600},
      {"AveragePool", RandomAveragePool, 600},
      {"AveragePoolGrad", RandomAveragePoolGrad, 600},
      {"BatchNormStats", RandomBatchNormStats, 600},
      {"BatchNormMoments", RandomBatchNormMoments, 600},
      {"SoftmaxCrossEntropy", [](Draw& draw) { return SoftmaxLoss(draw, false); }, 600},
      {"SoftmaxCrossEntropyGrad", [](Draw& draw) { return SoftmaxLoss(draw, true); }, 600},
      {"CountCorrect", RandomCountCorrect, 600},
      {"Transpose", RandomTranspose, 1000},
      {"Concat", RandomConcat, 600},
      {"Slice", RandomSlice, 600},
      {"SliceGrad", RandomSliceGrad, 600},
      {"Pad", RandomPad, 600},
      {"Gather", RandomGather, 600},
      {"Scatter", RandomScatter, 600},
      {"Resize", RandomResize, 600},
      {"ResizeGrad", RandomResizeGrad, 600},
      {"TopK", RandomTopK, 600},
      {"CumSum", RandomCumSum, 600},
      {"UpdateRows", RandomUpdateRows, 600},
  };
  for (const char* op : {"Softmax", "LogSoftmax", "SoftmaxGrad"})
    all.push_back(
        {op, [op](Draw& draw) { return Rows(draw, op, op == std::string("SoftmaxGrad") ? 2 : 1); }, 600});
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax"})
    all.push_back({op, [op](Draw& draw) { return Reduction(draw, op); }, 600});
  for (const char* op : {"SwapOut", "SwapIn"})
    all.push_back({op, [op](Draw& draw) { return Swap(draw, op); }, 40});
  for (const char* op : {"Lstm", "LstmGrad", "Gru", "GruGrad", "Rnn", "RnnGrad"})
    all.push_back({op, [op](Draw& draw) { return Recurrence(draw, op); }, 200});
  for (const char* op : {"QuantizedMomentum", "QuantizedAdam", "QuantizedLamb"})
    all.push_back({op, [op](Draw& draw) { return Quantized(draw, op); }, 200});
  for (const char* op : {"QuantizedMomentum", "QuantizedAdam"})
    all.push_back({op + std::string("Rows"), [op](Draw& draw) { return QuantizedRows(draw, op); }, 200});
  return all;
}

std::string AttributesText(const Attributes& attrs) {
  std::string text;
  for (const auto& [name, value] : attrs.map()) {
    text += " " + name + "=";
    std::visit(
        [&text](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, std::string>)
            text += v;
          else
            text += testing::PrintToString(v);
        },
        value);
  }
  return text;
}

// Returns how many kernels other than the reference ran.
int Check(const Generator& generator, unsigned seed) {
  Draw draw(seed);
  RandomCase r = generator.make(draw);
  r.c.workspace_byte = std::byte{0xff};  // NaN, which even a factor of 0 shows
  SCOPED_TRACE("seed " + std::to_string(seed) + ": " + Describe(r.c) + AttributesText(r.c.attrs) +
               (r.c.goes_on ? " goes on" : ""));
  const int ran = CompareWithReference(r.c, r.tolerance, r.least_scale);
  if (!r.rounded) return ran;
  for (const KernelEntry& entry : CpuRegistry().For(r.c.op))
    for (const int threads : {1, 5}) {
      SCOPED_TRACE(entry.name + " in bfloat16, " + std::to_string(threads) + " threads");
      ExpectRounded(entry, *r.rounded, threads, PlannedWorkspace(r.rounded->narrow));
    }
  return ran;
}

class RandomShapes : public testing::TestWithParam<std::pair<Generator, unsigned>> {};

// Stops at the first seed that fails.
TEST_P(RandomShapes, EveryKernelAgreesWithTheReference) {
  const auto& [generator, count] = GetParam();
  int ran = 0;
  for (unsigned seed = 0; seed < count && !HasFailure(); ++seed) ran += Check(generator, seed);
  EXPECT_GT(ran, 0) << "no fast kernel took one";
}

std::vector<std::pair<Generator, unsigned>> Cases(unsigned times) {
  std::vector<std::pair<Generator, unsigned>> cases;
  for (const Generator& g : Generators()) cases.emplace_back(g, g.count * times);
  return cases;
}
std::string Name(const testing::TestParamInfo<RandomShapes::ParamType>& info) { return info.param.first.op; }

INSTANTIATE_TEST_SUITE_P(Some, RandomShapes, testing::ValuesIn(Cases(1)), Name);
INSTANTIATE_TEST_SUITE_P(Long, RandomShapes, testing::ValuesIn(Cases(50)), Name);

// fused_property_test has random programs of fused loops.
TEST(RandomShapesOfAll, EveryOperatorWithAFastKernelIsDrawn) {
  std::set<std::string> drawn;
  for (const Generator& g : Generators()) drawn.insert(g.op);
  for (const RuntimeOp& op : RuntimeOps()) {
    const std::string name(op.name);
    EXPECT_EQ(drawn.count(name) == 1, CpuRegistry().For(name).size() > 1 && name != "Fused") << name;
  }
}

}  // namespace
}  // namespace act
