// Loop and Scan from ONNX to a step: they compute what the same network does with its iterations written out.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "tests/compiler/compiled_step.h"
#include "tests/compiler/import_testing.h"

namespace act {
namespace {

using namespace import_testing;
using onnx::TensorProto;
using testing_step::Take;
using Ints = std::vector<int64_t>;
using Names = std::vector<std::string>;

constexpr int64_t kBatch = 3, kSteps = 5, kFeatures = 2, kUnits = 4;

void RandomWeight(OnnxModel& model, const std::string& name, const Ints& dims, unsigned seed) {
  model.Weight(name, dims);
  std::string& raw =
      *model.graph().mutable_initializer(model.graph().initializer_size() - 1)->mutable_raw_data();
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, 0.4f);
  for (size_t i = 0; i + sizeof(float) <= raw.size(); i += sizeof(float)) {
    const float value = normal(engine);
    std::memcpy(raw.data() + i, &value, sizeof value);
  }
}

onnx::AttributeProto Graph(const OnnxModel& inner, const std::string& name = "body") {
  onnx::AttributeProto a;
  a.set_name(name);
  a.set_type(onnx::AttributeProto::GRAPH);
  *a.mutable_g() = inner.proto.graph();
  return a;
}

void Flag(OnnxModel& m, const std::string& name, bool value) {
  TensorProto& t = *m.graph().add_initializer();
  t.set_name(name);
  t.set_data_type(TensorProto::BOOL);
  t.add_int32_data(value ? 1 : 0);
}

// The cell's weights, and the weights of the stacked states, which tell their order.
void CellWeights(OnnxModel& m) {
  RandomWeight(m, "W", {kFeatures, kUnits}, 1);
  RandomWeight(m, "R", {kUnits, kUnits}, 2);
  RandomWeight(m, "b", {kUnits}, 3);
}

// next = tanh(x W + h R + b)
void Cell(OnnxModel& m, const std::string& x, const std::string& h, const std::string& next) {
  m.Node("MatMul", {x, "W"}, {next + ".x"})
      .Node("MatMul", {h, "R"}, {next + ".h"})
      .Node("Add", {next + ".x", next + ".h"}, {next + ".sum"})
      .Node("Add", {next + ".sum", "b"}, {next + ".all"})
      .Node("Tanh", {next + ".all"}, {next});
}

// x f32[N,T,I] and the first state f32[N,H].
OnnxModel Data(int64_t opset = 17) {
  OnnxModel m(opset);
  m.Input("x", {"N", kSteps, kFeatures}).Input("h0", {"N", kUnits});
  return m;
}

// The loss is the sum of the mean squares of these.
OnnxModel& Loss(OnnxModel& m, const Names& results) {
  Names means;
  for (const std::string& y : results) {
    m.Node("Mul", {y, y}, {y + ".squared"});
    m.Node("ReduceMean", {y + ".squared"}, {y + ".mean"}, {Attr("keepdims", int64_t{0})});
    means.push_back(y + ".mean");
  }
  m.Node("Sum", means, {"loss"});
  return m.Output("loss");
}

// The states, stacked along `axis`, times weights that tell their order.
void Weighted(OnnxModel& m, const std::string& stacked, int64_t axis, int64_t steps) {
  Ints dims = axis == 0 ? Ints{steps, 1, kUnits} : Ints{1, steps, kUnits};
  RandomWeight(m, "P", dims, 4);
  m.Node("Mul", {stacked, "P"}, {stacked + ".weighted"});
}

// The network with its steps written out: `order` has the step of x that each reads. States are stacked along
// `axis`, the last one first if `backwards`.
OnnxModel WrittenOut(const Ints& order, int64_t axis = 0, bool backwards = false) {
  OnnxModel m = Data();
  CellWeights(m);
  std::string h = "h0";
  Names states;
  m.Integers("axis", {axis});
  for (const int64_t t : order) {
    const std::string name = "h" + std::to_string(states.size() + 1), at = std::to_string(t);
    m.Integers("at" + name, {t}, true)
        .Node("Gather", {"x", "at" + name}, {"x" + name}, {Attr("axis", int64_t{1})});
    Cell(m, "x" + name, h, name);
    m.Node("Unsqueeze", {name, "axis"}, {name + ".unsqueezed"});
    states.insert(backwards ? states.begin() : states.end(), name + ".unsqueezed");
    h = name;
  }
  m.Node("Concat", states, {"ys"}, {Attr("axis", axis)});
  m.Node("Identity", {h}, {"last"});
  Weighted(m, "ys", axis, static_cast<int64_t>(order.size()));
  return Loss(m, {"last", "ys.weighted"});
}

// The body of a Loop over the steps, without its condition.
OnnxModel LoopBody() {
  OnnxModel body;
  body.Input("i", {}, TensorProto::INT64).Input("go_on", {}, TensorProto::BOOL).Input("h", {"N", kUnits});
  body.Node("Gather", {"x", "i"}, {"x_i"}, {Attr("axis", int64_t{1})});
  Cell(body, "x_i", "h", "next");
  return body;
}

OnnxModel& Outputs(OnnxModel& body, const std::string& condition) {
  return body.Output(condition, {}, TensorProto::BOOL)
      .Output("next", {"N", kUnits})
      .Output("next", {"N", kUnits});
}

// A Loop with the trip count M, whose body returns the condition that it gets.
OnnxModel Looped(int64_t trips) {
  OnnxModel body = LoopBody(), m = Data();
  Outputs(body, "go_on");
  CellWeights(m);
  m.Integers("M", {trips}, true).Node("Loop", {"M", "", "h0"}, {"last", "ys"}, {Graph(body)});
  return m;
}

testing_step::StepInputs Inputs() {
  std::mt19937 engine(7);
  std::normal_distribution<float> normal;
  const auto numbers = [&](int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& v : values) v = normal(engine);
    return testing_step::BytesOf(values);
  };
  return {{"x", numbers(kBatch * kSteps * kFeatures)}, {"h0", numbers(kBatch * kUnits)}};
}

