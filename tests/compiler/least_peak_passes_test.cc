// What L5 does for the least peak changes no gradient: products that are made twice, segments that are re-run in parts,
// and slices before strided convolutions. Nothing here has the noise of a code, or both steps have the same codes. So all
// that may differ is the rounding of sums.
#include <algorithm>
#include <cmath>
#include <string>

#include "compiler/ir/verify.h"
#include "passes/pass_table.h"
#include "passes/planning/assign_storage.h"
#include "runtime/plan/plan_check.h"
#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using testing_step::Distance;
using testing_step::Gradients;
using testing_step::Take;
using testing_step::Text;

constexpr double kRounding = 1e-10;  // squared
constexpr int64_t kChannels = 16;
constexpr int64_t kEveryBatch[] = {1, 3, 17};

// A network of convolutions, normalizations and residual sums on images [N, side, side, 3], without a random number.
class Residual {
 public:
  explicit Residual(int64_t side) : side_(side) {
    x_ = b_.Input("image", {DType::kFloat32, {Dim::Batch(), side, side, 3}}, ValueKind::kInput);
  }

  ValueId x() const { return x_; }
  ValueId Conv(ValueId x, int64_t kernel, int64_t stride = 1) {
    const ValueId w =
        Numbers({kChannels, b_.type(x).dims.back(), kernel, kernel}, ValueKind::kParameter, 0, .3F);
    return Take(b_.Add1("Conv", {x, w}, small_networks::Window(kernel, stride, kernel / 2), "conv"));
  }
  ValueId Normalize(ValueId x) {
    const Dims c{kChannels};
    const ValueId gamma = Numbers(c, ValueKind::kParameter, 1, .3F),
                  beta = Numbers(c, ValueKind::kParameter, 0, .3F);
    const ValueId mean = Numbers(c, ValueKind::kBuffer, 0, 0),
                  variance = Numbers(c, ValueKind::kBuffer, 1, 0);
    return Take(b_.Add1("BatchNorm", {x, gamma, beta, mean, variance}, {}, "bn"));
  }
  // Adds a number for each position, so that no bias of a product comes of it.
  ValueId Shift(ValueId x) { return Add(x, Numbers({side_, side_, kChannels}, ValueKind::kBuffer, 0, 1)); }
  ValueId Add(ValueId x, ValueId y) { return Take(b_.Add1("Add", {x, y}, {}, "sum")); }
  ValueId Relu(ValueId x) { return Take(b_.Add1("Relu", {x}, {}, "relu")); }

  // The loss is a mean of x, in which positions and channels have different weights.
  ImportResult End(ValueId x) {
    const Dims dims = b_.type(x).dims;
    const ValueId weights = Numbers({dims[1], dims[2], dims[3]}, ValueKind::kBuffer, 0, 1);
    Attributes all;
    all.Set("axes", std::vector<int64_t>{0, 1, 2, 3});
    all.Set("keepdims", int64_t{0});
    graph_.outputs = {Take(b_.Add1("ReduceMean", {Take(b_.Add1("Mul", {x, weights}))}, all, "loss"))};
    return testing_step::ModelOf(graph_);
  }

  testing_step::StepInputs Images(int64_t batch) const {
    std::vector<float> image(static_cast<size_t>(batch * side_ * side_ * 3));
    for (size_t i = 0; i < image.size(); ++i) image[i] = Number(i + 1);
    return {{"image", testing_step::BytesOf(image)}};
  }

 private:
  // Of [-1, 1], and different for each i.
  static float Number(size_t i) {
    return static_cast<float>(std::sin(1.7 * static_cast<double>(i) * static_cast<double>(i % 1013)));
  }
  ValueId Numbers(const Dims& dims, ValueKind kind, float mean, float deviation) {
    const TensorType type{DType::kFloat32, dims};
    std::vector<float> numbers(static_cast<size_t>(type.Elements().fixed));
    for (float& number : numbers) number = mean + deviation * Number(++drawn_);
    return b_.Input("w" + std::to_string(graph_.values.size()), type, kind,
                    testing_step::HostFloats(numbers));
  }

