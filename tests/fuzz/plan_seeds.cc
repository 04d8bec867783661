#include "tests/fuzz/plan_seeds.h"

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "compiler/import/import_onnx.h"
#include "passes/pipeline/frozen_form.h"
#include "passes/pipeline/pipeline.h"
#include "tests/compiler/op_cases.h"
#include "tests/compiler/small_model.h"
#include "tests/paths.h"

namespace act::fuzz {
namespace {

using gradient_case::AllCases;
using gradient_case::CaseModel;

constexpr const char* kGolden[] = {"mlp",   "mse",  "bce",  "lenet", "conv1d",       "conv3d",
                                   "rnn",   "gru",  "lstm", "sage",  "gcn",          "gat",
                                   "norms", "moco", "fcn",  "bert",  "odd_channels", "resnext"};
// The first level is the one whose plans have the fewest nodes. Presets have codes of their own, and swap.
constexpr const char* kLevels[] = {"L0", "L0", "L1", "L2", "L3", "L4", "actnn-L4", "L5"};
constexpr const char* kOptimizers[] = {"none", "sgd", "adamw", "sgd"};
// The models with frozen weights, one for each form of them that is a code.
constexpr const char* kFrozen[] = {"bf16", "8bit", "4bit"};
constexpr size_t kMostKept = 600;

size_t FirstFrozen() { return std::size(kGolden) + AllCases().size(); }

// Rows of a table and two products, of frozen weights that are large enough for codes.
ImportResult FrozenModel() {
  small_model::Model m({Dim::Batch(), 2, 2, 16});
  const auto product = [&m](ValueId x, const std::string& name, const Dims& dims) {
    return testing_step::Take(m.b.Add1("MatMul", {x, m.Parameter(name, dims)}));
  };
  const ValueId tokens = m.b.Input("tokens", {DType::kInt64, {Dim::Batch(), 1}}, ValueKind::kInput);
  ValueId x = testing_step::Take(m.b.AddTyped("Reshape", {m.x}, {DType::kFloat32, {Dim::Batch(), 64}}));
  x = product(x, "base.1", {64, 64});
  const ValueId rows = testing_step::Take(
      m.b.AddTyped("Gather", {m.Parameter("base.table", {64, 64}), tokens},
                   {DType::kFloat32, {Dim::Batch(), 64}}, small_model::Attrs({{"axis", int64_t{0}}})));
  x = testing_step::Take(m.b.Add1("Relu", {testing_step::Take(m.b.Add1("Add", {x, rows}))}));
  x = product(product(x, "base.2", {64, 64}), "head", {64, 2});
  ImportResult model = m.Finish(x);
  std::erase_if(model.trainable,
                [&](ValueId id) { return model.graph.value(id).name.rfind("base", 0) == 0; });
  return model;
}

llvm::Expected<ImportResult> ModelOf(size_t model, bool at_batch) {
  if (model >= FirstFrozen()) return FrozenModel();
  if (model < std::size(kGolden))
    return ImportOnnx(GoldenFolder() + "/" + kGolden[model] + "/model.onnx", {});
  const auto& c = AllCases()[model - std::size(kGolden)];
  return testing_step::ModelOf(CaseModel(c, at_batch && c.RunsAtBatch(), true).graph());
}

std::unique_ptr<const Plan> Compiled(size_t model, uint8_t level, uint8_t flags) {
  auto imported = ModelOf(model, (flags & 1) != 0);
  if (!imported) return llvm::consumeError(imported.takeError()), nullptr;
  CompileOptions options;
  options.level = kLevels[level % std::size(kLevels)];
  options.optimizer = kOptimizers[flags >> 1 & 3];
  if ((flags >> 3 & 3) == 3) options.compute = Compute::kBFloat16;
  if ((flags >> 5 & 3) == 3) options.accumulate = 2;
  options.batch = 3;
  if (model >= FirstFrozen()) options.frozen_weights = FindFrozenForm(kFrozen[model - FirstFrozen()])->codec;
  auto plan = Compile(std::move(*imported), options);
  if (!plan) return llvm::consumeError(plan.takeError()), nullptr;
  plan->onnx_model = {};
  return std::make_unique<const Plan>(std::move(*plan));
}

// A model's number in an input follows from its name, so that other models may be added.
uint16_t NumberOf(size_t model) {
  const std::string name = model < std::size(kGolden) ? std::string("golden/") + kGolden[model]
                           : model < FirstFrozen()    ? AllCases()[model - std::size(kGolden)].name
                                                   : std::string("frozen/") + kFrozen[model - FirstFrozen()];
  uint32_t hash = 2166136261;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619;
  return static_cast<uint16_t>(hash ^ hash >> 16);
}

// The first model whose number is this or more.
size_t ModelOfNumber(uint16_t number) {
  static const std::map<uint16_t, size_t> models = [] {
    std::map<uint16_t, size_t> all;
    for (size_t i = 0; i < SeedModels(); ++i) all.emplace(NumberOf(i), i);
    return all;
  }();
  const auto at = models.lower_bound(number);
  return at == models.end() ? models.begin()->second : at->second;
}

}  // namespace

size_t SeedModels() { return FirstFrozen() + std::size(kFrozen); }

const Plan* NextSeed(ByteReader& bytes) {
  static std::map<std::tuple<size_t, uint8_t, uint8_t>, std::unique_ptr<const Plan>> kept;
  const size_t model = ModelOfNumber(bytes.Pair());
  const auto level = static_cast<uint8_t>(bytes.Byte() % std::size(kLevels));
  const auto flags = static_cast<uint8_t>(bytes.Byte() & 0x7F);
  if (kept.size() >= kMostKept) kept.clear();
  const auto [it, is_new] = kept.try_emplace({model, level, flags});
  if (is_new) it->second = Compiled(model, level, flags);
  return it->second.get();
}

}  // namespace act::fuzz