// The loss and all gradients, by name.
std::map<std::string, std::vector<float>> Results(const OnnxModel& model) {
  const Plan plan = Take(Compile(Import(model), testing_step::Checked("L0", "none")));
  const auto got = Take(testing_step::RunStep(plan, testing_step::CpuKernels(), Inputs(),
                                              {.batch = kBatch, .check_memory = true}));
  std::map<std::string, std::vector<float>> results;
  for (size_t i = 0; i < got.size(); ++i)
    results[plan.train.graph.value(plan.train.graph.outputs[i]).name] = got[i];
  return results;
}

// The tolerance is relative to the largest magnitude: sums in another order differ by some 1e-7 in float32.
void ExpectSame(const OnnxModel& model, const OnnxModel& written_out) {
  const auto a = Results(model), b = Results(written_out);
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, want] : b) {
    ASSERT_TRUE(a.count(name)) << name;
    const std::vector<float>& got = a.at(name);
    ASSERT_EQ(got.size(), want.size()) << name;
    float largest = 1e-6f;
    for (float v : want) largest = std::max(largest, std::fabs(v));
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 1e-5f * largest) << name << ", element " << i;
  }
}

TEST(ImportLoops, ALoopIsItsIterationsWrittenOut) {
  OnnxModel m = Looped(kSteps);
  Weighted(m, "ys", 0, kSteps);
  ExpectSame(Loss(m, {"last", "ys.weighted"}), WrittenOut({0, 1, 2, 3, 4}));
}

TEST(ImportLoops, NothingRemainsOfTheIterationsNumber) {
  OnnxModel m = Looped(kSteps);
  const ImportResult r = Import(Loss(m, {"last", "ys"}));
  std::set<std::string> ops;
  for (const Node& node : r.graph.nodes) ops.insert(node.op);
  EXPECT_EQ(ops, (std::set<std::string>{"Slice", "Reshape", "MatMul", "Add", "Tanh", "Concat", "Mul",
                                        "ReduceMean"}));
}

