// Compositions that exporters write, and near misses: what the recognizing passes turn them into,
// and that the numbers stay the same.
#include <cmath>
#include <functional>
#include <random>

#include "compiler/ir/dump.h"
#include "passes/pass_table.h"
#include "passes/planning/assign_storage.h"
#include "passes/recognize/pattern.h"
#include "tests/compiler/compiled_step.h"

namespace act {
namespace {

using testing_step::Take;

constexpr float kSqrt2 = 1.41421356f, kSqrt2OverPi = .797884561f;

// Writes operators as an exporter does; a parameter is x.
struct Composer {
  explicit Composer(const Dims& dims = {2, 3, 6}) : b(graph) {
    std::mt19937 engine(1);
    std::vector<float> numbers(static_cast<size_t>(TensorType{DType::kFloat32, dims}.Elements().fixed));
    for (float& f : numbers) f = std::normal_distribution<float>(0, 2)(engine);
    x = b.Input("x", {DType::kFloat32, dims}, ValueKind::kParameter, testing_step::HostFloats(numbers));
  }
  ValueId Op(const std::string& op, std::vector<ValueId> in, Attributes attrs = {}) {
    return Take(b.Add1(op, std::move(in), std::move(attrs)));
  }
  ValueId N(float value) { return b.Scalar(value); }
  ValueId Add(ValueId a, ValueId c) { return Op("Add", {a, c}); }
  ValueId Sub(ValueId a, ValueId c) { return Op("Sub", {a, c}); }
  ValueId Mul(ValueId a, ValueId c) { return Op("Mul", {a, c}); }
  ValueId Div(ValueId a, ValueId c) { return Op("Div", {a, c}); }
  ValueId Pow(ValueId a, float e) { return Op("Pow", {a, N(e)}); }
  ValueId Clip(ValueId a, double min, double max) {
    Attributes attrs;
    attrs.Set("min", min);
    attrs.Set("max", max);
    return Op("Clip", {a}, attrs);
  }
  ValueId Mean(ValueId a, std::vector<int64_t> axes = {2}, bool keep = true) {
    Attributes attrs;
    attrs.Set("axes", axes);
    attrs.Set("keepdims", int64_t{keep});
    return Op("ReduceMean", {a}, attrs);
  }
  ValueId Transposed(ValueId a) {
    Attributes attrs;
    attrs.Set("perm", std::vector<int64_t>{0, 2, 1});
    return Op("Transpose", {a}, attrs);
  }
  ValueId Sum(ValueId a, std::vector<int64_t> axes = {2}, bool keep = true) {
    Attributes attrs;
    attrs.Set("axes", axes);
    attrs.Set("keepdims", int64_t{keep});
    return Op("ReduceSum", {a}, attrs);
  }
  ValueId Weight(const std::string& name, const Dims& dims, float value) {
    const TensorType type{DType::kFloat32, dims};
    std::vector<float> numbers(static_cast<size_t>(type.Elements().fixed), value);
    return b.Input(name, type, ValueKind::kParameter, testing_step::HostFloats(numbers));
  }
  Graph graph;
  GraphBuilder b;
  ValueId x;
};

using Make = std::function<ValueId(Composer&, ValueId x)>;

// The operators after recognition, without those whose result nothing reads: "Gelu Mul".
std::string Recognized(Composer& c, ValueId y) {
  c.graph.outputs = {y};
  PassContext context;
  for (auto pass : {EliminateCommonSubexpressions, RecognizeNorms, RecognizeActivations, EliminateDeadCode})
    EXPECT_FALSE(llvm::errorToBool(pass(c.graph, context)));
  std::string ops;
  for (const Node& node : c.graph.nodes) ops += (ops.empty() ? "" : " ") + node.op;
  return ops;
}

std::vector<float> Evaluate(const Graph& graph, ValueId y) {
  Graph g = graph;
  g.outputs = {y};
  PassContext context;
  for (auto pass : {LowerLayerNorm, EliminateDeadCode, FuseLoops})
    EXPECT_FALSE(llvm::errorToBool(pass(g, context)));
  Plan plan;
  plan.train = AssignStorage(std::move(g), 0);
  return Take(testing_step::RunStep(plan, testing_step::CpuKernels(), {}, {.check_memory = true}))[0];
}

struct Case {
  std::string name, ops;  // what it becomes
  Make make;
  Dims dims = {2, 3, 6};
};

void Check(const Case& test) {
  SCOPED_TRACE(test.name);
  Composer c(test.dims);
  const ValueId y = test.make(c, c.x);
  const std::vector<float> before = Evaluate(c.graph, y);
  EXPECT_EQ(Recognized(c, y), test.ops);
  const std::vector<float> after = Evaluate(c.graph, y);
  ASSERT_EQ(before.size(), after.size());
  // Values up to 20 are computed with a dozen roundings, in another order.
  for (size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(before[i], after[i], 1e-5) << i;
}

ValueId Erf(Composer& c, ValueId x) { return c.Op("Erf", {c.Div(x, c.N(kSqrt2))}); }
ValueId Cubic(Composer& c, ValueId x) {
  return c.Mul(c.N(kSqrt2OverPi), c.Add(x, c.Mul(c.N(.044715f), c.Pow(x, 3))));
}

TEST(NumberIn, IsThatOfAllElementsOfAConstant) {
  const auto number_in = [](const std::vector<float>& numbers, ValueKind kind = ValueKind::kConstant) {
    Value value;
    value.type = {DType::kFloat32, {Dim(static_cast<int64_t>(numbers.size()))}};
    value.kind = kind;
    value.data = testing_step::HostFloats(numbers);
    return NumberIn(value);
  };
  EXPECT_EQ(number_in({.5f}), .5f);
  EXPECT_EQ(number_in({.5f, .5f, .5f}), .5f);
  EXPECT_EQ(number_in({.5f, .5f, .25f}), std::nullopt);
  EXPECT_EQ(number_in({0, -0.f}), std::nullopt);
  EXPECT_EQ(number_in({}), std::nullopt);
  EXPECT_EQ(number_in({.5f}, ValueKind::kParameter), std::nullopt);
}

TEST(RecognizeActivations, FindsThemHoweverTheyAreWritten) {
  const std::vector<Case> cases = {
      {"gelu", "Gelu",
       [](Composer& c, ValueId x) { return c.Mul(c.Mul(x, c.Add(Erf(c, x), c.N(1))), c.N(.5f)); }},
      {"gelu, half first", "Gelu",
       [](Composer& c, ValueId x) {
         return c.Mul(c.Mul(c.N(.5f), x), c.Add(c.N(1), c.Op("Erf", {c.Mul(x, c.N(1 / kSqrt2))})));
       }},
      {"gelu, the distribution first", "Gelu",
       [](Composer& c, ValueId x) { return c.Mul(c.Add(c.Mul(Erf(c, x), c.N(.5f)), c.N(.5f)), x); }},
      {"gelu over 2", "Gelu",
       [](Composer& c, ValueId x) { return c.Div(c.Mul(x, c.Add(Erf(c, x), c.N(1))), c.N(2)); }},
      {"tanh gelu", "Gelu",
       [](Composer& c, ValueId x) {
         return c.Mul(c.Mul(x, c.N(.5f)), c.Add(c.Op("Tanh", {Cubic(c, x)}), c.N(1)));
       }},
      {"tanh gelu, factored", "Gelu",
       [](Composer& c, ValueId x) {
         const ValueId inner =
             c.Mul(c.Mul(x, c.N(kSqrt2OverPi)), c.Add(c.N(1), c.Mul(c.Mul(c.N(.044715f), x), x)));
         return c.Mul(c.N(.5f), c.Mul(x, c.Add(c.N(1), c.Op("Tanh", {inner}))));
       }},
      {"tanh gelu by sigmoid", "Gelu",
       [](Composer& c, ValueId x) { return c.Mul(x, c.Op("Sigmoid", {c.Mul(c.N(2), Cubic(c, x))})); }},
      {"gelu of a product", "Mul Gelu",
       [](Composer& c, ValueId x) {
         const ValueId z = c.Mul(x, c.N(2));
         return c.Mul(c.Mul(z, c.Add(Erf(c, z), c.N(1))), c.N(.5f));
       }},
      {"silu", "Silu", [](Composer& c, ValueId x) { return c.Mul(c.Op("Sigmoid", {x}), x); }},
      {"silu by exp", "Silu",
       [](Composer& c, ValueId x) {
         const ValueId e = c.Op("Exp", {c.Op("Neg", {x})});
         return c.Mul(x, c.Div(c.N(1), c.Add(c.N(1), e)));
       }},
      {"hard swish by relu6", "HardSwish",
       [](Composer& c, ValueId x) { return c.Div(c.Mul(x, c.Clip(c.Add(x, c.N(3)), 0, 6)), c.N(6)); }},
      {"hard swish, gate scaled", "HardSwish",
       [](Composer& c, ValueId x) { return c.Mul(x, c.Mul(c.Clip(c.Add(x, c.N(3)), 0, 6), c.N(1.f / 6))); }},
      {"log of a sigmoid", "LogSigmoid",
       [](Composer& c, ValueId x) { return c.Op("Log", {c.Op("Sigmoid", {x})}); }},
      {"log of a sigmoid's complement", "Neg LogSigmoid",
       [](Composer& c, ValueId x) { return c.Op("Log", {c.Sub(c.N(1), c.Op("Sigmoid", {x}))}); }},
      {"that complement is read twice", "Sigmoid Sub Neg LogSigmoid Mul",
       [](Composer& c, ValueId x) {
         const ValueId rest = c.Sub(c.N(1), c.Op("Sigmoid", {x}));
         return c.Mul(rest, c.Op("Log", {rest}));
       }},
      {"a deviation", "ReduceMean Sub Square ReduceMean Mul Div SqrtOfSquares Add",
       [](Composer& c, ValueId x) {
         const ValueId d = c.Sub(x, c.Mean(x)), mean = c.Mean(c.Op("Square", {d}));
         return c.Add(c.Op("Sqrt", {c.Div(c.Mul(mean, c.N(6)), c.N(5))}), x);
       }},
      {"a deviation among a number of samples that is computed",
       "ReduceMean Sub Square ReduceMean Range Cast Sub Mul Div SqrtOfSquares Add",
       [](Composer& c, ValueId x) {
         const ValueId d = c.Sub(x, c.Mean(x)), mean = c.Mean(c.Op("Square", {d}));
         Attributes six;
         six.Set("start", std::vector<int64_t>{6, 0, 0});
         six.Set("step", int64_t{0});
         const ValueId range = Take(c.b.AddTyped("Range", {}, {DType::kInt64, {1}}, six));
         const ValueId n = Take(c.b.AddTyped("Cast", {range}, {DType::kFloat32, {1}}, {}));
         const ValueId less = c.Sub(n, c.N(1));
         return c.Add(c.Op("Sqrt", {c.Div(c.Mul(mean, n), less)}), x);
       }},
      {"a product of lengths", "Mul ReduceSum ReduceSum Mul SqrtOfSquares Add",
       [](Composer& c, ValueId x) {
         const ValueId squares = c.Mul(x, x);
         return c.Add(c.Pow(c.Mul(c.Sum(squares), c.Sum(squares, {1})), .5f), x);
       }},
      {"softplus and its linear branch", "Softplus",
       [](Composer& c, ValueId x) {
         const ValueId s = c.Op("Log", {c.Add(c.Op("Exp", {x}), c.N(1))});
         return c.Op("Where", {c.Op("Greater", {x, c.N(20)}), x, s});
       }},
      {"softmax by exp", "Sub Softmax",
       [](Composer& c, ValueId x) {
         const ValueId e = c.Op("Exp", {c.Sub(x, c.N(2))});
         return c.Div(e, c.Sum(e));
       }},
      {"softmax, summed in another order of axes", "Softmax",
       [](Composer& c, ValueId x) {
         const ValueId e = c.Op("Exp", {x});
         return c.Div(e, c.Transposed(c.Sum(c.Transposed(e), {1})));
       }},
      {"mish", "Mish",
       [](Composer& c, ValueId x) { return c.Mul(x, c.Op("Tanh", {c.Op("Softplus", {x})})); }},
  };
  for (const Case& test : cases) Check(test);
}

TEST(RecognizeActivations, LeavesNearMissesAlone) {
  const std::vector<Case> cases = {
      {"another slope", "Mul Erf Add Mul Mul",
       [](Composer& c, ValueId x) {
         return c.Mul(c.Mul(x, c.Add(c.Op("Erf", {c.Mul(x, c.N(.7071f))}), c.N(1))), c.N(.5f));
       }},
      {"no half", "Div Erf Add Mul",
       [](Composer& c, ValueId x) { return c.Mul(x, c.Add(Erf(c, x), c.N(1))); }},
      {"minus one", "Div Erf Sub Mul Mul",
       [](Composer& c, ValueId x) { return c.Mul(c.Mul(x, c.Sub(Erf(c, x), c.N(1))), c.N(.5f)); }},
      {"gate of something else", "Abs Sigmoid Mul",
       [](Composer& c, ValueId x) { return c.Mul(x, c.Op("Sigmoid", {c.Op("Abs", {x})})); }},
      {"a steeper gate", "Mul Sigmoid Mul",
       [](Composer& c, ValueId x) { return c.Mul(x, c.Op("Sigmoid", {c.Mul(x, c.N(1.702f))})); }},
      {"the gate is read twice", "Sigmoid Mul Add",
       [](Composer& c, ValueId x) {
         const ValueId s = c.Op("Sigmoid", {x});
         return c.Add(c.Mul(x, s), s);
       }},
      {"relu5", "Add Clip Mul Div",
       [](Composer& c, ValueId x) { return c.Div(c.Mul(x, c.Clip(c.Add(x, c.N(3)), 0, 5)), c.N(6)); }},
      {"sums along another axis", "Exp ReduceSum Div",
       [](Composer& c, ValueId x) {
         const ValueId e = c.Op("Exp", {x});
         return c.Div(e, c.Sum(e, {1}));
       }},
      {"sums transposed once",
       "Exp Transpose ReduceSum Div",
       [](Composer& c, ValueId x) {
         const ValueId e = c.Op("Exp", {x});
         return c.Div(e, c.Sum(c.Transposed(e), {2}));
       },
       {2, 1, 1}},
      {"a mean", "Exp ReduceMean Div",
       [](Composer& c, ValueId x) {
         const ValueId e = c.Op("Exp", {x});
         return c.Div(e, c.Mean(e));
       }},
      {"sums of something else",
       "Exp Exp ReduceSum Div",
       [](Composer& c, ValueId x) {
         const ValueId e = c.Op("Exp", {x});
         return c.Div(e, c.Sum(c.Op("Exp", {e})));
       },
       {2, 1, 1}},
      {"root of a sum that is 0 elsewhere", "Square Add Sqrt",
       [](Composer& c, ValueId x) { return c.Op("Sqrt", {c.Add(c.Op("Square", {x}), c.N(1e-5f))}); }},
      {"log of another complement", "Sigmoid Sub Log",
       [](Composer& c, ValueId x) { return c.Op("Log", {c.Sub(c.N(2), c.Op("Sigmoid", {x}))}); }},
      {"an early linear branch", "Greater Softplus Where",
       [](Composer& c, ValueId x) {
         return c.Op("Where", {c.Op("Greater", {x, c.N(5)}), x, c.Op("Softplus", {x})});
       }},
  };
  for (const Case& test : cases) Check(test);
}

// x / max(|x|, least), as torch.nn.functional.normalize.
ValueId UnitLength(Composer& c, ValueId x, double least, std::vector<int64_t> axes = {2}) {
  Attributes attrs, bound;
  attrs.Set("axes", std::move(axes));
  attrs.Set("keepdims", int64_t{1});
  bound.Set("min", least);
  const ValueId length = c.Op("SqrtOfSquares", {c.Op("ReduceSum", {c.Op("Square", {x})}, attrs)});
  return c.Div(x, Take(c.b.Expand(c.Op("Clip", {length}, bound), c.graph.value(x).type.dims)));
}

ValueId Norm(Composer& c, ValueId x) {
  const ValueId d = c.Sub(x, c.Mean(x));
  return c.Div(d, c.Op("Sqrt", {c.Add(c.Mean(c.Op("Square", {d})), c.N(1e-5f))}));
}

TEST(RecognizeNorms, FindsThemHoweverTheyAreWritten) {
  const std::vector<Case> cases = {
      {"layer norm", "LayerNorm",
       [](Composer& c, ValueId x) {
         return c.Add(c.Mul(Norm(c, x), c.Weight("gamma", {6}, 2)), c.Weight("beta", {6}, 3));
       }},
      {"weights first", "LayerNorm",
       [](Composer& c, ValueId x) {
         return c.Add(c.Weight("beta", {6}, 3), c.Mul(c.Weight("gamma", {6}, 2), Norm(c, x)));
       }},
      {"without weights", "LayerNorm", Norm},
      {"deviations written twice, product with a power", "LayerNorm",
       [](Composer& c, ValueId x) {
         const ValueId d = c.Sub(x, c.Mean(x)), e = c.Sub(x, c.Mean(x));
         return c.Mul(d, c.Pow(c.Add(c.Mean(c.Mul(e, e)), c.N(1e-5f)), -.5f));
       }},
      {"means that drop their axis", "LayerNorm",
       [](Composer& c, ValueId x) {
         const auto mean = [&c](ValueId v) { return Take(c.b.Reshape(c.Mean(v, {2}, false), {2, 3, 1})); };
         const ValueId d = c.Sub(x, mean(x));
         return c.Div(d, c.Op("Sqrt", {c.Add(mean(c.Op("Square", {d})), c.N(1e-5f))}));
       }},
      {"RMS norm", "LayerNorm",
       [](Composer& c, ValueId x) {
         const ValueId s = c.Op("Sqrt", {c.Add(c.N(1e-6f), c.Mean(c.Op("Square", {x})))});
         return c.Mul(c.Weight("gamma", {6}, 2), c.Mul(x, c.Op("Reciprocal", {s})));
       }},
      {"RMS norm whose mean is taken with channels last", "LayerNorm",
       [](Composer& c, ValueId x) {
         const ValueId moved = Take(c.b.Transpose(c.Op("Square", {x}), {0, 2, 1}));
         const ValueId mean = Take(c.b.Transpose(c.Mean(moved, {1}), {0, 2, 1}));
         return c.Mul(x, c.Op("Reciprocal", {c.Op("Sqrt", {c.Add(mean, c.N(1e-6f))})}));
       }},
      {"a row over its length", "LayerNorm", [](Composer& c, ValueId x) { return UnitLength(c, x, 1e-12); }},
      {"rows of zeros over their length", "Mul LayerNorm",
       [](Composer& c, ValueId x) { return UnitLength(c, c.Mul(x, c.N(0)), 1e-12); }},
      {"two axes", "LayerNorm",
       [](Composer& c, ValueId x) {
         const ValueId d = c.Sub(x, c.Mean(x, {1, 2}));
         return c.Div(d, c.Op("Sqrt", {c.Add(c.Mean(c.Op("Square", {d}), {1, 2}), c.N(1e-5f))}));
       }},
      {"group norm by an instance norm",
       "Reshape Reshape LayerNorm",
       [](Composer& c, ValueId x) {
         Attributes attrs;
         attrs.Set("axes", std::vector<int64_t>{2});
         const ValueId ones = Take(c.b.Expand(c.N(1), {2, 1})), zeros = Take(c.b.Expand(c.N(0), {2, 1}));
         const ValueId y = c.Op("LayerNorm", {Take(c.b.Reshape(x, {2, 2, 30})), ones, zeros}, attrs);
         const ValueId gamma = Take(c.b.Reshape(c.Weight("gamma", {4}, 2), {4, 1, 1}));
         const ValueId beta = Take(c.b.Reshape(c.Weight("beta", {4}, 3), {4, 1, 1}));
         return c.Add(c.Mul(Take(c.b.Reshape(y, {2, 4, 3, 5})), gamma), beta);
       },
       {2, 4, 3, 5}},
  };
  for (const Case& test : cases) Check(test);
}

TEST(RecognizeNorms, LeavesNearMissesAlone) {
  const std::vector<Case> cases = {
      {"deviation over another axis: no center", "ReduceMean Sub LayerNorm",
       [](Composer& c, ValueId x) {
         const ValueId d = c.Sub(x, c.Mean(x, {1}));
         return c.Div(d, c.Op("Sqrt", {c.Add(c.Mean(c.Op("Square", {d})), c.N(1e-5f))}));
       }},
      {"a mean that is put back in another order",
       "Square Transpose ReduceMean Transpose Add Sqrt Reciprocal Mul",
       [](Composer& c, ValueId x) {
         const ValueId moved = Take(c.b.Transpose(c.Op("Square", {x}), {0, 2, 1}));
         const ValueId mean = Take(c.b.Transpose(c.Mean(moved, {1}), {2, 0, 1}));
         return c.Mul(x, c.Op("Reciprocal", {c.Op("Sqrt", {c.Add(mean, c.N(1e-6f))})}));
       },
       {3, 3, 6}},
      {"the deviation of something else", "Abs Square ReduceMean Add Sqrt Div",
       [](Composer& c, ValueId x) {
         return c.Div(x, c.Op("Sqrt", {c.Add(c.Mean(c.Op("Square", {c.Op("Abs", {x})})), c.N(1e-5f))}));
       }},
      {"over a length that is not small", "Square ReduceSum SqrtOfSquares Clip Expand Div",
       [](Composer& c, ValueId x) { return UnitLength(c, x, 1e-6); }},
      {"a column over its length", "Square ReduceSum SqrtOfSquares Clip Expand Div",
       [](Composer& c, ValueId x) { return UnitLength(c, x, 1e-12, {1}); }},
      {"a number over its length",
       "Square ReduceSum SqrtOfSquares Clip Div",
       [](Composer& c, ValueId x) { return UnitLength(c, x, 1e-12, {}); },
       {}},
      {"the variance, not its root", "Square ReduceMean Add Div",
       [](Composer& c, ValueId x) { return c.Div(x, c.Add(c.Mean(c.Op("Square", {x})), c.N(1e-5f))); }},
      {"plus what is no weight", "LayerNorm Identity Add",
       [](Composer& c, ValueId x) {
         const ValueId y = Norm(c, x);
         return c.Add(y, c.Op("Identity", {x}));
       }},
      {"the norm itself is read too", "LayerNorm Mul Add",
       [](Composer& c, ValueId x) {
         const ValueId y = Norm(c, x);
         return c.Add(c.Mul(y, c.Weight("gamma", {6}, 2)), y);
       }},
  };
  for (const Case& test : cases) Check(test);
}

}  // namespace
}  // namespace act
