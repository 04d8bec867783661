// --frozen-weights with the tools: the arena holds codes, and every file the weights themselves.
#include <gtest/gtest.h>

#include <filesystem>
#include <tuple>

#include "tests/e2e/actc_command.h"
#include "tests/e2e/onnx_models.h"
#include "tests/e2e/refusal.h"
#include "tests/e2e/tensors.h"
#include "tests/take.h"

namespace act::e2e {
namespace {

using Args = std::vector<std::string>;

constexpr int64_t kWide = 96, kFrozenElements = 64 * kWide;

// image f32[N,8] -> a trained product -> one with "frozen.weight" -> a trained one -> 3 classes.
std::string Network() {
  return OnnxModel()
      .Input("image", onnx::TensorProto::FLOAT, {"N", 8})
      .Input("label", onnx::TensorProto::INT64, {"N"})
      .Weight("first.weight", {8, 64})
      .Weight("frozen.weight", {64, kWide})
      .Weight("last.weight", {kWide, 3})
      .Node("first", "MatMul", {"image", "first.weight"}, "a")
      .Node("relu", "Relu", {"a"}, "b")
      .Node("frozen", "MatMul", {"b", "frozen.weight"}, "c")
      .Node("tanh", "Tanh", {"c"}, "d")
      .Node("last", "MatMul", {"d", "last.weight"}, "logits")
      .Node("criterion", "SoftmaxCrossEntropyLoss", {"logits", "label"}, "loss")
      .Output("loss", {})
      .Bytes();
}

class FrozenWeights : public ActcCommand {
 protected:
  void Compile(const Args& flags) {
    Args args = Command(Write(Network()), {"--freeze=frozen.*", "--batch=4", "--report=none"});
    args.insert(args.end(), flags.begin(), flags.end());
    ExpectDone(args);
  }
  void Run(const Args& flags) const {
    Args args = {ToolPath("actrun"), plan(), "--batch=4", "--threads=1", "--lr=0.5", "--check-memory"};
    args.insert(args.end(), flags.begin(), flags.end());
    ExpectDone(args);
  }
  llvm::json::Object Report(const std::string& name) const { return Take(ReadJson(scratch_ / name)); }
};

// The numbers that OnnxModel gives a weight, as float32.
std::vector<double> Given(int64_t elements) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < elements; ++i)
    numbers.push_back(static_cast<double>(0.01F * static_cast<float>(i % 7 - 3)));
  return numbers;
}

TEST_F(FrozenWeights, TakeTheBytesOfTheirCodes) {
  const struct {
    const char* form;
    int64_t bytes;
  } cases[] = {{"bf16", 2 * kFrozenElements},
               {"8bit", kFrozenElements + kFrozenElements / 256 * 4},
               {"4bit", kFrozenElements / 2 + kFrozenElements / 64 * 4}};
  int64_t plain = 0;
  Compile({"--report-json=" + (scratch_ / "f32.json")});
  plain = *Report("f32.json").getInteger("parameters_bytes");
  for (const auto& c : cases) {
    Compile({std::string("--frozen-weights=") + c.form, "--report-json=" + (scratch_ / "coded.json")});
    const llvm::json::Object report = Report("coded.json");
    EXPECT_EQ(report.getInteger("frozen_bytes"), c.bytes) << c.form;
    EXPECT_EQ(report.getInteger("frozen_bytes_uncompressed"), 4 * kFrozenElements);
    EXPECT_EQ(report.getInteger("parameters_bytes"), plain - 4 * kFrozenElements + (c.bytes + 63) / 64 * 64)
        << c.form;
    Run({"--steps=2", "--report-json=" + (scratch_ / "run.json")});
    EXPECT_EQ(Report("run.json").getInteger("peak_bytes"), report.getInteger("peak_bytes")) << c.form;
  }
}

TEST_F(FrozenWeights, AreThemselvesInCheckpointsAndExportedModels) {
  Compile({"--frozen-weights=4bit"});
  Run({"--steps=3", "--save=" + (scratch_ / "end"), "--export-onnx=" + (scratch_ / "trained.onnx")});
  const Tensors saved = Take(ReadTensors(scratch_ / "end"));
  EXPECT_EQ(saved.at("param.frozen.weight").dtype, "F32");
  EXPECT_EQ(saved.at("param.frozen.weight").shape, (std::vector<int64_t>{64, kWide}));
  EXPECT_EQ(saved.at("param.frozen.weight").data, Given(kFrozenElements));
  EXPECT_NE(saved.at("param.last.weight").data, Given(3 * kWide)) << "it trains";
  onnx::ModelProto exported;
  ASSERT_TRUE(exported.ParseFromString(ReadFile(scratch_ / "trained.onnx")));
  for (const onnx::TensorProto& tensor : exported.graph().initializer()) {
    if (tensor.name() != "frozen.weight") continue;
    std::vector<float> floats(kFrozenElements);
    ASSERT_EQ(tensor.raw_data().size(), floats.size() * sizeof(float));
    std::memcpy(floats.data(), tensor.raw_data().data(), tensor.raw_data().size());
    EXPECT_EQ(std::vector<double>(floats.begin(), floats.end()), Given(kFrozenElements));
  }
}

