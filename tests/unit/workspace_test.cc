#include "runtime/plan/workspace.h"

#include <gtest/gtest.h>

#include "kernels/cpu/registry.h"
#include "tests/network_shapes.h"

namespace act {
namespace {

// A node of the plan: dims with N, and the bound.
struct Planned {
  Graph graph;
  Node node;
};

Planned Plan(const ConvolutionShape& shape, const std::string& op, DType type = DType::kFloat32) {
  Planned p;
  p.node.op = op;
  p.node.attrs = shape.Attrs();
  const ConvolutionNode n = NodeOf(shape, op, 1);
  const auto add = [&p, type](const std::vector<int64_t>& extents, bool batched) {
    Dims dims(extents.begin(), extents.end());
    if (batched) dims[0] = Dim::Batch();
    p.graph.values.push_back({"", {batched ? type : DType::kFloat32, dims}, ValueKind::kActivation, {}});
    return static_cast<ValueId>(p.graph.values.size() - 1);
  };
  p.node.inputs = {add(n.inputs[0], true), add(n.inputs[1], op == "ConvGradWeight")};
  p.node.outputs = {add(n.output, op != "ConvGradWeight")};
  return p;
}

// The first fast kernel at a batch size; null where none fits, with the reasons of all.
std::unique_ptr<Kernel> FastKernel(const KernelRegistry& registry, const Planned& p,
                                   const ConvolutionShape& shape, int64_t batch, int threads,
                                   int64_t workspace, std::string* why) {
  const ConvolutionNode n = NodeOf(shape, p.node.op, batch);
  const auto view = [&p](const std::vector<int64_t>& dims, ValueId id) {
    TensorView v = ViewOf(dims);
    v.dtype = p.graph.value(id).type.dtype;
    v.bytes = v.elements * ByteSize(v.dtype);
    return v;
  };
  const KernelSite site{&p.node,
                        {view(n.inputs[0], p.node.inputs[0]), view(n.inputs[1], p.node.inputs[1])},
                        {view(n.output, p.node.outputs[0])},
                        batch,
                        workspace,
                        threads};
  why->clear();
  for (const KernelEntry& entry : registry.For(p.node.op)) {
    if (entry.name.rfind("reference", 0) == 0) break;
    std::string reason;
    if (auto kernel = entry.create(site, &reason)) return kernel;
    *why += entry.name + ": " + reason + "\n";
  }
  return nullptr;
}

TEST(WorkspaceBound, FastConvolutionsOfKnownNetworksFitOnAnyNumberOfThreads) {
  KernelRegistry registry;
  RegisterCpuKernels(registry);
  Network all = ResNet({3, 4, 6, 3});
  for (const Network& net : {Vgg16(), DenseNet121(), MobileNetV2()}) all.insert(net.begin(), net.end());
  int kernels = 0, on_fewer_threads = 0;
  double used_share = 0;
  for (const auto& [shape, count] : all)
    for (const auto& [op, rounded] : {std::pair<std::string, bool>{"Conv", false},
                                      {"ConvGradInput", false},
                                      {"ConvGradWeight", false},
                                      {"ConvGradWeight", true}}) {
      // No step computes the image's gradient.
      if (op == "ConvGradInput" && shape.in_channels == 3) continue;
      Planned planned = Plan(shape, op);
      planned.node.attrs.Set("may_round", int64_t{rounded});
      const int64_t bound = WorkspaceBound(planned.node, planned.graph, CpuTarget(), 0).At(1);
      for (const int threads : {1, 2, 4, 8, 16}) {
        SCOPED_TRACE(testing::Message()
                     << op << (rounded ? ", rounded, c" : " c") << shape.in_channels << " m"
                     << shape.out_channels << " s" << shape.size << " k" << shape.kernel << " stride "
                     << shape.stride << ", " << threads << " threads, bound " << bound);
        std::string why;
        const auto kernel = FastKernel(registry, planned, shape, 16, threads, bound, &why);
        if (!kernel) {
          ADD_FAILURE() << why;
          continue;
        }
        ++kernels;
        if (threads == 4)
          used_share += static_cast<double>(kernel->WorkspaceBytes()) / static_cast<double>(bound);
        const bool fewer =
            kernel->Describe().find(" " + std::to_string(threads) + " threads") == std::string::npos;
        on_fewer_threads += fewer;
        EXPECT_FALSE(fewer && threads <= 4) << kernel->Describe();
      }
    }
  RecordProperty("kernels", kernels);
  RecordProperty("on_fewer_threads", on_fewer_threads);
  // Above 4 threads a few strided gradients and large weight gradients give threads up for memory.
  EXPECT_LE(on_fewer_threads, kernels / 20) << on_fewer_threads << " of " << kernels;
  EXPECT_GE(used_share, 0.25 * kernels / 5) << "the bound is far from what is used";
}

// The first kernel of the list that is not the reference.
TEST(WorkspaceBound, ConvolutionsOfBFloat16FitOnAnyNumberOfThreads) {
  KernelRegistry registry;
  RegisterCpuKernels(registry);
  Network all = ResNet({3, 4, 6, 3});
  for (const auto& shape : MobileNetV2())
    if (shape.first.group > 1) all.insert(shape);
  for (const auto& [shape, count] : all)
    for (const std::string op : {"Conv", "ConvGradInput", "ConvGradWeight"}) {
      if (op == "ConvGradInput" && shape.in_channels == 3) continue;
      const Planned planned = Plan(shape, op, DType::kBFloat16);
      const int64_t bound = WorkspaceBound(planned.node, planned.graph, CpuTarget(), 0).At(1);
      for (const int threads : {2, 16}) {
        SCOPED_TRACE(testing::Message() << op << " c" << shape.in_channels << " m" << shape.out_channels
                                        << " s" << shape.size << " k" << shape.kernel << " stride "
                                        << shape.stride << ", " << threads << " threads, bound " << bound);
        std::string why;
        const auto kernel = FastKernel(registry, planned, shape, 16, threads, bound, &why);
        if (!kernel) {
          ADD_FAILURE() << why;
          continue;
        }
        EXPECT_LE(kernel->WorkspaceBytes(), bound);
        EXPECT_FALSE(threads == 2 && kernel->Describe().find(" 2 threads") == std::string::npos)
            << kernel->Describe();
      }
    }
}

TEST(WorkspaceBound, AKernelThatDoesNotFitTakesFewerThreadsBeforeItRefuses) {
  KernelRegistry registry;
  RegisterCpuKernels(registry);
  const ConvolutionShape shape{64, 64, 56, 3, 1, 1};
  const Planned planned = Plan(shape, "ConvGradWeight");
  std::string why;
  const auto full = FastKernel(registry, planned, shape, 16, 16, int64_t{1} << 30, &why);
  const auto single = FastKernel(registry, planned, shape, 16, 1, int64_t{1} << 30, &why);
  ASSERT_TRUE(full && single) << why;
  EXPECT_EQ(FastKernel(registry, planned, shape, 16, 16, 1000, &why), nullptr);
  EXPECT_NE(why.find("bytes of workspace"), std::string::npos) << why;
  if (full->WorkspaceBytes() == single->WorkspaceBytes())
    GTEST_SKIP() << "no scratch per thread on this machine";
  const int64_t between = (full->WorkspaceBytes() + single->WorkspaceBytes()) / 2;
  const auto fewer = FastKernel(registry, planned, shape, 16, 16, between, &why);
  ASSERT_NE(fewer, nullptr) << why;
  EXPECT_LE(fewer->WorkspaceBytes(), between);
}

TEST(WorkspaceBound, HonoursTheLimit) {
  const Planned planned = Plan({512, 512, 14, 3, 1, 1}, "ConvGradWeight");
  EXPECT_GT(WorkspaceBound(planned.node, planned.graph, CpuTarget(), 0).At(1), 9 << 20);
  EXPECT_EQ(WorkspaceBound(planned.node, planned.graph, CpuTarget(), 1 << 20).At(1), 1 << 20);
}

TEST(WorkspaceBound, HostileExtentsSaturate) {
  Planned planned = Plan({512, 512, 14, 3, 1, 1}, "ConvGradWeight");
  for (Value& value : planned.graph.values)
    for (Dim& dim : value.type.dims) dim = Dim(kTooLarge);
  for (const std::string op :
       {"Conv", "ConvGradInput", "ConvGradWeight", "MatMul", "BatchNormStats", "ReduceSum"}) {
    planned.node.op = op;
    for (const TargetKind target : kTargets) {
      const CappedDim bound = WorkspaceBound(planned.node, planned.graph, TargetOf(target), 0);
      EXPECT_FALSE(bound.size.TooLarge() && bound.most < kTooLarge) << op;
      EXPECT_GE(bound.At(kTooLarge), 0) << op;
      EXPECT_LE(bound.At(kTooLarge), kTooLarge) << op;
    }
  }
}

}  // namespace
}  // namespace act
