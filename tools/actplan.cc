// actplan: looks at plans that actc made. docs/cli.md describes the command line.
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/Format.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "compiler/ir/dump.h"
#include "runtime/base/error.h"
#include "runtime/base/size.h"
#include "runtime/memory/layout.h"
#include "runtime/memory/report.h"
#include "runtime/plan/plan_io.h"
#include "tools/flags.h"
#include "tools/plan_diff.h"
#include "tools/plan_kernels.h"
#include "tools/run_tool.h"
#include "tools/target_flag.h"

namespace act {
namespace {

namespace cl = llvm::cl;

constexpr char kTool[] = "actplan";
constexpr char kUsage[] =
    "actplan show|verify|layout PLAN, or actplan diff PLAN PLAN; actplan COMMAND --help lists the flags";
constexpr int kFailed = 1;

struct Flags {
  cl::SubCommand show{"show", "What the plan is: model, level, sizes, operators, memory"};
  cl::SubCommand verify{"verify", "Check the file, and its memory layout at several batch sizes"};
  cl::SubCommand layout{"layout", "Where each storage lies in its arena, and when it is live"};
  cl::SubCommand diff{"diff", "What differs between two plans"};

  cl::OptionCategory group{"Options"};
  cl::opt<std::string> plan{cl::Positional, cl::Required,    cl::desc("PLAN"), cl::cat(group),
                            cl::sub(show),  cl::sub(verify), cl::sub(layout),  cl::sub(diff)};
  cl::opt<std::string> other{cl::Positional, cl::Required, cl::desc("PLAN"), cl::cat(group), cl::sub(diff)};
  WholeNumberFlag batch{"batch",
                        cl::desc("Batch size (default: the plan's)"),
                        cl::value_desc("N"),
                        cl::cat(group),
                        cl::sub(show),
                        cl::sub(layout),
                        cl::sub(diff)};
  cl::opt<std::string> target{
      "target",
      cl::desc("The machine of the layout (default: cpu); all and CARD: of show alone"),
      cl::value_desc(kTargetForms),
      cl::init("cpu"),
      cl::cat(group),
      cl::sub(show),
      cl::sub(layout),
      cl::sub(diff)};
  SwitchFlag nodes{"nodes", cl::desc("List the nodes of the training step"), cl::cat(group), cl::sub(show)};
  SwitchFlag parameters{"parameters", cl::desc("List parameters and buffers"), cl::cat(group), cl::sub(show)};
  SwitchFlag edges{"edges", cl::desc("List the saved activations and why they are saved"), cl::cat(group),
                   cl::sub(show)};
  SwitchFlag workspaces{"workspaces", cl::desc("List the nodes with scratch space, and its bounds by target"),
                        cl::cat(group), cl::sub(show)};
  SwitchFlag kernels{"kernels",
                     cl::desc("List the kernel or library engine of each node, for the target; with\n"
                              "--target=cuda:CARD without that card"),
                     cl::cat(group), cl::sub(show)};
  cl::opt<std::string> dump_kernels{"dump-kernels", cl::cat(group), cl::sub(show), cl::value_desc("DIR"),
                                    cl::desc("With --kernels: write the source of each kernel of a card")};
  SwitchFlag eval{"eval", cl::desc("The graph of evaluation instead of the training step"), cl::cat(group),
                  cl::sub(show), cl::sub(layout)};

