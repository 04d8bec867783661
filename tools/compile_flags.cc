#include "tools/compile_flags.h"

#include <algorithm>
#include <cmath>

#include <utility>

#include "llvm/ADT/STLExtras.h"

#include "passes/pipeline/frozen_form.h"
#include "runtime/base/error.h"
#include "runtime/base/size.h"

namespace act {
namespace {

// The bytes of a size; 0 if the flag is not given.
llvm::Expected<int64_t> SizeOf(const char* flag, const std::string& text) {
  if (text.empty()) return 0;
  const std::optional<int64_t> bytes = ParseSize(text);
  if (bytes && *bytes > 0) return *bytes;
  return MakeError(flag, "'" + text + "' is not a size", "sizes are written as 64MiB, 1.5GB or 4096");
}

llvm::Error CheckSavedLimit(const Policy& policy, const CompileOptions& options) {
  if (options.saved_limit == 0) return llvm::Error::success();
  if (!policy.Lossy())
    return MakeError("--saved-limit", policy.level + " has no codes whose levels could change",
                     "use -O L1, L2, L3, L4 or L5");
  if (policy.rules.error_bound > 0)
    return MakeError("--saved-limit", policy.level + " derives bits from a bound of the error",
                     "use -O L1, L2, L3, L4 or L5");
  if (options.bits != 0)
    return MakeError("--saved-limit", "bounds bytes, and --bits bits", "give one of them");
  return llvm::Error::success();
}

// --memory-limit chooses what the flags in `others` would set.
llvm::Error CheckMemoryLimit(const CompileFlags& f, int64_t limit) {
  if (limit == 0 && f.level == "auto")
    return MakeError("-O", "auto chooses by the memory there is", "give --memory-limit=SIZE");
  if (limit == 0) return llvm::Error::success();
  if (f.level.getNumOccurrences() && f.level != "auto")
    return MakeError("--memory-limit", "chooses the level, and so does -O " + f.level, "leave out -O");
  if (f.bits.getNumOccurrences())
    return MakeError("--memory-limit", "chooses the bits of codes, and so does --bits", "leave out --bits");
  if (f.exact.getNumOccurrences())
    return MakeError("--memory-limit", "chooses what is stored exactly, and so does --exact",
                     "leave out --exact");
  if (!f.saved_limit.empty())
    return MakeError("--memory-limit", "bounds all memory, and --saved-limit a part of it",
                     "give one of them");
  if (!f.plugin.empty())
    return MakeError("--memory-limit", "chooses the codes, and so does --plugin", "give one of them");
  return llvm::Error::success();
}

// --compare makes reports alone, and its list is the choice of levels.
llvm::Error CheckCompare(const CompileFlags& f) {
  if (!f.compare.getNumOccurrences()) {
    for (const auto* part : {&f.fit, &f.gpu_share, &f.micro_batches, &f.rates})
      if (part->getNumOccurrences())
        return MakeError("--" + part->ArgStr.str(), "is a part of --compare", "give --compare=L0,L3,L4");
    return llvm::Error::success();
  }
  const llvm::cl::Option* others[] = {
      &f.output, &f.level,       &f.bits,    &f.exact,     &f.saved_limit, &f.memory_limit, &f.plugin,
      &f.aot,    &f.report_json, &f.explain, &f.emit_onnx, &f.print_after, &f.time_passes};
  for (const llvm::cl::Option* other : others)
    if (other->getNumOccurrences())
      return MakeError("--compare",
                       "compares levels as they are, and -" +
                           std::string(other->ArgStr.size() > 1 ? "-" : "") + other->ArgStr.str() +
                           " is for one plan",
                       "give one of them");
  return llvm::Error::success();
}

// What is left to a limit: the value `auto` of other flags, and what waits on the host.
llvm::Error CheckChoices(const CompileRequest& r) {
  const bool chooses = r.memory_limit > 0 ||
                       (r.compare && std::any_of(r.compare->entries.begin(), r.compare->entries.end(),
                                                 [](const ComparedEntry& e) { return e.limit_bytes > 0; }));
  if (chooses) return llvm::Error::success();
  if (r.choices.host_limit > 0)
    return MakeError("--host-limit", "bounds what --memory-limit keeps on the host",
                     "give --memory-limit=SIZE");
  const std::pair<bool, const char*> by_limit[] = {{r.choices.bfloat16, "--compute"},
                                                   {r.choices.quantized_state, "--optimizer-state"},
                                                   {r.choices.frozen_weights, "--frozen-weights"}};
  for (const auto& [chosen, flag] : by_limit)
    if (chosen) return MakeError(flag, "auto chooses by the memory there is", "give --memory-limit=SIZE");
  return llvm::Error::success();
}

llvm::Expected<std::vector<ParameterRule>> ParameterRulesOf(const CompileFlags& f) {
  std::vector<ParameterRule> rules;
  for (const std::string& glob : f.no_decay)
    rules.push_back({glob.empty() ? "--no-decay" : "--no-decay=" + glob, glob, {.decay = 0}});
  for (const std::string& text : f.lr_factor) {
    const std::string flag = "--lr-factor=" + text;
    const auto [glob, number] = llvm::StringRef(text).rsplit('=');
    double factor = 0;
    if (glob.empty() || number.getAsDouble(factor) || !std::isfinite(factor) || factor <= 0 ||
        !HoldsInFloat32(factor))
      return MakeError(flag, "expected GLOB=X with a factor above 0", "--freeze=GLOB takes parameters out");
    rules.push_back({flag, glob.str(), {.lr = factor}});
  }
  return rules;
}

}  // namespace

llvm::Expected<CompileRequest> MakeCompileRequest(const CompileFlags& f) {
  CompileRequest r;
  ACT_CHECK_OK(CheckCompare(f));
  if (f.batch < 1) return MakeError("--batch", "a batch has at least one sample");
  r.compile.batch = f.batch;
  if (f.batch.getNumOccurrences() > 0) r.import.batch = f.batch;
  ACT_TRY(r.memory_limit, SizeOf("--memory-limit", f.memory_limit));
  ACT_CHECK_OK(CheckMemoryLimit(f, r.memory_limit));
  ACT_TRY(const Policy policy, MakePolicy(r.memory_limit > 0 ? std::string("L3") : f.level.getValue(), f.bits,
                                          f.group_size, f.exact));
  r.compile.level = policy.level;
  r.compile.bits = f.bits;
  r.compile.exact_part = f.exact;
  if (f.bits.getNumOccurrences() && f.bits == 0)
    return MakeError("--bits", "must be 1 to 8 bits per element");
  r.compile.group_size = f.group_size;
  if (f.compute != "f32" && f.compute != "bf16" && f.compute != "auto")
    return MakeError("--compute", "expected f32, bf16 or auto, found '" + f.compute + "'");
  r.choices.bfloat16 = f.compute == "auto";
  r.compile.compute = f.compute == "bf16" ? Compute::kBFloat16 : Compute::kFloat32;
  if (f.fpmath != "bf16" && f.fpmath != "f32")
    return MakeError("--fpmath", "expected bf16 or f32, found '" + f.fpmath + "'");
  r.compile.round_products = f.fpmath == "bf16";
  if (f.fpmath.getNumOccurrences() && r.compile.compute == Compute::kBFloat16)
    return MakeError("--fpmath", "has no meaning with --compute=bf16, where all products multiply bfloat16",
                     "give one of them");
  if (f.fpmath.getNumOccurrences() && r.compile.round_products && !policy.rounds_products)
    return MakeError("--fpmath", f.level + " multiplies in float32", "use -O L1, L2, L3, L4 or L5");
  if (!f.plugin.empty() && !policy.Lossy())
    return MakeError("--plugin", f.level + " is exact and has no lossy codes", "use -O L1, L2, L3, L4 or L5");
  r.choices.frozen_weights = f.frozen_weights == "auto";
  const FrozenForm* frozen = FindFrozenForm(r.choices.frozen_weights ? "f32" : f.frozen_weights.getValue());
  if (!frozen)
    return MakeError("--frozen-weights",
                     "expected f32, bf16, 8bit, 4bit or auto, found '" + f.frozen_weights + "'");
  r.compile.frozen_weights = frozen->codec;
  r.compile.optimizer = f.optimizer;
  r.compile.clip_norm = f.clip_norm;
  r.compile.accumulate = f.accumulate;
  r.compile.grad_norm = f.grad_norm;
  ACT_TRY(r.compile.rules, ParameterRulesOf(f));
  ACT_CHECK_OK(CheckUpdates(r.compile));
  if (f.clip_norm.getNumOccurrences() && f.clip_norm == 0)
    return MakeError("--clip-norm", "expected a number above 0");
  if (f.grad_norm && f.optimizer == "none")
    return MakeError("--grad-norm", "needs an optimizer: without one gradients are outputs");
  ACT_TRY(r.target, ParseTarget(f.target));
  constexpr llvm::StringLiteral kForms[] = {"f32", "bf16", "8bit", "8bit-all", "auto"};
  if (!llvm::is_contained(kForms, llvm::StringRef(f.optimizer_state)))
    return MakeError("--optimizer-state",
                     "expected f32, bf16, 8bit, 8bit-all or auto, found '" + f.optimizer_state + "'");
  if (f.optimizer_state == "bf16") r.compile.state = StateFormat::kBFloat16;
  if (f.optimizer_state.starts_with("8bit")) r.compile.state = StateFormat::k8Bit;
  r.compile.quantize_tables = f.optimizer_state == "8bit-all";
  r.choices.quantized_state = f.optimizer_state == "auto";
  // A card hands an update by rows to the host.
  r.compile.update_by_rows = r.target.IsOne();
  ACT_CHECK_OK(CheckState(f.optimizer, r.choices.quantized_state ? StateFormat::k8Bit : r.compile.state));
  r.compile.target = r.target.kinds.front();
  for (const auto* file : {&f.report_json, &f.report_html})
    if (!file->empty() && !r.target.IsOne())
      return MakeError("--" + file->ArgStr.str(), "holds the report of one target, not of all",
                       "give --target=cpu or --target=cuda");
  if (f.aot && !r.target.card)
    return MakeError("--aot", "code and engines are made for one kind of card",
                     "name it: --target=cuda:CARD, with one of " + CardNames());
  if (f.aot && f.output.empty()) return MakeError("--aot", "fills a plan", "give -o PLAN");
  ACT_TRY(r.choices.host_limit, SizeOf("--host-limit", f.host_limit));
  if (r.choices.host_limit > 0 && !(r.target.IsOne() && r.compile.target == TargetKind::kCuda))
    return MakeError("--host-limit",
                     "a CPU computes in the host's memory, so nothing is gained by waiting there",
                     "give --target=cuda, or leave out --host-limit");
  ACT_TRY(r.compile.workspace_limit, SizeOf("--workspace", f.workspace));
  ACT_TRY(r.compile.saved_limit, SizeOf("--saved-limit", f.saved_limit));
  ACT_CHECK_OK(CheckSavedLimit(policy, r.compile));
  if (f.report != "text" && f.report != "none")
    return MakeError("--report", "expected text or none, found '" + f.report + "'");
  if (!f.print_after.empty() && f.print_after != "import" && f.print_after != "all" && !IsPass(f.print_after))
    return MakeError(
        "--print-after=" + f.print_after, "no such pass",
        "it is import, all, or one of these, with eval. before it for the evaluation:\n" + DescribePasses());
  if (!f.init.empty() && f.init != "he") return MakeError("--init", "expected he, found '" + f.init + "'");
  for (const std::string& dim : f.dims) {
    const auto [name, extent] = llvm::StringRef(dim).split('=');
    int64_t value = 0;
    const bool batch = extent == "N";
    if (name.empty() || (!batch && (extent.getAsInteger(10, value) || value < 1)))
      return MakeError("--dim", "expected NAME=EXTENT, found '" + dim + "'",
                       "EXTENT is a number of at least 1, or N if the axis is the batch");
    r.import.dims[name.str()] = batch ? Dim::Batch() : Dim(value);
  }
  r.compile.seed = r.import.seed = f.seed;
  r.compile.verify_each = f.verify_each;
  r.import.loss = f.loss;
  r.import.loss_output = f.loss_output;
  r.import.freeze.assign(f.freeze.begin(), f.freeze.end());
  r.import.freeze_bn = f.freeze_bn;
  r.import.own_optimizer = f.optimizer.getNumOccurrences() == 0;
  r.import.optimizer_model = f.optimizer_model;
  if (!r.import.own_optimizer && !f.optimizer_model.empty())
    return MakeError("--optimizer-model", "names an optimizer, and so does --optimizer", "give one of them");
  r.import.checkpoint = f.checkpoint;
  r.import.report_only = f.output.empty();
  r.import.init_he =
      f.init == "he" && !(r.import.report_only && f.emit_onnx.empty());  // drawn where they are written
  if (f.compare.getNumOccurrences()) {
    if (!r.target.IsOne())
      return MakeError("--compare", "is for one target", "give --target=cpu or --target=cuda");
    ACT_TRY(r.compare,
            ParseCompare({f.compare, f.fit, f.gpu_share, f.micro_batches, f.rates}, r.import, r.compile));
    r.compare->choices = r.choices;
    r.compare->card = r.target.card;
    r.compare->has_batch = f.batch.getNumOccurrences() > 0;
  }
  ACT_CHECK_OK(CheckChoices(r));
  return r;
}

}  // namespace act