  const int64_t side_;
  Graph graph_;
  GraphBuilder b_{graph_};
  ValueId x_ = kNoValue;
  size_t drawn_ = 0;
};

template <class Predicate>
int64_t CountNodes(const Graph& graph, Predicate predicate) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), predicate);
}
int64_t CountOps(const Graph& graph, const std::string& op) {
  return CountNodes(graph, [&op](const Node& node) { return node.op == op; });
}

Gradients RunOn(const Plan& plan, const Residual& network, int64_t batch) {
  return Take(testing_step::RunStep(plan, testing_step::CpuKernels(), network.Images(batch),
                                    {.batch = batch, .check_memory = true}));
}

// A step that these passes make of the model, and loops of its nodes.
Plan PlanOf(ImportResult model, PassContext context, std::initializer_list<PassFunction> passes) {
  MarkTrained(context.marks, model.trainable);
  context.updates.optimizer = "none";
  for (PassFunction pass : passes) EXPECT_EQ(Text(pass(model.graph, context)), "");
  Plan plan;
  plan.train = AssignStorage(std::move(model.graph), 0);
  return plan;
}

// A block whose first operand's gradient is made twice. What is normalized is a sum, which is not made twice. So the
// statistics are the same bits, and so are the codes.
ImportResult Shortcut(Residual& network) {
  // The product beside the sum reads its gradient, too. So the loop that makes the sums of the gradient stores it.
  const ValueId x = network.Relu(network.Add(network.Normalize(network.Shift(network.Conv(network.x(), 3))),
                                             network.Conv(network.x(), 1)));
  return network.End(network.Relu(network.Add(network.Normalize(network.Shift(network.Conv(x, 3))), x)));
}

Plan MadeTwice(const ImportResult& model, int64_t repeated, const char* optimizer) {
  CompileOptions options = testing_step::Checked("L5", optimizer);
  options.group_size = 64;
  options.workspace_limit = 1024;
  options.reruns = {{.spacing = 3, .elements = 0, .repeated_elements = repeated, .least_peak = true}};
  return Take(Compile(model, options));
}

TEST(GradientsMadeTwice, AreTheSame) {
  Residual network(9);
  const ImportResult model = Shortcut(network);
  const Plan once = MadeTwice(model, 0, "none"), twice = MadeTwice(model, 1, "none");
  EXPECT_EQ(CountOps(twice.train.graph, "BatchNormMoments"), 0) << "the codes may differ";
  EXPECT_EQ(CountOps(twice.train.graph, "ConvGradInput"), CountOps(once.train.graph, "ConvGradInput") + 1);
  EXPECT_EQ(CountNodes(twice.train.graph, [](const Node& node) { return node.name.ends_with(".again"); }), 2)
      << "the product, and the loop that makes its operand";
  for (const int64_t batch : kEveryBatch)
    EXPECT_LE(Distance(RunOn(twice, network, batch), RunOn(once, network, batch)), kRounding) << batch;
}

// The gradients of the weight and of the normalization's scale, which both are read again, are complete before that.
TEST(GradientsMadeTwice, ReadParametersBeforeTheirUpdates) {
  Residual network(9);
  const ImportResult model = Shortcut(network);
  for (const char* optimizer : {"sgd", "adam", "lamb"}) {
    SCOPED_TRACE(optimizer);
    const Plan once = MadeTwice(model, 0, optimizer), twice = MadeTwice(model, 1, optimizer);
    EXPECT_EQ(CountOps(twice.train.graph, "ConvGradInput"), CountOps(once.train.graph, "ConvGradInput") + 1);
    EXPECT_EQ(Text(Verify(twice.train.graph, Stage::kFused)), "");
    EXPECT_EQ(Text(CheckPlan(twice)), "");
  }
}

