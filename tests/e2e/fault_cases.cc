#include "tests/e2e/fault_cases.h"

#include <gtest/gtest.h>
#include <llvm/Support/JSON.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "onnx/onnx-ml.pb.h"
#include "tests/e2e/refusal.h"
#include "tests/e2e/tensors.h"
#include "tests/paths.h"

namespace act::e2e {
namespace {

std::string Golden(const std::string& file) { return GoldenFolder() + "/mlp/" + file; }

// A .npy file of version 1.0, of `bytes` numbers of that type.
void WriteNpy(const std::string& path, const std::string& type, const std::string& shape,
              const std::string& bytes) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize(117, ' ');
  header += '\n';
  WriteFile(path, std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + bytes);
}

FaultCase MakeCase(const std::string& name, const ScratchFolder& folder) {
  const std::string plan = folder / "plan.in";
  if (name == "actc")
    return {name,
            {ToolPath("actc"), Golden("model.onnx"), "-O", "L3", "-o", "plan", "--report-json=report.json",
             "--report-html=report.html", "--emit-onnx=graph.onnx"},
            {"plan", "report.json", "report.html", "graph.onnx"}};
  ExpectDone({ToolPath("actc"), Golden("model.onnx"), "-O", "L3", "-o", plan, "--report=none"});
  if (name == "actplan") return {name, {ToolPath("actplan"), "show", "plan.in", "--nodes"}, {}};
  // 6 samples at batch 4: the last batch is smaller
  WriteNpy(folder / "image.npy", "<f4", "6, 1, 8, 8", std::string(size_t{6} * 64 * 4, '\0'));
  WriteNpy(folder / "label.npy", "<i8", "6,", std::string(size_t{6} * 8, '\0'));
  const std::string data = "image=image.npy,label=label.npy";
  const std::vector<std::string> run = {ToolPath("actrun"), "plan.in", "--batch=4", "--threads=1"};
  FaultCase result{name, run, {"checkpoint"}};
  if (name == "actrun_load") {
    std::vector<std::string> first = run;
    first[1] = plan;
    first.insert(first.end(), {"--steps=1", "--save=" + (folder / "start")});
    ExpectDone(first);
    result.args.insert(result.args.end(), {"--load=start", "--steps=1",
                                           "--inputs=" + Golden("inputs.safetensors"), "--save=checkpoint"});
    return result;
  }
  if (name == "actrun_tune" || name == "actrun_threads") {
    if (name == "actrun_threads") result.args.back() = "--threads=2";
    result.args.insert(result.args.end(), {name == "actrun_tune" ? "--tune=force" : "--tune=off", "--steps=2",
                                           "--profile", "--report-json=report.json"});
    result.outputs = {"report.json"};
    return result;
  }
  result.args.insert(result.args.end(),
                     {"--data=" + data, "--eval-data=" + data, "--save=checkpoint",
                      "--export-onnx=trained.onnx", "--dump-step=step", "--report-json=report.json"});
  result.outputs = {"checkpoint", "trained.onnx", "step", "report.json"};
  return result;
}

// The report of a run holds times, so two runs differ.
bool HoldsTimes(const std::string& output) { return output == "report.json"; }

// Whether a file is whole as its format sees it: of a run that ended early, another step's numbers are right.
bool CanBeRead(const std::string& path, const std::string& bytes) {
  if (path.ends_with(".onnx")) return onnx::ModelProto().ParseFromString(bytes);
  if (!path.ends_with(".json")) {
    llvm::Expected<Tensors> tensors = ReadTensors(path);
    return tensors ? tensors->count("step") + tensors->count("loss") == 1
                   : (llvm::consumeError(tensors.takeError()), false);
  }
  llvm::Expected<llvm::json::Value> json = llvm::json::parse(bytes);
  return json ? true : (llvm::consumeError(json.takeError()), false);
}

std::string OldContents(const std::string& output) { return "what was at " + output + " before"; }

// Whether standard error has one line "TOOL: error: ...", and at most a hint after it.
bool HasOneError(const std::string& tool, const std::string& err) {
  std::istringstream stream(err);
  int errors = 0, after = 0;
  for (std::string line; std::getline(stream, line);) {
    if (line.rfind(tool + ": error: ", 0) == 0) {
      ++errors;
    } else if (errors > 0) {
      ++after;
    }
  }
  return errors == 1 && after <= 1;
}

}  // namespace

