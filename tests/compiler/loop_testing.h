// Models with a Loop or Scan, the same networks with the iterations written out, and a comparison of both.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/compiler/compiled_step.h"
#include "tests/compiler/import_testing.h"
#include "tests/compiler/random_weight.h"

namespace act::loop_testing {

using namespace import_testing;
using onnx::TensorProto;
using testing::RandomWeight;
using testing_step::Take;
using Ints = std::vector<int64_t>;
using Names = std::vector<std::string>;

inline constexpr int64_t kBatch = 3, kSteps = 5, kFeatures = 2, kUnits = 4;

inline onnx::AttributeProto Inner(const OnnxModel& inner, const std::string& name = "body") {
  onnx::AttributeProto a;
  a.set_name(name);
  a.set_type(onnx::AttributeProto::GRAPH);
  *a.mutable_g() = inner.proto.graph();
  return a;
}

inline void Flag(OnnxModel& m, const std::string& name, bool value) {
  TensorProto& t = *m.graph().add_initializer();
  t.set_name(name);
  t.set_data_type(TensorProto::BOOL);
  t.add_int32_data(value ? 1 : 0);
}

// The cell's weights, and the weights of the stacked states, which tell their order.
inline void CellWeights(OnnxModel& m) {
  RandomWeight(m, "W", {kFeatures, kUnits}, 1);
  RandomWeight(m, "R", {kUnits, kUnits}, 2);
  RandomWeight(m, "b", {kUnits}, 3);
}

// next = tanh(x W + h R + b)
inline void Cell(OnnxModel& m, const std::string& x, const std::string& h, const std::string& next) {
  m.Node("MatMul", {x, "W"}, {next + ".x"})
      .Node("MatMul", {h, "R"}, {next + ".h"})
      .Node("Add", {next + ".x", next + ".h"}, {next + ".sum"})
      .Node("Add", {next + ".sum", "b"}, {next + ".all"})
      .Node("Tanh", {next + ".all"}, {next});
}

// x f32[N,T,I] and the first state f32[N,H].
inline OnnxModel Data(int64_t opset = 17) {
  OnnxModel m(opset);
  m.Input("x", {"N", kSteps, kFeatures}).Input("h0", {"N", kUnits});
  return m;
}

// The loss is the sum of the mean squares of these.
inline OnnxModel& Loss(OnnxModel& m, const Names& results) {
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
inline void Weighted(OnnxModel& m, const std::string& stacked, int64_t axis, int64_t steps) {
  Ints dims = axis == 0 ? Ints{steps, 1, kUnits} : Ints{1, steps, kUnits};
  RandomWeight(m, "P", dims, 4);
  m.Node("Mul", {stacked, "P"}, {stacked + ".weighted"});
}

// The network with its steps written out: `order` has the step of x that each reads. States are stacked along
// `axis`, the last one first if `backwards`.
inline OnnxModel WrittenOut(const Ints& order, int64_t axis = 0, bool backwards = false) {
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
inline OnnxModel LoopBody() {
  OnnxModel body;
  body.Input("i", {}, TensorProto::INT64).Input("go_on", {}, TensorProto::BOOL).Input("h", {"N", kUnits});
  body.Node("Gather", {"x", "i"}, {"x_i"}, {Attr("axis", int64_t{1})});
  Cell(body, "x_i", "h", "next");
  return body;
}

inline OnnxModel& Outputs(OnnxModel& body, const std::string& condition) {
  return body.Output(condition, {}, TensorProto::BOOL)
      .Output("next", {"N", kUnits})
      .Output("next", {"N", kUnits});
}

// A Loop with the trip count M, whose body returns the condition that it gets.
inline OnnxModel Looped(int64_t trips) {
  OnnxModel body = LoopBody(), m = Data();
  Outputs(body, "go_on");
  CellWeights(m);
  m.Integers("M", {trips}, true).Node("Loop", {"M", "", "h0"}, {"last", "ys"}, {Inner(body)});
  return m;
}

inline testing_step::StepInputs Inputs() {
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
inline std::map<std::string, std::vector<float>> Results(const OnnxModel& model) {
  const Plan plan = Take(Compile(Import(model), testing_step::Checked("L0", "none")));
  const auto got = Take(testing_step::RunStep(plan, testing_step::CpuKernels(), Inputs(),
                                              {.batch = kBatch, .check_memory = true}));
  std::map<std::string, std::vector<float>> results;
  for (size_t i = 0; i < got.size(); ++i)
    results[plan.train.graph.value(plan.train.graph.outputs[i]).name] = got[i];
  return results;
}

// The tolerance is relative to the largest magnitude: sums in another order differ by some 1e-7 in float32.
inline void ExpectSame(const OnnxModel& model, const OnnxModel& written_out) {
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

}  // namespace act::loop_testing