  TargetChoice targets;  // what --target says
  llvm::Error ReadTarget();
  int64_t BatchOr(int64_t fallback) const { return batch.getNumOccurrences() ? int64_t{batch} : fallback; }
};

llvm::Error Flags::ReadTarget() {
  ACT_TRY(targets, ParseTarget(target));
  if (show || (targets.IsOne() && !targets.card)) return llvm::Error::success();
  return MakeError("--target", "expected cpu or cuda, found '" + target + "'",
                   "all targets, and cards, are for 'actplan show'");
}

llvm::raw_ostream& Row(llvm::StringRef name) { return llvm::outs() << "  " << llvm::left_justify(name, 20); }

int64_t CountKind(const Graph& graph, ValueKind kind) {
  return std::count_if(graph.values.begin(), graph.values.end(),
                       [=](const Value& v) { return v.kind == kind; });
}

bool HasWeights(const Plan& plan) {
  return std::none_of(plan.train.graph.values.begin(), plan.train.graph.values.end(), [](const Value& value) {
    return (value.kind == ValueKind::kParameter || value.kind == ValueKind::kBuffer) && !value.data.data;
  });
}

void PrintParameters(const Graph& graph) {
  for (const Value& value : graph.values) {
    if (value.kind != ValueKind::kParameter && value.kind != ValueKind::kBuffer) continue;
    llvm::outs() << "  " << llvm::left_justify(value.kind == ValueKind::kBuffer ? "buffer" : "parameter", 11)
                 << value.name << ": " << ToString(value.FileType())
                 << (value.coded ? " as " + ToString(value.coded->codec) : "") << "\n";
  }
}

void PrintWorkspaces(const Graph& graph, int64_t batch) {
  llvm::outs() << "workspaces of a node at batch " << batch << ", in bytes, at most\n";
  const auto column = [](const std::string& text) { llvm::outs() << llvm::right_justify(text, 14); };
  for (const TargetKind target : kTargets) column(ToString(target));
  llvm::outs() << "  node\n";
  for (const Node& node : graph.nodes) {
    const auto bytes = [&](TargetKind target) { return node.workspace_bytes[target].At(batch); };
    if (std::none_of(std::begin(kTargets), std::end(kTargets), bytes)) continue;
    for (const TargetKind target : kTargets) column(std::to_string(bytes(target)));
    llvm::outs() << "  " << NodeLabel(node) << "\n";
  }
}

void PrintEngines(const Prepared& prepared) {
  llvm::outs() << "engines for " << prepared.card << "\n";
  for (const PreparedEngine& engine : prepared.engines) {
    llvm::outs() << "  " << engine.problem << ": " << engine.engine;
    if (engine.plan.bytes > 0) llvm::outs() << ", workspace " << engine.workspace_bytes << " bytes";
    llvm::outs() << "\n";
  }
}

llvm::Error Show(const Flags& f) {
  if (!f.dump_kernels.empty() && (!f.kernels || f.targets.kinds.front() == TargetKind::kCpu))
    return MakeError("--dump-kernels", "only a card's kernels have sources",
                     "give --kernels and --target=cuda:CARD, too");
  ACT_TRY(const Plan plan, ReadPlan(f.plan));
  const int64_t batch = f.BatchOr(plan.default_batch);
  std::vector<MemoryReport> reports(f.targets.kinds.size());
  for (size_t t = 0; t < reports.size(); ++t) {
    ACT_TRY(reports[t], MakeMemoryReport(plan, batch, f.targets.kinds[t], f.targets.card));
  }
  std::string kernels;
  if (f.kernels) {
    ACT_TRY(kernels, DescribeKernels(plan, batch, f.targets, f.dump_kernels));
  }
  const Graph& graph = f.eval ? plan.eval.graph : plan.train.graph;
  const Graph& train = plan.train.graph;

  Row("model") << plan.model_name << "\n";
  Row("level") << plan.level << "\n";
  Row("compute") << ToString(plan.compute) << "\n";
  Row("optimizer") << plan.optimizer << "\n";
  if (plan.clip_norm > 0) Row("gradient norm") << "at most " << llvm::format("%g", plan.clip_norm) << "\n";
  if (plan.accumulate > 1) Row("micro-batches") << plan.accumulate << " an update\n";
  Row("seed") << plan.seed << "\n";
  Row("batch") << plan.default_batch << (plan.fixed_batch ? " (fixed)\n" : " (any)\n");
  Row("weights") << (HasWeights(plan) ? "in the plan\n" : "not in the plan\n");
  Row("workspace limit") << FormatSize(plan.workspace_limit) << " a node\n";
  Row("prepared") << DescribePrepared(plan) << "\n";
  if (plan.prepared) Row("") << plan.prepared->compiler << "; " << plan.prepared->library << "\n";
  Row("training") << train.nodes.size() << " nodes, " << plan.train.storages << " storages, "
                  << CountKind(train, ValueKind::kParameter) << " parameters, "
                  << CountKind(train, ValueKind::kBuffer) << " buffers\n";
  Row("evaluation") << plan.eval.graph.nodes.size() << " nodes\n";
  Row("inputs");
  const char* separator = "";
  for (const ValueId id : graph.inputs) {
    llvm::outs() << separator << graph.value(id).name << ": " << ToString(graph.value(id).type);
    separator = ", ";
  }
  llvm::outs() << "\n";
  Row("operators");
  separator = "";
  for (const auto& [op, count] : OperatorCounts(graph)) {
    llvm::outs() << separator << count << " " << op;
    separator = ", ";
  }
  llvm::outs() << "\n";
  for (const MemoryReport& report : reports) llvm::outs() << "\n" << ReportText(report);
  if (plan.prepared && !plan.prepared->engines.empty()) llvm::outs() << "\n", PrintEngines(*plan.prepared);
  if (f.workspaces) llvm::outs() << "\n", PrintWorkspaces(graph, batch);
  if (f.kernels) llvm::outs() << "\nkernels at batch " << batch << "\n" << kernels;
  if (f.parameters) llvm::outs() << "\nparameters and buffers\n", PrintParameters(graph);
  if (f.edges) llvm::outs() << "\n" << ExplainEdges(plan, batch, "");
  if (f.nodes) llvm::outs() << "\n" << Dump(graph);
  return llvm::Error::success();
}

llvm::Error Verify(const Flags& f) {
  ACT_TRY(const Plan plan, ReadPlan(f.plan));
  std::set<int64_t> batches{plan.default_batch};
  if (!plan.fixed_batch) batches.insert({1, 2, 3, 16, 127, 512});
  std::string lines;
  llvm::raw_string_ostream out(lines);
  for (const TargetKind target : kTargets)
    for (const int64_t batch : batches) {
      llvm::Expected<MemoryLayout> layout = LayOut(plan, batch, target);
      if (!layout) return WithPlace(layout.takeError(), f.plan);
      if (llvm::Error error = ValidateLayout(plan, *layout)) return WithPlace(std::move(error), f.plan);
      out << "  " << llvm::left_justify(ToString(target), 6) << "batch "
          << llvm::right_justify(std::to_string(batch), 6) << ": arena of " << FormatSize(layout->arena_bytes)
          << " (" << layout->arena_bytes << " bytes)";
      if (layout->host_bytes > 0)
        out << ", of the host " << FormatSize(layout->host_bytes) << " (" << layout->host_bytes << " bytes)";
      out << "\n";
    }
  llvm::outs() << f.plan << ": a valid plan of version " << kPlanVersion << "\n" << out.str();
  return llvm::Error::success();
}

// For each storage, the names of the values in it.
std::vector<std::string> StorageNames(const StepGraph& step) {
  std::vector<std::string> names(static_cast<size_t>(step.storages));
  for (size_t v = 0; v < step.graph.values.size(); ++v) {
    if (step.storage_of[v] < 0) continue;
    std::string& name = names[static_cast<size_t>(step.storage_of[v])];
    name += (name.empty() ? "" : ", ") + step.graph.values[v].name;
  }
  return names;
}

llvm::Error Layout(const Flags& f) {
  ACT_TRY(const Plan plan, ReadPlan(f.plan));
  const TargetKind target = f.targets.kinds.front();
  ACT_TRY(const MemoryLayout whole, LayOut(plan, f.BatchOr(plan.default_batch), target));
  ACT_CHECK_OK(ValidateLayout(plan, whole));
  const StepGraph& step = f.eval ? plan.eval : plan.train;
  const StepLayout& layout = f.eval ? whole.eval : whole.train;
  const std::vector<std::string> names = StorageNames(step);
  const std::vector<MemoryCategory> categories = StorageCategories(step);

  struct Line {
    bool on_host;
    int64_t offset, bytes, lower, upper;
    std::string category, name;
  };
  std::vector<Line> lines;
  for (size_t s = 0; s < names.size(); ++s) {
    if (layout.offset[s] < 0) continue;
    lines.push_back({layout.on_host[s], layout.offset[s], layout.bytes[s], layout.lower[s], layout.upper[s],
                     layout.on_host[s] ? "host" : ToString(categories[s]), names[s]});
  }
  for (size_t t = 0; t < layout.workspace_offset.size(); ++t) {
    const auto now = static_cast<int64_t>(t);
    if (layout.workspace_offset[t] < 0) continue;
    lines.push_back({false, layout.workspace_offset[t], layout.workspace_bytes[t], now, now + 1,
                     ToString(MemoryCategory::kWorkspace), NodeLabel(step.graph.nodes[t])});
  }
  std::sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    return std::tuple(a.on_host, a.offset, a.lower) < std::tuple(b.on_host, b.offset, b.lower);
  });
  llvm::outs() << "batch " << whole.batch << ", " << (f.eval ? "evaluation" : "training")
               << (target == TargetKind::kCpu ? "" : std::string(", target ") + ToString(target)) << ": "
               << layout.peak_bytes << " bytes, lower bound " << layout.lower_bound_bytes << ", arena "
               << whole.arena_bytes << ", host " << layout.host_peak_bytes << "\n"
               << "        offset          bytes    live nodes  category    name\n";
  for (const Line& line : lines) {
    llvm::outs() << llvm::format("%14lld %14lld %6lld..%-6lld ", static_cast<long long>(line.offset),
                                 static_cast<long long>(line.bytes), static_cast<long long>(line.lower),
                                 static_cast<long long>(line.upper))
                 << llvm::left_justify(line.category, 12) << line.name << "\n";
  }
  return llvm::Error::success();
}

