// actc: an ONNX training graph becomes a plan, with its memory report. docs/cli.md describes the
// command line.
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/Format.h>
#include <llvm/Support/raw_ostream.h>

#include <optional>
#include <string>

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
#include "runtime/plan/plan_io.h"
#include "tools/compare.h"
#include "tools/flags.h"
#include "tools/prepare_plan.h"
#include "tools/run_tool.h"
#include "tools/target_flag.h"

namespace act {
namespace {

namespace cl = llvm::cl;

constexpr int kFailed = 1;

struct Flags {
  cl::OptionCategory compile{"Compilation"};
  cl::OptionCategory model_group{"The model"};
  cl::OptionCategory reports{"Reports", "Without -o the report alone is printed; that needs no weights."};
  cl::OptionCategory debugging{"Looking inside"};

  cl::opt<std::string> model{cl::Positional, cl::Required, cl::desc("MODEL.onnx"), cl::cat(compile)};
  cl::opt<std::string> level{
      "O",
      cl::desc("How saved activations are stored:\n"
               "L0 exactly\n"
               "L1 4 bits for inputs of convolutions and matrix products\n"
               "L2 4 bits for all\n"
               "L3 about 3 bits, and cheap values are recomputed\n"
               "L4 as L3, and expensive nodes are re-run where that lowers the peak\n"
               "auto whatever fits --memory-limit with the least expected variance\n"
               "Presets, for comparison: actnn-L1..L5, gact-L1..L3, division, blpa, acgc"),
      cl::value_desc("LEVEL"), cl::init("L0"), cl::cat(compile)};
  cl::opt<std::string> output{"o", cl::desc("Write the plan here"), cl::value_desc("PLAN"), cl::cat(compile)};
  cl::opt<std::string> optimizer{
      "optimizer",
      cl::desc("sgd (default, with momentum), adam, adamw, ort-adamw, onnx-adam, onnx-momentum, adagrad,\n"
               "lamb, or none (the gradients are outputs)"),
      cl::value_desc("NAME"), cl::init("sgd"), cl::cat(compile)};
  NumberFlag clip_norm{
      "clip-norm", cl::value_desc("X"), cl::cat(compile),
      cl::desc("Scale all gradients together down to this norm; they are kept until it is known")};
  cl::opt<std::string> optimizer_state{
      "optimizer-state",
      cl::desc("f32 (default), or 8bit: adam and adamw keep the moments of large parameters in 8 bits an\n"
               "element, in blocks of 256"),
      cl::value_desc("f32|8bit"), cl::init("f32"), cl::cat(compile)};
  SwitchFlag grad_norm{
      "grad-norm", cl::cat(compile),
      cl::desc("Compute the norm of all gradients together, for actrun --log; --clip-norm does so, too")};
  WholeNumberFlag accumulate{
      "accumulate", cl::value_desc("K"), cl::init(1), cl::cat(compile),
      cl::desc("Micro-batches of a step, whose gradients are summed for one update (default 1)")};
  NumberFlag bits{
      "bits", cl::value_desc("1..8"), cl::cat(compile),
      cl::desc("Bits of lossy codes (default: the level's own). A fraction is an average over codes, their\n"
               "scales included; codes that matter more get more")};
  cl::opt<std::string> saved_limit{
      "saved-limit", cl::value_desc("SIZE"), cl::cat(compile),
      cl::desc(
          "Store at most this many bytes of activations at --batch, with the least expected variance of\n"
          "the gradient; at L4 this also chooses what is re-run")};
  cl::opt<std::string> memory_limit{
      "memory-limit", cl::value_desc("SIZE"), cl::cat(compile),
      cl::desc("Choose the level and the bits of codes: the step of least expected variance of the gradient\n"
               "whose whole peak at --batch is at most SIZE. If none is, say what stands in the way")};
  WholeNumberFlag group_size{"group-size", cl::desc("Neighbouring elements that share a scale (default 256)"),
                             cl::value_desc("G"), cl::init(kDefaultGroupSize), cl::cat(compile)};
  cl::opt<std::string> compute{
      "compute", cl::value_desc("f32|bf16"), cl::init("f32"), cl::cat(compile),
      cl::desc(
          "bf16: activations and their gradients are bfloat16 in memory, and products multiply bfloat16.\n"
          "Sums, statistics, losses, parameters and their gradients stay float32 (default: f32)")};
  cl::opt<std::string> fpmath{
      "fpmath", cl::value_desc("bf16|f32"), cl::init("bf16"), cl::cat(compile),
      cl::desc("bf16 (default): kernels may round gradients and decoded numbers to bfloat16 before\n"
               "multiplying them, where that is faster; f32: they do not")};
  cl::opt<std::string> plugin{
      "plugin", cl::value_desc("LIB.so"), cl::cat(compile),
      cl::desc("Use this library's codec wherever the level stores plain numbers in few bits")};
  cl::opt<std::string> target{
      "target", cl::value_desc(kTargetForms), cl::init("cpu"), cl::cat(compile),
      cl::desc(
          "The machine of the report, and whose peak the planner lowers (default: cpu). With a card, the\n"
          "report says whether the step fits it. all: a report for each. The plan runs on any of them")};
  SwitchFlag aot{
      "aot", cl::cat(compile),
      cl::desc("With --target=cuda:CARD: put the code of all kernels for that card, and the engines of\n"
               "all convolutions at --batch, into the plan; a run there then starts in seconds")};
  cl::opt<std::string> workspace{"workspace",
                                 cl::desc("Limit of one kernel's scratch memory (default: none)"),
                                 cl::value_desc("SIZE"), cl::cat(compile)};
  SeedFlag seed{"seed", cl::desc("Seed of --init, dropout and rounding (default 0)"), cl::value_desc("S"),
                cl::cat(compile)};

