// Statistics of a batch by way of moments: tiles of any sizes give what BatchNormStats gives at once.
#include <algorithm>

#include "kernels/math/batch_statistics.h"
#include "tests/unit/batch_norm_cases.h"

namespace act {
namespace {

// Runs an entry of the operator on the tensors, which stay where they are.
void Run(const KernelEntry& entry, const Node& node, std::vector<TensorView> inputs,
         std::vector<TensorView> outputs, int64_t workspace_bytes, const StepState& state, bool goes_on) {
  KernelSite site{&node, inputs, outputs, 1, workspace_bytes, 2};
  std::string why;
  const auto kernel = entry.create(site, &why);
  ASSERT_TRUE(kernel) << entry.name << ": " << why;
  std::vector<double> scratch(static_cast<size_t>(kernel->WorkspaceBytes()) / sizeof(double) + 8);
  ASSERT_EQ(kernel->Run({.inputs = inputs,
                         .outputs = outputs,
                         .workspace = {DevicePointer(scratch.data()), kernel->WorkspaceBytes()},
                         .state = &state,
                         .goes_on = goes_on}),
            "");
}

// The results of a case of BatchNormStats, in tiles of so many samples, then its running statistics.
std::vector<TestTensor> InTiles(const KernelEntry& moments_of, OpCase c, int64_t samples) {
  TestTensor& x = c.inputs[0];
  const int64_t all = x.dims[0], channels = x.dims.back(),
                sample_bytes = all > 0 ? x.View(false).bytes / all : 0;
  TestTensor moments = Empty({channels, kBatchMomentNumbers}, DType::kFloat64);
  Node node;
  for (int64_t first = 0; first == 0 || first < all; first += samples) {
    TensorView tile = x.View(true);
    tile.dims[0] = std::min(samples, all - first);
    tile.elements = ElementCount(tile.dims);
    tile.bytes = tile.elements * ByteSize(tile.dtype);
    tile.data = tile.data + first * sample_bytes;
    Run(moments_of, node, {tile}, {moments.View(true)}, PlannedWorkspace(c), c.state, first > 0);
  }
  node.attrs = c.attrs;
  std::vector<TensorView> inputs{moments.View(true)}, outputs;
  for (size_t i = 1; i < c.inputs.size(); ++i) inputs.push_back(c.inputs[i].View(true));
  for (TestTensor& y : c.outputs) outputs.push_back(y.View(true));
  Run(CpuRegistry().For("BatchNormFromMoments").back(), node, inputs, outputs, 0, c.state, false);
  std::vector<TestTensor> results = c.outputs;
  for (const int32_t i : c.mutates) results.push_back(c.inputs[static_cast<size_t>(i)]);
  return results;
}

TEST(BatchNormMoments, OfTilesAreThoseOfTheBatch) {
  ForBatchNormCases([](const OpCase& c, const std::string& what) {
    const OpResult whole = RunReference(c);
    for (const KernelEntry& entry : CpuRegistry().For("BatchNormMoments"))
      for (const int64_t samples : {int64_t{1}, int64_t{3}, int64_t{1} << 20}) {
        if (c.inputs[0].dims[0] > 1000 * samples) continue;
        const std::vector<TestTensor> tiled = InTiles(entry, c, samples);
        ASSERT_EQ(tiled.size(), whole.tensors.size());
        for (size_t i = 0; i < tiled.size(); ++i)
          EXPECT_LE(Distance(tiled[i], whole.tensors[i]), kBatchNormTolerance)
              << what << ", " << entry.name << ", tiles of " << samples << ", tensor " << i;
      }
  });
}

TEST(BatchNormMoments, OfAnEmptyBatchLeaveRunningStatisticsAlone) {
  const OpCase c = BatchNormCase(Empty({0, 4, 4, 3}));
  for (const KernelEntry& entry : CpuRegistry().For("BatchNormMoments")) {
    const std::vector<TestTensor> tiled = InTiles(entry, c, 2);
    EXPECT_EQ(tiled[3].bytes, c.inputs[1].bytes) << entry.name;
    EXPECT_EQ(tiled[4].bytes, c.inputs[2].bytes) << entry.name;
  }
}

// E[x^2] - E[x]^2 in double would be off by a tenth here.
TEST(BatchNormMoments, LoseNothingWhereTheMeanIsFarFromZero) {
  const double far = 1e8, deviations[] = {-3, 1, 2, -1, 4, -3};
  BatchMoments all;
  for (const double d : deviations) all = Merge(all, {1, far + d, 0, 0, 0});
  EXPECT_EQ(all.rows, 6);
  EXPECT_NEAR(all.mean - far, 0, 1e-7);
  EXPECT_NEAR(all.m2, 40, 1e-6);
}

}  // namespace
}  // namespace act
