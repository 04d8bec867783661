// The fused loops of ResNet-50, as its plans have them, on the fake card: how well warps use memory.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "compiler/import/import_onnx.h"
#include "kernels/cuda/fused_text.h"
#include "passes/pipeline/pipeline.h"
#include "tests/paths.h"
#include "tests/take.h"
#include "tests/unit/cuda_fused_case.h"

namespace act {
namespace {

// A sample has all kinds of pieces that a batch has.
constexpr int64_t kBatch = 1;

// A node as a case by itself. Its operands are zeros: where a loop reads and writes does not follow from them.
FusedCase CaseOf(const Graph& graph, const Node& node) {
  std::vector<TensorType> inputs, outputs;
  for (const ValueId v : node.inputs) inputs.push_back(graph.value(v).type);
  for (const ValueId v : node.outputs) outputs.push_back(graph.value(v).type);
  for (const int32_t i : node.mutates) outputs.push_back(inputs[static_cast<size_t>(i)]);
  FusedCase c(node.program, inputs, outputs, kBatch);
  for (const TensorView& view : c.input_views)
    std::memset(view.as<void>(), 0, static_cast<size_t>(view.bytes));
  for (size_t m = 0; m < node.mutates.size(); ++m)
    c.Alias(node.outputs.size() + m, static_cast<size_t>(node.mutates[m]));
  return c;
}

// The fused nodes of ResNet-50's step whose kernels differ, in order. The card has their kernels.
std::vector<const Node*> DistinctLoops(const Graph& graph) {
  std::vector<const Node*> loops;
  std::set<std::string> seen;
  for (const Node& node : graph.nodes) {
    if (node.op != "Fused") continue;
    const FusedCase c = CaseOf(graph, node);
    const KernelSite site = c.Site();
    std::string why;
    const std::optional<cuda::CudaLoop> loop = cuda::MakeCudaLoop(site, &why);
    EXPECT_TRUE(loop) << node.name << ": " << why;
    if (!loop) continue;
    const cuda::KernelSource source = cuda::FusedSource(*loop, site);
    if (!seen.insert(source.text).second) continue;
    TheTestCard().cache().Request(source);
    loops.push_back(&node);
  }
  EXPECT_EQ(TheTestCard().cache().CompileAll(), "");
  return loops;
}

class CudaNetworkLoops : public ::testing::TestWithParam<const char*> {};

// A lane's accesses to tensors of numbers are next to its neighbours', and a plane of a code is one access for
// all.
TEST_P(CudaNetworkLoops, AccessesOfResNet50AreCoalesced) {
  if (IsRealCard()) GTEST_SKIP() << "only the fake card counts accesses";
  CompileOptions options;
  options.level = GetParam();
  options.batch = kBatch;
  options.target = TargetKind::kCuda;
  ImportOptions no_weights;
  no_weights.report_only = true;
  const std::string model = SourceFolder() + "/models/zoo/resnet50.onnx";
  const Plan plan = Take(Compile(Take(ImportOnnx(model, no_weights)), options));
  const Graph& graph = plan.train.graph;
  fake::Controls& controls = TheTestCard().controls();
  const std::vector<const Node*> loops = DistinctLoops(graph);
  EXPECT_GT(loops.size(), 50u);
  for (const Node* node : loops) {
    SCOPED_TRACE(node->name + ", " + ToString(node->program.space) + "\n" + ToString(node->program));
    FusedCase c = CaseOf(graph, *node);
    FusedOnCard kernel(c);
    controls.WatchAccesses(true);
    kernel.Run();
    int64_t sectors = 0, ideal = 0;
    for (const auto& [name, counts] : controls.Accesses()) {
      sectors += counts.sectors;
      ideal += counts.ideal_sectors;
    }
    controls.WatchAccesses(false);
    EXPECT_GT(ideal, 0);
    EXPECT_LE(static_cast<double>(sectors), 1.25 * static_cast<double>(ideal));
  }
}

INSTANTIATE_TEST_SUITE_P(, CudaNetworkLoops, ::testing::Values("L0", "L3", "L4"));

}  // namespace
}  // namespace act
