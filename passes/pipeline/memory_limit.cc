#include "passes/pipeline/memory_limit.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/ops/update.h"
#include "passes/pipeline/frozen_form.h"
#include "runtime/base/error.h"
#include "runtime/base/size.h"
#include "runtime/memory/layout.h"
#include "runtime/memory/step_sizes.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

constexpr size_t kTensorsNamed = 3;

// Whether --optimizer-state=8bit changes the step.
bool HasSmallState(const CompileOptions& options) {
  const UpdateRule* rule = FindUpdateRule(options.optimizer);
  return rule && !rule->quantized.empty();
}

RankedStep Settled(RankedStep step, StepPeak& peak) {
  step.peak_bytes = peak.Bytes();
  step.host_bytes = peak.HostBytes();
  return step;
}

// "Conv block1.conv". A loop's name joins those of its nodes: "Fused block1.bn and 2 more".
std::string NameIn(const Node& node) {
  std::string name = node.op + " " + node.name;
  if (node.program.Empty()) return name;
  const auto others = std::count(node.name.begin(), node.name.end(), '+');
  name.resize(std::min(name.size(), name.find('+')));
  return others == 0 ? name : name + " and " + std::to_string(others) + " more";
}

// "12 MiB of Conv block1.conv, ...": the makers and bytes of the largest tensors that live at the peak.
std::string LargestTensors(const StepGraph& step, const StepLayout& at) {
  std::map<StorageId, std::string> names;
  for (const Node& node : step.graph.nodes)
    for (const ValueId v : node.outputs)
      names.try_emplace(step.storage_of[static_cast<size_t>(v)], NameIn(node));
  for (size_t v = 0; v < step.storage_of.size(); ++v)
    names.try_emplace(step.storage_of[v], step.graph.values[v].name);
  std::vector<std::pair<int64_t, std::string>> live;
  for (size_t s = 0; s < at.bytes.size(); ++s) {
    const auto id = static_cast<StorageId>(s);
    if (at.lower[s] <= at.peak_node && at.peak_node < at.upper[s] && !at.on_host[s] && names.count(id))
      live.emplace_back(at.bytes[s], names.at(id));
  }
  live.emplace_back(at.workspace_bytes[static_cast<size_t>(at.peak_node)], "its workspace");
  std::sort(live.begin(), live.end(), std::greater<>());
  std::string text;
  for (size_t i = 0; i < std::min(kTensorsNamed, live.size()); ++i)
    text += (i > 0 ? ", " : "") + FormatSize(live[i].first) + " of " + live[i].second;
  return text;
}

}  // namespace

struct RankedSteps::Compiled {
  RankedStep step;
  Plan plan;
  StepPeak peak;

  RankedStep WithPeak() { return Settled(step, peak); }
};

RankedSteps::RankedSteps(const ImportResult& model, const CompileOptions& options, const StepChoices& choices)
    : model_(model),
      options_(options),
      choices_(choices),
      arenas_(options.target == TargetKind::kCpu ? Arenas::kBoth : Arenas::kDevice),
      steps_(ListSteps(choices)),
      columns_(ColumnsOf(steps_)) {
  options_.after_pass = nullptr;  // these are attempts
}

RankedSteps::~RankedSteps() = default;

llvm::Expected<StepChoice> RankedSteps::Choose(int64_t limit_bytes) {
  chosen_.reset();
  // What the limit may change is there, as it must be where the user names a form.
  if (choices_.frozen_weights && measured_.empty())
    ACT_CHECK_OK(CompileStep({.level = "L0", .frozen_weights = FrozenForms().back().name}).takeError());
  for (const std::vector<int>& column : columns_) ACT_CHECK_OK(Search(column, limit_bytes));
  if (!chosen_) return Infeasible(limit_bytes);
  StepChoice choice;
  // Fewer bits may take a higher peak, so what a bisection passed over may fit.
  for (int rank = chosen_->rank; rank-- > 0 && !choice.better;) {
    ACT_TRY(const Outcome outcome, Try(rank, limit_bytes));
    if (outcome == Outcome::kTooLarge) {
      ACT_TRY(choice.better, WithPeak(rank));
    }
  }
  ACT_TRY(const std::optional<RankedStep> chosen, WithPeak(chosen_->rank));
  choice.chosen = *chosen;
  if (chosen->host_limit > 0) {
    ACT_TRY(choice.chosen, WithFewestSwaps(*chosen, limit_bytes));
  }
  return choice;
}