llvm::Error Diff(const Flags& f) {
  ACT_TRY(const Plan a, ReadPlan(f.plan));
  ACT_TRY(const Plan b, ReadPlan(f.other));
  const TargetKind target = f.targets.kinds.front();
  ACT_TRY(const MemoryLayout at_a, LayOut(a, f.BatchOr(a.default_batch), target));
  ACT_TRY(const MemoryLayout at_b, LayOut(b, f.BatchOr(a.default_batch), target));
  const std::string text = DescribeDifferences(a, at_a, b, at_b);
  llvm::outs() << (text.empty() ? "no differences\n" : text);
  return llvm::Error::success();
}

int Main(int argc, char** argv) {
  Flags flags;
  cl::HideUnrelatedOptions(flags.group);
  for (cl::SubCommand* command : {&flags.show, &flags.verify, &flags.layout, &flags.diff})
    cl::HideUnrelatedOptions(flags.group, *command);
  cl::SetVersionPrinter([](llvm::raw_ostream& os) { os << "actplan " ACT_VERSION "\n"; });
  if (!ReadCommandLine(kTool, kUsage, "Shows, checks and compares plans that actc made.\n", argc, argv))
    return kWrongUsage;
  if (flags.batch.getNumOccurrences() && flags.batch < 1)
    return UsageError(kTool, "--batch: a batch has at least one sample");
  if (llvm::Error error = flags.ReadTarget()) {
    PrintError(kTool, std::move(error));
    return kWrongUsage;
  }

  const struct {
    cl::SubCommand* command;
    llvm::Error (*run)(const Flags&);
  } commands[] = {{&flags.show, Show}, {&flags.verify, Verify}, {&flags.layout, Layout}, {&flags.diff, Diff}};
  for (const auto& [command, run] : commands) {
    if (!*command) continue;
    if (llvm::Error error = run(flags)) {
      PrintError(kTool, std::move(error));
      return kFailed;
    }
    return 0;
  }
  return UsageError(kTool, std::string("no command is given\n") + kUsage);
}

}  // namespace
}  // namespace act

int main(int argc, char** argv) { return act::RunTool("actplan", argc, argv, act::Main); }