FaultBench::FaultBench(const std::string& case_name) : case_(MakeCase(case_name, folder_)) {
  server_.emplace(case_.args, folder_.path());
  const Faulted whole = server_->Run({});
  EXPECT_EQ(whole.outcome.exit_code, 0) << Describe(case_.args, whole.outcome);
  calls_ = whole.calls;
  for (const std::string& output : case_.outputs) complete_[output] = ReadFile(folder_ / output);
  for (const std::string& name : List(folder_.path())) known_.insert(name);
}

bool FaultBench::IsKnown(const std::string& name) const {
  // Kernels that were timed, where the processor's name could not be read.
  return known_.count(name) != 0 || (name.rfind("kernels-", 0) == 0 && name.ends_with(".txt"));
}

void FaultBench::PutOldFiles() {
  for (const std::string& output : case_.outputs) WriteFile(folder_ / output, OldContents(output));
}

bool FaultBench::IsComplete(const std::string& output, bool other_numbers) const {
  const std::string bytes = ReadFile(folder_ / output);
  return bytes == complete_.at(output) ||
         ((other_numbers || HoldsTimes(output)) && CanBeRead(folder_ / output, bytes));
}

std::string FaultBench::CheckFiles(bool done, const Fault& fault) const {
  const bool stopped = fault.action.rfind("signal", 0) == 0;
  // Where oneDNN cannot map a kernel's code, another kernel is chosen, which adds in another order.
  const bool other_numbers = stopped || fault.kind == "map";
  for (const std::string& output : case_.outputs)
    if (!IsComplete(output, other_numbers) && (done || ReadFile(folder_ / output) != OldContents(output)))
      return output + (done ? " is not complete" : " is neither complete nor as it was");
  if (stopped && fault.value == SIGKILL) return "";  // no process can tidy up after that
  for (const std::string& name : List(folder_.path()))
    if (!IsKnown(name)) return "a file is left: " + name;
  return "";
}

int FaultBench::Expect(const Fault& fault, int ends_by) {
  PutOldFiles();
  last_ = server_->Run(fault).outcome;
  const Outcome& outcome = last_;
  const std::string what = ToString(fault) + ": " + Describe(case_.args, outcome);
  const std::string tool = std::filesystem::path(case_.args[0]).filename();
  const bool done = outcome.exit_code == 0;
  if (outcome.exit_code == 1) {
    EXPECT_TRUE(HasOneError(tool, outcome.err)) << what;
  } else if (!done) {
    EXPECT_EQ(outcome.exit_code, ends_by == 0 ? 1 : 128 + ends_by) << what;
  }
  EXPECT_EQ(CheckFiles(done, fault), "") << what;
  // What was left must not be counted again.
  for (const std::string& name : List(folder_.path()))
    if (!IsKnown(name)) std::filesystem::remove(folder_ / name);
  return outcome.exit_code;
}

int64_t FaultBench::ExpectEach(const std::string& kind, const std::string& action, int64_t value,
                               int64_t stride, int64_t first) {
  const int ends_by = action.rfind("signal", 0) == 0 ? static_cast<int>(value) : 0;
  std::map<int, int64_t> exits;
  int64_t runs = 0;
  for (int64_t at = first; at <= calls_.at(kind) && !testing::Test::HasFailure(); at += stride, ++runs)
    ++exits[Expect({kind, at, action, value}, ends_by)];
  std::string text;
  for (const auto& [code, count] : exits)
    text += ", exit " + std::to_string(code) + ": " + std::to_string(count);
  std::printf("%s: %s %s %lld at %lld of %lld calls%s\n", case_.name.c_str(), kind.c_str(), action.c_str(),
              static_cast<long long>(value), static_cast<long long>(runs),
              static_cast<long long>(calls_.at(kind)), text.c_str());
  return runs;
}

std::vector<std::string> FaultBench::Trace() {
  PutOldFiles();
  return server_->Trace();
}

}  // namespace act::e2e