// Keras takes the last state from the stack of all of them.
TEST(ImportLoops, OnePartOfAStackIsReadWithoutTheStack) {
  OnnxModel m = Looped(kSteps);
  m.Integers("from", {-1})
      .Integers("to", {std::numeric_limits<int64_t>::max()})
      .Integers("first", {0})
      .Node("Slice", {"ys", "from", "to", "first"}, {"one"})
      .Node("Squeeze", {"one", "first"}, {"y"});
  EXPECT_EQ(Ops(Import(Loss(m, {"y"})).graph).find("Concat"), std::string::npos);
  OnnxModel direct = Looped(kSteps);
  ExpectSame(m, Loss(direct.Node("Identity", {"last"}, {"y"}), {"y"}));
}

// A list that a loop fills, as TorchScript writes it, and one whose end it takes.
TEST(ImportLoops, ASequenceMayBeCarried) {
  OnnxModel body = LoopBody(), m = Data();
  body.Input("list", {});
  body.Node("SequenceInsert", {"list", "next"}, {"longer"});
  body.Output("go_on", {}, TensorProto::BOOL).Output("next", {"N", kUnits}).Output("longer");
  CellWeights(m);
  m.Integers("M", {kSteps}, true)
      .Integers("back", {-1}, true)
      .Node("SequenceEmpty", {}, {"empty"})
      .Node("Loop", {"M", "", "h0", "empty"}, {"final", "list"}, {Graph(body)})
      .Node("SequenceAt", {"list", "back"}, {"last"})
      .Node("ConcatFromSequence", {"list"}, {"ys"}, {Attr("axis", int64_t{0}), Attr("new_axis", int64_t{1})});
  Weighted(m, "ys", 0, kSteps);
  ExpectSame(Loss(m, {"last", "ys.weighted"}), WrittenOut({0, 1, 2, 3, 4}));
}

// z, x and y in a sequence `again`; z is x w.
OnnxModel ListOfThree() {
  OnnxModel m;
  m.Input("x", {"N", 2}).Input("y", {"N", 2}).Weight("w", {1});
  m.Integers("zero", {0}, true).Integers("two", {2}, true).Integers("three", {3}, true);
  m.Node("Mul", {"x", "w"}, {"z"})
      .Node("SequenceConstruct", {"x", "y"}, {"xy"})
      .Node("SequenceInsert", {"xy", "z", "zero"}, {"zxy"})
      .Node("SequenceErase", {"zxy", "two"}, {"zx"})
      .Node("SequenceInsert", {"zx", "y", "two"}, {"again"})
      .Node("SequenceLength", {"again"}, {"length"})
      .Node("Equal", {"length", "three"}, {"is_three"});
  return m;
}

TEST(ImportLoops, SequencesGrowAndShrinkAnywhere) {
  OnnxModel joined, other, m = ListOfThree();
  joined.Node("ConcatFromSequence", {"again"}, {"r"}, {Attr("axis", int64_t{-1})}).Output("r");
  other.Node("Neg", {"z"}, {"r"}).Output("r");
  m.Node("If", {"is_three"}, {"all"}, {Graph(joined, "then_branch"), Graph(other, "else_branch")});
  const ImportResult r = Import(m.MeanLoss("all"));
  EXPECT_EQ(Ops(r.graph), "Mul Concat ReduceMean");
  const Node& concat = *Find(r.graph, "Concat");
  Names parts;
  for (const ValueId v : concat.inputs) parts.push_back(r.graph.value(v).name);
  EXPECT_EQ(parts, (Names{"z", "x", "y"}));
  OnnxModel outside = ListOfThree();
  outside.Integers("far", {4}, true).Node("SequenceAt", {"again", "far"}, {"none"}).MeanLoss("none");
  EXPECT_NE(ErrorOf(outside).find("node 'none' (SequenceAt): position 4 is outside the sequence"),
            std::string::npos);
}

