// Each optimizer's update, compared with its formula in double, for parameters of odd shapes and
// known gradients.
#include "compiler/ops/update.h"
#include "runtime/plan/gradient_norm.h"
#include "runtime/train/checkpoint.h"
#include "tests/compiler/update_case.h"

namespace act {
namespace {

using namespace update_case;  // NOLINT: it holds what this test is about

const std::vector<Dims> kShapes = {{}, {0}, {1}, {7}, {3, 5}, {2, 0, 3}, {1025}, {3, 2, 3, 300}};

TEST(Update, IsItsFormulaForEveryShape) {
  for (const Case& c : Cases())
    for (const Dims& dims : kShapes)
      for (const double clip : {0.0, 0.75})
        for (const KernelRegistry* kernels :
             {&testing_step::CpuKernels(), &testing_step::ReferenceKernels()}) {
          CompileOptions options = testing_step::Checked("L0", c.optimizer);
          options.clip_norm = clip;
          PlanRun run(dims, options, *kernels);
          llvm::cantFail(StartOptimizerState(*run.executor, c.hyper));
          const auto count = static_cast<size_t>(TensorType{DType::kFloat32, dims}.Elements().fixed);
          Truth p(Random(count, 1), c.hyper), q(Random(count, 2), c.hyper);
          for (int t = 1; t <= 3; ++t) {
            const std::vector<float> x = Random(count, static_cast<unsigned>(10 + t));
            Doubles g(x.begin(), x.end());
            const double norm = std::sqrt(2.0) * NormOf(g);  // over both parameters' gradients
            const double factor = clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1;
            for (double& e : g) e *= factor;
            p.Update(c.optimizer, c.hyper, t, g);
            q.Update(c.optimizer, c.hyper, t, g);
            ASSERT_EQ(
                Text(run.Pass(x, {.update = {.hyper = c.hyper, .updates = static_cast<uint64_t>(t - 1)}})),
                "");
          }
          const std::string where = c.optimizer + " " + ToString(dims) + (clip > 0 ? ", clipped" : "");
          run.ExpectEqual("p", p.p, where);
          run.ExpectEqual("q", q.p, where);
          if (c.optimizer == "sgd") run.ExpectEqual("q.velocity", q.m, where);
          if (c.optimizer == "adagrad") run.ExpectEqual("q.sum", q.v, where);
          if (c.optimizer == "adam") run.ExpectEqual("p.exp_avg_sq", p.v, where);
        }
}

// The value of a float scalar of the step.
double NumberOf(const PlanRun& run, ValueId id) {
  return static_cast<double>(*Take(run.executor->Train(1))->view(id).as<float>());
}

// And whether it is asked for changes no parameter.
TEST(Update, NormOfAllGradientsIsAnOutput) {
  for (const std::string optimizer : {"sgd", "adagrad", "lamb"})
    for (const Dims& dims : kShapes)
      for (const double clip : {0.0, 0.75})
        for (const KernelRegistry* kernels :
             {&testing_step::CpuKernels(), &testing_step::ReferenceKernels()}) {
          CompileOptions options = testing_step::Checked("L0", optimizer);
          options.clip_norm = clip;
          PlanRun without(dims, options, *kernels);
          options.grad_norm = true;
          PlanRun with(dims, options, *kernels);
          const std::string where = optimizer + " " + ToString(dims) + (clip > 0 ? ", clipped" : "");
          EXPECT_EQ(GradientNormOf(without.plan) != kNoValue, clip > 0) << where;
          const ValueId norm = GradientNormOf(with.plan);
          ASSERT_NE(norm, kNoValue) << where;
          const auto count = static_cast<size_t>(TensorType{DType::kFloat32, dims}.Elements().fixed);
          const std::vector<float> x = Random(count, 3);
          const StepState state{.update = {.hyper = {.lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3}}};
          for (PlanRun* run : {&without, &with}) ASSERT_EQ(Text(run->Pass(x, state)), "") << where;
          // Before clipping, over both parameters. At most 1800 squares, of which a lane sums up 100: errors
          // of half a rounding (6e-8) each are below 100 of them.
          const double expected = std::sqrt(2.0) * NormOf(Doubles(x.begin(), x.end()));
          EXPECT_NEAR(NumberOf(with, norm), expected, 6e-6 * expected) << where;
          for (const std::string name : {"p", "q"})
            EXPECT_EQ(std::memcmp(with.Tensor(name).as<float>(), without.Tensor(name).as<float>(), 4 * count),
                      0)
                << where;
        }
}

// The sum over i of i p_i x, for i = 1 .. count: the gradient of p_i is i x.
ImportResult SumOfMany(int count) {
  Graph graph;
  GraphBuilder b(graph);
  const TensorType type{DType::kFloat32, {5}};
  const ValueId x = b.Input("x", type, ValueKind::kInput);
  ValueId sum = kNoValue;
  for (int i = 1; i <= count; ++i) {
    const std::vector<float> start = Random(5, static_cast<unsigned>(i));
    const ValueId p =
        b.Input("p" + std::to_string(i), type, ValueKind::kParameter, testing_step::HostFloats(start));
    const ValueId term = Take(b.Add1("Mul", {p, b.Scalar(static_cast<float>(i))}, {}, "term"));
    sum = i == 1 ? term : Take(b.Add1("Add", {sum, term}, {}, "sum"));
  }
  Attributes attrs;
  attrs.Set("axes", std::vector<int64_t>{0});
  attrs.Set("keepdims", int64_t{0});
  const ValueId product = Take(b.Add1("Mul", {sum, x}, {}, "product"));
  graph.outputs = {Take(b.Add1("ReduceSum", {product}, attrs, "loss"))};
  return testing_step::ModelOf(std::move(graph));
}

// The sums of squares are added in pairs, and each number of them leaves others over.
TEST(Update, NormIsOfAnyNumberOfGradients) {
  for (int count = 1; count <= 7; ++count)
    for (const double clip : {0.0, 0.75}) {
      CompileOptions options = testing_step::Checked("L0", "sgd");
      options.clip_norm = clip;
      options.grad_norm = true;
      PlanRun run(SumOfMany(count), options, testing_step::CpuKernels());
      const std::vector<float> x = Random(5, 3);
      ASSERT_EQ(Text(run.Pass(x, {.update = {.hyper = {.lr = 0.1}}})), "");
      const double expected =
          std::sqrt(count * (count + 1) * (2 * count + 1) / 6.0) * NormOf(Doubles(x.begin(), x.end()));
      // 35 squares, each with a few roundings of 6e-8.
      EXPECT_NEAR(NumberOf(run, GradientNormOf(run.plan)), expected, 2e-6 * expected)
          << count << ", " << clip;
    }
}

TEST(Update, NormIsOfTheSumOverMicroBatches) {
  CompileOptions options = testing_step::Checked("L0", "sgd");
  options.accumulate = 2;
  options.grad_norm = true;
  PlanRun run({3, 5}, options, testing_step::CpuKernels());
  const std::vector<float> a = Random(15, 20), b = Random(15, 30);
  Doubles g(15);
  for (size_t i = 0; i < g.size(); ++i)
    g[i] = 0.25 * static_cast<double>(a[i]) + 0.75 * static_cast<double>(b[i]);
  StepState state{.update = {.hyper = {.lr = 0.1}, .sum_weight = 0.25}, .updates = false};
  ASSERT_EQ(Text(run.Pass(a, state)), "");
  state.update.keep_sum = 1;
  state.update.sum_weight = 0.75;
  state.updates = true;
  ASSERT_EQ(Text(run.Pass(b, state)), "");
  const double expected = std::sqrt(2.0) * NormOf(g);
  // 30 squares, each with a few roundings of 6e-8.
  EXPECT_NEAR(NumberOf(run, GradientNormOf(run.plan)), expected, 2e-6 * expected);
}

// A direction of length 0, and a parameter of length 0, have the trust ratio 1.
TEST(Update, LambOfAParameterThatIsZero) {
  const Case c = Cases().back();
  PlanRun run({4}, testing_step::Checked("L0", "lamb"), testing_step::CpuKernels());
  std::fill_n(run.Tensor("p").as<float>(), 4, 0.0f);
  Truth p(std::vector<float>(4, 0), c.hyper), q(Random(4, 2), c.hyper);
  const std::vector<float> x = Random(4, 3), none(4, 0);
  p.Update("lamb", c.hyper, 1, Doubles(x.begin(), x.end()));
  ASSERT_EQ(Text(run.Pass(x, {.update = {.hyper = c.hyper}})), "");
  run.ExpectEqual("p", p.p, "first step");
  Hyperparameters no_decay = c.hyper;
  no_decay.weight_decay = 0;
  PlanRun still({4}, testing_step::Checked("L0", "lamb"), testing_step::CpuKernels());
  ASSERT_EQ(Text(still.Pass(none, {.update = {.hyper = no_decay}})), "");
  still.ExpectEqual("q", q.p, "without a gradient");
}

// After each update the sums start from 0, whatever they held. Parameters change with the last
// micro-batch only.
TEST(Update, AccumulatesGradients) {
  for (const Case& c : Cases())
    for (const double clip : {0.0, 0.75}) {
      CompileOptions options = testing_step::Checked("L0", c.optimizer);
      options.accumulate = 2;
      options.clip_norm = clip;
      PlanRun run({3, 5}, options, testing_step::CpuKernels());
      llvm::cantFail(StartOptimizerState(*run.executor, c.hyper));
      Truth p(Random(15, 1), c.hyper);
      std::fill_n(run.Tensor("p.grad_sum").as<float>(), 15, std::nanf(""));
      for (int t = 1; t <= 2; ++t) {
        const std::vector<float> a = Random(15, static_cast<unsigned>(20 + t)),
                                 b = Random(15, static_cast<unsigned>(30 + t));
        Doubles g(15);
        for (size_t i = 0; i < g.size(); ++i)
          g[i] = 0.25 * static_cast<double>(a[i]) + 0.75 * static_cast<double>(b[i]);
        StepState state{
            .update = {.hyper = c.hyper, .updates = static_cast<uint64_t>(t - 1), .sum_weight = 0.25},
            .updates = false};
        ASSERT_EQ(Text(run.Pass(a, state)), "");
        run.ExpectEqual("p", p.p, c.optimizer + ", between micro-batches");
        state.update.keep_sum = 1;
        state.update.sum_weight = 0.75;
        state.updates = true;
        ASSERT_EQ(Text(run.Pass(b, state)), "");
        run.ExpectEqual("p.grad_sum", g, c.optimizer);
        const double factor = clip > 0 ? std::min(1.0, clip / (std::sqrt(2.0) * NormOf(g) + 1e-6)) : 1;
        for (double& e : g) e *= factor;
        p.Update(c.optimizer, c.hyper, t, g);
        run.ExpectEqual("p", p.p, c.optimizer);
      }
    }
}

// The parameter takes its step with the state before that is rounded, and state begins at 0: the first step is
// that of float32. Later ones differ from it by what rounding does.
TEST(Update, QuantizedStateTakesTheSteps) {
  for (const Case& c : Cases())
    for (const StateFormat state : {StateFormat::kBFloat16, StateFormat::k8Bit})
      for (const double clip : {0.0, 0.75})
        for (const KernelRegistry* kernels :
             {&testing_step::CpuKernels(), &testing_step::ReferenceKernels()}) {
          if (FindUpdateRule(c.optimizer)->quantized.empty()) continue;
          CompileOptions options = testing_step::Checked("L0", c.optimizer);
          options.clip_norm = clip;
          options.state = state;
          const Dims dims = {3, 2, 3, 300};
          constexpr size_t kCount = 5400;
          PlanRun run(dims, options, *kernels);
          const std::string where = c.optimizer + (clip > 0 ? ", clipped" : "");
          const auto& tensors = run.executor->persistents();
          EXPECT_TRUE(std::any_of(tensors.begin(), tensors.end(), [state](const PersistentTensor& tensor) {
            const bool bfloat16 = state == StateFormat::kBFloat16;
            return tensor.view.dtype == (bfloat16 ? DType::kBFloat16 : DType::kUint8) &&
                   tensor.view.elements == static_cast<int64_t>(kCount);
          })) << where;
          Truth p(Random(kCount, 1), c.hyper), q(Random(kCount, 2), c.hyper);
          for (int t = 1; t <= 3; ++t) {
            const std::vector<float> x = Random(kCount, static_cast<unsigned>(10 + t));
            Doubles g(x.begin(), x.end());
            const double factor = clip > 0 ? std::min(1.0, clip / (std::sqrt(2.0) * NormOf(g) + 1e-6)) : 1;
            for (double& e : g) e *= factor;
            p.Update(c.optimizer, c.hyper, t, g);
            q.Update(c.optimizer, c.hyper, t, g);
            const auto step = static_cast<uint64_t>(t - 1);
            ASSERT_EQ(Text(run.Pass(x, {.step = step, .update = {.hyper = c.hyper, .updates = step}})), "");
            if (t > 1) continue;
            run.ExpectEqual("p", p.p, where);
            run.ExpectEqual("q", q.p, where);
          }
          for (const auto& [name, truth] : {std::pair{"p", &p}, {"q", &q}}) {
            const float* found = run.Tensor(name).as<float>();
            const std::vector<float> start = Random(kCount, truth == &p ? 1 : 2);
            double error = 0, moved = 0;
            for (size_t i = 0; i < kCount; ++i) {
              error += std::pow(static_cast<double>(found[i]) - truth->p[i], 2);
              moved += std::pow(static_cast<double>(start[i]) - truth->p[i], 2);
            }
            // Of the squared length of three steps: state of 8 bits has relative gaps of some per cent,
            // bfloat16 of .4 to .8 %.
            EXPECT_LT(error, moved * (state == StateFormat::kBFloat16 ? 1e-4 : 1e-2))
                << name << ", " << where;
            EXPECT_GT(error, moved * 1e-9) << name << ", " << where;
          }
        }
}

// The two tables of optimizers agree: the compiler can build every optimizer that a
// command line can name.
TEST(Update, EveryOptimizerHasARule) {
  for (const OptimizerInfo& optimizer : AllOptimizers()) {
    const UpdateRule* rule = FindUpdateRule(optimizer.name);
    ASSERT_NE(rule, nullptr) << optimizer.name;
    for (const std::string& scalar : rule->scalars) EXPECT_NE(FindStepScalar(scalar), nullptr) << scalar;
  }
  EXPECT_EQ(FindUpdateRule("none"), nullptr);
  EXPECT_EQ(FindUpdateRule(""), nullptr);
}

// A model may bring an optimizer along, so the compiler itself refuses what it cannot update.
TEST(Update, RefusesFormsOfState) {
  for (const StateFormat state : {StateFormat::kBFloat16, StateFormat::k8Bit}) {
    CompileOptions options;
    options.optimizer = "ort-adamw";
    options.state = state;
    EXPECT_NE(Text(Compile(SumOfProducts({3, 5}), options).takeError()).find("ort-adamw"), std::string::npos);
    for (const char* optimizer : {"sgd", "adam", "adamw", "lamb"})
      EXPECT_EQ(Text(CheckState(optimizer, state)), "");
  }
  EXPECT_EQ(Text(CheckState("adagrad", StateFormat::kFloat32)), "");
}

TEST(Update, RefusesOptionsThatMakeNoSense) {
  const auto message = [](const std::string& optimizer, double clip, int64_t accumulate) {
    CompileOptions options;
    options.optimizer = optimizer;
    options.clip_norm = clip;
    options.accumulate = accumulate;
    return Text(CheckUpdates(options));
  };
  EXPECT_EQ(message("adam", 1, 4), "");
  EXPECT_NE(message("adamm", 0, 1).find("'adamm'"), std::string::npos);
  EXPECT_NE(message("sgd", -1, 1).find("--clip-norm"), std::string::npos);
  EXPECT_NE(message("sgd", std::nan(""), 1).find("--clip-norm"), std::string::npos);
  EXPECT_NE(message("sgd", 0, 0).find("--accumulate"), std::string::npos);
  EXPECT_NE(message("none", 1, 1).find("needs an optimizer"), std::string::npos);
  EXPECT_NE(message("none", 0, 2).find("needs an optimizer"), std::string::npos);
}

}  // namespace
}  // namespace act
