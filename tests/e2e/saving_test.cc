// Runs that save on the way, and go on after they were killed: in the same bytes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "tests/e2e/onnx_models.h"
#include "tests/e2e/process.h"
#include "tests/e2e/refusal.h"
#include "tests/e2e/tensors.h"
#include "tests/paths.h"
#include "tests/take.h"

namespace act::e2e {
namespace {

namespace fs = std::filesystem;
using Args = std::vector<std::string>;

constexpr int kSamples = 22, kEvalSamples = 9, kStepsOfAnEpoch = 6, kEpochs = 3;

// image f32[batch,8] -> 256 features -> Relu -> Dropout -> 3 classes.
std::string Network(const Extent& batch) {
  OnnxModel model;
  model.Input("image", onnx::TensorProto::FLOAT, {batch, 8})
      .Input("label", onnx::TensorProto::INT64, {batch})
      .Weight("w1", {8, 256})
      .Weight("w2", {256, 3})
      .Node("first", "MatMul", {"image", "w1"}, "a")
      .Node("relu", "Relu", {"a"}, "b")
      .Node("tanh", "Tanh", {"b"}, "c")
      .Node("dropout", "Dropout", {"c", "ratio", "training"}, "d")
      .Node("second", "MatMul", {"d", "w2"}, "logits")
      .Node("criterion", "SoftmaxCrossEntropyLoss", {"logits", "label"}, "loss")
      .Output("loss", {});
  onnx::ModelProto proto;
  EXPECT_TRUE(proto.ParseFromString(model.Bytes()));
  // A float initializer would be a parameter, so the ratio is a constant, which comes before its reader.
  auto* nodes = proto.mutable_graph()->mutable_node();
  onnx::NodeProto* const constant = nodes->Add();
  constant->set_op_type("Constant");
  constant->add_output("ratio");
  onnx::AttributeProto* const value = constant->add_attribute();
  value->set_name("value");
  value->set_type(onnx::AttributeProto::TENSOR);
  value->mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
  value->mutable_t()->add_float_data(0.25f);
  for (int i = nodes->size() - 1; i > 0; --i) nodes->SwapElements(i, i - 1);
  auto* training = proto.mutable_graph()->add_initializer();
  training->set_name("training");
  training->set_data_type(onnx::TensorProto::BOOL);
  training->set_raw_data(std::string(1, '\1'));
  return proto.SerializeAsString();
}

void WriteNpy(const std::string& path, const std::string& descr, const std::string& shape, const void* data,
              size_t bytes) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize(117, ' ');
  header += '\n';
  std::string file("\x93NUMPY\x01\x00\x76\x00", 10);
  file += header + std::string(static_cast<const char*>(data), bytes);
  WriteFile(path, file);
}

class Saving : public testing::Test {
 protected:
  void SetUp() override {
    WriteFile(scratch_ / "model.onnx", Network("N"));
    WriteFile(scratch_ / "fixed.onnx", Network(4));
    WriteData("train", kSamples);
    WriteData("test", kEvalSamples);
    Compile({});
  }
  void WriteData(const std::string& name, int samples) {
    std::vector<float> image;
    std::vector<int64_t> label;
    for (int s = 0; s < samples; ++s) {
      label.push_back(s % 3);
      for (int i = 0; i < 8; ++i) image.push_back(std::sin(static_cast<float>(s * s + 3 * i)));
    }
    const std::string count = std::to_string(samples);
    WriteNpy(scratch_ / (name + "_image.npy"), "<f4", count + ", 8", image.data(),
             image.size() * sizeof(float));
    WriteNpy(scratch_ / (name + "_label.npy"), "<i8", count + ",", label.data(),
             label.size() * sizeof(int64_t));
  }
  void Compile(const Args& flags, const std::string& model = "model.onnx") {
    Args args = {ToolPath("actc"), scratch_ / model, "-o", scratch_ / "plan", "--batch=4", "--report=none"};
    args.insert(args.end(), flags.begin(), flags.end());
    if (flags.empty()) args.insert(args.end(), {"-O", "L1"});
    ExpectDone(args);
  }
  std::string Data(const std::string& flag, const std::string& name) const {
    return "--" + flag + "=image=" + (scratch_ / (name + "_image.npy")) +
           ",label=" + (scratch_ / (name + "_label.npy"));
  }
  // Saves to FOLDER/run.st, and reports to FOLDER.json.
  Args Command(const std::string& folder, const Args& more) const {
    Args args = {ToolPath("actrun"),
                 scratch_ / "plan",
                 "--threads=1",
                 "--lr=0.5",
                 Data("data", "train"),
                 Data("eval-data", "test"),
                 "--save=" + (scratch_ / folder) + "/run.st",
                 "--report-json=" + (scratch_ / (folder + ".json"))};
    args.insert(args.end(), more.begin(), more.end());
    fs::create_directories(scratch_ / folder);
    return args;
  }
  // Exit 0. Returns standard error.
  std::string Run(const std::string& folder, const Args& more) const {
    const Args command = Command(folder, more);
    const Outcome outcome = RunTool(command);
    EXPECT_EQ(outcome.exit_code, 0) << Describe(command, outcome);
    return outcome.err;
  }
  std::string Saved(const std::string& folder, const std::string& name = "run.st") const {
    return ReadFile(scratch_ / folder + "/" + name);
  }
  std::vector<double> Numbers(const std::string& folder, const std::string& key,
                              const std::string& of = "") const {
    std::vector<double> numbers;
    const llvm::json::Object report = Take(ReadJson(scratch_ / (folder + ".json")));
    for (const llvm::json::Value& value : *report.getArray(key))
      numbers.push_back(of.empty() ? *value.getAsNumber() : *value.getAsObject()->getNumber(of));
    return numbers;
  }
  static std::string AtStep(int step) {
    char name[32];
    std::snprintf(name, sizeof name, "run.step-%08d.st", step);
    return name;
  }
  static std::vector<double> From(const std::vector<double>& all, size_t begin) {
    return {all.begin() + static_cast<int64_t>(std::min(begin, all.size())), all.end()};
  }
  // `flags` train to `end` steps. Saving changes nothing, and a run that goes on from any of `steps` ends in the
  // same bytes, with the losses and evaluations of the rest.
  void ExpectResumes(const Args& flags, const std::vector<int>& steps) {
    for (const char* folder : {"straight", "saved", "rest"}) fs::remove_all(scratch_ / folder);
    Run("straight", flags);
    Args saving = flags;
    saving.insert(saving.end(), {"--save-every=1", "--keep=1000"});
    Run("saved", saving);
    EXPECT_TRUE(Saved("saved") == Saved("straight")) << "saving changed the run";
    const std::vector<double> losses = Numbers("straight", "losses"),
                              loss = Numbers("straight", "evaluations", "loss");
    Args resuming = flags;
    resuming.push_back("--resume");
    for (const int step : steps) {
      fs::remove_all(scratch_ / "rest");
      fs::create_directories(scratch_ / "rest");
      fs::copy_file(scratch_ / "saved/" + AtStep(step), scratch_ / "rest/" + AtStep(step));
      const std::string err = Run("rest", resuming);
      EXPECT_NE(err.find(", from step " + std::to_string(step)), std::string::npos) << err;
      EXPECT_TRUE(Saved("rest") == Saved("straight")) << "from step " << step;
      const auto done = static_cast<size_t>(step);
      EXPECT_EQ(Numbers("rest", "losses"), From(losses, done)) << "from step " << step;
      EXPECT_EQ(Numbers("rest", "evaluations", "loss"), From(loss, (done - 1) / StepsOfAnEpoch(flags)))
          << "from step " << step;
    }
  }
  size_t StepsOfAnEpoch(const Args& flags) const {
    for (const std::string& flag : flags)
      if (flag == "--steps=7") return 3;  // of the plan that accumulates
    return fixed_ ? kStepsOfAnEpoch - 1 : kStepsOfAnEpoch;
  }

