// Which kernels the rows of op_cases_*.h reach: every operator that a plan runs, on every backend.
// op_gradient_test compares what these kernels compute. `backend_ops_test --list` prints the table.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <set>

#include "compiler/ops/op_table.h"
#include "compiler/policy/large_loss.h"
#include "kernels/cpu/float_product.h"
#include "kernels/cpu/instructions.h"
#include "kernels/cpu/pair_product.h"
#include "kernels/cpu/tile_pairs.h"
#include "passes/pass_table.h"
#include "runtime/plan/runtime_op.h"
#include "tests/compiler/op_cases.h"
#include "tests/compiler/small_networks.h"
#include "tests/paths.h"
#include "tests/unit/temporary_folder.h"
#include "tests/unit/test_device.h"

namespace act::gradient_case {
namespace {

using testing_step::CpuKernels;
using testing_step::ReferenceKernels;

// The sites that one kernel took.
struct Sites {
  int forward = 0, backward = 0;
  std::set<std::vector<std::vector<int64_t>>> shapes;  // shapes of the operands
  // Is there an operand with an extent 0, with an extent 1, with an odd extent above 1?
  bool empty = false, one = false, odd = false;
};

constexpr int kThreads = 2;

// operator -> kernel -> sites
using Coverage = std::map<std::string, std::map<std::string, Sites>>;

void Count(const BoundGraph& bound, const KernelRegistry& kernels, Coverage& coverage) {
  for (const BoundNode& node : bound.nodes()) {
    if (!node.kernel) continue;
    // Kernels that would take the site, if they were the fastest there.
    const KernelSite site{.node = node.node,
                          .inputs = node.inputs,
                          .outputs = node.outputs,
                          .batch = bound.batch(),
                          .workspace_bytes = node.workspace.bytes,
                          .threads = kThreads,
                          .whole_batch = bound.batch()};
    std::string why;
    for (const KernelEntry& entry : kernels.For(node.node->op))
      if (entry.create(site, &why)) coverage[node.node->op][entry.name];
    Sites& sites = coverage[node.node->op][node.kernel_name];
    ++(node.node->phase == Phase::kForward ? sites.forward : sites.backward);
    std::vector<std::vector<int64_t>> shapes;
    for (const TensorView& x : node.inputs) {
      shapes.push_back(x.dims);
      for (const int64_t extent : x.dims) {
        sites.empty |= extent == 0;
        sites.one |= extent == 1;
        sites.odd |= extent > 1 && extent % 2 == 1;
      }
    }
    sites.shapes.insert(std::move(shapes));
  }
}

void CountPlan(const Plan& plan, int64_t batch, Coverage& coverage) {
  for (const KernelRegistry* kernels : {&ReferenceKernels(), &CpuKernels()}) {
    auto executor = Take(
        Executor::Create(plan, Take(LayOut(plan, batch)), TestDevice(), *kernels, {.threads = kThreads}));
    Count(*Take(executor->Train(batch)), *kernels, coverage);
    Count(*Take(executor->Eval(batch)), *kernels, coverage);
  }
}

void CountModel(const Graph& graph, int64_t batch, Coverage& coverage, const std::string& level = "L0",
                Compute compute = Compute::kFloat32, const std::string& optimizer = "sgd",
                StateFormat state = StateFormat::kFloat32) {
  CompileOptions options = testing_step::Checked(level, optimizer);
  options.state = state;
  options.quantize_tables = state == StateFormat::k8Bit;
  options.compute = compute;
  CountPlan(Take(Compile(testing_step::ModelOf(graph), options)), batch, coverage);
}

// A step of a convolution that is made twice, once for the statistics of the normalization after it.
Plan RepeatedConvolution() {
  Plan plan = Take(Compile(small_networks::FrozenConvolution(), testing_step::Checked("L0", "sgd")));
  PassContext context;
  context.repeated_elements = 1;
  EXPECT_EQ(testing_step::Text(RepeatProducts(plan.train.graph, context)), "");
  EXPECT_EQ(testing_step::Text(AssignStorage(plan.train, context)), "");
  return plan;
}

// A model whose loss is a cross entropy: its evaluation counts correct predictions.
Graph Classifier() {
  Graph graph;
  GraphBuilder b(graph);
  const ValueId scores = b.Input("scores", {DType::kFloat32, {3, 5}}, ValueKind::kParameter,
                                 testing_step::HostFloats(std::vector<float>(15)));
  const ValueId label = b.Input("label", {DType::kInt64, {3}}, ValueKind::kInput);
  Attributes mean;
  mean.Set("reduction", std::string("mean"));
  graph.outputs = {Take(b.Add("SoftmaxCrossEntropy", {scores, label}, mean, "loss", 2))[0]};
  return graph;
}

// Scores over so many classes that the loss runs in tiles.
Graph LanguageModel() {
  constexpr int64_t kClasses = kLargeLossElements / 16;
  Graph graph;
  GraphBuilder b(graph);
  const ValueId x = b.Input("x", {DType::kFloat32, {Dim::Batch(), 16, 2}}, ValueKind::kInput);
  const ValueId w = b.Input("w", {DType::kFloat32, {2, kClasses}}, ValueKind::kParameter,
                            testing_step::HostFloats(std::vector<float>(2 * kClasses)));
  const ValueId label = b.Input("label", {DType::kInt64, {Dim::Batch(), 16}}, ValueKind::kInput);
  const ValueId scores = Take(b.Add1("MatMul", {x, w}));
  graph.outputs = {Take(b.Add("SoftmaxCrossEntropy", {scores, label}, {}, "loss", 2))[0]};
  return graph;
}

// A product with a weight and a ReLU, twice: a model with a code.
Graph TwoLayers(const char* product, const Attributes& attrs, const Dims& x_dims, const Dims& w_dims) {
  Graph graph;
  GraphBuilder b(graph);
  ValueId x = b.Input("x", {DType::kFloat32, x_dims}, ValueKind::kInput);
  const TensorType weight{DType::kFloat32, w_dims};
  const std::vector<float> zeros(static_cast<size_t>(weight.Elements().fixed));
  for (const char* name : {"first", "second"}) {
    const ValueId w = b.Input(name, weight, ValueKind::kParameter, testing_step::HostFloats(zeros));
    x = Take(b.Add1("Relu", {Take(b.Add1(product, {x, w}, attrs))}));
  }
  Attributes all;
  std::vector<int64_t> axes(x_dims.size());
  std::iota(axes.begin(), axes.end(), 0);
  all.Set("axes", axes);
  all.Set("keepdims", int64_t{0});
  graph.outputs = {Take(b.Add1("ReduceMean", {x}, all))};
  return graph;
}

// An embedding that is updated by rows.
Graph Embedding() {
  Graph graph;
  GraphBuilder b(graph);
  const TensorType table{DType::kFloat32, {3000, 64}}, rows{DType::kFloat32, {Dim::Batch(), 64}};
  const ValueId ids = b.Input("ids", {DType::kInt64, {Dim::Batch(), 1}}, ValueKind::kInput);
  const std::vector<float> zeros(static_cast<size_t>(table.Elements().fixed));
  const ValueId w = b.Input("table", table, ValueKind::kParameter, testing_step::HostFloats(zeros));
  Attributes lookup, all;
  lookup.Set("axis", int64_t{0});
  all.Set("axes", std::vector<int64_t>{0, 1});
  all.Set("keepdims", int64_t{0});
  graph.outputs = {
      Take(b.Add1("ReduceMean", {Take(b.AddTyped("Gather", {w, ids}, rows, lookup, "rows"))}, all))};
  return graph;
}

const Coverage& AllSites() {
  static const Coverage all = [] {
    Coverage coverage;
    for (const OpCase& c : AllCases())
      for (const bool at_batch : {false, true}) {
        if (at_batch && !c.RunsAtBatch()) continue;
        const CaseModel model(c, at_batch, true);
        CountModel(model.graph(), model.batch(), coverage);
      }
    CountModel(Classifier(), 1, coverage);
    CountPlan(RepeatedConvolution(), 3, coverage);
    CountModel(LanguageModel(), 2, coverage, "L3");
    // Plans of presets that swap contain operators that no model asks for. Levels with codes add
    // weight gradients of rounded operands.
    const Graph products = TwoLayers("MatMul", {}, {Dim::Batch(), 256}, {256, 256});
    CountModel(products, 3, coverage, "actnn-L4");
    CountModel(products, 3, coverage, "L2");
    for (const char* optimizer : {"sgd", "adamw", "lamb"})
      for (const StateFormat state : {StateFormat::kBFloat16, StateFormat::k8Bit})
        CountModel(products, 3, coverage, "L0", Compute::kFloat32, optimizer, state);
    CountModel(Embedding(), 3, coverage, "L0", Compute::kFloat32, "sgd");
    for (const char* optimizer : {"sgd", "adamw"})
      for (const StateFormat state : {StateFormat::kBFloat16, StateFormat::k8Bit})
        CountModel(Embedding(), 3, coverage, "L0", Compute::kFloat32, optimizer, state);
    const Attributes window = small_networks::Window(3, 1, 1);
    const Graph convolutions = TwoLayers("Conv", window, {Dim::Batch(), 7, 5, 16}, {16, 16, 3, 3});
    CountModel(convolutions, 3, coverage, "L2");
    for (const Graph& graph : {products, convolutions})
      CountModel(graph, 3, coverage, "L0", Compute::kBFloat16);
    return coverage;
  }();
  return all;
}

TEST(BackendOps, EveryRuntimeOperatorHasARow) {
  for (const RuntimeOp& op : RuntimeOps()) {
    if (op.runs == Runs::kAlias) continue;  // no kernel: it shares its operand's storage
    const auto it = AllSites().find(std::string(op.name));
    EXPECT_TRUE(it != AllSites().end()) << op.name << " is in no plan of tests/compiler/op_cases_*.h";
  }
}

// Whether this processor has the instructions of a kernel, and rows have tensors of its size.
bool RunsHere(const std::string& kernel) {
  if (kernel == "dnnl.pieced_matmul")
    return false;  // of weights above 16 MiB: tests/unit/bfloat16_matmul_test.cc
  if (kernel == "dnnl.coded_matmul")
    return false;  // of frozen weights of 8 million elements: tests/unit/coded_operand_test.cc
  if (kernel == "cpu.rounded_grad_weight") return PairProduct::Available();
  if (kernel == "cpu.tile_grad_weight") return AmxProduct::Available();
  if (kernel == "cpu.float_grad_weight") return MultipliesFloats();
  if (kernel == "dnnl.bfloat16_matmul") return UsesBFloat16Instructions();
  return true;
}

TEST(BackendOps, EveryKernelTakesSomeRow) {
  for (const KernelRegistry* kernels : {&ReferenceKernels(), &CpuKernels()})
    for (const auto& [op, entries] : kernels->all())
      for (const KernelEntry& entry : entries) {
        if (!RunsHere(entry.name)) continue;
        const auto it = AllSites().find(op);
        EXPECT_TRUE(it != AllSites().end() && it->second.count(entry.name))
            << entry.name << " for " << op << " takes no site of the rows";
      }
}

TEST(BackendOps, EveryRuntimeOperatorIsDocumented) {
  const std::string document = testing::Contents(SourceFolder() + "/docs/runtime_ops.md");
  for (const RuntimeOp& op : RuntimeOps())
    EXPECT_NE(document.find("`" + std::string(op.name) + "`"), std::string::npos)
        << op.name << " is not in docs/runtime_ops.md";
}

TEST(BackendOps, TheCompilerKnowsEveryRuntimeOperator) {
  for (const RuntimeOp& op : RuntimeOps())
    EXPECT_TRUE(FindOp(std::string(op.name))) << op.name << " is not in the op table of the compiler";
}

void PrintTable() {
  std::printf("%-24s %-32s %8s %9s %7s  %s\n", "operator", "kernel", "forward", "backward", "shapes",
              "extents");
  for (const auto& [op, kernels] : AllSites())
    for (const auto& [kernel, sites] : kernels)
      std::printf("%-24s %-32s %8d %9d %7zu  %s%s%s\n", op.c_str(), kernel.c_str(), sites.forward,
                  sites.backward, sites.shapes.size(), sites.empty ? "0 " : "", sites.one ? "1 " : "",
                  sites.odd ? "odd" : "");
}

}  // namespace
}  // namespace act::gradient_case

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--list") return act::gradient_case::PrintTable(), 0;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
