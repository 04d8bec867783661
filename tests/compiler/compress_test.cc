// Which values are stored for the backward pass, and in which form.
#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/ir/dump.h"
#include "tests/compiler/small_model.h"

namespace act {
namespace {

using small_model::Attrs;
using small_model::Model;
using testing_step::Take;

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

constexpr int64_t kSteps = 64;
const Dims kTimeFirst{kSteps, Dim::Batch(), 16}, kSamplesFirst{Dim::Batch(), kSteps, 16};

// A perceptron with a normalization, in which a product reads a ReLU's result.
ImportResult Perceptron(const Dims& dims) {
  Model m(dims);
  const auto product = [&m](ValueId x, const char* name, int64_t rows, int64_t columns) {
    return Take(
        m.b.Add1("MatMul", {x, m.Parameter(std::string(name) + ".weight", {rows, columns})}, {}, name));
  };
  const ValueId offset = m.Parameter("offset", {32});
  ValueId y = Take(m.b.Add1("Sub", {product(m.x, "a", 16, 32), offset}, {}, "shifted"));
  y = product(Take(m.b.Add1("Relu", {y}, {}, "relu")), "b", 32, 16);
  y = Take(m.b.Add1(
      "LayerNorm",
      {Take(m.b.Add1("Add", {y, m.x}, {}, "sum")), m.Parameter("gamma", {16}), m.Parameter("beta", {16})},
      Attrs({{"axes", std::vector<int64_t>{2}}, {"epsilon", 1e-5}}), "norm"));
  return m.Finish(Take(m.b.Add1("Square", {Take(m.b.Add1("Tanh", {y}, {}, "tanh"))}, {}, "square")));
}

TEST(Compress, SamplesNeedNotComeFirst) {
  for (const char* level : {"L0", "L1", "L2", "L3"}) {
    const Plan plan = CompileAt(level, Perceptron(kTimeFirst));
    const Plan other = CompileAt(level, Perceptron(kSamplesFirst));
    EXPECT_EQ(Forms(plan), Forms(other)) << level;
    ASSERT_EQ(plan.edges.size(), other.edges.size()) << level;
    for (size_t e = 0; e < plan.edges.size(); ++e)
      EXPECT_EQ(plan.edges[e].bytes, other.edges[e].bytes) << level << " " << plan.edges[e].name;
    ExpectEdgesMatchTheGraph(plan);
  }
}

// Encode and decode are in loops with what makes and reads the numbers.
TEST(LoopOverParts, MakesNoMoreLoopsThanWhereSamplesComeFirst) {
  for (const char* level : {"L0", "L2", "L3"}) {
    const auto loops = [&](const Dims& dims) {
      return small_model::CountOps(CompileAt(level, Perceptron(dims)).train.graph, "Fused");
    };
    EXPECT_LE(loops(kTimeFirst), loops(kSamplesFirst)) << level;
  }
}

// The elements are no multiple of N of one size, so nothing is coded.
TEST(Compress, SeveralAxesOfSamplesAreNoEqualParts) {
  for (const Dims& dims : {Dims{16, Dim::Batch(), Dim::Batch(), 16}, Dims{16, Dim(1, 1), 16}}) {
    Model m(dims);
    const Plan plan = CompileAt("L2", m.Finish(Take(m.b.Add1("Tanh", {m.x}, {}, "tanh"))));
    EXPECT_EQ(Forms(plan), Strings{"tanh (Tanh): keep"}) << ToString(dims);
  }
}

// What decode makes has the numbers at the places where encode has read them.
TEST(Compress, EqualPartsComeBackInTheirOwnShape) {
  constexpr int64_t kBatch = 3;
  std::vector<float> first(kSteps * kBatch * 16), last(first.size());
  for (int64_t t = 0; t < kSteps; ++t)
    for (int64_t n = 0; n < kBatch; ++n)
      for (int64_t c = 0; c < 16; ++c) {
        const auto number =
            static_cast<float>(std::sin(.7 * static_cast<double>(t * t + 31 * n + 5 * c * n)));
        first[static_cast<size_t>((t * kBatch + n) * 16 + c)] = number;
        last[static_cast<size_t>((n * kSteps + t) * 16 + c)] = number;
      }
  const auto gradients = [&](const char* level, const Dims& dims, const std::vector<float>& image) {
    CompileOptions options = testing_step::Checked(level, "none");
    if (level != std::string("L0")) options.bits = 8;
    const Plan plan = Take(Compile(Perceptron(dims), options));
    std::map<std::string, std::vector<float>> named;
    const auto outputs = Take(testing_step::RunStep(plan, testing_step::CpuKernels(),
                                                    {{"image", testing_step::BytesOf(image)}},
                                                    {.batch = kBatch, .check_memory = true}));
    for (size_t i = 0; i < outputs.size(); ++i)
      named[plan.train.graph.value(plan.train.graph.outputs[i]).name] = outputs[i];
    return named;
  };
  const auto exact = gradients("L0", kSamplesFirst, last);
  EXPECT_EQ(exact.size(), 7u) << "the loss and six gradients";
  // Float32 adds samples in another order. With 8 bits a code's error is some .6 % of its numbers'
  // deviation, and up to four times as much of a sum in which numbers cancel: 2.8 % of the offset's gradient
  // at L2 where samples come first.
  for (const auto& [level, allowed] : {std::pair{"L0", 1e-5}, {"L2", .04}, {"L3", .04}, {"L4", .04}}) {
    const auto found = gradients(level, kTimeFirst, first);
    for (const auto& [name, numbers] : exact) {
      ASSERT_EQ(found.count(name), 1u) << level << " " << name;
      double error = 0, square = 0;
      for (size_t i = 0; i < numbers.size(); ++i) {
        error += std::pow(numbers[i] - found.at(name)[i], 2);
        square += std::pow(numbers[i], 2);
      }
      EXPECT_LE(std::sqrt(error), allowed * std::sqrt(square)) << level << " " << name;
      EXPECT_GT(square, 0) << name;
    }
  }
}

}  // namespace
}  // namespace act