// As tf2onnx writes a loop of TensorFlow: counters are compared in float, with stored numbers.
TEST(ImportLoops, AConditionOfACounterEndsALoop) {
  for (const bool bounded : {false, true}) {
    OnnxModel body = LoopBody(), m = Data();
    body.Input("time", {}, TensorProto::INT32);
    TensorProto& one = *body.graph().add_initializer();
    one.set_name("one");
    one.set_data_type(TensorProto::INT32);
    one.add_int32_data(1);
    body.Weight("length", {}, 3)
        .Node("Add", {"time", "one"}, {"next_time"})
        .Node("Cast", {"next_time"}, {"counted"}, {Attr("to", int64_t{TensorProto::FLOAT})})
        .Node("Less", {"counted", "length"}, {"unfinished"});
    body.Output("unfinished", {}, TensorProto::BOOL)
        .Output("next", {"N", kUnits})
        .Output("next_time", {}, TensorProto::INT32)
        .Output("next", {"N", kUnits});
    CellWeights(m);
    TensorProto& zero = *m.graph().add_initializer();
    zero.set_name("zero");
    zero.set_data_type(TensorProto::INT32);
    zero.add_int32_data(0);
    m.Weight("start", {}, 0)
        .Weight("end", {}, 3)
        .Integers("M", {std::numeric_limits<int64_t>::max()}, true)
        .Node("Less", {"start", "end"}, {"begins"})
        .Node("Loop", {bounded ? "M" : "", "begins", "h0", "zero"}, {"last", "time", "ys"}, {Graph(body)});
    Weighted(m, "ys", 0, 3);
    ExpectSame(Loss(m, {"last", "ys.weighted"}), WrittenOut({0, 1, 2}));
  }
}

// What onnxruntime and ONNX's reference do, though ONNX's text lets a loop without a first condition ignore the
// body's.
TEST(ImportLoops, TheBodysConditionCountsWithoutAFirstOne) {
  OnnxModel body = LoopBody(), m = Data();
  body.Integers("two", {2}, true).Node("Less", {"i", "two"}, {"unfinished"});
  Outputs(body, "unfinished");
  CellWeights(m);
  m.Integers("M", {kSteps}, true).Node("Loop", {"M", "", "h0"}, {"last", "ys"}, {Graph(body)});
  Weighted(m, "ys", 0, 3);
  ExpectSame(Loss(m, {"last", "ys.weighted"}), WrittenOut({0, 1, 2}));
}

TEST(ImportLoops, ALoopWithoutIterationsReturnsItsFirstValues) {
  for (const bool by_condition : {false, true}) {
    OnnxModel body = LoopBody(), m = Data();
    body.Node("Identity", {"b"}, {"part"});
    body.Output("go_on", {}, TensorProto::BOOL).Output("next", {"N", kUnits}).Output("part", {kUnits});
    CellWeights(m);
    Flag(m, "never", false);
    m.Integers("M", {by_condition ? kSteps : 0}, true)
        .Node("Loop", {"M", by_condition ? "never" : "", "h0"}, {"last", "parts"}, {Graph(body)})
        .Node("Concat", {"parts", "R"}, {"rows"}, {Attr("axis", int64_t{0})})
        .Node("MatMul", {"last", "rows"}, {"y"});
    OnnxModel direct = Data();
    RandomWeight(direct, "R", {kUnits, kUnits}, 2);
    direct.Node("MatMul", {"h0", "R"}, {"y"});
    ExpectSame(Loss(m, {"y"}), Loss(direct, {"y"}));
  }
}

TEST(ImportLoops, AnEmptyStackNeedsADeclaredShape) {
  OnnxModel m = Looped(0);
  EXPECT_NE(
      ErrorOf(Loss(m, {"last", "ys"}))
          .find("node 'last' (Loop): runs no iteration, and its body does not declare the shape of 'next'"),
      std::string::npos);
}