// The first of a column's steps that fits, if it is better than what was found before.
llvm::Error RankedSteps::Search(const std::vector<int>& column, int64_t limit) {
  // Fewer bits may take a higher peak, so where the bisection ends depends on the steps that it tries. More memory
  // must never lead to a worse step. So every limit begins with the same step and then with the same range, and what
  // is worse than `chosen_` counts as fitting. The first step with codes for all comes first: it often fits, and where
  // codes are small its peak may be lower than that of fewer bits.
  if (chosen_ && chosen_->rank < column.front()) return llvm::Error::success();
  const auto fits = [&](size_t at) -> llvm::Expected<bool> {
    if (chosen_ && column[at] >= chosen_->rank) return true;
    ACT_TRY(const Outcome outcome, Try(column[at], limit));
    // What is impossible has too few bits, and what lies beyond it has fewer.
    return outcome != Outcome::kTooLarge;
  };
  const size_t coded = FirstWithCodesForAll(column);
  ACT_TRY(const bool coded_fits, fits(coded));
  size_t low = coded_fits ? 0 : coded + 1, high = coded_fits ? coded : column.size();
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    ACT_TRY(const bool middle_fits, fits(middle));
    if (middle_fits)
      high = middle;
    else
      low = middle + 1;
  }
  return llvm::Error::success();
}

// Its place in the column.
size_t RankedSteps::FirstWithCodesForAll(const std::vector<int>& column) const {
  const auto first = std::find_if(column.begin(), column.end(), [&](int rank) {
    return steps_[static_cast<size_t>(rank)].exact_part == 0;
  });
  return static_cast<size_t>(first - column.begin());
}

// A step, and what it takes.
llvm::Expected<RankedSteps::Compiled> RankedSteps::CompileStep(const RankedStep& step) const {
  CompileOptions options = options_;
  step.SetIn(options);
  RerunCandidate reruns;
  ACT_TRY(Plan plan, Compile(model_, options, nullptr, nullptr, &reruns));
  ACT_TRY(MemoryLayout sizes, PlanSizes(plan, options.target).At(plan.default_batch));
  Compiled compiled{step, std::move(plan), StepPeak(std::move(sizes), arenas_)};
  compiled.step.reruns = {reruns};
  const std::vector<Node>& nodes = compiled.plan.train.graph.nodes;
  compiled.step.swapped = std::count_if(nodes.begin(), nodes.end(),
                                        [](const Node& node) { return RunsOf(node) == Runs::kSwapOut; });
  return compiled;
}

// The step of the list with the same parts.
int RankedSteps::RankOf(const RankedStep& step) const {
  const auto parts = [](const RankedStep& of) {
    return std::tuple(of.level, of.bits, of.exact_part, of.bfloat16, of.frozen_weights, of.quantized_state,
                      of.host_limit);
  };
  const auto same = [&](const RankedStep& other) { return parts(other) == parts(step); };
  return static_cast<int>(std::find_if(steps_.begin(), steps_.end(), same) - steps_.begin());
}

// Among which the step's are chosen; none: all that its level has.
llvm::Expected<std::vector<RerunCandidate>> RankedSteps::RerunsFor(const RankedStep& step) {
  std::vector<RerunCandidate> choices;
  if (step.level == "L5") {
    if (!least_peak_reruns_) {
      ACT_TRY(const Compiled own, CompileStep({.level = step.level}));
      least_peak_reruns_ = own.step.reruns;
    }
    choices = *least_peak_reruns_;
  } else if (step.level == "L4") {
    const auto column = std::find_if(columns_.begin(), columns_.end(), [&](const std::vector<int>& ranks) {
      return std::find(ranks.begin(), ranks.end(), step.rank) != ranks.end();
    });
    // Of the steps with codes for all: the first, and the middle one.
    const size_t first = FirstWithCodesForAll(*column);
    const std::array<int, 2> searched{(*column)[first], (*column)[first + (column->size() - first) / 2]};
    for (const int rank : searched) {
      if (step.rank == rank) return std::vector<RerunCandidate>{};
      ACT_TRY(const Measured* const of_rank, Measure(rank));
      for (const RerunCandidate& choice : of_rank->step.reruns)
        if (std::find(choices.begin(), choices.end(), choice) == choices.end()) choices.push_back(choice);
    }
  }
  return choices;
}

