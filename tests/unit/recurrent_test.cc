#include "tests/unit/recurrent_cases.h"

namespace act {
namespace {

using namespace recurrent_cases;

// Sums of up to 3 * 300 products in float over five steps: a few 1e-6 of the largest.
constexpr double kTolerance = 1e-5;

// On 1, 2 and 5 threads in the planned workspace.
TEST(Recurrent, FastKernelsAreTheReference) {
  ForCases([](const OpCase& c) { EXPECT_GE(CompareWithReference(c, kTolerance), 3); });
}

TEST(Recurrent, NoSamplesAndNoUnits) {
  for (const RecurrentSignature& signature : kRecurrentSignatures)
    for (const Shape& shape : {Shape{0, 3, 4}, Shape{2, 3, 0}})
      CompareWithReference(Case(std::string(signature.op), shape, false, true), 0);
}

TEST(Recurrent, SlopesMayLieWhereThePreActivationsAre) {
  const OpCase c = Case("Lstm", {3, 4, 20}, false, true);
  for (const KernelEntry& entry : CpuRegistry().For("Lstm")) {
    const OpResult apart = RunKernel(entry, c, 2, PlannedWorkspace(c));
    ASSERT_EQ(apart.error, "");
    Node node;
    node.op = c.op;
    OpCase shared = c;
    KernelSite site{&node, {}, {}, 3, PlannedWorkspace(c), 2};
    for (TestTensor& t : shared.inputs) site.inputs.push_back(t.View(true));
    for (TestTensor& t : shared.outputs) site.outputs.push_back(t.View(true));
    site.outputs[2].data = site.inputs[0].data;
    std::string why;
    const auto kernel = entry.create(site, &why);
    ASSERT_NE(kernel, nullptr) << why;
    std::vector<std::byte> storage(static_cast<size_t>(kernel->WorkspaceBytes()) + 64);
    auto* scratch = storage.data() + (64 - reinterpret_cast<uintptr_t>(storage.data()) % 64) % 64;
    EXPECT_EQ(kernel->Run(
                  {site.inputs, site.outputs, {DevicePointer(scratch), kernel->WorkspaceBytes()}, &c.state}),
              "");
    EXPECT_EQ(shared.inputs[0].bytes, apart.tensors[2].bytes) << entry.name;
    EXPECT_EQ(shared.outputs[0].bytes, apart.tensors[0].bytes) << entry.name;
  }
}

TEST(Recurrent, TensorsThatDoNotFitAreRefused) {
  for (const RecurrentSignature& signature : kRecurrentSignatures) {
    const OpCase good = Case(std::string(signature.op), {2, 3, 4}, false, true);
    for (size_t i = 0; i < good.inputs.size() + good.outputs.size(); ++i) {
      OpCase bad = good;
      const bool is_input = i < good.inputs.size();
      TestTensor& t = is_input ? bad.inputs[i] : bad.outputs[i - good.inputs.size()];
      t = Empty([&t] {
        std::vector<int64_t> dims = t.dims;
        ++dims.back();
        return dims;
      }());
      for (const KernelEntry& entry : CpuRegistry().For(bad.op))
        EXPECT_TRUE(RunKernel(entry, bad, 1, 1 << 20).refused) << entry.name << ", tensor " << i;
    }
    OpCase unknown = good;
    unknown.attrs.Set("activation", std::string("Gelu"));
    for (const KernelEntry& entry : CpuRegistry().For(unknown.op))
      EXPECT_TRUE(RunKernel(entry, unknown, 1, 1 << 20).refused) << entry.name;
  }
}

}  // namespace
}  // namespace act