  const ScratchFolder scratch_;
  bool fixed_ = false;
};

const std::string kToEnd = "--epochs=" + std::to_string(kEpochs);

TEST_F(Saving, ResumesBitIdenticallyWithMomentumAndACosine) {
  ExpectResumes({kToEnd, "--momentum=0.9", "--lr-schedule=cosine"}, {1, 6, 11, 12, 17, 18});
  ExpectResumes({"--steps=12", "--momentum=0.9", "--lr-schedule=cosine"}, {6, 12});
  ExpectResumes({"--steps=8", "--epochs=2", "--save-best=loss", "--seed=3"}, {5, 6, 8});
}

TEST_F(Saving, ResumesBitIdenticallyWithAdam) {
  Compile({"-O", "L3", "--optimizer=adamw"});
  ExpectResumes({kToEnd, "--lr=0.01"}, {1, 6, 13, 18});
}

// An epoch has 6 batches and so 3 steps, the last with 2 + 4 samples.
TEST_F(Saving, ResumesBitIdenticallyWithAccumulation) {
  Compile({"-O", "L2", "--accumulate=2", "--clip-norm=1"});
  ExpectResumes({"--steps=7", "--momentum=0.9"}, {1, 3, 5, 7});
}

// The last two samples of an epoch are left out.
TEST_F(Saving, ResumesBitIdenticallyWithAFixedBatch) {
  WriteData("test", 8);
  Compile({"-O", "L2"}, "fixed.onnx");
  fixed_ = true;
  ExpectResumes({kToEnd, "--momentum=0.9"}, {1, 5, 7, 15});
}

TEST_F(Saving, DataOfAnotherNumberOfSamplesBeginsItsEpochAnew) {
  Run("start", {"--steps=3"});  // 12 of 22 samples
  const std::string start = scratch_ / "start/run.st", load = "--load=" + start;
  const std::string told = "actrun: warning: " + start + ": 12 ";
  EXPECT_EQ(Run("same", {"--epochs=1", load}).find(told), std::string::npos);
  EXPECT_EQ(Numbers("same", "losses").size(), 3u);
  Tensors old = Take(ReadTensors(start));
  ASSERT_EQ(old["samples"].data, std::vector<double>{kSamples});
  old.erase("samples");

  WriteData("train", 9);
  const std::string err = Run("fewer", {"--epochs=1", load});
  EXPECT_NE(
      err.find(told + "of 22 samples of an epoch were seen, and the data now has 9: the epoch begins anew"),
      std::string::npos)
      << err;
  EXPECT_EQ(Numbers("fewer", "losses").size(), 3u) << "a whole epoch";
  WriteData("train", 40);
  EXPECT_NE(Run("more", {"--epochs=1", load}).find(told), std::string::npos);
  EXPECT_EQ(Numbers("more", "losses").size(), 10u);
  // A file that does not tell the number goes on where it was, if there is such a sample.
  WriteTensors(start, old);
  EXPECT_EQ(Run("more", {"--epochs=1", load}).find(told), std::string::npos);
  EXPECT_EQ(Numbers("more", "losses").size(), 7u);
}

TEST_F(Saving, TellsWhatAFixedBatchLeavesOut) {
  Compile({"-O", "L2"}, "fixed.onnx");
  const std::string told = "actrun: warning: --";
  for (const char* prefetch : {"--prefetch=true", "--prefetch=false"}) {
    const std::string err = Run("run", {"--epochs=3", prefetch});
    for (const std::string part :
         {"data: has 22 samples, no multiple of the model's fixed batch of 4: each epoch "
          "leaves out 2, others each time\n",
          "eval-data: has 9 samples, no multiple of the model's fixed batch of 4: the "
          "last 1 is never used\n"}) {
      const size_t at = err.find(told + part);
      EXPECT_NE(at, std::string::npos) << err;
      EXPECT_EQ(err.find(told + part, at + 1), std::string::npos) << "twice: " << err;
    }
  }
  Compile({"-O", "L2"});
  EXPECT_EQ(Run("other", {"--epochs=1"}).find(told), std::string::npos);
}

TEST_F(Saving, ResumesBitIdenticallyWithAdaptedLevels) {
  Compile({"-O", "L2", "--bits=3"});
  ExpectResumes({kToEnd, "--momentum=0.9", "--adapt-every=4"}, {3, 4, 6, 8, 12, 18});
  const std::vector<double> moved = Numbers("straight", "adaptations", "moved");
  EXPECT_GT(*std::max_element(moved.begin(), moved.end()), 0) << "no level moved";
}

TEST_F(Saving, ResumesBitIdenticallyInBfloat16) {
  Compile({"-O", "L2", "--compute=bf16"});
  ExpectResumes({kToEnd, "--momentum=0.9"}, {1, 6, 17});
}

TEST_F(Saving, ResumesBitIdenticallyOnACard) {
  Compile({"-O", "L2", "--optimizer=adamw"});
  ExpectResumes({"--steps=9", "--lr=0.01", "--device=fake"}, {5, 6});
}

TEST_F(Saving, TimesHaveUnits) {
  for (const char* time : {"3600s", "10min", "2h"}) {
    Run(time, {"--steps=2", "--save-every=" + std::string(time)});
    EXPECT_EQ(List(scratch_ / time), (Args{"run.st"}));
  }
}

TEST_F(Saving, KeepsTheNewestAndNamesThemByStep) {
  Run("some", {kToEnd, "--save-every=5"});
  EXPECT_EQ(List(scratch_ / "some"), (Args{"run.st", AtStep(10), AtStep(15)}));
  Run("one", {kToEnd, "--save-every=7", "--keep=1"});
  EXPECT_EQ(List(scratch_ / "one"), (Args{"run.st", AtStep(14)}));
}

TEST_F(Saving, GoesOnFromTheNewestAndRemovesWhatAKilledRunLeft) {
  const Args flags = {kToEnd, "--momentum=0.9", "--save-every=4", "--keep=3", "--resume"};
  const std::string first = Run("run", flags);
  EXPECT_NE(first.find("no checkpoint of " + (scratch_ / "run/run.st") + " is there"), std::string::npos)
      << first;
  const std::string end = Saved("run");
  // As after a kill: no final state, a state that is cut off, and a part of the next one.
  fs::remove(scratch_ / "run/run.st");
  const std::string newest = scratch_ / "run/" + AtStep(16), bytes = ReadFile(newest);
  WriteFile(newest, bytes.substr(0, bytes.size() / 2));
  WriteFile(scratch_ / "run/" + AtStep(20) + ".0123abcd.tmp", "part");
  WriteFile(scratch_ / "run/notes.0123abcd.tmp", "not ours");
  const std::string again = Run("run", flags);
  EXPECT_NE(again.find("warning: left aside: " + newest), std::string::npos) << again;
  EXPECT_NE(again.find(AtStep(12) + ", from step 12"), std::string::npos) << again;
  EXPECT_TRUE(Saved("run") == end);
  EXPECT_TRUE(Saved("run", AtStep(16)) == bytes) << "written again";
  EXPECT_EQ(List(scratch_ / "run"),
            (Args{"notes.0123abcd.tmp", "run.st", AtStep(8), AtStep(12), AtStep(16)}));
  // At its end there is nothing to do.
  EXPECT_NE(Run("run", flags).find("goes on with " + (scratch_ / "run/run.st") + ", from step 18"),
            std::string::npos);
  EXPECT_TRUE(Saved("run") == end);
  EXPECT_TRUE(Numbers("run", "losses").empty());
  // --resume trains to so many epochs, and --load for so many.
  Run("run", {"--epochs=4", "--momentum=0.9", "--save-every=4", "--resume"});
  EXPECT_EQ(Numbers("run", "losses").size(), 6u);
  Run("other", {"--epochs=1", "--load=" + (scratch_ / "run/run.st")});
  EXPECT_EQ(Numbers("other", "losses").size(), 6u);
}

TEST_F(Saving, DoesNotStartOverWhereEveryCheckpointIsDamaged) {
  fs::create_directories(scratch_ / "run");
  WriteFile(scratch_ / "run/run.st", "");
  const std::string err = ExpectRefused(Command("run", {"--steps=1", "--resume"}), {});
  EXPECT_NE(err.find("error: --resume: no complete checkpoint is left"), std::string::npos) << err;
  EXPECT_EQ(Saved("run"), "");
}

// --resume would take the states of the run before for those of this one.
TEST_F(Saving, StartsOverOnlyWhereNoLaterStateIs) {
  Run("run", {"--steps=6"});
  Run("run", {"--steps=4"});  // as ever: the end replaces the end
  ExpectRefused(Command("run", {"--steps=9", "--save-every=2"}), {"--save-every", "run.st is of step 4"});
  Run("run", {"--steps=3", "--save-every=2", "--load=" + (scratch_ / "run/run.st")});
  EXPECT_EQ(List(scratch_ / "run"), (Args{"run.st", AtStep(6)}));
}

// This rate makes the loss worse after the first epoch.
TEST_F(Saving, TheBestStaysTheBestOverResumes) {
  const Args flags = {"--epochs=4",     "--lr=40",    "--save-best=loss",
                      "--save-every=1", "--keep=100", "--resume"};
  Run("run", flags);
  const std::vector<double> loss = Numbers("run", "evaluations", "loss");
  const auto best = std::min_element(loss.begin(), loss.end());
  const auto epoch = static_cast<int>(best - loss.begin()) + 1;
  ASSERT_LT(epoch, 4);
  const Tensors state = Take(ReadTensors(scratch_ / "run/run.best.st"));
  EXPECT_EQ(state.at("step").data[0], kStepsOfAnEpoch * epoch);
  EXPECT_EQ(state.at("best_loss").data[0], *best);
  EXPECT_EQ(Take(ReadTensors(scratch_ / "run/run.st")).at("best_loss").data[0], *best);
  // Goes on after the best epoch: all evaluations of the rest are worse.
  const std::string bytes = Saved("run", "run.best.st"), end = Saved("run");
  for (int step = kStepsOfAnEpoch * epoch + 2; step <= 4 * kStepsOfAnEpoch; ++step)
    fs::remove(scratch_ / "run/" + AtStep(step));
  fs::remove(scratch_ / "run/run.st");
  EXPECT_NE(Run("run", flags).find("from step " + std::to_string(kStepsOfAnEpoch * epoch + 1)),
            std::string::npos);
  EXPECT_TRUE(Saved("run", "run.best.st") == bytes);
  EXPECT_TRUE(Saved("run") == end);
}

TEST_F(Saving, TwoRunsDoNotSaveToOnePath) {
  const Args command = Command("run", {"--steps=1"});
  const std::string lock = scratch_ / "run/run.st.lock";
  const int held = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  ExpectRefused(command, {"run.st", "another run saves there"});
  close(held);
  ExpectDone(command);
  EXPECT_EQ(List(scratch_ / "run"), (Args{"run.st"}));
}

// The run goes on without a state on the way, and fails without the last one.
TEST_F(Saving, AFullDiskIsAWarningOnTheWayAndAnErrorAtTheEnd) {
  fs::create_directories(scratch_ / "run/" + AtStep(2));
  const std::string err = Run("run", {"--steps=3", "--save-every=1"});
  EXPECT_NE(err.find("warning: step 2 is not saved: " + (scratch_ / "run/" + AtStep(2))), std::string::npos)
      << err;
  EXPECT_NE(err.find("last state on the disk is of step 1"), std::string::npos) << err;
  EXPECT_EQ(Take(ReadTensors(scratch_ / "run/run.st")).at("step").data[0], 3);

  const Args command = Command("full", {"--steps=2", "--save-every=1", "--save-best=accuracy"});
  const Outcome outcome = RunTool(command, {.largest_file_bytes = 1000});
  EXPECT_EQ(outcome.exit_code, 1) << Describe(command, outcome);
  for (const char* text : {"warning: step 1 is not saved", "warning: step 2 is not saved",
                           "nothing of this run", "actrun: error: ", "run.st: cannot write: File too large"})
    EXPECT_NE(outcome.err.find(text), std::string::npos) << text << Describe(command, outcome);
  EXPECT_EQ(List(scratch_ / "full"), Args{}) << "no part of a file";
}

TEST_F(Saving, WrongUsage) {
  const std::string plan = scratch_ / "plan";
  ExpectWrongUsage({ToolPath("actrun"), plan, "--save-every=5"}, {"--save-every: needs --save"});
  ExpectWrongUsage({ToolPath("actrun"), plan, "--resume"}, {"--resume: needs --save"});
  ExpectWrongUsage({ToolPath("actrun"), plan, "--save-best=loss"}, {"--save-best: needs --save"});
  for (const std::string every :
       {"0", "-1", "10 lightyears", "1.5h", "5m", "0s", "min", "99999999999999999999", "99999999999999h"})
    ExpectWrongUsage(Command("run", {"--save-every=" + every}),
                     {"--save-every: expected steps or a time, found '" + every + "'", "hint: write 500"});
  ExpectWrongUsage(Command("run", {"--save-every=5", "--keep=0"}), {"--keep: expected at least 1"});
  ExpectWrongUsage(Command("run", {"--keep=3"}), {"--keep: counts the files of --save-every"});
  ExpectWrongUsage(Command("run", {"--save-best=speed"}),
                   {"--save-best: expected loss or accuracy, found 'speed'"});
  ExpectWrongUsage({ToolPath("actrun"), plan, "--save=x", "--save-best=loss"},
                   {"--save-best: needs --eval-data"});
  ExpectWrongUsage(Command("run", {"--resume", "--load=x"}), {"--resume and --load"});
  EXPECT_EQ(List(scratch_ / "run"), Args{});
}

TEST_F(Saving, RefusesWhatItCannotSave) {
  Args command = Command("run", {"--save-every=1"});
  for (std::string& arg : command)
    if (arg.rfind("--save=", 0) == 0) arg = "--save=/dev/null";
  ExpectRefused(command, {"--save: /dev/null is not a file"});
  WriteFile(scratch_ / "model.onnx", ReadFile(GoldenFolder() + "/mse/model.onnx"));
  Compile({"-O", "L0"});
  ExpectRefused({ToolPath("actrun"), scratch_ / "plan", "--data=x=y.npy", "--eval-data=x=y.npy",
                 "--save-best=accuracy", "--save=" + (scratch_ / "run/x.st")},
                {"--save-best: the model has no class labels"});
}

}  // namespace
}  // namespace act::e2e