  cl::opt<std::string> loss{
      "loss", cl::cat(model_group), cl::value_desc("KIND"),
      cl::desc("Add a loss, and its input `label`, to a model that ends in predictions: cross-entropy, mse,\n"
               "l1, smooth-l1, bce-with-logits")};
  cl::opt<std::string> loss_output{
      "loss-output", cl::cat(model_group), cl::value_desc("NAME"),
      cl::desc("The output that is the loss (default: the only scalar float output)")};
  cl::list<std::string> dims{"dim", cl::cat(model_group), cl::value_desc("NAME=EXTENT"),
                             cl::desc("The extent of a symbolic axis other than the batch")};
  cl::list<std::string> freeze{"freeze", cl::cat(model_group), cl::value_desc("GLOB"), cl::CommaSeparated,
                               cl::desc("Do not train the parameters whose names match")};
  SwitchFlag freeze_bn{"freeze-bn", cl::cat(model_group),
                       cl::desc("BatchNormalization uses its stored statistics and does not update them")};
  cl::opt<std::string> optimizer_model{
      "optimizer-model", cl::cat(model_group), cl::value_desc("FILE"),
      cl::desc("The optimizer of an ONNX Runtime training graph (default, without --optimizer: the file\n"
               "optimizer_model.onnx beside the model)")};
  cl::opt<std::string> checkpoint{
      "checkpoint", cl::cat(model_group), cl::value_desc("FILE"),
      cl::desc("The initial parameters of an ONNX Runtime training graph (default: the file `checkpoint`\n"
               "beside the model)")};
  cl::opt<std::string> init{
      "init", cl::cat(model_group), cl::value_desc("he"),
      cl::desc("he: seeded initial weights where the model has none (its external data is missing, or one\n"
               "number fills the tensor)")};

  WholeNumberFlag batch{"batch",
                        cl::desc("The report's batch size (default: the model's if it is fixed, else 1)"),
                        cl::value_desc("N"), cl::init(1), cl::cat(reports)};
  cl::opt<std::string> report{"report", cl::desc("text (default): print the report; none: do not"),
                              cl::value_desc("text|none"), cl::init("text"), cl::cat(reports)};
  cl::opt<std::string> report_json{"report-json", cl::desc("Write the report as JSON"),
                                   cl::value_desc("FILE"), cl::cat(reports)};
  cl::opt<std::string> report_html{"report-html", cl::desc("Write the report as a web page with pictures"),
                                   cl::value_desc("FILE"), cl::cat(reports)};
  cl::opt<std::string> compare{
      "compare", cl::desc("Instead of one plan's report: those of several levels, relative to L0"),
      cl::value_desc("LEVEL,..."), cl::cat(reports)};
  cl::opt<std::string> fit{
      "fit", cl::value_desc("SIZE[:DIM]"), cl::cat(reports),
      cl::desc("With --compare: each level's largest batch, or extent of --dim=DIM, whose peak fits SIZE")};
  cl::opt<std::string> explain{
      "explain", cl::ValueOptional, cl::value_desc("GLOB"), cl::cat(reports),
      cl::desc("For each saved activation: what reads it, why it is saved, how it is stored, and its bytes\n"
               "before and after")};

