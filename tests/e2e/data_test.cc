// Data sets of actrun: the forms of their files, reading ahead, and files that change under a run.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "tests/e2e/process.h"
#include "tests/e2e/refusal.h"
#include "tests/e2e/tensors.h"
#include "tests/paths.h"
#include "tests/take.h"

namespace act::e2e {
namespace {

class Data : public testing::Test {
 protected:
  std::string CompileDigits(const std::vector<std::string>& more) {
    std::vector<std::string> args = {
        ToolPath("actc"), ModelsFolder() + "/digits_resnet.onnx", "-o", plan(), "--batch=32",
        "--report=none"};
    args.insert(args.end(), more.begin(), more.end());
    ExpectDone(args);
    return plan();
  }
  void CompileLenet() {
    ExpectDone(
        {ToolPath("actc"), GoldenFolder() + "/lenet/model.onnx", "-O", "L3", "-o", plan(), "--report=none"});
  }
  std::string plan() const { return scratch_ / "plan.bin"; }
  static std::string Digits(const std::string& part) {
    const std::string folder = ModelsFolder() + "/data/digits/" + part;
    return "image=" + folder + "_image.npy,label=" + folder + "_label.npy";
  }
  // Samples `begin` to `end` of a data set for lenet. Its images are waves. Labels of samples before `labeled` do not
  // count.
  void WriteLenetData(const std::string& name, int begin, int end, int labeled = 0) {
    Tensors tensors;
    Tensor &image = tensors["image"], &label = tensors["label"];
    image.shape = {end - begin, 1, 16, 16};
    label.dtype = "I64";
    label.shape = {end - begin};
    for (int i = begin; i < end; ++i) {
      for (int k = 0; k < 256; ++k) image.data.push_back(std::sin(.1 * k * (i + 1)));
      label.data.push_back(i < labeled ? -100 : i % 10);
    }
    WriteTensors(scratch_ / name, tensors);
  }
  std::vector<std::string> Command(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {ToolPath("actrun"), plan(), "--threads=1", "--lr=0.05",
                                     "--momentum=0.9"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  struct Ended {
    std::string checkpoint;
    llvm::json::Value losses = nullptr, evaluations = nullptr;
    bool operator==(const Ended&) const = default;
  };
  Ended Run(std::vector<std::string> more) {
    more.insert(more.end(), {"--save=" + (scratch_ / "end"), "--report-json=" + (scratch_ / "run.json")});
    ExpectDone(Command(more));
    llvm::json::Object report = Take(ReadJson(scratch_ / "run.json"));
    return {ReadFile(scratch_ / "end"), std::move(*report.get("losses")),
            std::move(*report.get("evaluations"))};
  }
  void ExpectSameWithAndWithoutPrefetch(const std::vector<std::string>& more, const std::string& what) {
    std::vector<std::string> plain = more;
    plain.push_back("--prefetch=false");
    EXPECT_TRUE(Run(more) == Run(plain)) << what;
  }

  ScratchFolder scratch_;
};

TEST_F(Data, ReadingAheadChangesNoBit) {
  const std::string data = "--data=" + Digits("train"), eval = "--eval-data=" + Digits("test");
  CompileDigits({"-O", "L2"});
  ExpectSameWithAndWithoutPrefetch({data, eval, "--epochs=1", "--batch=50"}, "a partial last batch");
  ExpectSameWithAndWithoutPrefetch({data, "--adapt-every=10", "--steps=22"}, "levels that move");
  CompileDigits({"-O", "L0", "--accumulate=3"});
  ExpectSameWithAndWithoutPrefetch({data, eval, "--epochs=1"}, "micro-batches");
  CompileLenet();
  WriteLenetData("data.safetensors", 0, 11);
  const std::string lenet = "--data=" + scratch_ / "data.safetensors";
  ExpectSameWithAndWithoutPrefetch({lenet, "--device=fake", "--batch=4", "--epochs=3"}, "a card");
}

TEST_F(Data, ShardsHaveTheBitsOfOneFileOnBothDevices) {
  CompileLenet();
  WriteLenetData("data.safetensors", 0, 11);
  WriteLenetData("part-a.safetensors", 0, 5);
  WriteLenetData("part-b.safetensors", 5, 6);
  WriteLenetData("part-c.safetensors", 6, 11);
  for (const std::string device : {"--device=cpu", "--device=fake"}) {
    const Ended whole = Run({"--data=" + (scratch_ / "data.safetensors"), device, "--batch=4", "--steps=5"});
    EXPECT_TRUE(Run({"--data=" + (scratch_ / "part-*.safetensors"), device, "--batch=4", "--steps=5"}) ==
                whole)
        << device;
  }
}

// Every batch of 16 has another number of labels that count, and the first has none.
TEST_F(Data, TheLossOfAnEvaluationDoesNotDependOnTheBatch) {
  CompileLenet();
  WriteLenetData("train.safetensors", 0, 48);
  WriteLenetData("test.safetensors", 0, 48, 21);
  const auto loss_at = [this](const std::string& batch) {
    ExpectDone({ToolPath("actrun"), plan(), "--threads=1", "--lr=0", "--epochs=1", "--batch=" + batch,
                "--data=" + (scratch_ / "train.safetensors"),
                "--eval-data=" + (scratch_ / "test.safetensors"),
                "--report-json=" + (scratch_ / "run.json")});
    const llvm::json::Object report = Take(ReadJson(scratch_ / "run.json"));
    return *report.getArray("evaluations")->front().getAsObject()->getNumber("loss");
  };
  // Rounding: each loss is a float32 number near 2.3, and two of them are averaged.
  EXPECT_NEAR(loss_at("16"), loss_at("48"), 1e-6);
}

TEST_F(Data, TheLossOfAnEvaluationWithoutLabelsIsNan) {
  CompileLenet();
  WriteLenetData("train.safetensors", 0, 8);
  WriteLenetData("test.safetensors", 0, 8, 8);
  const auto command = Command({"--data=" + (scratch_ / "train.safetensors"), "--batch=4", "--epochs=1",
                                "--eval-data=" + (scratch_ / "test.safetensors")});
  const Outcome outcome = RunTool(command);
  EXPECT_EQ(outcome.exit_code, 0) << Describe(command, outcome);
  EXPECT_NE(outcome.err.find("epoch 1  eval loss nan\n"), std::string::npos) << Describe(command, outcome);
}

TEST_F(Data, TheReportTellsTheBytesOfTheNextBatch) {
  CompileLenet();
  WriteLenetData("data.safetensors", 0, 11);
  const std::string data = "--data=" + scratch_ / "data.safetensors";
  // 4 samples of 16 x 16 floats and a label of 8 bytes, which takes a cache line
  EXPECT_NE(ExpectDone(Command({data, "--batch=4"})).find("(4160 bytes) of the host, beside the arena"),
            std::string::npos);
  Run({data, "--prefetch=false"});
  EXPECT_EQ(Take(ReadJson(scratch_ / "run.json")).getInteger("staging_bytes"), 0);
}

TEST_F(Data, AFileThatBecomesShorterEndsTheRunAndTheOldCheckpointStays) {
  CompileLenet();
  const std::string end = scratch_ / "end.safetensors", data = scratch_ / "data.safetensors";
  for (const std::string prefetch : {"--prefetch=true", "--prefetch=false"}) {
    // To no bytes: pages are gone. By a few bytes: their page is there, and they would be read as zeros.
    for (const int64_t cut_to : {int64_t{0}, int64_t{100 * 1024}, int64_t{-8}}) {
      WriteLenetData("data.safetensors", 0, 200);
      const auto size = static_cast<int64_t>(ReadFile(data).size());
      ExpectDone(Command({"--data=" + data, "--batch=4", "--steps=1", "--save=" + end}));
      const std::string before = ReadFile(end);
      const auto command = Command({"--data=" + data, "--batch=4", "--steps=100000000", "--load=" + end,
                                    "--save=" + end, "--lr=0", prefetch});
      const Outcome outcome =
          RunTool(command, {.interrupt_at = "step 1", .instead = [&] {
                              ASSERT_EQ(::truncate(data.c_str(), cut_to < 0 ? size + cut_to : cut_to), 0);
                            }});
      EXPECT_EQ(outcome.exit_code, 1) << Describe(command, outcome);
      const std::string told = "actrun: error: " + data + ": became shorter while it was in use: it had " +
                               std::to_string(size) + " bytes and has ";
      EXPECT_NE(outcome.err.find(told), std::string::npos) << Describe(command, outcome);
      EXPECT_TRUE(ReadFile(end) == before);
      for (const std::string& name : List(scratch_.path())) EXPECT_FALSE(name.ends_with(".tmp")) << name;
    }
  }
}

}  // namespace
}  // namespace act::e2e