TEST_F(FrozenWeights, GoOnBitIdenticallyFromACheckpoint) {
  for (const char* form : {"bf16", "8bit", "4bit"}) {
    Compile({std::string("--frozen-weights=") + form});
    Run({"--steps=4", "--save=" + (scratch_ / "straight")});
    Run({"--steps=2", "--save=" + (scratch_ / "half")});
    Run({"--steps=2", "--load=" + (scratch_ / "half"), "--save=" + (scratch_ / "rest")});
    EXPECT_TRUE(ReadFile(scratch_ / "rest") == ReadFile(scratch_ / "straight")) << form;
  }
}

// A checkpoint of either plan continues in the other, and what a checkpoint brings is what the run computes with.
TEST_F(FrozenWeights, ComeFromACheckpointOfAnyPlan) {
  Compile({});
  Run({"--steps=1", "--save=" + (scratch_ / "plain")});
  Tensors changed = Take(ReadTensors(scratch_ / "plain"));
  for (double& number : changed.at("param.frozen.weight").data) number *= -0.5;
  WriteTensors(scratch_ / "changed", changed);
  Compile({"--frozen-weights=8bit"});
  for (const char* from : {"plain", "changed"})
    Run({"--steps=1", "--load=" + (scratch_ / from), "--save=" + (scratch_ / "coded"),
         "--report-json=" + (scratch_ / (std::string(from) + ".json"))});
  EXPECT_EQ(Take(ReadTensors(scratch_ / "coded")).at("param.frozen.weight").data,
            changed.at("param.frozen.weight").data);
  const auto loss = [&](const std::string& report) {
    return *(*Report(report).getArray("losses"))[0].getAsNumber();
  };
  EXPECT_NE(loss("plain.json"), loss("changed.json"));
  Compile({});
  Run({"--steps=1", "--load=" + (scratch_ / "coded")});
}

// What the codes of activations do is told by --variance, and what those of weights do beside a plan without them.
TEST_F(FrozenWeights, AreComparedWithAPlanThatDoesNotHaveThem) {
  Compile({});
  std::filesystem::rename(plan(), scratch_ / "exact");
  double earlier = 1;
  for (const char* form : {"4bit", "8bit"}) {
    Compile({std::string("--frozen-weights=") + form});
    Run({"--variance=16", "--variance-edges=", "--variance-reference=" + (scratch_ / "exact"),
         "--report-json=" + (scratch_ / "v.json")});
    const llvm::json::Object report = Report("v.json");
    EXPECT_GT(*report.getNumber("variance"), 0) << "codes of activations, at L3";
    const double bias = *report.getObject("reference")->getNumber("bias");
    EXPECT_GT(bias, 0) << form;
    EXPECT_LT(bias, earlier) << form;
    earlier = bias / 16;  // a 17th of the step, so a 289th in squares; and the bias is an estimate
  }
}

// id i64[N] -> a row of "table" -> a trained product -> scores, by the product with the same table.
constexpr int64_t kWords = 20000, kWidth = 420;
std::string LanguageModel() {
  return OnnxModel()
      .Input("id", onnx::TensorProto::INT64, {"N"})
      .Input("label", onnx::TensorProto::INT64, {"N"})
      .Weight("table", {kWords, kWidth})
      .Weight("trained.weight", {kWidth, kWidth})
      .Node("lookup", "Gather", {"table", "id"}, "row")
      .Node("product", "MatMul", {"row", "trained.weight"}, "a")
      .Node("transposed", "Transpose", {"table"}, "columns")
      .Node("last", "MatMul", {"a", "columns"}, "logits")
      .Node("criterion", "SoftmaxCrossEntropyLoss", {"logits", "label"}, "loss")
      .Output("loss", {})
      .Bytes();
}

// The lookup and both products with the table read its code: no copy of it exists.
TEST_F(FrozenWeights, OfALanguageModelAreNeverDecodedWhole) {
  const std::string model = Write(LanguageModel());
  const Args flags = {"--freeze=table", "--batch=4", "--report=none",
                      "--report-json=" + (scratch_ / "plan.json")};
  const auto loss_of = [&](const std::string& compute, const std::string& form) {
    Args args = Command(model, flags);
    args.insert(args.end(), {"--compute=" + compute, "--frozen-weights=" + form});
    ExpectDone(args);
    Run({"--steps=2", "--report-json=" + (scratch_ / "run.json")});
    const llvm::json::Object planned = Report("plan.json"), run = Report("run.json");
    EXPECT_EQ(run.getInteger("peak_bytes"), planned.getInteger("peak_bytes")) << compute << ", " << form;
    if (form != "f32") {
      EXPECT_LT(*planned.getInteger("peak_bytes") - *planned.getInteger("parameters_bytes"),
                2 * kWords * kWidth + (20 << 20))
          << "less than the table in bfloat16, besides the bound of a product's scratch space";
    }
    return *(*run.getArray("losses"))[1].getAsNumber();
  };
  for (const char* compute : {"f32", "bf16"}) {
    const double exact = loss_of(compute, "f32");
    // A step of 16 levels is .004 of weights of up to .03, and of 256 levels a 17th of that. Scores are small beside
    // the logarithm of the number of words.
    EXPECT_NEAR(loss_of(compute, "8bit"), exact, 1e-4) << compute;
    EXPECT_NEAR(loss_of(compute, "4bit"), exact, 2e-3) << compute;
  }
}

