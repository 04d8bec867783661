// The promises in the heads of the passes' files. rewrite_test.cc checks numbers, by running a
// graph before and after a pass. compress_test.cc has what is stored.
#include "compiler/ir/verify.h"
#include "passes/pass_table.h"
#include "passes/planning/assign_storage.h"
#include "runtime/plan/plan_check.h"
#include "tests/compiler/small_model.h"

namespace act {
namespace {

using small_model::Attrs;
using small_model::CountOps;
using small_model::Model;
using testing_step::Take;
using testing_step::Text;

// ---- Clean-up

TEST(CommonSubexpressions, EqualNodesBecomeOneButNotDropout) {
  Model m;
  const auto drop = [&] { return Take(m.b.Add1("Dropout", {m.x}, Attrs({{"probability", .5}}), "drop")); };
  const auto tanh = [&] { return Take(m.b.Add1("Tanh", {m.x}, {}, "tanh")); };
  const ValueId y = Take(
      m.b.Add1("Add", {Take(m.b.Add1("Add", {tanh(), tanh()})), Take(m.b.Add1("Add", {drop(), drop()}))}));
  ImportResult model = m.Finish(y);
  PassContext context;
  ASSERT_EQ(Text(EliminateCommonSubexpressions(model.graph, context)), "");
  EXPECT_EQ(CountOps(model.graph, "Tanh"), 1);
  EXPECT_EQ(CountOps(model.graph, "Dropout"), 2);
  EXPECT_EQ(Text(Verify(model.graph, Stage::kImported)), "");
}

TEST(CommonSubexpressions, AttributesTellNodesApart) {
  Model m;
  const ValueId a = Take(m.b.Add1("LeakyRelu", {m.x}, Attrs({{"alpha", .1}})));
  const ValueId b = Take(m.b.Add1("LeakyRelu", {m.x}, Attrs({{"alpha", .2}})));
  ImportResult model = m.Finish(Take(m.b.Add1("Add", {a, b})));
  PassContext context;
  ASSERT_EQ(Text(EliminateCommonSubexpressions(model.graph, context)), "");
  EXPECT_EQ(CountOps(model.graph, "LeakyRelu"), 2);
}

TEST(DeadCode, GoesUnlessItWritesInPlace) {
  Model m;
  Take(m.b.Add1("Tanh", {m.x}, {}, "unread"));
  const ValueId mean = m.b.Input("mean", {DType::kFloat32, {16}}, ValueKind::kBuffer);
  const ValueId var = m.b.Input("var", {DType::kFloat32, {16}}, ValueKind::kBuffer);
  Take(m.b.Add("BatchNormStats", {m.x, mean, var}, {}, "stats", 2));
  ImportResult model = m.Finish(m.x);
  PassContext context;
  ASSERT_EQ(Text(EliminateDeadCode(model.graph, context)), "");
  EXPECT_EQ(CountOps(model.graph, "Tanh"), 0);
  EXPECT_EQ(CountOps(model.graph, "BatchNormStats"), 1);
  EXPECT_EQ(CountOps(model.graph, "Mul"), 1);
}

TEST(LowerBatchNorm, EvaluationUsesStoredStatisticsAndDropsDropout) {
  for (const bool training : {true, false}) {
    Model m;
    const auto norm = [&](ValueId v, int64_t frozen) {
      std::vector<ValueId> operands{v};
      const auto name = [frozen](const char* what) { return what + std::to_string(frozen); };
      for (const char* what : {"gamma", "beta"}) operands.push_back(m.Parameter(name(what), {16}));
      for (const char* what : {"mean", "var"})
        operands.push_back(m.b.Input(name(what), {DType::kFloat32, {16}}, ValueKind::kBuffer));
      return Take(m.b.Add1("BatchNorm", operands, Attrs({{"frozen", frozen}})));
    };
    const ValueId y = Take(m.b.Add1("Dropout", {norm(norm(m.x, 0), 1)}, Attrs({{"probability", .5}})));
    ImportResult model = m.Finish(y);
    PassContext context;
    ASSERT_EQ(Text((training ? LowerForTraining : LowerForEvaluation)(model.graph, context)), "");
    EXPECT_EQ(CountOps(model.graph, "BatchNorm"), 0);
    EXPECT_EQ(CountOps(model.graph, "BatchNormApply"), 2);
    EXPECT_EQ(CountOps(model.graph, "BatchNormStats"), training ? 1 : 0) << "the frozen one never";
    EXPECT_EQ(CountOps(model.graph, "Dropout"), training ? 1 : 0);
    EXPECT_EQ(Text(Verify(model.graph, Stage::kImported)), "");
  }
}

TEST(LowerBatchNorm, WithoutStoredStatisticsEvaluationUsesTheBatchsToo) {
  for (const bool training : {true, false}) {
    Model m;
    ImportResult model = m.Finish(
        Take(m.b.Add1("BatchNorm", {m.x, m.Parameter("gamma", {16}), m.Parameter("beta", {16})}, {})));
    PassContext context;
    ASSERT_EQ(Text((training ? LowerForTraining : LowerForEvaluation)(model.graph, context)), "");
    EXPECT_EQ(CountOps(model.graph, "BatchNormStats"), 1);
    for (const Node& node : model.graph.nodes)
      EXPECT_EQ(node.attrs.Int("batch"), node.op == "BatchNormApply") << node.op;
    EXPECT_EQ(Text(Verify(model.graph, Stage::kImported)), "");
  }
}

// ---- Storage

// One fused loop y = -x on a value that may or may not be read later.
TEST(AssignStorage, AResultOverwritesOnlyWhatNothingReadsLater) {
  for (const bool read_later : {false, true}) {
    Graph graph;
    GraphBuilder b(graph);
    const ValueId x = b.Input("x", {DType::kFloat32, {64}}, ValueKind::kInput);
    const ValueId first = Take(b.Add1("Neg", {x})), second = Take(b.Add1("Neg", {first}));
    graph.outputs = {second};
    if (read_later) graph.outputs.push_back(first);
    // Each node is a loop of its own, so that storages can be shared between them.
    for (Node& node : graph.nodes) {
      node.op = "Fused";
      node.program.space = {64};
      node.program.inputs.resize(1);
      node.program.instrs.push_back({Opcode::kNeg, 0});
      node.program.outputs.push_back({OutputKind::kStore, 1, {}, 0});
    }
    const StepGraph step = AssignStorage(graph, 0);
    const auto storage = [&step](ValueId v) { return step.storage_of[static_cast<size_t>(v)]; };
    EXPECT_NE(storage(x), storage(first)) << "an input is the user's";
    EXPECT_EQ(storage(first) == storage(second), !read_later);
  }
}

// As many bytes an element on both sides: a loop reads an element before it writes the one in its place.
TEST(AssignStorage, AResultOverwritesAnOperandOfItsOwnType) {
  const DType types[] = {DType::kFloat32, DType::kBFloat16};
  for (const DType from : types)
    for (const DType to : types) {
      Graph graph;
      GraphBuilder b(graph);
      const ValueId x = b.Input("x", {DType::kFloat32, {64}}, ValueKind::kInput);
      const ValueId first = Take(b.Add1("Neg", {x})), second = Take(b.Add1("Neg", {first}));
      graph.outputs = {second};
      graph.value(first).type.dtype = from;
      graph.value(second).type.dtype = to;
      for (Node& node : graph.nodes) {
        node.op = "Fused";
        node.program.space = {64};
        node.program.inputs.resize(1);
        node.program.instrs.push_back({Opcode::kNeg, 0});
        node.program.outputs.push_back({OutputKind::kStore, 1, {}, 0});
      }
      const StepGraph step = AssignStorage(graph, 0);
      const auto storage = [&step](ValueId v) { return step.storage_of[static_cast<size_t>(v)]; };
      EXPECT_EQ(storage(first) == storage(second), from == to) << ToString(from) << " to " << ToString(to);
      EXPECT_EQ(llvm::toString(CheckStepGraph(step)), "");
    }
}

TEST(AssignStorage, AReshapeSharesAndItsReadersCount) {
  Graph graph;
  GraphBuilder b(graph);
  const ValueId x = b.Input("x", {DType::kFloat32, {8, 8}}, ValueKind::kInput);
  const ValueId y = Take(b.Transpose(x, {1, 0})), flat = Take(b.Reshape(y, {64}));
  const ValueId z = Take(b.Add1("Neg", {y}));
  Node& loop = graph.nodes.back();
  loop.op = "Fused";
  loop.program.space = {8, 8};
  loop.program.inputs.resize(1);
  loop.program.instrs.push_back({Opcode::kNeg, 0});
  loop.program.outputs.push_back({OutputKind::kStore, 1, {}, 0});
  graph.outputs = {z, flat};
  const StepGraph step = AssignStorage(graph, 0);
  const auto storage = [&step](ValueId v) { return step.storage_of[static_cast<size_t>(v)]; };
  EXPECT_EQ(storage(y), storage(flat));
  EXPECT_NE(storage(y), storage(z)) << "the reshape is an output: its elements are still needed";
}

// ---- The pipeline

TEST(Pipeline, NamesThePassThatBreaksTheGraph) {
  Model m;
  CompileOptions options = testing_step::Checked("L0", "sgd");
  options.after_pass = [](const std::string& pass, const Graph& graph) {
    if (pass != "dead-code") return;
    auto& nodes = const_cast<Graph&>(graph).nodes;  // stands for a defect of the pass
    std::swap(nodes.front(), nodes.back());
  };
  auto plan = Compile(m.Finish(Take(m.b.Add1("Relu", {m.x}, {}, "relu"))), options);
  ASSERT_FALSE(static_cast<bool>(plan));
  const std::string message = Text(plan.takeError());
  EXPECT_NE(message.find("after pass dead-code"), std::string::npos) << message;
  EXPECT_NE(message.find("before it is made"), std::string::npos) << message;
}

// Most scalar constants become part of a loop's program. A concatenation reads them from memory.
TEST(Pipeline, ScalarConstantsThatKernelsReadKeepTheirValues) {
  Model m;
  const auto element = [&m](float v) { return Take(m.b.Reshape(m.b.Scalar(v), {1})); };
  const ValueId pair = Take(m.b.Add1("Concat", {element(2), element(5)}, Attrs({{"axis", int64_t{0}}})));
  const ValueId y = Take(m.b.Add1("Mul", {pair, m.Parameter("p", {2})}));
  ImportResult model = m.Finish(y);
  model.graph.outputs.push_back(pair);
  const Plan plan = Take(Compile(model, testing_step::Checked("L0", "none")));
  const auto out = Take(testing_step::RunStep(plan, testing_step::CpuKernels(), {}, {}));
  EXPECT_EQ(out[1], (std::vector<float>{2, 5}));
}

}  // namespace
}  // namespace act