// Lets the readers of decoded numbers read the numbers themselves.
llvm::Error RemoveCodes(Graph& graph, PassContext&) {
  std::vector<ValueId> same(graph.values.size());
  for (size_t v = 0; v < same.size(); ++v) same[v] = static_cast<ValueId>(v);
  for (Node& node : graph.nodes) {
    for (ValueId& in : node.inputs)
      if (in != kNoValue) in = same[static_cast<size_t>(in)];
    if (node.op == "Compress" || node.op == "Decompress")
      same[static_cast<size_t>(node.outputs[0])] = node.inputs[0];
  }
  std::erase_if(graph.nodes,
                [](const Node& node) { return node.op == "Compress" || node.op == "Decompress"; });
  return llvm::Error::success();
}

TEST(RerunsInParts, MakeTheSameGradient) {
  Residual network(7);
  ValueId x = network.Relu(network.Normalize(network.Conv(network.x(), 3)));
  for (int block = 0; block < 3; ++block) {
    ValueId y = network.Relu(network.Normalize(network.Conv(x, 1)));
    y = network.Relu(network.Normalize(network.Conv(y, 3)));
    x = network.Relu(network.Add(network.Normalize(network.Conv(y, 1)), x));
  }
  const ImportResult model = network.End(x);
  const auto plan = [&](int64_t elements, int64_t parted) {
    PassContext context;
    context.policy = Take(MakePolicy("L5", 0, 64));
    context.policy.rerun_spacing = 18;
    context.rerun_elements = elements;
    context.parted_elements = parted;
    return PlanOf(model, context,
                  {LowerForTraining, EliminateCommonSubexpressions, EliminateDeadCode, AddGradients,
                   EliminateCommonSubexpressions, EliminateDeadCode, PlaceDerived, RebuildSaved, RemoveCodes,
                   EliminateDeadCode, FuseLoops});
  };
  const int64_t all = 1 << 20;
  const Plan none = plan(0, 0), whole = plan(all, 0), parted = plan(all, 1);
  EXPECT_GE(CountOps(whole.train.graph, "Conv"), CountOps(none.train.graph, "Conv") + 8);
  EXPECT_GE(CountOps(parted.train.graph, "Conv"), CountOps(whole.train.graph, "Conv") + 3)
      << "the blocks before a part are made again for it";
  for (const int64_t batch : kEveryBatch) {
    SCOPED_TRACE(batch);
    const Gradients exact = RunOn(none, network, batch);
    EXPECT_LE(Distance(RunOn(whole, network, batch), exact), kRounding);
    EXPECT_LE(Distance(RunOn(parted, network, batch), exact), kRounding);
  }
}

// The last positions of an odd extent may be read or not.
TEST(SubsampleInputs, ChangesNoGradient) {
  for (const int64_t stride : {2, 3}) {
    for (const int64_t side : {5, 7, 8, 9}) {
      SCOPED_TRACE("stride " + std::to_string(stride) + ", extent " + std::to_string(side));
      Residual network(side);
      // One operand is the model's input, the other one has a second reader.
      const ValueId x = network.Relu(network.Conv(network.x(), 3));
      ValueId y =
          network.Add(network.Conv(x, 1, stride), network.Conv(network.Relu(network.Conv(x, 3, stride)), 1));
      y = network.Relu(network.Add(y, network.Conv(network.x(), 1, stride)));
      const ImportResult model = network.End(y);
      PassContext context;
      context.policy = Take(MakePolicy("L0", 0, 64));
      const Plan strided =
                     PlanOf(model, context, {LowerForTraining, EliminateDeadCode, AddGradients, FuseLoops}),
                 sliced =
                     PlanOf(model, context,
                            {SubsampleInputs, LowerForTraining, EliminateDeadCode, AddGradients, FuseLoops});
      EXPECT_EQ(CountOps(strided.train.graph, "Slice"), 0);
      EXPECT_EQ(
          CountNodes(sliced.train.graph,
                     [](const Node& node) { return node.op == "Slice" && node.phase == Phase::kForward; }),
          2);
      for (const int64_t batch : kEveryBatch)
        EXPECT_LE(Distance(RunOn(sliced, network, batch), RunOn(strided, network, batch)), kRounding)
            << batch;
    }
  }
}

}  // namespace
}  // namespace act
