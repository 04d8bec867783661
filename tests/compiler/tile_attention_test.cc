// Attention and its gradient, some samples at a time: what they make of the whole batch.
#include <cmath>

#include "compiler/ops/graph_builder.h"
#include "passes/planning/assign_storage.h"
#include "runtime/plan/plan_check.h"
#include "runtime/plan/sample_loops.h"
#include "tests/compiler/compiled_step.h"

namespace act {
namespace {

using testing_step::Gradients;
using testing_step::Take;

constexpr int64_t kBatch = 19;
constexpr int64_t kTokens = 5, kHeads = 2, kDepth = 8;

struct AttentionCase {
  const char* name;
  Dims dims = {};                   // of queries, keys and values
  std::vector<int64_t> order = {};  // perm_q and the others
  int64_t packed = -1;
  Dims bias = {}, mask = {};  // empty: none
  double dropout = 0;
};

const Dim kN = Dim::Batch(), kFour = Dim(0, 4);
const AttentionCase kCases[] = {
    {.name = "heads first", .dims = {kN, kHeads, kTokens, kDepth}, .dropout = .25},
    {.name = "tokens first", .dims = {kN, kTokens, kHeads, kDepth}, .order = {0, 2, 1, 3}, .dropout = .25},
    {.name = "packed",
     .dims = {kN, kTokens, 3, kHeads, kDepth},
     .order = {0, 2, 1, 3},
     .packed = 2,
     .dropout = .25},
    {.name = "a mask for each sample", .dims = {kN, kHeads, kTokens, kDepth}, .mask = {kN, 1, 1, kTokens}},
    {.name = "a bias for all", .dims = {kN, kHeads, kTokens, kDepth}, .bias = {kHeads, kTokens, kTokens}},
    {.name = "a bias for each",
     .dims = {kN, kHeads, kTokens, kDepth},
     .bias = {kN, kHeads, kTokens, kTokens}},
    {.name = "windows",
     .dims = {kN, 4, kHeads, kTokens, kDepth},
     .mask = {4, 1, kTokens, kTokens},
     .dropout = .25},
    {.name = "windows in one axis", .dims = {kFour, kHeads, kTokens, kDepth}, .dropout = .25},
    {.name = "heads in one axis", .dims = {Dim(0, kHeads), kTokens, kDepth}},
};

struct Attention {
  explicit Attention(const AttentionCase& c) {
    GraphBuilder builder(graph);
    const auto input = [&](const char* name, const Dims& dims, DType type = DType::kFloat32) {
      return builder.Input(name, {type, dims}, ValueKind::kInput);
    };
    Node forward, backward;
    forward.op = "Attention";
    backward.op = "AttentionGrad";
    const ValueId q = input("q", c.dims);
    const bool is_packed = c.packed >= 0;
    forward.inputs =
        is_packed ? std::vector{q, q, q} : std::vector{q, input("k", c.dims), input("v", c.dims)};
    const bool has_mask = !c.mask.empty(), has_bias = !c.bias.empty();
    if (has_bias || has_mask) forward.inputs.push_back(has_bias ? input("bias", c.bias) : kNoValue);
    if (has_mask) forward.inputs.push_back(input("mask", c.mask, DType::kBool));
    Dims result = c.dims;
    if (is_packed) result.erase(result.begin() + c.packed);
    backward.inputs = {input("do", result)};
    backward.inputs.insert(backward.inputs.end(), forward.inputs.begin(), forward.inputs.end());
    for (Node* node : {&forward, &backward}) {
      node->name = node->op;
      node->attrs.Set("scale", .5);
      node->attrs.Set("probability", c.dropout);
      node->attrs.Set("stream", int64_t{7});
      if (is_packed) node->attrs.Set("packed", c.packed);
      if (c.order.empty()) continue;
      for (const char* order : {"perm_q", "perm_k", "perm_v", "perm_o"}) node->attrs.Set(order, c.order);
    }
    forward.outputs = {Add(result)};
    for (int i = 0; i < (is_packed ? 1 : 3); ++i) backward.outputs.push_back(Add(c.dims));
    if (has_bias) backward.outputs.push_back(Add(c.bias));
    graph.nodes = {forward, backward};
    graph.outputs = forward.outputs;
    graph.outputs.insert(graph.outputs.end(), backward.outputs.begin(), backward.outputs.end());
  }
  ValueId Add(const Dims& dims) {
    Value value;
    value.type = {DType::kFloat32, dims};
    graph.values.push_back(value);
    return static_cast<ValueId>(graph.values.size()) - 1;
  }

