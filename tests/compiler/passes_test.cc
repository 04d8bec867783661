// The promises in the heads of the passes' files. rewrite_test.cc checks numbers, by running a
// graph before and after a pass.
#include <algorithm>
#include <random>
#include <set>

#include "compiler/ir/dump.h"
#include "compiler/ir/verify.h"
#include "passes/pass_table.h"
#include "passes/planning/assign_storage.h"
#include "runtime/plan/plan_check.h"
#include "tests/compiler/compiled_step.h"

namespace act {
namespace {

using testing_step::Take;
using testing_step::Text;

const Dims kImage{Dim::Batch(), 8, 8, 16};  // 1024 elements a sample: four groups

Attributes Attrs(std::initializer_list<std::pair<const char*, Attribute>> list) {
  Attributes attrs;
  for (const auto& [name, value] : list) attrs.Set(name, value);
  return attrs;
}

int64_t CountOps(const Graph& graph, const std::string& op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [&op](const Node& n) { return n.op == op; });
}

// image * scale, so that a gradient flows; the builder's starting point of most tests.
struct Model {
  explicit Model(const Dims& dims = kImage) : b(graph) {
    image = b.Input("image", {DType::kFloat32, dims}, ValueKind::kInput);
    const ValueId scale = Parameter("scale", {16});
    x = Take(b.Add1("Mul", {image, scale}, {}, "scaled"));
  }
  ValueId Parameter(const std::string& name, const Dims& dims) {
    const TensorType type{DType::kFloat32, dims};
    std::vector<float> values(static_cast<size_t>(type.Elements().fixed));
    for (size_t i = 0; i < values.size(); ++i) values[i] = .3f + .01f * static_cast<float>(i % 17);
    return b.Input(name, type, ValueKind::kParameter, testing_step::HostFloats(values));
  }
  ValueId Conv(ValueId v, const std::string& name) {
    return Take(b.Add1("Conv", {v, Parameter(name + ".weight", {16, 16, 1, 1})},
                       Attrs({{"strides", std::vector<int64_t>{1, 1}},
                              {"dilations", std::vector<int64_t>{1, 1}},
                              {"pads", std::vector<int64_t>{0, 0, 0, 0}}}),
                       name));
  }
  ImportResult Finish(ValueId y) {
    std::vector<int64_t> axes;
    for (int64_t i = 0; i < b.type(y).rank(); ++i) axes.push_back(i);
    graph.outputs = {
        Take(b.Add1("ReduceMean", {y}, Attrs({{"axes", axes}, {"keepdims", int64_t{0}}}), "loss"))};
    return testing_step::ModelOf(graph);
  }