  cl::opt<std::string> emit_onnx{
      "emit-onnx", cl::cat(debugging), cl::value_desc("FILE"),
      cl::desc("Write the rewritten graph as ONNX; Compress and Decompress are in domain act")};
  cl::opt<std::string> print_after{
      "print-after", cl::cat(debugging), cl::value_desc("PASS"),
      cl::desc("Print the graph after this pass (`import`: as it was read; `all`: after every pass)")};
  SwitchFlag verify_each{"verify-each", cl::cat(debugging), cl::desc("Verify the graph after every pass")};
  SwitchFlag time_passes{"time-passes", cl::cat(debugging), cl::desc("Print the seconds of each pass")};
};

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

struct Request {
  ImportOptions import;
  CompileOptions compile;
  TargetChoice target;
  int64_t memory_limit = 0;  // bytes; 0: the level is given
  std::optional<CompareRequest> compare = std::nullopt;
};

// What was chosen, and what the next better step would have needed.
std::string DescribeChoice(const StepChoice& choice, int64_t limit) {
  std::string text = "memory limit: " + choice.chosen.Name() + " takes " +
                     FormatSize(choice.chosen.peak_bytes) + " of " + FormatSize(limit);
  if (choice.better)
    text += "; the next better step, " + choice.better->Name() + ", would take " +
            FormatSize(choice.better->peak_bytes);
  return text + "\n";
}

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
                     "use -O L1, L2, L3 or L4");
  if (policy.rules.error_bound > 0)
    return MakeError("--saved-limit", policy.level + " derives bits from a bound of the error",
                     "use -O L1, L2, L3 or L4");
  if (options.bits != 0)
    return MakeError("--saved-limit", "bounds bytes, and --bits bits", "give one of them");
  return llvm::Error::success();
}

// --memory-limit chooses what the flags in `others` would set.
llvm::Error CheckMemoryLimit(const Flags& f, int64_t limit) {
  if (limit == 0 && f.level == "auto")
    return MakeError("-O", "auto chooses by the memory there is", "give --memory-limit=SIZE");
  if (limit == 0) return llvm::Error::success();
  if (f.level.getNumOccurrences() && f.level != "auto")
    return MakeError("--memory-limit", "chooses the level, and so does -O " + f.level, "leave out -O");
  if (f.bits.getNumOccurrences())
    return MakeError("--memory-limit", "chooses the bits of codes, and so does --bits", "leave out --bits");
  if (!f.saved_limit.empty())
    return MakeError("--memory-limit", "bounds all memory, and --saved-limit a part of it",
                     "give one of them");
  if (!f.plugin.empty())
    return MakeError("--memory-limit", "chooses the codes, and so does --plugin", "give one of them");
  return llvm::Error::success();
}

// --compare makes reports alone, and its list is the choice of levels.
llvm::Error CheckCompare(const Flags& f) {
  if (!f.compare.getNumOccurrences())
    return f.fit.getNumOccurrences()
               ? MakeError("--fit", "is a column of --compare", "give --compare=L0,L3,L4")
               : llvm::Error::success();
  const cl::Option* others[] = {&f.output,       &f.level,     &f.bits,        &f.saved_limit,
                                &f.memory_limit, &f.plugin,    &f.aot,         &f.report_json,
                                &f.explain,      &f.emit_onnx, &f.print_after, &f.time_passes};
  for (const cl::Option* other : others)
    if (other->getNumOccurrences())
      return MakeError("--compare",
                       "compares levels as they are, and -" +
                           std::string(other->ArgStr.size() > 1 ? "-" : "") + other->ArgStr.str() +
                           " is for one plan",
                       "give one of them");
  return llvm::Error::success();
}