  // What the nodes make of a batch, whole or in tiles.
  Gradients Run(const KernelRegistry& kernels, const std::vector<SampleLoop>& loops) const {
    Plan plan;
    plan.optimizer = "none";
    plan.train.graph = graph;
    plan.train.graph.loops = loops;
    AssignStorages(plan.train);
    for (Node& node : plan.train.graph.nodes) AssignWorkspace(plan.train.graph, node, 1, 0);
    EXPECT_EQ(testing_step::Text(CheckStepGraph(plan.train)), "");
    std::map<std::string, std::vector<std::byte>> inputs;
    for (const ValueId id : graph.inputs) {
      const Value& value = graph.value(id);
      const auto count = static_cast<size_t>(value.type.Elements().At(kBatch));
      std::vector<float> numbers(count);
      std::vector<uint8_t> flags(count);
      for (size_t i = 0; i < count; ++i) {
        numbers[i] = std::sin(static_cast<float>(i * i + static_cast<size_t>(id)));
        flags[i] = i % 3 != 1;
      }
      inputs[value.name] =
          value.type.dtype == DType::kBool ? testing_step::BytesOf(flags) : testing_step::BytesOf(numbers);
    }
    testing_step::StepOptions options;
    options.batch = kBatch;
    options.check_memory = true;
    return Take(testing_step::RunStep(plan, kernels, inputs, options));
  }

  Graph graph;
};

// Tiles of 4 samples and of one. Dropout is drawn by the sample's index in the whole batch. Sums over samples are added
// in another order (6e-8, squared).
TEST(TileAttention, MakesWhatItMakesOfTheWholeBatch) {
  for (const AttentionCase& c : kCases) {
    SCOPED_TRACE(c.name);
    const Attention attention(c);
    for (const Node& node : attention.graph.nodes)
      EXPECT_EQ(WhyNotTileable(attention.graph, node).value_or(""), "");
    for (const KernelRegistry* kernels : {&testing_step::CpuKernels(), &testing_step::ReferenceKernels()}) {
      const Gradients whole = attention.Run(*kernels, {});
      for (const std::vector<SampleLoop>& loops :
           {std::vector<SampleLoop>{{0, 2, 5, 4}}, std::vector<SampleLoop>{{0, 1, 19, 1}, {1, 2, 19, 1}}})
        EXPECT_LE(testing_step::Distance(attention.Run(*kernels, loops), whole), 1e-12);
    }
  }
}

TEST(TileAttention, IsRefusedWhereSamplesMeet) {
  const AttentionCase cases[] = {
      {.name = "samples second", .dims = {kTokens, kN, kHeads, kDepth}, .order = {1, 2, 0, 3}},
      {.name = "dropout by heads of all samples", .dims = {Dim(0, kHeads), kTokens, kDepth}, .dropout = .25},
      {.name = "a mask of fewer axes",
       .dims = {kN, kN, kHeads, kTokens, kDepth},
       .mask = {kN, 1, kTokens, kTokens}},
  };
  for (const AttentionCase& c : cases) {
    const Attention attention(c);
    for (const Node& node : attention.graph.nodes)
      EXPECT_TRUE(WhyNotTileable(attention.graph, node)) << c.name;
  }
  // A plan that nobody has checked yet may have any shapes.
  Attention scalar(kCases[0]);
  for (const Node& node : scalar.graph.nodes)
    for (const ValueId id : node.inputs) scalar.graph.values[static_cast<size_t>(id)].type.dims.clear();
  scalar.graph.values[static_cast<size_t>(scalar.graph.nodes[1].inputs[0])].type.dims = kCases[0].dims;
  for (const Node& node : scalar.graph.nodes) EXPECT_TRUE(WhyNotTileable(scalar.graph, node));
}

}  // namespace
}  // namespace act