  Graph graph;
  GraphBuilder b;
  ValueId image, x;
};

Plan CompileAt(const std::string& level, ImportResult model) {
  return Take(Compile(std::move(model), testing_step::Checked(level, "sgd")));
}

std::vector<std::string> Forms(const Plan& plan) {
  std::vector<std::string> forms;
  for (const SavedEdge& edge : plan.edges) forms.push_back(edge.name + ": " + edge.form);
  std::sort(forms.begin(), forms.end());
  return forms;
}
using Strings = std::vector<std::string>;

// ---- Compress

TEST(Compress, AMaskIsOneBitAtEveryLevel) {
  for (const char* level : {"L0", "L1", "L2", "L3", "L4", "L5"}) {
    Model m;
    const Plan plan = CompileAt(level, m.Finish(Take(m.b.Add1("Relu", {m.x}, {}, "relu"))));
    ASSERT_EQ(plan.edges.size(), 1u) << level;
    EXPECT_EQ(plan.edges[0].form, "mask1") << level;
    EXPECT_EQ(plan.edges[0].bytes, Dim(0, 1024 / 8)) << level;
    EXPECT_EQ(plan.edges[0].bytes_uncompressed, Dim(0, 1024)) << level << ": a mask counts as a bool tensor";
  }
}

TEST(Compress, L0StoresNoFloatWhereABitDoes) {
  for (const char* op : {"Relu", "LeakyRelu", "Clip"}) {
    Model m;
    const Plan plan =
        CompileAt("L0", m.Finish(Take(m.b.Add1(op, {m.x}, Attrs({{"min", 0.}, {"max", 1.}}), "act"))));
    for (const SavedEdge& edge : plan.edges) EXPECT_EQ(edge.form, "mask1") << op;
    EXPECT_EQ(plan.edges.size(), 1u) << op;
  }
}

// At L0 the convolution needs the ReLU's result as it is.
TEST(Compress, AResultThatIsKeptAnywayNeedsNoMask) {
  Model m;
  const ValueId relu = Take(m.b.Add1("Relu", {m.x}, {}, "relu"));
  const Plan plan = CompileAt("L0", m.Finish(m.Conv(relu, "conv")));
  EXPECT_EQ(Forms(plan), Strings{"relu (Relu): keep"});
}

TEST(Compress, OneValueHasOneCodeHoweverManyReadIt) {
  Model m;
  const ValueId y = m.Conv(m.x, "a"), z = m.Conv(m.x, "b");
  const Plan plan = CompileAt("L2", m.Finish(Take(m.b.Add1("Sub", {y, z}, {}, "difference"))));
  ASSERT_EQ(Forms(plan), Strings{"scaled (Mul): uniform4,g256,dither"});
  EXPECT_EQ(plan.edges[0].consumers.size(), 2u);
}

// A decoded y, squared, would be biased.
TEST(Compress, ANonlinearReaderRunsBeforeTheCode) {
  Model m;
  ImportResult model = m.Finish(Take(m.b.Add1("Tanh", {m.x}, {}, "tanh")));
  EXPECT_EQ(Forms(CompileAt("L0", model)), Strings{"tanh (Tanh): keep"});
  EXPECT_EQ(Forms(CompileAt("L2", model)), Strings{"tanh.grad (TanhDerivative): uniform8,g256,dither"});
}

// 1 / decode(b) would be biased, and near 0 of any size. So the convolution and the quotient read bfloat16.
TEST(Compress, AQuotientStoresWhatItsGradientReads) {
  Model m;
  const ValueId a = Take(m.b.Add1("Mul", {m.image, m.Parameter("other", {16})}, {}, "a"));
  const ValueId quotient = Take(m.b.Add1("Div", {a, m.x}, {}, "quotient"));
  const ValueId y = Take(m.b.Add1("Add", {quotient, m.Conv(m.x, "conv")}, {}, "y"));
  EXPECT_EQ(Forms(CompileAt("L2", m.Finish(y))), (Strings{"quotient (Div): keep", "scaled (Mul): bf16"}));
}

TEST(Compress, AnAffineReaderDecodes) {
  Model m;
  const ValueId square = Take(m.b.Add1("Square", {m.x}, {}, "square"));
  EXPECT_EQ(Forms(CompileAt("L2", m.Finish(square))).size(), 1u);
}

TEST(Compress, PoolIndicesTakeTheBitsOfTheirWindow) {
  for (const auto& [kernel, form] :
       {std::pair<int64_t, const char*>{2, "index2"}, {3, "index4"}, {4, "index4"}}) {
    Model m;
    const auto pooled = Take(m.b.Add("MaxPool", {m.x},
                                     Attrs({{"kernel_shape", std::vector<int64_t>{kernel, kernel}},
                                            {"strides", std::vector<int64_t>{1, 1}},
                                            {"dilations", std::vector<int64_t>{1, 1}},
                                            {"pads", std::vector<int64_t>{0, 0, 0, 0}}}),
                                     "pool", 2));
    for (const char* level : {"L0", "L3"})
      EXPECT_EQ(Forms(CompileAt(level, m.Finish(pooled[0]))),
                Strings{std::string("pool (MaxPool): ") + form});
  }
}

TEST(SinkRelu, TheMaskHasAnElementForEachWindow) {
  const auto pool = [](Model& m, ValueId x) {
    return Take(m.b.Add("MaxPool", {x},
                        Attrs({{"kernel_shape", std::vector<int64_t>{2, 2}},
                               {"strides", std::vector<int64_t>{2, 2}},
                               {"dilations", std::vector<int64_t>{1, 1}},
                               {"pads", std::vector<int64_t>{0, 0, 0, 0}}}),
                        "pool", 2))[0];
  };
  const auto mask_elements = [](const Plan& plan) {
    for (const SavedEdge& edge : plan.edges)
      if (edge.form == "mask1") return edge.bytes_uncompressed.per_batch;
    return int64_t{0};
  };
  Model alone;
  const ValueId relu = Take(alone.b.Add1("Relu", {alone.x}, {}, "relu"));
  EXPECT_EQ(mask_elements(CompileAt("L0", alone.Finish(pool(alone, relu)))), 4 * 4 * 16);
  // If the ReLU has a second reader, it cannot move.
  Model shared;
  const ValueId both = Take(shared.b.Add1("Relu", {shared.x}, {}, "relu"));
  Attributes rows = Attrs({{"axes", std::vector<int64_t>{1, 2}}, {"keepdims", int64_t{1}}});
  const ValueId mean = Take(shared.b.Add1("ReduceMean", {both}, rows, "mean"));
  const ValueId sum = Take(shared.b.Add1("Add", {pool(shared, both), mean}, {}, "sum"));
  EXPECT_EQ(mask_elements(CompileAt("L0", shared.Finish(sum))), 8 * 8 * 16);
}

// The image and the weight are in memory in any case.
TEST(Compress, ParametersAndInputsAreNotStored) {
  Model m;
  const Plan plan = CompileAt("L3", m.Finish(m.Conv(m.image, "conv")));
  EXPECT_EQ(Forms(plan), Strings{});
}

TEST(Compress, L1CodesOnlyWhatProductsRead) {
  Model m;
  const ValueId tanh = Take(m.b.Add1("Tanh", {m.Conv(m.x, "conv")}, {}, "tanh"));
  ImportResult model = m.Finish(tanh);
  EXPECT_EQ(Forms(CompileAt("L1", model)),
            (Strings{"scaled (Mul): uniform4,g256,dither", "tanh (Tanh): keep"}));
  EXPECT_EQ(Forms(CompileAt("L2", model)), (Strings{"scaled (Mul): uniform4,g256,dither",
                                                    "tanh.grad (TanhDerivative): uniform8,g256,dither"}));
  // L3 recomputes image * scale, because both are in memory in any case.
  EXPECT_EQ(Forms(CompileAt("L3", model)), Strings{"tanh.grad (TanhDerivative): uniform8,g256,dither"});
}

// Nothing tells which axis counts samples. Large tensors are coded. Tensors that may be statistics
// are not.
TEST(Compress, AModelWithAFixedBatchIsCodedToo) {
  const auto forms = [](const Dims& image) {
    Model m(image);
    return Forms(CompileAt("L2", m.Finish(Take(m.b.Add1("Tanh", {m.Conv(m.x, "conv")}, {}, "tanh")))));
  };
  EXPECT_EQ(forms({1, 16, 16, 16}), (Strings{"scaled (Mul): uniform4,g256,dither",
                                             "tanh.grad (TanhDerivative): uniform8,g256,dither"}));
  EXPECT_EQ(forms({1, 4, 16, 16}), (Strings{"scaled (Mul): keep", "tanh (Tanh): keep"}));
}

// Every value that the forward pass makes and the backward pass reads is an edge, and no other
// value is.
void ExpectEdgesMatchTheGraph(const Plan& plan) {
  const Graph& graph = plan.train.graph;
  std::set<ValueId> forward, crossing, edges;
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kForward) {
      forward.insert(node.outputs.begin(), node.outputs.end());
      continue;
    }
    for (ValueId v : node.inputs)
      if (forward.count(v)) crossing.insert(v);
  }
  for (const SavedEdge& edge : plan.edges) {
    edges.insert(edge.stored);
    EXPECT_EQ(edge.bytes, graph.value(edge.stored).type.Bytes()) << edge.name;
    EXPECT_FALSE(edge.consumers.empty()) << edge.name;
  }
  EXPECT_EQ(edges, crossing) << Dump(graph);
  EXPECT_EQ(edges.size(), plan.edges.size()) << "one value under two edges";
}

TEST(Compress, EdgesAreWhatCrossesToTheBackwardPass) {
  for (const char* level : {"L0", "L1", "L2", "L3", "L4", "L5"}) {
    SCOPED_TRACE(level);
    Model m;
    ValueId y = m.Conv(m.x, "conv");
    const ValueId buffer = m.b.Input("mean", {DType::kFloat32, {16}}, ValueKind::kBuffer,
                                     testing_step::HostFloats(std::vector<float>(16, 1)));
    const ValueId variance = m.b.Input("var", {DType::kFloat32, {16}}, ValueKind::kBuffer,
                                       testing_step::HostFloats(std::vector<float>(16, 1)));
    y = Take(m.b.Add1(
        "BatchNorm", {y, m.Parameter("gamma", {16}), m.Parameter("beta", {16}), buffer, variance}, {}, "bn"));
    y = Take(m.b.Add1("Relu", {Take(m.b.Add1("Add", {y, m.x}, {}, "residual"))}, {}, "relu"));
    y = Take(m.b.Add1("Gelu", {m.Conv(y, "conv2")}, {}, "gelu"));
    ExpectEdgesMatchTheGraph(CompileAt(level, m.Finish(y)));
  }
}

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
