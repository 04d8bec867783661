// A model whose samples do not come first, [T,N,C], is coded as one of [N,T,C] is.
#include <gtest/gtest.h>

#include "tests/e2e/onnx_models.h"
#include "tests/e2e/variance_run.h"

namespace act::e2e {
namespace {

constexpr int64_t kSteps = 64;

// Perceptrons over time, one after the other, and a head over the mean of all steps.
OnnxModel Sequence(bool time_first) {
  using onnx::TensorProto;
  OnnxModel model;
  model
      .Input("x", TensorProto::FLOAT,
             time_first ? std::vector<Extent>{kSteps, "N", 64} : std::vector<Extent>{"N", kSteps, 64})
      .Input("label", TensorProto::INT64, {"N"});
  std::string last = "x";
  for (const std::string at : {"1", "2", "3", "4"}) {
    model.Weight("a" + at + ".weight", {64, 128})
        .Weight("a" + at + ".bias", {128})
        .Weight("b" + at + ".weight", {128, 64})
        .Node("a" + at, "MatMul", {last, "a" + at + ".weight"}, "a" + at)
        .Node("shifted" + at, "Add", {"a" + at, "a" + at + ".bias"}, "shifted" + at)
        .Node("relu" + at, "Relu", {"shifted" + at}, "relu" + at)
        .Node("b" + at, "MatMul", {"relu" + at, "b" + at + ".weight"}, "b" + at)
        .Node("tanh" + at, "Tanh", {"b" + at}, "tanh" + at);
    last = "tanh" + at;
  }
  return model.Weight("head", {64, 8})
      .Mean("pool", last, "pooled", {time_first ? 0 : 1})
      .Node("logits", "MatMul", {"pooled", "head"}, "logits")
      .Node("criterion", "SoftmaxCrossEntropyLoss", {"logits", "label"}, "loss")
      .Output("loss", {});
}

class TimeMajor : public VarianceRun {
 protected:
  // Compiles the model for a batch of 16. Returns the report.
  llvm::json::Object CompileAt(const std::string& level, bool time_first) {
    const std::string model = scratch_ / "model.onnx", report = scratch_ / "report.json";
    WriteFile(model, Sequence(time_first).Bytes());
    ExpectDone({ToolPath("actc"), model, "-O", level, "--batch=16", "-o", plan(), "--report-json=" + report,
                "--report=none", "--init=he"});
    return Take(ReadJson(report));
  }
  std::string plan() const { return scratch_ / "plan"; }
};

int64_t Bytes(const llvm::json::Object& report, const std::string& key) {
  return report.getInteger(key).value_or(-1);
}

TEST_F(TimeMajor, StoresWhatAModelWithSamplesFirstStores) {
  for (const char* level : {"L0", "L1", "L2", "L3"}) {
    const llvm::json::Object first = CompileAt(level, false), report = CompileAt(level, true);
    EXPECT_GT(Bytes(report, "saved_bytes"), 0) << level;
    EXPECT_EQ(Bytes(report, "saved_bytes"), Bytes(first, "saved_bytes")) << level;
  }
}

TEST_F(TimeMajor, HasALowerPeakAtL3AndKeepsIt) {
  const int64_t exact = Bytes(CompileAt("L0", true), "peak_bytes");
  const int64_t planned = Bytes(CompileAt("L3", true), "peak_bytes");
  EXPECT_GT(planned, 0);
  EXPECT_LT(planned, .7 * static_cast<double>(exact));
  const std::string report = scratch_ / "run.json";
  ExpectDone({ToolPath("actrun"), plan(), "--batch=16", "--steps=2", "--threads=1", "--check-memory",
              "--report-json=" + report});
  const llvm::json::Object run = Take(ReadJson(report));
  EXPECT_EQ(run.getInteger("peak_bytes"), planned);
  EXPECT_EQ(run.getInteger("planned_peak_bytes"), planned);
}

TEST_F(TimeMajor, HasTheRightGradientOnAverage) {
  for (const char* level : {"L2", "L3"}) {
    double variance[2] = {};
    for (const bool time_first : {false, true}) {
      CompileAt(level, time_first);
      const llvm::json::Object measured =
          Measure(plan(), {"--batch=16", "--variance=32", "--variance-edges="});
      variance[time_first] = Number(measured, "variance");
      EXPECT_GT(Number(measured, "variance"), 1e-7) << level << ": nothing has an error";
      EXPECT_LT(std::fabs(Number(measured, "bias")), 5 * Number(measured, "bias_error")) << level;
    }
    // Data are drawn for each of the two, and groups hold other numbers.
    EXPECT_LT(variance[true], 2 * variance[false]) << level;
  }
}

}  // namespace
}  // namespace act::e2e