// A Scan over axis 1 of x, with these directions; states are stacked along `out_axis`.
OnnxModel Scanned(bool in_reverse, bool out_reverse, int64_t out_axis, int64_t opset = 17) {
  OnnxModel body, m = Data(opset);
  body.Input("h", {"N", kUnits}).Input("x_t", {"N", kFeatures});
  Cell(body, "x_t", "h", "next");
  body.Output("next", {"N", kUnits}).Output("next", {"N", kUnits});
  CellWeights(m);
  m.Node("Scan", {"h0", "x"}, {"last", "ys"},
         {Graph(body), Attr("num_scan_inputs", int64_t{1}), Attr("scan_input_axes", Ints{-2}),
          Attr("scan_input_directions", Ints{in_reverse}), Attr("scan_output_axes", Ints{out_axis}),
          Attr("scan_output_directions", Ints{out_reverse})});
  Weighted(m, "ys", out_axis < 0 ? out_axis + 3 : out_axis, kSteps);
  return Loss(m, {"last", "ys.weighted"});
}

TEST(ImportLoops, AScanIsItsIterationsWrittenOut) {
  ExpectSame(Scanned(false, false, 0), WrittenOut({0, 1, 2, 3, 4}));
  ExpectSame(Scanned(false, false, -2), WrittenOut({0, 1, 2, 3, 4}, 1));
  ExpectSame(Scanned(true, false, 0), WrittenOut({4, 3, 2, 1, 0}));
  ExpectSame(Scanned(false, true, 0), WrittenOut({0, 1, 2, 3, 4}, 0, true));
  ExpectSame(Scanned(true, true, 1), WrittenOut({4, 3, 2, 1, 0}, 1, true));
}

TEST(ImportLoops, AScanWithABatchAxisIsRefused) {
  EXPECT_NE(ErrorOf(Scanned(false, false, 0, 8)).find("node 'last' (Scan): has before opset 9 a batch axis"),
            std::string::npos)
      << ErrorOf(Scanned(false, false, 0, 8));
}

// Two loops, whose bodies store their weights under the same names.
TEST(ImportLoops, AWeightInABodyIsOneParameter) {
  OnnxModel body = LoopBody(), m = Data();
  CellWeights(body);
  Outputs(body, "go_on");
  m.Integers("M", {2}, true)
      .Node("Loop", {"M", "", "h0"}, {"middle", "zs"}, {Graph(body)})
      .Node("Loop", {"M", "", "middle"}, {"last", "ys"}, {Graph(body)});
  Loss(m, {"last"});
  OnnxModel same = Data();
  for (const char* loop : {"middle/", "last/"}) {
    RandomWeight(same, std::string(loop) + "W", {kFeatures, kUnits}, 1);
    RandomWeight(same, std::string(loop) + "R", {kUnits, kUnits}, 2);
    RandomWeight(same, std::string(loop) + "b", {kUnits}, 3);
  }
  std::string h = "h0";
  for (int i = 0; i < 4; ++i) {
    OnnxModel cell;
    const std::string n = std::to_string(i), loop = i < 2 ? "middle/" : "last/";
    Cell(cell, "x" + n, h, "s" + n);
    for (onnx::NodeProto node : cell.proto.graph().node()) {
      for (std::string& name : *node.mutable_input())
        if (name == "W" || name == "R" || name == "b") name = loop + name;
      if (node.name() == "s" + n + ".x") {
        same.Integers("at" + n, {i % 2}, true)
            .Node("Gather", {"x", "at" + n}, {"x" + n}, {Attr("axis", int64_t{1})});
      }
      *same.graph().add_node() = node;
    }
    h = "s" + n;
  }
  same.Node("Identity", {h}, {"last"});
  ExpectSame(m, Loss(same, {"last"}));
  const ImportResult r = Import(m);
  EXPECT_EQ(r.trainable.size(), 6u);
  // The model that training is exported to has them, too.
  onnx::ModelProto skeleton;
  ASSERT_TRUE(skeleton.ParseFromArray(r.skeleton.data, static_cast<int>(r.skeleton.bytes)));
  std::set<std::string> stored;
  for (const auto& tensor : skeleton.graph().initializer()) stored.insert(tensor.name());
  for (const ValueId v : r.trainable) EXPECT_TRUE(stored.count(r.graph.value(v).name));
}

