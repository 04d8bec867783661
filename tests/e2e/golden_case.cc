#include "tests/e2e/golden_case.h"

#include "runtime/base/error.h"

namespace act::e2e {

const std::vector<std::string>& GoldenCases() {
  static const std::vector<std::string> cases = {
      "mlp",       "lenet",  "resnet_basic", "resnet_bottleneck", "resnext", "odd_channels",
      "batch_one", "vgg_bn", "densenet",     "mobilenet_v2",      "mse",     "bce",
      "unet",      "fcn",    "conv1d"};
  return cases;
}

const std::vector<std::pair<std::string, std::string>>& TransformerCases() {
  static const std::vector<std::pair<std::string, std::string>> cases = {
      {"bert", "model.onnx"}, {"vit", "model.onnx"}, {"gpt2", "model_dynamo.onnx"}};
  return cases;
}

llvm::Expected<GoldenCase> LoadGoldenCase(const std::string& name) {
  GoldenCase golden;
  golden.folder = std::string(ACT_GOLDEN_DIR) + "/" + name;
  ACT_TRY(llvm::json::Object info, ReadJson(golden.File("case.json")));
  golden.learning_rate = info.getNumber("lr").value_or(0);
  if (llvm::json::Object* errors = info.getObject("fp32_error")) golden.fp32_error = std::move(*errors);
  if (llvm::json::Object* aliases = info.getObject("aliases")) golden.aliases = std::move(*aliases);
  ACT_TRY(golden.expected, ReadTensors(golden.File("expected.safetensors")));
  ACT_TRY(const Tensors inputs, ReadTensors(golden.File("inputs.safetensors")));
  if (inputs.empty()) return MakeError(golden.folder, "no inputs");
  golden.batch = inputs.begin()->second.shape.at(0);
  return golden;
}

llvm::Expected<llvm::json::Object> Compile(const GoldenCase& golden, const std::string& model,
                                           const std::string& level, const std::string& plan,
                                           const ScratchFolder& scratch,
                                           const std::vector<std::string>& flags) {
  const std::string report = scratch / "plan.json";
  std::vector<std::string> args = {ToolPath("actc"),
                                   golden.File(model),
                                   "-O",
                                   level,
                                   "-o",
                                   plan,
                                   "--optimizer=sgd",
                                   "--batch=" + std::to_string(golden.batch),
                                   "--report-json=" + report};
  args.insert(args.end(), flags.begin(), flags.end());
  const Outcome outcome = RunTool(args);
  if (outcome.exit_code != 0) return MakeError(model, Describe(args, outcome));
  return ReadJson(report);
}

llvm::Expected<RunResult> Train(const GoldenCase& golden, const std::string& plan, int steps, uint64_t seed,
                                const ScratchFolder& scratch) {
  const std::string report = scratch / "run.json", step = scratch / "step.safetensors",
                    end = scratch / "end.safetensors";
  // One thread: tests run beside each other, and OpenMP's waiting threads would take the processors from
  // them.
  const std::vector<std::string> args = {ToolPath("actrun"),
                                         plan,
                                         "--threads=1",
                                         "--batch=" + std::to_string(golden.batch),
                                         "--inputs=" + golden.File("inputs.safetensors"),
                                         "--steps=" + std::to_string(steps),
                                         "--lr=" + std::to_string(golden.learning_rate),
                                         "--momentum=0.9",
                                         "--weight-decay=5e-4",
                                         "--seed=" + std::to_string(seed),
                                         "--dump-step=" + step,
                                         "--save=" + end,
                                         "--report-json=" + report};
  const Outcome outcome = RunTool(args);
  if (outcome.exit_code != 0) return MakeError(plan, Describe(args, outcome));
  RunResult result;
  ACT_TRY(result.report, ReadJson(report));
  ACT_TRY(result.step, ReadTensors(step));
  ACT_TRY(result.end, ReadTensors(end));
  return result;
}

}  // namespace act::e2e
