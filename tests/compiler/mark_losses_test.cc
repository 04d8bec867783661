// What a loss reads, and what steep functions do.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "compiler/ir/loss_part.h"
#include "tests/compiler/compiled_step.h"

namespace act {
namespace {

using testing_step::Take;
using Strings = std::set<std::string>;

constexpr int64_t kPixels = 64, kChannels = 16;

// Two products, and what follows from them.
class Network {
 public:
  Network() : b_(graph_) {
    x = b_.Input("x", Pixels(), ValueKind::kInput);
    target = b_.Input("target", Pixels(), ValueKind::kInput);
    hidden = Product(x, "first");
  }
  ValueId Product(ValueId v, const std::string& name) {
    std::vector<float> weights(kChannels * kChannels);
    for (float& w : weights) w = std::normal_distribution<float>(0, .25f)(engine_);
    return Op("MatMul",
              {v, b_.Input(name, {DType::kFloat32, {kChannels, kChannels}}, ValueKind::kParameter,
                           testing_step::HostFloats(weights))},
              name);
  }
  ValueId Op(const std::string& op, std::vector<ValueId> operands, const std::string& name,
             const Attributes& attrs = {}) {
    return Take(b_.Add1(op, std::move(operands), attrs, name));
  }
  ValueId Plus(ValueId v, float number) { return Op("Add", {v, b_.Scalar(number)}, "plus"); }
  ValueId Divided(ValueId v, float number) { return Op("Div", {v, b_.Scalar(number)}, "divided"); }
  ValueId Power(ValueId v, float number) { return Op("Pow", {v, b_.Scalar(number)}, "power"); }
  ValueId Over(ValueId v, std::vector<int64_t> axes, const std::string& name, bool keep = false) {
    Attributes attrs;
    attrs.Set("axes", std::move(axes));
    attrs.Set("keepdims", int64_t{keep});
    return Op("ReduceMean", {v}, name, attrs);
  }
  ImportResult Model(ValueId y) {
    std::vector<int64_t> axes;
    for (int64_t i = 0; i < b_.type(y).rank(); ++i) axes.push_back(i);
    graph_.outputs = {Over(y, axes, "loss")};
    return testing_step::ModelOf(graph_);
  }

  ValueId x, target, hidden;

