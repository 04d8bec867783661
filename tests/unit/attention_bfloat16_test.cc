// Attention with bfloat16 operands.
#include "kernels/math/convert.h"
#include "tests/unit/attention_cases.h"

namespace act {
namespace {

using namespace attention_cases;

// The fast kernel on several numbers of threads, with the planned workspace, beside the reference. Results
// in bfloat16 must be those in float32, rounded.
void CompareInBFloat16(const OpCase& wide, double tolerance) {
  const OpResult truth = RunReference(wide);
  ASSERT_FALSE(truth.refused) << truth.error;
  const KernelEntry& entry = CpuRegistry().For(wide.op).front();
  const OpCase narrow = WithBFloat16Results(wide);
  const OpResult first = RunKernel(entry, wide, 1, PlannedWorkspace(wide));
  for (const int threads : {1, 2, 5}) {
    SCOPED_TRACE(testing::Message() << threads << " threads");
    const OpResult got = RunKernel(entry, wide, threads, PlannedWorkspace(wide));
    const OpResult rounded = RunKernel(entry, narrow, threads, PlannedWorkspace(narrow));
    ASSERT_FALSE(got.refused || rounded.refused) << got.error << rounded.error;
    for (size_t i = 0; i < truth.tensors.size(); ++i) {
      EXPECT_LE(Distance(got.tensors[i], truth.tensors[i]), tolerance) << "result " << i;
      EXPECT_EQ(got.tensors[i].bytes, first.tensors[i].bytes) << "result " << i;
      EXPECT_EQ(rounded.tensors[i].bytes, Narrow(got.tensors[i]).bytes) << "result " << i;
    }
  }
}

TEST(Attention, BFloat16AgreesWithTheReference) {
  // Where a probability or the gradient of a score lies almost between two bfloat16 numbers, the kernel may
  // round it to the other one: that changes a term by 2^-8 of itself. Sums differ far less: products of two
  // bfloat16 numbers are exact in float32, so each of at most 300 additions adds 2^-24.
  const double tolerance = std::ldexp(1, -10);
  for (const Form& f : kForms) {
    SCOPED_TRACE(f.name);
    CompareInBFloat16(InBFloat16(Forward(f)), tolerance);
    CompareInBFloat16(InBFloat16(Gradient(f)), tolerance);
  }
}

TEST(Attention, TheReferenceRoundsBFloat16ResultsOnce) {
  const Form f{.name = "", .q = {1, 2, 9, 8}, .k = {1, 2, 12, 8}, .v = {1, 2, 12, 8}, .bias = {12}};
  for (const OpCase& c : {InBFloat16(Forward(f)), InBFloat16(Gradient(f))}) {
    const OpResult wide = RunReference(c), narrow = RunReference(WithBFloat16Results(c));
    ASSERT_FALSE(narrow.refused) << narrow.error;
    for (size_t i = 0; i < wide.tensors.size(); ++i)
      EXPECT_EQ(narrow.tensors[i].bytes, Narrow(wide.tensors[i]).bytes) << c.op << ", result " << i;
  }
}

// With equal scores of 64 keys, probabilities are exact, and with them all sums.
TEST(Attention, BFloat16ProductsOfExactNumbersAreExact) {
  const Form f{.name = "", .q = {1, 2, 70, 8}, .k = {1, 2, 64, 8}, .v = {1, 2, 64, 24}};
  const auto exact = [](OpCase c, size_t first) {
    for (TestTensor& t : c.inputs)
      for (int64_t i = 0; t.present && i < t.elements(); ++i)
        t.as<float>()[i] = static_cast<float>(i * 7 % 11 - 5);
    std::fill_n(c.inputs[first].as<float>(), c.inputs[first].elements(), 0.0f);
    return InBFloat16(c);
  };
  CompareInBFloat16(exact(Forward(f), 0), 0);
  const OpCase gradient = exact(Gradient(f), 1);
  const OpResult got = RunKernel(CpuRegistry().For(gradient.op).front(), gradient, 1, 1 << 22);
  EXPECT_EQ(got.tensors[2].bytes, RunReference(gradient).tensors[2].bytes) << "dv = p^T do";
}

// Factors are rounded: a probability of 1/3 becomes the nearest bfloat16.
TEST(Attention, BFloat16ProbabilitiesAreRoundedAsFactors) {
  // v of 1, 0, 0: the result is the first key's weight, rounded, by the sum of the weights.
  const Form f{.name = "", .q = {1, 1, 1, 1}, .k = {1, 1, 3, 1}, .v = {1, 1, 3, 1}};
  OpCase c = Forward(f);
  c.attrs.Set("scale", 1.0);
  c.inputs[0] = Floats({1, 1, 1, 1}, {1});
  c.inputs[1] = Floats({1, 1, 3, 1}, {-1, 0, 0});
  c.inputs[2] = Floats({1, 1, 3, 1}, {1, 0, 0});
  c = InBFloat16(c);
  const double weight = std::exp(-1.0), sum = 2 + weight;
  const double rounded = ToFloat(FromFloat<BFloat16>(static_cast<float>(weight)));
  ASSERT_GT(std::fabs(rounded - weight), 1e-4);
  for (const KernelEntry& entry : CpuRegistry().For(c.op)) {
    const OpResult o = RunKernel(entry, c, 1, 1 << 20);
    EXPECT_NEAR(o.tensors[0].as<float>()[0], rounded / sum, 1e-7) << entry.name;  // some 2 ulp
  }
}

TEST(Attention, BFloat16OnlyWhereTheOperatorAllowsIt) {
  for (OpCase c : {Forward(kForms[0]), Gradient(kForms[0])}) {
    const size_t first = c.op == "Attention" ? 0 : 1;
    std::vector<OpCase> bad;
    for (size_t i = 0; i < first + 3; ++i) {
      bad.push_back(c);  // one operand
      bad.back().inputs[i] = Narrow(c.inputs[i]);
    }
    bad.push_back(c);  // results alone
    bad.back().outputs[0] = Empty(c.outputs[0].dims, DType::kBFloat16);
    bad.push_back(c);
    for (size_t i = 0; i < first + 3; ++i) bad.back().inputs[i] = Empty(c.inputs[i].dims, DType::kFloat16);
    for (const OpCase& b : bad)
      for (const KernelEntry& entry : CpuRegistry().For(c.op))
        EXPECT_TRUE(RunKernel(entry, b, 1, 1 << 20).refused) << entry.name;
  }
}

}  // namespace
}  // namespace act