// Compiles a step unless that is done.
llvm::Expected<RankedSteps::Measured*> RankedSteps::Measure(int rank) {
  if (const auto known = measured_.find(rank); known != measured_.end()) return &known->second;
  Measured measured{steps_[static_cast<size_t>(rank)], std::nullopt};
  RankedStep& step = measured.step;
  const bool swaps = step.host_limit > 0;
  if (swaps) {
    RankedStep keeping = step;
    keeping.host_limit = 0;
    ACT_TRY(const Measured* kept, Measure(RankOf(keeping)));
    step.reruns = kept->step.reruns;
  } else {
    ACT_TRY(step.reruns, RerunsFor(step));
  }
  llvm::Expected<Compiled> compiled = CompileStep(step);
  if (!compiled) {
    if (rank == 0) return compiled.takeError();
    llvm::consumeError(compiled.takeError());  // codes of the fewest levels take more
  } else if (!swaps || compiled->step.swapped > 0) {
    step = compiled->step;
    measured.peak.emplace(std::move(compiled->peak));
  }
  return &measured_.emplace(rank, std::move(measured)).first->second;
}

// A step with its exact peak; nothing: there is no such step.
llvm::Expected<std::optional<RankedStep>> RankedSteps::WithPeak(int rank) {
  ACT_TRY(Measured* const measured, Measure(rank));
  if (!measured->peak) return std::nullopt;
  return Settled(measured->step, *measured->peak);
}

// Measures a step, and keeps the best one that fits.
llvm::Expected<RankedSteps::Outcome> RankedSteps::Try(int rank, int64_t limit) {
  ACT_TRY(Measured* const measured, Measure(rank));
  if (!measured->peak) return Outcome::kImpossible;
  if (!measured->peak->Fits(limit)) return Outcome::kTooLarge;
  if (!chosen_ || rank < chosen_->rank) chosen_ = measured->step;
  return Outcome::kFits;
}

// The step with as few copies to the host as fit the limit. As in Search, more memory never gives more of them.
llvm::Expected<RankedStep> RankedSteps::WithFewestSwaps(const RankedStep& all, int64_t limit) const {
  RankedStep best = all;
  int64_t low = 1;
  while (low < best.swapped) {
    RankedStep fewer = all;
    fewer.swapped = low + (best.swapped - low) / 2;
    ACT_TRY(Compiled compiled, CompileStep(fewer));
    if (compiled.peak.Fits(limit))
      best = compiled.WithPeak();
    else
      low = fewer.swapped + 1;
  }
  return best;
}

llvm::Expected<std::vector<StepPart>> RankedSteps::PartsOf(const RankedStep& chosen) {
  std::vector<StepPart> parts;
  const RankedStep& of_list = steps_[static_cast<size_t>(chosen.rank)];
  const auto add = [&](const char* name, int rank) -> llvm::Error {
    ACT_TRY(const std::optional<RankedStep> without, WithPeak(rank));
    if (without) parts.push_back({name, *without});
    return llvm::Error::success();
  };
  const auto at_level = [&](const char* level) {
    RankedStep other = of_list;
    other.level = level;
    return RankOf(other);
  };
  if (chosen.bits > 0) {
    RankedStep exact = of_list;
    exact.level = "L0";
    exact.bits = exact.exact_part = 0;
    ACT_CHECK_OK(add("codes", RankOf(exact)));
  }
  for (const std::vector<int>& column : columns_)
    if (const auto at = std::find(column.begin(), column.end(), chosen.rank);
        at != column.end() && at != column.begin())
      ACT_CHECK_OK(
          add(chosen.bits < steps_[static_cast<size_t>(*(at - 1))].bits ? "its fewer bits" : "its last codes",
              *(at - 1)));
  if (chosen.level == "L4") ACT_CHECK_OK(add("re-runs", at_level("L3")));
  if (chosen.level == "L5") ACT_CHECK_OK(add("products made twice and small tiles", at_level("L4")));
  const auto add_without = [&](bool has, const char* name, auto RankedStep::*part) -> llvm::Error {
    if (!has) return llvm::Error::success();
    RankedStep other = of_list;
    other.*part = {};
    return add(name, RankOf(other));
  };
  ACT_CHECK_OK(add_without(chosen.host_limit > 0, "codes on the host", &RankedStep::host_limit));
  ACT_CHECK_OK(add_without(chosen.bfloat16, "bfloat16", &RankedStep::bfloat16));
  ACT_CHECK_OK(
      add_without(!chosen.frozen_weights.empty(), "codes of frozen weights", &RankedStep::frozen_weights));
  ACT_CHECK_OK(add_without(chosen.quantized_state, "8-bit state", &RankedStep::quantized_state));
  return parts;
}

// Of the steps that were measured, the one of the least peak, with that peak.
llvm::Expected<RankedSteps::Compiled> RankedSteps::LeastStep() {
  Measured* least = nullptr;
  for (auto& [rank, measured] : measured_)
    if (measured.peak && (!least || (measured.peak->Least() < least->peak->Bytes() &&
                                     measured.peak->Bytes() < least->peak->Bytes())))
      least = &measured;
  ACT_TRY(Compiled compiled, CompileStep(least->step));
  compiled.step = Settled(least->step, *least->peak);
  return compiled;
}