 private:
  static TensorType Pixels() { return {DType::kFloat32, {Dim::Batch(), kPixels, kChannels}}; }
  Graph graph_;
  GraphBuilder b_;
  std::mt19937 engine_{3};
};

Plan PlanOf(const ImportResult& model, const std::string& level) {
  CompileOptions options = testing_step::Checked(level, "none");
  options.group_size = 64;
  return Take(Compile(model, options));
}

// The edges whose names begin with `start`, with their forms up to the number of levels.
Strings Forms(const ImportResult& model, const std::string& level, const std::string& start) {
  Strings forms;
  for (const SavedEdge& edge : PlanOf(model, level).edges)
    if (edge.name.starts_with(start))
      forms.insert(edge.name + ": " + edge.form.substr(0, edge.form.find(',')));
  return forms;
}

testing_step::Gradients GradientsAt(const ImportResult& model, const std::string& level) {
  constexpr int64_t kSamples = 4;
  std::vector<float> x(kSamples * kPixels * kChannels), target(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = std::sin(static_cast<float>(i * i));
    target[i] = std::cos(static_cast<float>(3 * i));
  }
  return Take(
      testing_step::RunStep(PlanOf(model, level), testing_step::CpuKernels(),
                            {{"x", testing_step::BytesOf(x)}, {"target", testing_step::BytesOf(target)}},
                            {.batch = kSamples, .check_memory = true, .threads = 1, .state = {.seed = 7}}));
}

// The mean of sqrt(d^2 + 1e-6): the slope at d is d / sqrt(..), about 1 or -1 wherever d is not 0.
TEST(MarkLosses, ARootInTheLossIsOfExactNumbers) {
  Network net;
  const ValueId d = net.Op("Sub", {net.Product(net.hidden, "second"), net.target}, "d");
  const ImportResult model =
      net.Model(net.Op("Sqrt", {net.Plus(net.Op("Square", {d}, "square"), 1e-6f)}, "root"));
  const auto exact = GradientsAt(model, "L0");
  for (const char* level : {"L2", "L3", "L4", "L5"}) {
    SCOPED_TRACE(level);
    EXPECT_EQ(Forms(model, level, "d "), Strings{"d (Sub): keep"});
    // With a code of d, it is above 1 at each level.
    EXPECT_LT(testing_step::Distance(GradientsAt(model, level), exact), .3);
  }
}

// A third product follows, so that a part of the bytes is enough: as much as slopes get.
TEST(MarkLosses, WhatLeadsToASteepFunctionIsAsUnboundedAsItsSlope) {
  Network net;
  const ValueId log = net.Op("Log", {net.Plus(net.Op("Square", {net.hidden}, "square"), 1e-6f)}, "log");
  const ImportResult model = net.Model(net.Op("Square", {net.Product(log, "second")}, "end"));
  for (const char* level : {"L2", "L3"})
    EXPECT_EQ(Forms(model, level, "first"), Strings{"first (MatMul): bf16"}) << level;
  const auto exact = GradientsAt(model, "L0");
  EXPECT_LT(testing_step::Distance(GradientsAt(model, "L3"), exact), .5) << "it is above 10 with a code";
}

TEST(MarkLosses, ANormThatIsSpelledOutAveragesErrors) {
  Network net;
  const ValueId squares = net.Over(net.Op("Square", {net.hidden}, "square"), {1}, "mean", /*keep=*/true);
  const ValueId scaled = net.Op("Div", {net.hidden, net.Op("Sqrt", {squares}, "deviation")}, "scaled");
  const ImportResult model = net.Model(net.Op("Square", {net.Product(scaled, "second")}, "end"));
  EXPECT_EQ(Forms(model, "L2", "s"),
            (Strings{"scaled (Div): uniform4", "square.grad (SquareDerivative): uniform4"}));
}

TEST(MarkLosses, WhatElseFollowsNoProductHasTheBitsOfALoss) {
  Network net;
  const ValueId p = net.Op("Tanh", {net.Product(net.hidden, "second")}, "p");
  const ValueId d = net.Op("Sub", {p, net.target}, "d");
  const ImportResult model = net.Model(net.Divided(net.Op("Square", {d}, "square"), 255));
  for (const char* level : {"L2", "L3"}) {
    SCOPED_TRACE(level);
    EXPECT_EQ(Forms(model, level, "square"), Strings{"square.grad (SquareDerivative): uniform8"})
        << "255 is not near 0";
    EXPECT_EQ(Forms(model, level, "p.grad "), Strings{"p.grad (TanhDerivative): uniform8"});
  }
}

// Only the backward pass reads the positions of a pool's maxima, and they are no part of the loss.
TEST(LeadToProducts, WhatIsMadeBesideAValueOfTheNetworkIsOfTheNetwork) {
  Graph graph;
  GraphBuilder b(graph);
  const ValueId x = b.Input("x", {DType::kFloat32, {Dim::Batch(), 8, 8, 16}}, ValueKind::kInput);
  Attributes window;
  for (const char* name : {"kernel_shape", "strides"}) window.Set(name, std::vector<int64_t>{2, 2});
  window.Set("dilations", std::vector<int64_t>{1, 1});
  window.Set("pads", std::vector<int64_t>(4, 0));
  const std::vector<ValueId> pool = Take(b.Add("MaxPool", {x}, window, "pool", 2));
  const ValueId w = b.Input("w", {DType::kFloat32, {16, 4}}, ValueKind::kParameter,
                            testing_step::HostFloats(std::vector<float>(64, 1)));
  const ValueId y = Take(b.Add1("MatMul", {pool[0], w}, {}, "y"));
  const ValueId z = Take(b.Add1("Tanh", {y}, {}, "z"));
  const ValueMap<bool> leads = LeadToProducts(graph);
  EXPECT_TRUE(leads[x] && leads[w] && leads[pool[0]] && leads[pool[1]]);
  EXPECT_FALSE(leads[y] || leads[z]);
}

TEST(LeadToProducts, ARecurrentCellMultipliesWhatItReads) {
  Graph graph;
  GraphBuilder b(graph);
  const auto input = [&](const char* name, Dims dims) {
    return b.Input(name, {DType::kFloat32, std::move(dims)}, ValueKind::kInput);
  };
  const ValueId x = Take(b.Add1("Tanh", {input("x", {Dim::Batch(), 3, 8})}, {}, "gates"));
  const ValueId start = Take(b.Add1("Tanh", {input("h", {Dim::Batch(), 8})}, {}, "start"));
  const ValueId w = b.Input("w", {DType::kFloat32, {8, 8}}, ValueKind::kParameter,
                            testing_step::HostFloats(std::vector<float>(64, 1)));
  const ValueId y = Take(b.Add1("Rnn", {x, w, start}, {}, "y"));
  const ValueMap<bool> leads = LeadToProducts(graph);
  EXPECT_TRUE(leads[x] && leads[w] && leads[start]);
  EXPECT_FALSE(leads[y]);
}

// x^3 is as flat near 0 as x^2, and x^.3 has a slope there that is as large as any number.
TEST(MarkLosses, APowerIsSteepWhereItsExponentIsBelow1) {
  for (const float exponent : {3.f, 1.f, .3f, -2.f}) {
    Network net;
    const ImportResult model =
        net.Model(net.Power(net.Op("Sigmoid", {net.Product(net.hidden, "second")}, "p"), exponent));
    const Strings kept{"p (Sigmoid): keep"}, coded{"p.grad (SigmoidDerivative): uniform8"};
    for (const char* level : {"L2", "L3"}) {
      SCOPED_TRACE(level + (" with exponent " + std::to_string(exponent)));
      EXPECT_EQ(Forms(model, level, "p ("), exponent < 1 ? kept : Strings{});
      EXPECT_EQ(Forms(model, level, "p.grad "), exponent < 1 ? Strings{} : coded);
    }
  }
}

// 2 sum(p y) / (sum(p) + sum(y)) divides few numbers by few.
TEST(MarkLosses, RatiosOfSumsAreNotSteep) {
  Network net;
  const ValueId p = net.Op("Sigmoid", {net.Product(net.hidden, "second")}, "p");
  const ValueId both = net.Over(net.Op("Mul", {p, net.target}, "product"), {1}, "both");
  const ValueId all = net.Plus(net.Over(p, {1}, "all"), 1);
  const ImportResult model = net.Model(net.Op("Div", {both, all}, "dice"));
  EXPECT_EQ(Forms(model, "L2", "p.grad "), Strings{"p.grad (SigmoidDerivative): uniform8"});
}

}  // namespace
}  // namespace act
