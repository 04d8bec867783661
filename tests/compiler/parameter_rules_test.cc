// Parameters whose learning rate or weight decay differs from that of the others.
#include "compiler/autodiff/parameter_rules.h"

#include "runtime/train/checkpoint.h"
#include "tests/compiler/update_case.h"

namespace act {
namespace {

using testing_step::Text;
using update_case::Case;
using update_case::Doubles;
using update_case::PlanRun;
using update_case::Random;
using update_case::Truth;

Hyperparameters Scaled(Hyperparameters hyper, const UpdateFactors& factors) {
  hyper.lr *= factors.lr;
  hyper.weight_decay *= factors.decay;
  hyper.post_decay *= factors.decay;
  return hyper;
}

// As another run would update it whose learning rate and weight decay are that much smaller.
TEST(ParameterRules, AParameterFollowsItsFactorsAndTheOthersDoNot) {
  for (const Case& c : update_case::Cases())
    for (const UpdateFactors factors :
         {UpdateFactors{.decay = 0}, {.lr = .25}, {.lr = 3, .decay = 0}, {.decay = .5}})
      for (const double clip : {0.0, 0.75})
        for (const KernelRegistry* kernels :
             {&testing_step::CpuKernels(), &testing_step::ReferenceKernels()}) {
          CompileOptions options = testing_step::Checked("L0", c.optimizer);
          options.rules = {{.flag = "--rule", .glob = "q*", .factors = factors}};
          options.clip_norm = clip;
          PlanRun run({3, 5}, options, *kernels);
          llvm::cantFail(StartOptimizerState(*run.executor, c.hyper));
          const Hyperparameters of_q = Scaled(c.hyper, factors);
          Truth p(Random(15, 1), c.hyper), q(Random(15, 2), of_q);
          for (int t = 1; t <= 3; ++t) {
            const std::vector<float> x = Random(15, static_cast<unsigned>(10 + t));
            Doubles g(x.begin(), x.end());
            const double factor =
                clip > 0 ? std::min(1.0, clip / (std::sqrt(2.0) * update_case::NormOf(g) + 1e-6)) : 1;
            for (double& e : g) e *= factor;
            p.Update(c.optimizer, c.hyper, t, g);
            q.Update(c.optimizer, of_q, t, g);
            ASSERT_EQ(
                Text(run.Pass(x, {.update = {.hyper = c.hyper, .updates = static_cast<uint64_t>(t - 1)}})),
                "");
          }
          const std::string where =
              c.optimizer + " " + std::to_string(factors.lr) + " " + std::to_string(factors.decay);
          run.ExpectEqual("p", p.p, where);
          run.ExpectEqual("q", q.p, where);
        }
}

// The first step of quantized state is that of float32 (update_test.cc).
TEST(ParameterRules, HoldForQuantizedStateToo) {
  for (const Case& c : update_case::Cases())
    for (const StateFormat state : {StateFormat::kBFloat16, StateFormat::k8Bit}) {
      if (FindUpdateRule(c.optimizer)->quantized.empty()) continue;
      CompileOptions options = testing_step::Checked("L0", c.optimizer);
      options.state = state;
      const UpdateFactors factors{.lr = .5, .decay = 0};
      options.rules = {{.flag = "--rule", .glob = "q", .factors = factors}};
      constexpr size_t kCount = 5400;
      PlanRun run({3, 2, 3, 300}, options, testing_step::CpuKernels());
      Truth p(Random(kCount, 1), c.hyper), q(Random(kCount, 2), Scaled(c.hyper, factors));
      const std::vector<float> x = Random(kCount, 3);
      p.Update(c.optimizer, c.hyper, 1, Doubles(x.begin(), x.end()));
      q.Update(c.optimizer, Scaled(c.hyper, factors), 1, Doubles(x.begin(), x.end()));
      ASSERT_EQ(Text(run.Pass(x, {.update = {.hyper = c.hyper}})), "");
      run.ExpectEqual("p", p.p, c.optimizer);
      run.ExpectEqual("q", q.p, c.optimizer);
    }
}

struct Parameters {
  Graph graph;
  std::vector<ValueId> ids;
  Parameters() {
    for (const auto& [name, dims] : std::initializer_list<std::pair<const char*, Dims>>{
             {"conv.weight", {8, 3, 3, 3}}, {"conv.bias", {8}}, {"norm.weight", {8}}, {"scale", {}}}) {
      ids.push_back(static_cast<ValueId>(graph.values.size()));
      graph.values.push_back({name, {DType::kFloat32, dims}, ValueKind::kParameter, {}});
    }
  }
};

TEST(ParameterRules, NameParametersByGlobOrByTheirAxes) {
  const Parameters p;
  const auto factors =
      testing_step::Take(FactorsOfParameters({{"--no-decay", "", {.decay = 0}},
                                              {"--lr-factor=conv.*=.5", "conv.*", {.lr = .5}},
                                              {"--lr-factor=*bias=3", "*bias", {.lr = 3}}},
                                             p.graph, p.ids));
  const std::map<std::string, UpdateFactors> expected = {{"conv.weight", {.lr = .5}},
                                                         {"conv.bias", {.lr = 1.5, .decay = 0}},
                                                         {"norm.weight", {.decay = 0}},
                                                         {"scale", {.decay = 0}}};
  EXPECT_EQ(factors, expected);
}

TEST(ParameterRules, ThatNameNoParameterAreRefused) {
  const Parameters p;
  const auto error = [&p](const ParameterRule& rule, std::vector<ValueId> trained) {
    return Text(FactorsOfParameters({rule}, p.graph, trained).takeError());
  };
  EXPECT_NE(error({"--no-decay=fc*", "fc*", {}}, p.ids).find("--no-decay=fc*: matches no parameter"),
            std::string::npos);
  // A frozen parameter has no update.
  EXPECT_NE(error({"--no-decay", "", {}}, {p.ids[0]}).find("--no-decay: matches no parameter"),
            std::string::npos);
  EXPECT_NE(error({"--no-decay=[", "[", {}}, p.ids).find("--no-decay=["), std::string::npos);
}

}  // namespace
}  // namespace act