// Turns the flags into options. Its errors are wrong usage.
llvm::Expected<Request> MakeRequest(const Flags& f) {
  Request r;
  ACT_CHECK_OK(CheckCompare(f));
  if (f.batch < 1) return MakeError("--batch", "a batch has at least one sample");
  r.compile.batch = f.batch;
  ACT_TRY(r.memory_limit, SizeOf("--memory-limit", f.memory_limit));
  ACT_CHECK_OK(CheckMemoryLimit(f, r.memory_limit));
  ACT_TRY(const Policy policy,
          MakePolicy(r.memory_limit > 0 ? std::string("L3") : f.level.getValue(), f.bits, f.group_size));
  r.compile.level = policy.level;
  r.compile.bits = f.bits;
  if (f.bits.getNumOccurrences() && f.bits == 0)
    return MakeError("--bits", "must be 1 to 8 bits per element");
  r.compile.group_size = f.group_size;
  if (f.compute != "f32" && f.compute != "bf16")
    return MakeError("--compute", "expected f32 or bf16, found '" + f.compute + "'");
  r.compile.compute = f.compute == "bf16" ? Compute::kBFloat16 : Compute::kFloat32;
  if (f.fpmath != "bf16" && f.fpmath != "f32")
    return MakeError("--fpmath", "expected bf16 or f32, found '" + f.fpmath + "'");
  r.compile.round_products = f.fpmath == "bf16";
  if (f.fpmath.getNumOccurrences() && r.compile.compute == Compute::kBFloat16)
    return MakeError("--fpmath", "has no meaning with --compute=bf16, where all products multiply bfloat16",
                     "give one of them");
  if (f.fpmath.getNumOccurrences() && r.compile.round_products && !policy.rounds_products)
    return MakeError("--fpmath", f.level + " multiplies in float32", "use -O L1, L2, L3 or L4");
  if (!f.plugin.empty() && !policy.Lossy())
    return MakeError("--plugin", f.level + " is exact and has no lossy codes", "use -O L1, L2 or L3");
  r.compile.optimizer = f.optimizer;
  r.compile.clip_norm = f.clip_norm;
  r.compile.accumulate = f.accumulate;
  r.compile.grad_norm = f.grad_norm;
  ACT_CHECK_OK(CheckUpdates(f.optimizer, f.clip_norm, f.accumulate));
  if (f.clip_norm.getNumOccurrences() && f.clip_norm == 0)
    return MakeError("--clip-norm", "expected a number above 0");
  if (f.grad_norm && f.optimizer == "none")
    return MakeError("--grad-norm", "needs an optimizer: without one gradients are outputs");
  ACT_TRY(r.target, ParseTarget(f.target));
  if (f.optimizer_state != "f32" && f.optimizer_state != "8bit")
    return MakeError("--optimizer-state", "expected f32 or 8bit, found '" + f.optimizer_state + "'");
  r.compile.quantize_moments = f.optimizer_state == "8bit";
  if (r.compile.quantize_moments && f.optimizer != "adam" && f.optimizer != "adamw")
    return MakeError("--optimizer-state", f.optimizer + " has no moments of 8 bits",
                     "use --optimizer=adam or adamw");
  if (r.compile.quantize_moments && (!r.target.IsOne() || r.target.kinds.front() != TargetKind::kCpu))
    return MakeError("--optimizer-state", "moments of 8 bits are updated on the CPU alone",
                     "give --target=cpu or --optimizer-state=f32");
  r.compile.target = r.target.kinds.front();
  for (const auto* file : {&f.report_json, &f.report_html})
    if (!file->empty() && !r.target.IsOne())
      return MakeError("--" + file->ArgStr.str(), "holds the report of one target, not of all",
                       "give --target=cpu or --target=cuda");
  if (f.aot && !r.target.card)
    return MakeError("--aot", "code and engines are made for one kind of card",
                     "name it: --target=cuda:CARD, with one of " + CardNames());
  if (f.aot && f.output.empty()) return MakeError("--aot", "fills a plan", "give -o PLAN");
  ACT_TRY(r.compile.workspace_limit, SizeOf("--workspace", f.workspace));
  ACT_TRY(r.compile.saved_limit, SizeOf("--saved-limit", f.saved_limit));
  ACT_CHECK_OK(CheckSavedLimit(policy, r.compile));
  if (f.report != "text" && f.report != "none")
    return MakeError("--report", "expected text or none, found '" + f.report + "'");
  if (!f.init.empty() && f.init != "he") return MakeError("--init", "expected he, found '" + f.init + "'");
  for (const std::string& dim : f.dims) {
    const auto [name, extent] = llvm::StringRef(dim).split('=');
    int64_t value = 0;
    if (name.empty() || extent.getAsInteger(10, value) || value < 1)
      return MakeError("--dim", "expected NAME=EXTENT, found '" + dim + "'");
    r.import.dims[name.str()] = value;
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
  r.import.init_he = f.init == "he";
  r.import.report_only = f.output.empty();
  if (f.compare.getNumOccurrences()) {
    if (f.fit.getNumOccurrences() && f.fit.empty()) return MakeError("--fit", "expected SIZE or SIZE:DIM");
    if (!r.target.IsOne())
      return MakeError("--compare", "is for one target", "give --target=cpu or --target=cuda");
    ACT_TRY(r.compare, ParseCompare(f.compare, f.fit, r.import));
  }
  return r;
}

llvm::Error Run(const Flags& f, Request request) {
  for (const auto* path : {&f.output, &f.report_json, &f.report_html, &f.emit_onnx})
    if (!path->empty())
      ACT_CHECK_OK(OutputFile::Create(*path).takeError());  // fails before the work, not after it
  if (request.compare) {
    ACT_TRY(const Comparison comparison, Compare(f.model, request.import, request.compile, *request.compare));
    if (!f.report_html.empty()) ACT_CHECK_OK(WriteFile(f.report_html, ComparisonHtml(comparison)));
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
  if (model.optimizer) {
    request.compile.optimizer = model.optimizer->name;
    request.compile.hyper = model.optimizer->hyper;
    if (f.clip_norm.getNumOccurrences() == 0) request.compile.clip_norm = model.optimizer->clip_norm;
  }
  std::optional<StepChoice> choice;
  if (request.memory_limit > 0) {
    ACT_TRY(choice, RankedSteps(model, request.compile).Choose(request.memory_limit));
    request.compile.level = choice->chosen.level;
    request.compile.bits = choice->chosen.bits;
  }
  const int onnx_nodes = model.onnx_nodes;
  const size_t imported_nodes = model.graph.nodes.size();
  if (f.print_after == "import" || f.print_after == "all") llvm::outs() << "// import\n" << Dump(model.graph);
  bool known_pass = f.print_after.empty() || f.print_after == "import" || f.print_after == "all";
  llvm::Error emitted = llvm::Error::success();
  request.compile.after_pass = [&](const std::string& pass, const Graph& graph) {
    if (f.print_after == pass || f.print_after == "all") llvm::outs() << "// " << pass << "\n" << Dump(graph);
    known_pass |= f.print_after == pass;
    // The types of a bfloat16 step are those of its loops.
    const bool emits = pass == (request.compile.compute == Compute::kBFloat16 ? "narrow-values" : "compress");
    if (emits && !f.emit_onnx.empty())
      emitted = llvm::joinErrors(std::move(emitted), EmitOnnx(graph, f.emit_onnx));
  };
  std::vector<PassTime> times;
  llvm::Expected<Plan> compiled = Compile(std::move(model), request.compile, &times);
  if (!compiled) return llvm::joinErrors(std::move(emitted), WithPlace(compiled.takeError(), f.model));
  ACT_CHECK_OK(std::move(emitted));
  Plan& plan = *compiled;
  if (!known_pass)
    return MakeError("--print-after=" + f.print_after, "no such pass",
                     "the passes are:\n" + DescribePasses());

  std::vector<MemoryReport> reports;
  for (const TargetKind target : request.target.kinds) {
    reports.emplace_back();
    ACT_TRY(reports.back(), MakeMemoryReport(plan, plan.default_batch, target, request.target.card));
    ACT_CHECK_OK(ValidateLayout(plan, reports.back().layout));
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
                 << DescribeWork(plan.train.graph, plan.default_batch);
    if (choice) llvm::outs() << DescribeChoice(*choice, request.memory_limit);
  }
  if (f.explain.getNumOccurrences()) llvm::outs() << ExplainEdges(plan, plan.default_batch, f.explain);
  if (f.time_passes)
    for (const PassTime& t : times)
      llvm::errs() << llvm::format("%10.3f ms  %6zu nodes  ", 1e3 * t.seconds, t.nodes) << t.pass << "\n";
  return llvm::Error::success();
}

int Main(int argc, char** argv) {
  Flags flags;
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
  llvm::Expected<Request> request = MakeRequest(flags);
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
