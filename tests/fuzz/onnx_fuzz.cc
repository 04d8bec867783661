// Bytes as an ONNX model: import, compilation at a level, layouts at several batches on each kind of machine, the
// plan written and read again, and the model exported with its weights. The model's doc_string says how it is
// compiled, a character for each choice. What compiles must verify after every pass, and its layouts must hold.
#include <algorithm>
#include <span>
#include <string>

#include "compiler/emit/export_trained.h"
#include "compiler/import/import_onnx.h"
#include "compiler/ir/verify.h"
#include "passes/pipeline/frozen_form.h"
#include "passes/pipeline/pipeline.h"
#include "runtime/memory/layout.h"
#include "runtime/memory/report.h"
#include "runtime/plan/optimizer.h"
#include "runtime/plan/plan_io.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/onnx_mutator.h"
#include "tests/fuzz/require.h"
#include "tests/fuzz/scratch_file.h"

namespace act::fuzz {
namespace {

constexpr int kMostNodes = 64;          // of a model, so that an input takes milliseconds
constexpr size_t kMostUnrolled = 2048;  // of what a few nodes with loops or sequences become
constexpr size_t kMostBytes = 1 << 16;

// The characters of a text as small numbers, one after the other. Zeros follow its end.
class Choices {
 public:
  explicit Choices(const std::string& text) : text_(text) {}
  size_t Next(size_t count) {
    const size_t number = at_ < text_.size() ? static_cast<uint8_t>(text_[at_]) - size_t{'0'} : 0;
    ++at_;
    return number % count;
  }