// image f32[N,4,6,6] -> a trained convolution -> one with "frozen.weight", of 2.1 million weights -> 3 classes.
constexpr int64_t kChannels = 456, kOutChannels = 512, kConvElements = kOutChannels * kChannels * 9;
std::string ConvolutionalNetwork() {
  return OnnxModel()
      .Input("image", onnx::TensorProto::FLOAT, {"N", 4, 6, 6})
      .Input("label", onnx::TensorProto::INT64, {"N"})
      .Weight("first.weight", {kChannels, 4, 1, 1})
      .Weight("frozen.weight", {kOutChannels, kChannels, 3, 3})
      .Weight("last.weight", {kOutChannels, 3})
      .Node("first", "Conv", {"image", "first.weight"}, "a")
      .Node("tanh", "Tanh", {"a"}, "b")
      .Node("frozen", "Conv", {"b", "frozen.weight"}, "c")
      .Node("pool", "GlobalAveragePool", {"c"}, "d")
      .Node("flat", "Flatten", {"d"}, "e")
      .Node("last", "MatMul", {"e", "last.weight"}, "logits")
      .Node("criterion", "SoftmaxCrossEntropyLoss", {"logits", "label"}, "loss")
      .Output("loss", {})
      .Bytes();
}

// The weight goes from its code into the layout that is multiplied, which a float32 plan has beside the weight, too.
TEST_F(FrozenWeights, OfAConvolutionAreDecodedIntoItsLayout) {
  const std::string model = Write(ConvolutionalNetwork());
  const Args flags = {"--freeze=frozen.*", "--batch=4", "--report-json=" + (scratch_ / "plan.json")};
  double exact = 0;
  std::string exact_work;
  int64_t exact_rest = 0;
  for (const char* form : {"f32", "8bit", "4bit"}) {
    Args args = Command(model, flags);
    args.push_back(std::string("--frozen-weights=") + form);
    const std::string text = ExpectDone(args), work = text.substr(text.find("work: "), 20);
    Run({"--steps=2", "--report-json=" + (scratch_ / "run.json")});
    const llvm::json::Object planned = Report("plan.json"), run = Report("run.json");
    const int64_t rest = *planned.getInteger("peak_bytes") - *planned.getInteger("parameters_bytes");
    const double loss = *(*run.getArray("losses"))[1].getAsNumber();
    EXPECT_EQ(run.getInteger("peak_bytes"), planned.getInteger("peak_bytes")) << form;
    if (form == std::string("f32")) std::tie(exact, exact_work, exact_rest) = std::tie(loss, work, rest);
    // Levels are .004 apart with 4 bits, beside weights of up to .03, and a 17th of that with 8. A sum has 4,104 weights.
    EXPECT_NEAR(loss, exact, form == std::string("4bit") ? 2e-2 : 2e-3) << form;
    EXPECT_EQ(work, exact_work) << "a product costs what it costs, however its weight is stored";
    EXPECT_LE(rest, exact_rest + (2 << 20))
        << form << ": besides some rows, and no copy of " << 4 * kConvElements;
  }
}

TEST_F(FrozenWeights, AreExplained) {
  Args command = Command(Write(Network()), {"--freeze=frozen.*", "--report=none", "--explain"});
  EXPECT_EQ(ExpectDone(command).find("a frozen weight"), std::string::npos);
  command.push_back("--frozen-weights=4bit");
  EXPECT_NE(ExpectDone(command).find(
                "frozen.weight: a frozen weight; 24.0 KiB -> 3.38 KiB as uniform4,g64,nearest.\n"),
            std::string::npos);
}

TEST_F(FrozenWeights, RefusesWhatItCannotDo) {
  ExpectWrongUsage(Command(Write(Network()), {"--frozen-weights=2bit"}),
                   {"--frozen-weights: expected f32, bf16, 8bit, 4bit or auto, found '2bit'"});
  ExpectWrongUsage(Command(Write(Network()), {"--frozen-weights=auto"}),
                   {"--frozen-weights: auto chooses by the memory there is", "--memory-limit"});
  const Args by_limit = {ToolPath("actc"), Write(Network()), "-o", plan(), "--memory-limit=1GiB"};
  for (Args command : {Command(Write(Network()), {"--frozen-weights=8bit"}), by_limit}) {
    if (command == by_limit) command.push_back("--frozen-weights=auto");
    const std::string message = ExpectRefused(command, {"--frozen-weights: there are none"});
    EXPECT_NE(message.find("--freeze=GLOB names those that do not train"), std::string::npos) << message;
    ExpectNoPlan();
  }
}

}  // namespace
}  // namespace act::e2e