// The model that training is exported to has both branches, and so the weights of both.
TEST(ImportLoops, WeightsOfABranchThatIsNotTakenStayInTheModel) {
  OnnxModel taken, left, m = Data();
  RandomWeight(taken, "V", {kUnits, kUnits}, 5);
  RandomWeight(left, "V", {kUnits, kUnits}, 6);
  for (OnnxModel* branch : {&taken, &left}) branch->Node("MatMul", {"h0", "V"}, {"r"}).Output("r");
  const std::string stored = left.graph().initializer(0).raw_data();
  Flag(m, "always", true);
  m.Node("If", {"always"}, {"y"}, {Graph(taken, "then_branch"), Graph(left, "else_branch")});
  const ImportResult r = Import(Loss(m, {"y"}));
  ASSERT_EQ(r.trainable.size(), 1u);
  onnx::ModelProto skeleton;
  ASSERT_TRUE(skeleton.ParseFromArray(r.skeleton.data, static_cast<int>(r.skeleton.bytes)));
  std::map<std::string, std::string> data;
  for (const auto& tensor : skeleton.graph().initializer()) data[tensor.name()] = tensor.raw_data();
  const std::string trained = r.graph.value(r.trainable[0]).name;
  EXPECT_EQ(data.count(trained), 1u);
  EXPECT_EQ(data[trained], "");
  data.erase(trained);
  data.erase("always");
  ASSERT_EQ(data.size(), 1u);
  EXPECT_EQ(data.begin()->second, stored);
}

// An If in a loop in a loop: even steps of the inner one, in each of the outer one's.
TEST(ImportLoops, ControlFlowNests) {
  OnnxModel taken, left, inner, outer, m = Data();
  taken.Node("Tanh", {"v"}, {"r"}).Output("r");
  left.Node("Identity", {"v"}, {"r"}).Output("r");
  inner.Input("k", {}, TensorProto::INT64).Input("c", {}, TensorProto::BOOL).Input("v", {"N", kUnits});
  inner.Integers("two", {2}, true)
      .Node("Mod", {"k", "two"}, {"odd"})
      .Node("Cast", {"odd"}, {"is_odd"}, {Attr("to", int64_t{TensorProto::BOOL})})
      .Node("If", {"is_odd"}, {"w"}, {Graph(left, "then_branch"), Graph(taken, "else_branch")})
      .Output("c")
      .Output("w");
  outer.Input("i", {}, TensorProto::INT64).Input("c", {}, TensorProto::BOOL).Input("u", {"N", kUnits});
  outer.Node("MatMul", {"u", "R"}, {"ur"})
      .Node("Loop", {"i", "", "ur"}, {"z"}, {Graph(inner)})
      .Output("c")
      .Output("z");
  RandomWeight(m, "R", {kUnits, kUnits}, 2);
  m.Integers("M", {3}, true).Node("Loop", {"M", "", "h0"}, {"last"}, {Graph(outer)});
  EXPECT_EQ(Ops(Import(Loss(m, {"last"})).graph), "MatMul MatMul Tanh MatMul Tanh Mul ReduceMean");
}

// tf2onnx reverses the steps of a layer that goes backwards so, with the length of all samples.
TEST(ImportLoops, AReversalOfAllStepsIsASlice) {
  OnnxModel m;
  m.Input("x", {"N", kSteps, kFeatures}).Weight("w", {kFeatures});
  m.Integers("steps", {kSteps}, true)
      .Integers("first", {0})
      .Node("Shape", {"x"}, {"shape"})
      .Node("Gather", {"shape", "first"}, {"batch"})
      .Node("Expand", {"steps", "batch"}, {"lengths"})
      .Node("ReverseSequence", {"x", "lengths"}, {"y"},
            {Attr("time_axis", int64_t{1}), Attr("batch_axis", int64_t{0})})
      .Node("Mul", {"y", "w"}, {"z"})
      .MeanLoss("z");
  const ImportResult r = Import(m);
  EXPECT_EQ(Ops(r.graph), "Slice Mul ReduceMean");
  EXPECT_EQ(r.graph.nodes[0].attrs.Ints("steps"), (Ints{1, -1, 1}));
}

struct Refused {
  const char* what;
  OnnxModel model;
  const char* error;
};