 private:
  const std::string& text_;
  size_t at_ = 0;
};

// The error of a file that is refused.
void Refused(llvm::Error error, const std::string& path) {
  const std::string text = llvm::toString(std::move(error));
  Require(text.find("internal error") == std::string::npos, text);
  Require(path.empty() || text.rfind(path + ": ", 0) == 0, "the error does not begin with the file: " + text);
}

CompileOptions OptionsOf(Choices& choices) {
  static constexpr const char* kLevels[] = {"L0",       "L1",       "L2",       "L3",      "L4",
                                            "L5",       "actnn-L3", "actnn-L5", "gact-L1", "gact-L2",
                                            "division", "blpa",     "acgc"};
  static constexpr const char* kOptimizers[] = {"sgd",     "adam",  "none",          "lamb",
                                                "adagrad", "adamw", "onnx-momentum", "plain-sgd"};
  static constexpr double kBits[] = {0, 0, 0, 2.5, 1, 8};
  CompileOptions options;
  options.verify_each = true;
  options.level = kLevels[choices.Next(std::size(kLevels))];
  options.optimizer = kOptimizers[choices.Next(std::size(kOptimizers))];
  if (const double bits = kBits[choices.Next(std::size(kBits))];
      options.level[0] == 'L' && options.level != "L0")
    options.bits = bits;
  if (choices.Next(3) == 1) options.compute = Compute::kBFloat16;
  if (options.optimizer != "none") options.accumulate = choices.Next(4) == 1 ? 3 : 1;
  if (options.optimizer != "none") options.clip_norm = choices.Next(4) == 1 ? 1 : 0;
  options.target = choices.Next(2) == 1 ? TargetKind::kCuda : TargetKind::kCpu;
  return options;
}

void CheckLayouts(const Plan& plan) {
  for (const TargetKind target : kTargets)
    for (const int64_t batch : {int64_t{1}, int64_t{2}, int64_t{33}, int64_t{1} << 20}) {
      if (plan.fixed_batch && batch != plan.default_batch) continue;
      auto layout = LayOut(plan, batch, target);
      if (!layout) {
        Refused(layout.takeError(), "");
        continue;
      }
      if (llvm::Error error = ValidateLayout(plan, *layout)) Fail(llvm::toString(std::move(error)));
    }
}

void CheckFile(const Plan& plan) {
  static const ScratchFile file("onnx.plan");
  if (llvm::Error error = WritePlan(plan, file.path())) Fail(llvm::toString(std::move(error)));
  auto read = ReadPlan(file.path());
  if (!read) Fail("the plan that it wrote is refused: " + llvm::toString(read.takeError()));
  Require(read->train.graph.nodes.size() == plan.train.graph.nodes.size(),
          "nodes are lost in the plan's file");
}

// The trained model, with the weights that it began with, and its import.
void CheckExport(const Plan& plan) {
  static const ScratchFile file("exported.onnx");
  const auto values = [&plan](const std::string& name) -> llvm::Expected<std::span<const std::byte>> {
    for (const Value& value : plan.train.graph.values)
      if (value.name == name && IsPersistent(value.kind))
        return std::span(value.data.data, static_cast<size_t>(value.data.bytes));
    return std::span<const std::byte>();
  };
  if (llvm::Error error = ExportTrainedOnnx(plan, values, file.path()))
    return Refused(std::move(error), file.path());
  ImportOptions import;
  import.keep_outputs = true;
  auto again = ImportOnnx(file.path(), import);
  if (!again) Refused(again.takeError(), file.path());
}

bool IsLarge(const onnx::ModelProto& model) {
  int nodes = model.graph().node_size();
  for (const auto& function : model.functions()) nodes += function.node_size();
  for (const auto& info : model.training_info()) nodes += info.algorithm().node_size();
  return nodes > kMostNodes;
}

void Run(const std::string& bytes) {
  static const ScratchFile scratch("onnx");
  onnx::ModelProto model;
  const bool parsed = model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  if (bytes.size() > kMostBytes || (parsed && IsLarge(model))) return;
  Choices choices(model.doc_string());
  CompileOptions options = OptionsOf(choices);
  static constexpr const char* kLosses[] = {"", "", "cross-entropy", "mse", "bce-with-logits", "l1"};
  ImportOptions import;
  import.loss = kLosses[choices.Next(std::size(kLosses))];
  import.freeze_bn = choices.Next(4) == 1;
  import.init_he = choices.Next(4) == 1;
  import.report_only = choices.Next(2) == 1;
  import.keep_outputs = choices.Next(6) == 1;
  if (choices.Next(4) == 1) import.dims = {{"M", 3}, { "seq", 5 }};
  options.frozen_weights = FrozenForms()[choices.Next(FrozenForms().size())].codec;
  static constexpr const char* kFrozen[] = {"", "base*", "*w*", "*1*"};
  if (const std::string glob = kFrozen[choices.Next(std::size(kFrozen))]; !glob.empty())
    import.freeze = {glob};

  scratch.Write(bytes);
  auto imported = ImportOnnx(scratch.path(), import);
  if (!imported) return Refused(imported.takeError(), scratch.path());
  if (imported->graph.nodes.size() > kMostUnrolled) return;
  if (llvm::Error error = Verify(imported->graph, Stage::kImported)) Fail(llvm::toString(std::move(error)));
  if (imported->loss == kNoValue) {
    auto step = CompileEvaluation(std::move(imported->graph), options);
    if (!step) Refused(step.takeError(), "");
    return;
  }
  auto plan = Compile(std::move(*imported), options);
  if (!plan) return Refused(plan.takeError(), "");
  CheckLayouts(*plan);
  if (import.report_only) return;
  CheckFile(*plan);
  CheckExport(*plan);
}

}  // namespace
}  // namespace act::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  act::fuzz::Random random(seed + 1);
  onnx::ModelProto model;
  if (random() % 16 == 0 || !model.ParseFromArray(data, static_cast<int>(size)) || !model.has_graph())
    return LLVMFuzzerMutate(data, size, max_size);
  for (uint64_t changes = 1 + random() % 3; changes > 0; --changes) act::fuzz::ChangeModel(model, random);
  const std::string bytes = model.SerializeAsString();
  if (bytes.size() > max_size) return size;
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  act::fuzz::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
