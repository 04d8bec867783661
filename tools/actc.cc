// actc: an ONNX training graph becomes a plan, with its memory report. docs/cli.md describes the
// command line.
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/Format.h>
#include <llvm/Support/raw_ostream.h>

#include <optional>
#include <string>

#include "compiler/autodiff/parameter_rules.h"
#include "compiler/emit/emit_onnx.h"
#include "compiler/import/import_onnx.h"
#include "compiler/ir/dump.h"
#include "compiler/ops/op_table.h"
#include "compiler/policy/policy.h"
#include "kernels/cuda/toolkit.h"
#include "passes/pipeline/memory_limit.h"
#include "passes/pipeline/pipeline.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/size.h"
#include "runtime/codec/plugin.h"
#include "runtime/memory/report.h"
#include "runtime/memory/step_sizes.h"
#include "runtime/plan/plan_io.h"
#include "tools/compile_flags.h"
#include "tools/machine_rates.h"
#include "tools/output_files.h"
#include "tools/prepare_plan.h"
#include "tools/run_tool.h"

namespace act {
namespace {

namespace cl = llvm::cl;

constexpr int kFailed = 1;

// The step's arithmetic, the share of it in convolutions and matrix products, and the share that
// may be rounded.
std::string DescribeWork(const Graph& graph, int64_t batch) {
  double flops = 0, products = 0, rounded = 0;
  for (const Node& node : graph.nodes) {
    const auto work = static_cast<double>(CostOf(node, graph).flops.At(batch));
    flops += work;
    const OpDef& op = OpOf(node);
    if (IsLinearProduct(op) || op.product == Product::kWeightGradient) products += work;
    if (node.attrs.Int("may_round") != 0) rounded += work;
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format(
      "work: %.4g GFLOP a step, %.1f %% in convolutions and matrix products\n", flops / 1e9,
      flops > 0 ? 100 * products / flops : 0);
  if (rounded > 0)
    llvm::raw_string_ostream(text) << llvm::format(
        "      %.1f %% multiply gradients by decoded numbers, rounded to bfloat16 on processors "
        "that multiply it faster (--fpmath=f32: never)\n",
        100 * rounded / flops);
  return text;
}

// What was chosen, and what the next better step would have needed.
std::string DescribeChoice(const StepChoice& choice, int64_t limit) {
  std::string text = "memory limit: " + choice.chosen.Name() + " takes " +
                     FormatSize(choice.chosen.peak_bytes) + " of " + FormatSize(limit);
  if (choice.better)
    text += "; the next better step, " + choice.better->Name() + ", would take " +
            FormatSize(choice.better->peak_bytes);
  return text + "\n";
}

// What each part of the choice bought.
std::string DescribeParts(const std::vector<StepPart>& parts) {
  std::string text;
  for (const StepPart& part : parts)
    text += "  without " + part.name + ": " + FormatSize(part.without.peak_bytes) + " (" +
            part.without.Name() + ")\n";
  return text;
}

void PrintWarnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) llvm::errs() << "actc: warning: " << warning << "\n";
}

llvm::Error Run(const CompileFlags& f, CompileRequest request) {
  ACT_CHECK_OK(CheckOutputs({{"", f.model},
                             {"--checkpoint", f.checkpoint},
                             {"--optimizer-model", f.optimizer_model},
                             {"--plugin", f.plugin}},
                            {{"-o", f.output},
                             {"--report-json", f.report_json},
                             {"--report-html", f.report_html},
                             {"--emit-onnx", f.emit_onnx}}));
  if (request.compare) {
    if (request.compare->measure_rates) {
      ACT_TRY(request.compare->rates,
              RatesOfThisMachine([](const std::string& line) { llvm::errs() << "actc: " << line << "\n"; }));
    }
    ACT_TRY(const Comparison comparison, Compare(f.model, request.import, request.compile, *request.compare));
    if (!f.report_html.empty()) ACT_CHECK_OK(WriteFile(f.report_html, ComparisonHtml(comparison)));
    PrintWarnings(comparison.warnings);
    if (f.report == "text") llvm::outs() << ComparisonText(comparison);
    return llvm::Error::success();
  }
  std::unique_ptr<cuda::Toolkit> card;
  if (f.aot) {
    ACT_TRY(card, cuda::LoadCard(request.target.card_name));  // fails before the work, not after it
  }
  if (!f.plugin.empty()) {
    ACT_TRY(request.compile.plugin, LoadCodecPlugin(f.plugin));
    ACT_TRY(const Policy policy, MakePolicy(f.level, f.bits, f.group_size));
    ACT_CHECK_OK(MakePluginCodec(*request.compile.plugin, policy.bits, f.group_size).takeError());
  }
  ACT_TRY(ImportResult model, ImportOnnx(f.model, request.import));
  PrintWarnings(model.warnings);
  if (model.optimizer) {
    request.compile.optimizer = model.optimizer->name;
    request.compile.hyper = model.optimizer->hyper;
    if (f.clip_norm.getNumOccurrences() == 0) request.compile.clip_norm = model.optimizer->clip_norm;
  }
  std::optional<StepChoice> choice;
  std::vector<StepPart> parts;
  if (request.memory_limit > 0) {
    RankedSteps steps(model, request.compile, request.choices);
    ACT_TRY(choice, steps.Choose(request.memory_limit));
    if (f.explain.getNumOccurrences()) {
      ACT_TRY(parts, steps.PartsOf(choice->chosen));
    }
    choice->chosen.SetIn(request.compile);
  }
  ACT_TRY(const auto factors, FactorsOfParameters(request.compile.rules, model.graph, model.trainable));
  const std::string updates = DescribeFactors(factors, model.trainable.size());
  const int onnx_nodes = model.onnx_nodes;
  const size_t imported_nodes = model.graph.nodes.size();
  if (f.print_after == "import" || f.print_after == "all") llvm::outs() << "// import\n" << Dump(model.graph);
  llvm::Error emitted = llvm::Error::success();
  const auto after_pass = [&](const std::string& pass, const Graph& graph) {
    if (f.print_after == pass || f.print_after == "all") llvm::outs() << "// " << pass << "\n" << Dump(graph);
    // The types of a bfloat16 step are those of its loops.
    const bool emits = pass == (request.compile.compute == Compute::kBFloat16 ? "narrow-values" : "compress");
    if (emits && !f.emit_onnx.empty())
      emitted = llvm::joinErrors(std::move(emitted), EmitOnnx(graph, f.emit_onnx));
  };
  if (!f.print_after.empty() || !f.emit_onnx.empty()) request.compile.after_pass = after_pass;
  std::vector<PassTime> times;
  llvm::Expected<Plan> compiled =
      Compile(std::move(model), request.compile, f.time_passes ? &times : nullptr);
  if (!compiled) return llvm::joinErrors(std::move(emitted), WithPlace(compiled.takeError(), f.model));
  ACT_CHECK_OK(std::move(emitted));
  Plan& plan = *compiled;

  const bool wants_report = f.report != "none" || !f.report_json.empty() || !f.report_html.empty();
  std::vector<MemoryReport> reports;
  for (const TargetKind target : request.target.kinds) {
    if (wants_report) {
      reports.emplace_back();
      ACT_TRY(reports.back(), MakeMemoryReport(plan, plan.default_batch, target, request.target.card));
      ACT_CHECK_OK(ValidateLayout(plan, reports.back().layout));
    } else {  // the plan is checked all the same, by a layout that takes little time
      ACT_TRY(const MemoryLayout layout, LayOut(plan, plan.default_batch, target, QuickPacking()));
      ACT_CHECK_OK(ValidateLayout(plan, layout));
    }
  }
  if (card) {
    ACT_TRY(plan.prepared, PreparePlan(std::move(card), plan, [](const std::string& line) {
              llvm::errs() << "actc: " << line << "\n";
            }));
  }
  if (!f.output.empty()) ACT_CHECK_OK(WritePlan(plan, f.output));
  if (!f.report_json.empty()) ACT_CHECK_OK(WriteFile(f.report_json, ReportJson(reports.front())));
  if (!f.report_html.empty()) ACT_CHECK_OK(WriteFile(f.report_html, ReportHtml(reports.front())));
  if (f.report == "text") {
    for (const MemoryReport& report : reports) llvm::outs() << ReportText(report);
    llvm::outs() << "graph: " << onnx_nodes << " ONNX nodes became " << imported_nodes << " by import, "
                 << plan.train.graph.nodes.size()
                 << " in the plan's training step (backward pass and updates included)\n"
                 << updates << DescribeWork(plan.train.graph, plan.default_batch);
    if (choice) llvm::outs() << DescribeChoice(*choice, request.memory_limit);
  }
  if (f.explain.getNumOccurrences())
    llvm::outs() << DescribeParts(parts) << ExplainEdges(plan, plan.default_batch, f.explain)
                 << ExplainRepeats(plan, plan.default_batch, f.explain) << ExplainFrozen(plan, f.explain);
  if (f.time_passes)
    for (const PassTime& t : times)
      llvm::errs() << llvm::format("%10.3f ms  %6zu nodes  ", 1e3 * t.seconds, t.nodes) << t.pass << "\n";
  return llvm::Error::success();
}

int Main(int argc, char** argv) {
  CompileFlags flags;
  cl::HideUnrelatedOptions({&flags.compile, &flags.model_group, &flags.reports, &flags.debugging});
  cl::SetVersionPrinter([](llvm::raw_ostream& os) { os << "actc " ACT_VERSION "\n"; });
  if (!ReadCommandLine(
          "actc", "actc MODEL.onnx -O LEVEL -o PLAN; actc --help lists the flags",
          "Compiles an ONNX training graph into a plan whose saved activations take a few bits,\n"
          "and tells its peak memory before the run.\n\n"
          "  actc model.onnx -O L3 -o plan.bin     then: actrun plan.bin --batch 512\n"
          "  actc model.onnx -O L3 --batch 512     the report alone\n",
          argc, argv))
    return kWrongUsage;
  llvm::Expected<CompileRequest> request = MakeCompileRequest(flags);
  if (!request) {
    PrintError("actc", request.takeError());
    return kWrongUsage;
  }
  if (llvm::Error error = Run(flags, std::move(*request))) {
    PrintError("actc", std::move(error));
    return kFailed;
  }
  return 0;
}

}  // namespace
}  // namespace act

int main(int argc, char** argv) { return act::RunTool("actc", argc, argv, act::Main); }