OnnxModel WithInputs(const Names& inputs, const std::string& condition) {
  OnnxModel body = LoopBody(), m = Data();
  body.Node("ReduceSum", {"next"}, {"sum"}, {Attr("keepdims", int64_t{0})})
      .Weight("zero", {1}, 0)
      .Node("Less", {"sum", "zero"}, {"by_data"});
  Outputs(body, condition);
  CellWeights(m);
  Flag(m, "always", true);
  m.Input("count", {}, TensorProto::INT64)
      .Integers("first", {0}, true)
      .Integers("two", {2}, true)
      .Integers("most", {std::numeric_limits<int64_t>::max()}, true)
      .Node("Shape", {"x"}, {"shape"})
      .Node("Gather", {"shape", "first"}, {"batch"})
      .Node("Loop", inputs, {"last", "ys"}, {Graph(body)});
  return Loss(m, {"last"});
}

TEST(ImportLoops, WhatIsNotKnownIsNamed) {
  const Refused cases[] = {
      {"trip count", WithInputs({"count", "", "h0"}, "go_on"),
       "node 'last' (Loop): the number of iterations depends on data\nhint: a loop is unrolled"},
      {"batch", WithInputs({"batch", "", "h0"}, "go_on"),
       "node 'last' (Loop): the number of iterations depends on the batch size"},
      {"condition", WithInputs({"", "always", "h0"}, "by_data"),
       "node 'last' (Loop): whether iteration 1 runs depends on data\nhint: a loop is unrolled"},
      {"steps that are not there", WithInputs({"most", "always", "h0"}, "go_on"),
       "node 'last' (Loop): node 'last/body/5/x_i' (Gather): index 5 is outside an axis of 5"},
      {"no body", WithInputs({"two", "always"}, "go_on"), "has no body that fits its inputs and outputs"},
  };
  for (const Refused& c : cases)
    EXPECT_NE(ErrorOf(c.model).find(c.error), std::string::npos) << c.what << ": " << ErrorOf(c.model);
}

TEST(ImportLoops, FoldingInIterationsHasALimit) {
  OnnxModel body, m = Data();
  body.Input("i", {}, TensorProto::INT64).Input("c", {}, TensorProto::BOOL);
  body.Input("v", {"N", kUnits}).Input("list", {int64_t{1} << 20}, TensorProto::INT64);
  body.Node("Tanh", {"v"}, {"w"}).Output("c").Output("w");
  body.Node("Sub", {"i", "list"}, {"folded"}).Output("folded");
  m.Integers("most", {std::numeric_limits<int64_t>::max()}, true)
      .Integers("start", {0}, true)
      .Integers("one", {1}, true)
      .Integers("end", {int64_t{1} << 20}, true)
      .Node("Range", {"start", "end", "one"}, {"list"})
      .Node("Loop", {"most", "", "h0", "list"}, {"last", "lists"}, {Graph(body)});
  const std::string error = ErrorOf(Loss(m, {"last"}));
  EXPECT_NE(error.find("node 'last' (Loop): its iterations fold more than 33554432 numbers"),
            std::string::npos)
      << error;
}

TEST(ImportLoops, IterationsTogetherHaveALimit) {
  OnnxModel inner, outer, m = Data();
  for (OnnxModel* body : {&inner, &outer})
    body->Input("i", {}, TensorProto::INT64).Input("c", {}, TensorProto::BOOL).Input("v", {"N", kUnits});
  inner.Node("Tanh", {"v"}, {"w"}).Output("c").Output("w");
  outer.Node("Loop", {"thousand", "", "v"}, {"z"}, {Graph(inner)}).Output("c").Output("z");
  m.Integers("thousand", {1000}, true).Node("Loop", {"thousand", "", "h0"}, {"last"}, {Graph(outer)});
  const std::string error = ErrorOf(Loss(m, {"last"}));
  EXPECT_NE(error.find("its iterations have together more than 131072 nodes"), std::string::npos) << error;
  EXPECT_NE(error.find("node 'last' (Loop): node 'last/body/65/z' (Loop): "), std::string::npos) << error;
}

}  // namespace
}  // namespace act
