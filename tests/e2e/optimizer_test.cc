// Optimizers through the command lines: five steps of each, compared with PyTorch's numbers
// (tests/golden_optimizers/make.py), clipping, accumulation, resuming, and the flags that an
// optimizer does not accept.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/e2e/process.h"
#include "tests/e2e/refusal.h"
#include "tests/e2e/tensors.h"
#include "tests/paths.h"
#include "tests/take.h"

namespace act::e2e {
namespace {

using Args = std::vector<std::string>;

std::string Data(const std::string& file) { return GoldenFolder() + "/../golden_optimizers/" + file; }

struct Case {
  std::string name;  // name in expected.safetensors
  Args compile, run;
  int64_t state_tensors;  // tensors of a parameter's size, for each parameter
};

// The numbers of make.py.
const std::vector<Case> kCases = {
    {"sgd", {"--optimizer=sgd"}, {"--lr=0.05", "--weight-decay=0.01"}, 1},
    {"sgd_nesterov",
     {"--optimizer=sgd"},
     {"--lr=0.05", "--momentum=0.8", "--weight-decay=0.01", "--nesterov"},
     1},
    {"plain_sgd", {"--optimizer=plain-sgd"}, {"--lr=0.05", "--weight-decay=0.01"}, 0},
    {"adam", {"--optimizer=adam"}, {"--lr=0.01", "--beta1=0.8", "--beta2=0.95", "--weight-decay=0.1"}, 2},
    {"adamw", {"--optimizer=adamw"}, {"--lr=0.01", "--eps=1e-4", "--weight-decay=0.1"}, 2},
    {"adagrad",
     {"--optimizer=adagrad"},
     {"--lr=0.05", "--lr-decay=0.1", "--weight-decay=0.01", "--initial-accumulator-value=0.1"},
     1},
    {"lamb", {"--optimizer=lamb"}, {"--lr=0.02", "--beta2=0.99", "--weight-decay=0.1"}, 2},
    {"adam_clipped",
     {"--optimizer=adam", "--clip-norm=0.5"},
     {"--lr=0.01", "--beta1=0.8", "--beta2=0.95", "--weight-decay=0.1"},
     2},
    {"sgd_clipped", {"--optimizer=sgd", "--clip-norm=0.5"}, {"--lr=0.05", "--weight-decay=0.01"}, 1},
    {"adamw_groups",
     {"--optimizer=adamw", "--no-decay", "--no-decay=w3", "--lr-factor=w1=0.1,*2=3"},
     {"--lr=0.01", "--eps=1e-4", "--weight-decay=0.1"},
     2},
    {"lamb_groups",
     {"--optimizer=lamb", "--no-decay=*1", "--lr-factor=*=0.5"},
     {"--lr=0.02", "--beta2=0.99", "--weight-decay=0.1"},
     2},
};

Args Joined(Args args, const Args& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

class Optimizers : public testing::Test {
 protected:
  llvm::json::Object Compile(const Args& flags) {
    ExpectDone(Joined({ToolPath("actc"), Data("model.onnx"), "-o", scratch_ / "plan", "--batch=8",
                       "--report=none", "--report-json=" + (scratch_ / "plan.json")},
                      flags));
    return Take(ReadJson(scratch_ / "plan.json"));
  }
  // Uses all samples of the data set, in micro-batches of this size.
  Args Command(int64_t batch, const Args& flags) {
    return Joined({ToolPath("actrun"), scratch_ / "plan", "--threads=1", "--batch=" + std::to_string(batch),
                   "--data=x=" + Data("x.npy") + ",y=" + Data("y.npy")},
                  flags);
  }
  struct Result {
    llvm::json::Object report;
    Tensors tensors;  // of the first step's dump and of the checkpoint
  };
  Result Run(int64_t batch, const Args& flags) {
    ExpectDone(Joined(Command(batch, flags),
                      {"--epochs=5", "--check-memory", "--save=" + (scratch_ / "end"),
                       "--dump-step=" + (scratch_ / "step"), "--report-json=" + (scratch_ / "run.json")}));
    Result result{Take(ReadJson(scratch_ / "run.json")), Take(ReadTensors(scratch_ / "end"))};
    result.tensors.merge(Take(ReadTensors(scratch_ / "step")));
    return result;
  }

  ScratchFolder scratch_;
};

// The largest error of an element, relative to the tensor's largest element.
double ErrorOf(const Tensor& found, const Tensor& expected) {
  if (found.data.size() != expected.data.size() || found.shape != expected.shape) return INFINITY;
  double scale = 0, worst = 0;
  for (const double e : expected.data) scale = std::max(scale, std::fabs(e));
  for (size_t i = 0; i < expected.data.size(); ++i)
    worst = std::max(worst, std::fabs(found.data[i] - expected.data[i]));
  return worst / scale;
}

// Float32 through five steps of a well-conditioned model: the largest error seen is 4e-7, a few
// roundings. A wrong formula or hyperparameter is off by more than 1e-3.
constexpr double kLimit = 2e-6;

void ExpectPyTorchsNumbers(const Case& c, const Tensors& found) {
  const Tensors expected = Take(ReadTensors(Data("expected.safetensors")));
  int compared = 0;
  for (const auto& [key, tensor] : expected) {
    if (key.rfind(c.name + "/", 0) != 0 || key.ends_with("/losses")) continue;
    const auto it = found.find(key.substr(c.name.size() + 1));
    if (it == found.end()) {
      ADD_FAILURE() << key << " is missing";
      continue;
    }
    EXPECT_LE(ErrorOf(it->second, tensor), kLimit) << key;
    ++compared;
  }
  EXPECT_EQ(compared, 5 * (2 + c.state_tensors))
      << c.name;  // gradient, parameter and state of five parameters
}

int64_t Int(const llvm::json::Object& object, const char* key) { return object.getInteger(key).value_or(-1); }

TEST_F(Optimizers, AgreeWithPyTorch) {
  const int64_t padded = 64 * (3 + 1 + 4 + 2 + 1);  // bytes of w1, b1, w2, w3, scale in lines of 64
  for (const Case& c : kCases) {
    const llvm::json::Object plan = Compile(c.compile);
    EXPECT_EQ(Int(plan, "optimizer_bytes"), c.state_tensors * padded) << c.name;
    const Result run = Run(8, c.run);
    ExpectPyTorchsNumbers(c, run.tensors);
    EXPECT_EQ(Int(run.report, "peak_bytes"), Int(plan, "peak_bytes")) << c.name;
  }
}

// 8 samples in micro-batches of 3, 3 and 2, with gradients weighted by their samples, give the same
// as one batch of 8.
TEST_F(Optimizers, AccumulateToTheWholeBatch) {
  for (const Case& c : kCases) {
    Compile(Joined(c.compile, {"--accumulate=3"}));
    const Result run = Run(3, c.run);
    ExpectPyTorchsNumbers(c, run.tensors);
    EXPECT_EQ(Int(run.report, "peak_bytes"), Int(run.report, "planned_peak_bytes")) << c.name;
    EXPECT_EQ(run.report.getArray("losses")->size(), 5u);
    EXPECT_EQ(run.tensors.count("optimizer.w1.grad_sum"), 0u);  // has no meaning between steps
  }
}

// This holds however few micro-batches are left.
TEST_F(Optimizers, AStepEndsWithItsEpoch) {
  Compile({"--accumulate=3"});
  const Result run = Run(2, {});
  EXPECT_EQ(run.report.getArray("losses")->size(), 5u * 2);  // 2 + 2 + 2, then 2
  EXPECT_EQ(run.tensors.at("step").data[0], 10);
  Compile({"--accumulate=100"});
  EXPECT_EQ(Run(1, {}).report.getArray("losses")->size(), 5u);
}

TEST_F(Optimizers, KeepTheirPeakAtL3) {
  for (const Case& c : kCases)
    for (const char* accumulate : {"--accumulate=1", "--accumulate=2"}) {
      const llvm::json::Object plan = Compile(Joined(c.compile, {"-O", "L3", "--group-size=64", accumulate}));
      const Result run = Run(8, c.run);
      EXPECT_EQ(Int(run.report, "peak_bytes"), Int(plan, "peak_bytes")) << c.name;
      EXPECT_TRUE(std::isfinite(run.report.getArray("losses")->back().getAsNumber().value_or(NAN))) << c.name;
    }
}

// Bias corrections and schedules continue where they were.
TEST_F(Optimizers, ResumeBitIdentically) {
  for (const Case& c : kCases) {
    Compile(Joined(c.compile, {"-O", "L3", "--group-size=64", "--accumulate=2"}));
    const auto run = [&](const Args& more) { ExpectDone(Joined(Command(2, c.run), more)); };
    const std::string schedule = "--lr-schedule=cosine,0.001,6";
    run({"--steps=6", schedule, "--save=" + (scratch_ / "whole")});
    run({"--steps=3", schedule, "--save=" + (scratch_ / "half")});
    run({"--steps=3", schedule, "--load=" + (scratch_ / "half"), "--save=" + (scratch_ / "resumed")});
    EXPECT_EQ(ReadFile(scratch_ / "whole"), ReadFile(scratch_ / "resumed")) << c.name;
    EXPECT_NE(ReadFile(scratch_ / "whole"), ReadFile(scratch_ / "half")) << c.name;
  }
}

// Rounding is random, by the step and the element, and so must be the same after a stop.
TEST_F(Optimizers, QuantizedStateIsSmallerExactlyPlannedAndResumesBitIdentically) {
  const std::string golden = GoldenFolder() + "/vit/", plan = scratch_ / "plan";
  const std::string report = scratch_ / "report.json";
  const auto compile = [&](const std::string& optimizer, const std::string& state, const Args& more) {
    ExpectDone(Joined({ToolPath("actc"), golden + "model.onnx", "-o", plan, "--optimizer=" + optimizer,
                       "--optimizer-state=" + state, "--batch=4", "--report=none", "--report-json=" + report},
                      more));
    return Take(ReadJson(report));
  };
  const auto run = [&](const Args& more) {
    ExpectDone(Joined({ToolPath("actrun"), plan, "--batch=4", "--inputs=" + golden + "inputs.safetensors",
                       "--lr=0.001", "--report-json=" + report},
                      more));
    return Int(Take(ReadJson(report)), "peak_bytes");
  };
  for (const std::string optimizer : {"sgd", "adam", "adamw", "lamb"})
    for (const Args& flags : std::vector<Args>{{}, {"--clip-norm=1", "-O", "L3", "--compute=bf16"}}) {
      const llvm::json::Object exact = compile(optimizer, "f32", flags);
      int64_t larger = Int(exact, "optimizer_bytes");
      for (const std::string state : {"bf16", "8bit"}) {
        const std::string where = optimizer + " " + state + (flags.empty() ? "" : " " + flags[0]);
        const llvm::json::Object planned = compile(optimizer, state, flags);
        EXPECT_LT(Int(planned, "optimizer_bytes"), larger) << where;
        larger = Int(planned, "optimizer_bytes");
        EXPECT_LT(Int(planned, "peak_bytes"), Int(exact, "peak_bytes")) << where;
        EXPECT_EQ(run({"--steps=4", "--check-memory", "--save=" + (scratch_ / "whole")}),
                  Int(planned, "peak_bytes"))
            << where;
        run({"--steps=2", "--save=" + (scratch_ / "half")});
        run({"--steps=2", "--load=" + (scratch_ / "half"), "--save=" + (scratch_ / "resumed")});
        EXPECT_EQ(ReadFile(scratch_ / "whole"), ReadFile(scratch_ / "resumed")) << where;
        EXPECT_NE(ReadFile(scratch_ / "whole"), ReadFile(scratch_ / "half")) << where;
      }
    }
}

TEST_F(Optimizers, RefuseFormsOfStateTheyDoNotHave) {
  const Args compile = {ToolPath("actc"), Data("model.onnx")};
  for (const std::string state : {"--optimizer-state=bf16", "--optimizer-state=8bit"}) {
    for (const std::string optimizer :
         {"none", "plain-sgd", "adagrad", "ort-adamw", "onnx-adam", "onnx-momentum"})
      ExpectWrongUsage(Joined(compile, {"--optimizer=" + optimizer, state}),
                       {"--optimizer-state", optimizer, "sgd, adam, adamw or lamb"});
  }
  ExpectWrongUsage(Joined(compile, {"--optimizer-state=4bit"}), {"--optimizer-state", "4bit", "bf16"});
}

TEST_F(Optimizers, FrozenParametersHaveNoState) {
  Compile({"--optimizer=adam", "--freeze=w2"});
  const Result run = Run(8, {});
  EXPECT_EQ(run.tensors.count("optimizer.w2.exp_avg"), 0u);
  EXPECT_EQ(run.tensors.count("optimizer.w1.exp_avg"), 1u);
  EXPECT_EQ(run.tensors.count("grad.w2"), 0u);
}

TEST_F(Optimizers, TellWhatClippingAndAccumulationCost) {
  const int64_t gradients = Int(Compile({}), "gradients_bytes");
  EXPECT_EQ(Int(Compile({}), "kept_gradients_bytes"), 0);
  const int64_t padded = 64 * (3 + 1 + 4 + 2 + 1);
  EXPECT_LT(gradients, padded);
  EXPECT_EQ(Int(Compile({"--clip-norm=1"}), "kept_gradients_bytes"), padded);
  EXPECT_EQ(Int(Compile({"--accumulate=2"}), "kept_gradients_bytes"), padded);
  EXPECT_EQ(Int(Compile({"--accumulate=2", "--clip-norm=1"}), "kept_gradients_bytes"), padded);
}

TEST_F(Optimizers, RefuseFlagsTheyDoNotTake) {
  Compile({"--optimizer=adam"});
  ExpectWrongUsage(Command(8, {"--momentum=0.5"}), {"--momentum", "adam", "--beta1"});
  ExpectWrongUsage(Command(8, {"--nesterov"}), {"--nesterov", "adam"});
  ExpectWrongUsage(Command(8, {"--beta2=1"}), {"--beta2", "[0, 1)"});
  ExpectWrongUsage(Command(8, {"--eps=-1"}), {"--eps"});
  ExpectWrongUsage(Command(8, {"--lr=nan"}), {"--lr"});
  Compile({});
  ExpectWrongUsage(Command(8, {"--beta1=0.5"}), {"--beta1", "sgd", "--momentum"});
  ExpectWrongUsage(Command(8, {"--nesterov", "--momentum=0"}), {"--nesterov", "momentum"});
  Compile({"--optimizer=plain-sgd"});
  ExpectWrongUsage(Command(8, {"--momentum=0"}), {"--momentum", "plain-sgd", "--weight-decay"});
  Compile({"--optimizer=none"});
  ExpectWrongUsage(Command(8, {"--lr=1"}), {"--lr", "updates no parameters"});
  const Args compile = {ToolPath("actc"), Data("model.onnx")};
  ExpectWrongUsage(Joined(compile, {"--optimizer=adamm"}), {"--optimizer", "adamm", "lamb"});
  ExpectWrongUsage(Joined(compile, {"--clip-norm=0"}), {"--clip-norm"});
  ExpectWrongUsage(Joined(compile, {"--clip-norm=inf"}), {"--clip-norm"});
  ExpectWrongUsage(Joined(compile, {"--accumulate=0"}), {"--accumulate"});
  ExpectWrongUsage(Joined(compile, {"--optimizer=none", "--clip-norm=1"}),
                   {"--clip-norm", "needs an optimizer"});
  ExpectWrongUsage(Joined(compile, {"--optimizer=none", "--no-decay"}), {"--no-decay", "needs an optimizer"});
  for (const std::string rule : {"w1", "w1=0", "w1=-1", "w1=nan", "=2", "w1=2x"})
    ExpectWrongUsage(Joined(compile, {"--lr-factor=" + rule}), {"--lr-factor=" + rule, "GLOB=X"});
}

TEST_F(Optimizers, TellWhichParametersDifferAndRefuseNamesOfNone) {
  const Args compile = {ToolPath("actc"), Data("model.onnx")};
  const std::string out = ExpectDone(Joined(compile, {"--no-decay", "--lr-factor=w?=0.1"}));
  EXPECT_NE(out.find("updates: 3 of 5 parameters with 0.1 times the learning rate; "
                     "2 of 5 parameters without weight decay\n"),
            std::string::npos)
      << out;
  ExpectRefused(Joined(compile, {"--no-decay=fc*"}), {"--no-decay=fc*", "no parameter"});
  ExpectRefused(Joined(compile, {"--lr-factor=w1=2", "--freeze=w1"}), {"--lr-factor=w1=2", "no parameter"});
  ExpectRefused(Joined(compile, {"--no-decay=w["}), {"--no-decay=w["});
}

// The state of another optimizer would cause wrong bias corrections without notice.
TEST_F(Optimizers, RefuseACheckpointOfAnother) {
  Compile({"--optimizer=sgd"});
  Run(8, {});
  Compile({"--optimizer=adam"});
  ExpectRefused(Command(8, {"--load=" + (scratch_ / "end")}), {"optimizer.", "exp_avg", "step 5"});
}

}  // namespace
}  // namespace act::e2e
