#include "tests/e2e/golden_case.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "runtime/base/error.h"
#include "tests/paths.h"

namespace act::e2e {

const std::vector<GoldenModel>& GoldenModels() {
  static const std::vector<GoldenModel> models = [] {
    std::vector<GoldenModel> found;
    for (const std::string& name : List(GoldenFolder()))
      for (const char* file : {"model.onnx", "model_dynamo.onnx"})
        if (Exists(GoldenFolder() + "/" + name + "/" + file)) found.push_back({name, file});
    return found;
  }();
  return models;
}

std::vector<GoldenModel> FirstExports() {
  std::vector<GoldenModel> first;
  for (const GoldenModel& model : GoldenModels())
    if (first.empty() || model.name != first.back().name) first.push_back(model);
  return first;
}

std::string TestName(const GoldenModel& model) {
  return model.name + (model.file == "model.onnx" ? "_torchscript" : "_dynamo");
}

const Tensor* GoldenCase::Find(const Tensors& written, const std::string& name) const {
  auto found = written.find(name);
  const size_t dot = name.find('.');
  for (const auto& [in_model, in_pytorch] : aliases)
    if (found == written.end() && in_pytorch.getAsString() == llvm::StringRef(name).substr(dot + 1))
      found = written.find(name.substr(0, dot + 1) + in_model.str());
  return found == written.end() ? nullptr : &found->second;
}

// A tensor's error is compared with |expected| + floor. The floor is 1e-4 of all gradients
// together. Without it, gradients that are exactly zero (a bias before a BatchNormalization) would
// be judged by their own rounding. The limit is what float32 gives a well-ordered computation: 1e-5
// (about 100 roundings), and 1e-4 for what five steps multiply. Where a case is worse conditioned
// than that, the limit is 8 x PyTorch's own float32 error.
double GoldenCase::Tolerance(const std::string& name) const {
  const bool after_steps = name == "losses" || name.starts_with("param.");
  const double limit = std::max(after_steps ? 1e-4 : 1e-5, 8 * fp32_error.getNumber(name).value_or(0));
  double floor = 1e-6;
  if (name.starts_with("grad.")) {
    double squares = 0;
    for (const auto& [other, tensor] : expected)
      if (other.starts_with("grad.")) squares += Norm(tensor) * Norm(tensor);
    floor = 1e-4 * std::sqrt(squares);
  }
  return limit * (Norm(expected.at(name)) + floor);
}

llvm::Expected<GoldenCase> LoadGoldenCase(const std::string& name) {
  GoldenCase golden;
  golden.folder = GoldenFolder() + "/" + name;
  ACT_TRY(llvm::json::Object info, ReadJson(golden.File("case.json")));
  golden.learning_rate = info.getNumber("lr").value_or(0);
  if (llvm::json::Object* errors = info.getObject("fp32_error")) golden.fp32_error = std::move(*errors);
  if (llvm::json::Object* aliases = info.getObject("aliases")) golden.aliases = std::move(*aliases);
  std::set<std::string> ops;
  if (const llvm::json::Object* files = info.getObject("ops"))
    for (const auto& [file, list] : *files)
      for (const llvm::json::Value& op : *list.getAsArray()) ops.insert(op.getAsString()->str());
  golden.normalizes = (ops.count("ReduceMean") && ops.count("Sqrt")) ||
                      std::any_of(ops.begin(), ops.end(), [](const std::string& op) {
                        return llvm::StringRef(op).ends_with("Normalization");
                      });
  ACT_TRY(golden.expected, ReadTensors(golden.File("expected.safetensors")));
  golden.inputs = golden.File("inputs.safetensors");
  ACT_TRY(const Tensors inputs, ReadTensors(golden.inputs));
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

namespace {

// actrun's arguments for a run on the case's batch. One thread: tests run in parallel, and OpenMP's
// waiting threads would take the processors from them.
std::vector<std::string> RunArguments(const GoldenCase& golden, const std::string& plan, int steps,
                                      uint64_t seed, const ScratchFolder& scratch) {
  std::vector<std::string> args = {ToolPath("actrun"),
                                   plan,
                                   "--threads=1",
                                   "--batch=" + std::to_string(golden.batch),
                                   "--inputs=" + golden.inputs,
                                   "--steps=" + std::to_string(steps),
                                   "--seed=" + std::to_string(seed),
                                   "--dump-step=" + (scratch / "step.safetensors"),
                                   "--save=" + (scratch / "end.safetensors"),
                                   "--report-json=" + (scratch / "run.json")};
  if (!golden.start.empty()) args.push_back("--load=" + golden.start);
  return args;
}

// The optimizer's velocities in a checkpoint, named grad.NAME.
Tensors Velocities(Tensors checkpoint) {
  Tensors velocities;
  for (auto& [name, tensor] : checkpoint) {
    llvm::StringRef parameter = name;
    if (parameter.consume_front("optimizer.") && parameter.consume_back(".velocity"))
      velocities["grad." + parameter.str()] = std::move(tensor);
  }
  return velocities;
}

}  // namespace

llvm::Expected<RunResult> Train(const GoldenCase& golden, const std::string& plan, int steps, uint64_t seed,
                                const ScratchFolder& scratch, const std::vector<std::string>& flags) {
  std::vector<std::string> args = RunArguments(golden, plan, steps, seed, scratch);
  args.insert(args.end(),
              {"--lr=" + std::to_string(golden.learning_rate), "--momentum=0.9", "--weight-decay=5e-4"});
  args.insert(args.end(), flags.begin(), flags.end());
  const Outcome outcome = RunTool(args);
  if (outcome.exit_code != 0) return MakeError(plan, Describe(args, outcome));
  RunResult result;
  ACT_TRY(result.report, ReadJson(scratch / "run.json"));
  ACT_TRY(result.step, ReadTensors(scratch / "step.safetensors"));
  ACT_TRY(result.end, ReadTensors(scratch / "end.safetensors"));
  return result;
}

// At rate 0 no weight changes, and the velocity adds up the gradients: v = momentum v + g. The
// momentum is the largest float below 1, so that weights are within rounds x 1e-7 of 1. So one
// process draws many gradients.
llvm::Expected<DrawnGradients> DrawGradients(const GoldenCase& golden, const std::string& plan, int rounds,
                                             uint64_t seed, const ScratchFolder& scratch) {
  std::vector<std::string> args = RunArguments(golden, plan, rounds, seed, scratch);
  args.insert(args.end(), {"--lr=0", "--momentum=0.9999999", "--weight-decay=0"});
  const Outcome outcome = RunTool(args);
  if (outcome.exit_code != 0) return MakeError(plan, Describe(args, outcome));
  DrawnGradients drawn;
  ACT_TRY(drawn.first, ReadTensors(scratch / "step.safetensors"));
  ACT_TRY(Tensors end, ReadTensors(scratch / "end.safetensors"));
  drawn.mean = Velocities(std::move(end));
  Tensors before;
  if (!golden.start.empty()) {
    ACT_TRY(Tensors start, ReadTensors(golden.start));
    before = Velocities(std::move(start));
  }
  for (auto& [name, tensor] : drawn.mean) {
    const auto had = before.find(name);
    for (size_t i = 0; i < tensor.data.size(); ++i)
      tensor.data[i] = (tensor.data[i] - (had == before.end() ? 0 : had->second.data[i])) / rounds;
  }
  return drawn;
}

llvm::Expected<GoldenCase> LoadCaseWithGradients(const GoldenModel& model, const ScratchFolder& scratch) {
  ACT_TRY(GoldenCase golden, LoadGoldenCase(model.name));
  int64_t gradients = 0, zeros = 0;
  for (const auto& [name, tensor] : golden.expected) {
    if (!name.starts_with("grad.")) continue;
    ++gradients;
    zeros += Norm(tensor) == 0;
  }
  if (2 * zeros <= gradients) return golden;
  const std::string plan = scratch / "exact.bin", start = scratch / "start.safetensors";
  ACT_TRY(const llvm::json::Object report, Compile(golden, model.file, "L0", plan, scratch));
  ACT_TRY(const RunResult trained, Train(golden, plan, /*steps=*/5, /*seed=*/1, scratch));
  std::filesystem::rename(scratch / "end.safetensors", start);
  golden.start = start;
  ACT_TRY(DrawnGradients exact, DrawGradients(golden, plan, /*rounds=*/1, /*seed=*/1, scratch));
  golden.expected = std::move(exact.first);
  return golden;
}

bool CodesLossily(const llvm::json::Object& report) {
  for (const llvm::json::Value& edge : *report.getArray("edges")) {
    const llvm::StringRef form = edge.getAsObject()->getString("form").value_or("");
    if (!form.starts_with("keep") && !form.starts_with("mask") && !form.starts_with("index")) return true;
  }
  return false;
}

}  // namespace act::e2e