// What the flags that are not given would make of the least step: each alone, and those that may be `auto` together if
// none of them is enough and together they are better.
std::string RankedSteps::OtherChoices(const Compiled& least, int64_t limit) {
  struct Choice {
    bool open;
    const char* flag;
    void (*take)(RankedStep& step);
  };
  const Choice choices[] = {
      {!choices_.quantized_state && options_.state == StateFormat::kFloat32 && HasSmallState(options_),
       "--optimizer-state=auto", [](RankedStep& step) { step.quantized_state = true; }},
      {!choices_.bfloat16 && options_.compute == Compute::kFloat32, "--compute=auto",
       [](RankedStep& step) { step.bfloat16 = true; }},
      {!choices_.frozen_weights && !options_.frozen_weights, "--frozen-weights=auto",
       [](RankedStep& step) { step.frozen_weights = FrozenForms().back().name; }}};
  const bool host = choices_.host_limit == 0 && options_.target == TargetKind::kCuda;
  std::string text;
  int64_t least_peak = least.step.peak_bytes;
  const auto attempt = [&](const std::string& flags, const RankedStep& step, int64_t above) {
    llvm::Expected<Compiled> compiled = CompileStep(step);
    if (!compiled) {
      llvm::consumeError(compiled.takeError());
      return false;
    }
    const RankedStep other = compiled->WithPeak();
    const int64_t peak = other.peak_bytes;
    if (peak >= above) return false;
    least_peak = std::min(least_peak, peak);
    text += "; with " + flags + (step.host_limit > 0 ? std::to_string(other.host_bytes) : "") +
            " there is a step of " + FormatSize(peak) + (peak <= limit ? ", which fits" : "");
    return true;
  };
  if (host) {
    RankedStep step = least.step;
    step.host_limit = std::numeric_limits<int64_t>::max();
    attempt("--host-limit=", step, least.step.peak_bytes);
  }
  RankedStep without = steps_[static_cast<size_t>(least.step.rank)];
  without.reruns = least.step.reruns;
  RankedStep together = without;
  std::string flags;
  int helpful = 0;
  for (const Choice& choice : choices) {
    if (!choice.open) continue;
    RankedStep step = without;
    choice.take(step);
    if (!attempt(choice.flag, step, least.step.peak_bytes)) continue;
    choice.take(together);
    flags += (flags.empty() ? "" : " and ") + std::string(choice.flag);
    ++helpful;
  }
  if (helpful > 1 && least_peak > limit) attempt(flags, together, least_peak);
  return text;
}

// Says what would help.
llvm::Error RankedSteps::Infeasible(int64_t limit) {
  ACT_TRY(const Compiled least, LeastStep());
  ACT_TRY(const MemoryLayout layout, LayOut(least.plan, least.plan.default_batch, options_.target));
  const bool in_training = layout.train.peak_bytes >= layout.eval.peak_bytes;
  const StepLayout& at = in_training ? layout.train : layout.eval;
  const StepGraph& step = in_training ? least.plan.train : least.plan.eval;
  const Node& node = step.graph.nodes[static_cast<size_t>(at.peak_node)];
  const std::string batch = std::to_string(layout.batch);
  const std::string peak =
      "the least peak is " + FormatSize(least.step.peak_bytes) + " (" + least.step.Name() + ")";
  if (layout.persistent_bytes > limit) {
    const int64_t state = at.category_bytes[static_cast<size_t>(MemoryCategory::kOptimizer)];
    const bool state_decides = layout.persistent_bytes - state <= limit;
    return MakeError(
        "--memory-limit",
        FormatSize(limit) + " are less than parameters and the optimizer's state alone take: " +
            FormatSize(layout.persistent_bytes) + "; at batch " + batch + ", " + peak,
        (state_decides ? "an optimizer with less state may fit (--optimizer)" : "no batch fits") +
            OtherChoices(least, limit));
  }
  std::string hint = "the model's batch is fixed";
  if (!least.plan.fixed_batch) {
    ACT_TRY(const int64_t fits, LargestBatch(least.plan, limit, arenas_, options_.target));
    hint = fits > 0 ? "a batch of " + std::to_string(fits) +
                          " fits; --accumulate=K adds up K such batches for one update"
                    : "not even a batch of 1 fits";
  }
  return MakeError("--memory-limit",
                   "no step fits " + FormatSize(limit) + " at batch " + batch + "; " + peak + ", at " +
                       NameIn(node) + ", where the largest are " + LargestTensors(step, at),
                   hint + OtherChoices(least, limit));
}

}  // namespace act
