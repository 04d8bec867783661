#include "passes/pipeline/memory_limit.h"

#include <llvm/Support/Format.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/size.h"
#include "runtime/memory/layout.h"

namespace act {
namespace {

constexpr const char* kCodedLevels[] = {"L3", "L4"};
constexpr auto kCoded = static_cast<int>(std::size(kCodedLevels));
constexpr int kBitSteps = 26;
constexpr size_t kTensorsNamed = 3;

// Average bits of codes (--bits): 8, then in quarters of a bit from 7.625 down to 1.625, which few models allow. A
// quarter changes the variance by about 1.4 times. With 8 bits nothing is left to distribute, and codes of small
// tensors keep the bits that L3 and L4 give them. The others are fractions: with a whole number every code has the
// same bits, and the variance is larger.
double BitsAt(int step) { return step == 0 ? 8 : 7.875 - .25 * step; }

RankedStep StepOf(int rank) {
  if (rank == 0) return {.rank = 0, .level = "L0"};
  const int coded = rank - 1;
  return {.rank = rank, .level = kCodedLevels[coded % kCoded], .bits = BitsAt(coded / kCoded)};
}

// "Conv block1.conv 12 MiB, ...": the makers and bytes of the largest tensors that live at the peak.
std::string LargestTensors(const StepGraph& step, const StepLayout& at) {
  std::map<StorageId, std::string> names;
  for (const Node& node : step.graph.nodes)
    for (const ValueId v : node.outputs)
      names.try_emplace(step.storage_of[static_cast<size_t>(v)], node.op + " " + node.name);
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
  MemoryLayout layout;
};

std::string RankedStep::Name() const {
  std::string name = level;
  if (bits > 0) llvm::raw_string_ostream(name) << llvm::format(" with --bits=%g", bits);
  return name;
}

RankedSteps::RankedSteps(const ImportResult& model, const CompileOptions& options)
    : model_(model),
      options_(options),
      arenas_(options.target == TargetKind::kCpu ? Arenas::kBoth : Arenas::kDevice) {
  options_.after_pass = nullptr;  // these are attempts
}

RankedSteps::~RankedSteps() = default;

llvm::Expected<StepChoice> RankedSteps::Choose(int64_t limit_bytes) {
  chosen_.reset();
  ACT_TRY(const Outcome exact, Try(0, limit_bytes));
  if (exact != Outcome::kFits)
    for (int level = 0; level < kCoded; ++level) ACT_CHECK_OK(Search(level, limit_bytes));
  if (!chosen_) return Infeasible(limit_bytes);
  // Fewer bits may take a higher peak, so what a bisection passed over may fit.
  while (chosen_->rank > 0) {
    const int before = chosen_->rank - 1;
    ACT_TRY(const Outcome outcome, Try(before, limit_bytes));
    if (outcome == Outcome::kTooLarge) return StepChoice{*chosen_, measured_.at(before)};
    if (outcome == Outcome::kTooFewBits) break;
  }
  return StepChoice{*chosen_, std::nullopt};
}

// The first of a level's steps that fits, if it is better than what was found before.
llvm::Error RankedSteps::Search(int level, int64_t limit) {
  // Fewer bits may take a higher peak, so where the bisection ends depends on the steps that it tries. More memory
  // must never lead to a worse step. So every limit begins with the same range, and what is worse than `chosen_`
  // counts as fitting. A level's best step is tried before: it often fits, and where codes are small its peak may be
  // lower than that of fewer bits.
  const auto rank_of = [level](int step) { return 1 + step * kCoded + level; };
  if (chosen_ && chosen_->rank < rank_of(0)) return llvm::Error::success();
  ACT_TRY(const Outcome best, Try(rank_of(0), limit));
  if (best == Outcome::kFits) return llvm::Error::success();
  int low = 1, high = kBitSteps;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    Outcome outcome = Outcome::kFits;
    if (!chosen_ || rank_of(middle) < chosen_->rank) {
      ACT_TRY(outcome, Try(rank_of(middle), limit));
    }
    if (outcome == Outcome::kTooLarge)
      low = middle + 1;
    else  // what lies beyond too few bits has fewer
      high = middle;
  }
  return llvm::Error::success();
}

// Measures a step unless that is done, and keeps the best one that fits.
llvm::Expected<RankedSteps::Outcome> RankedSteps::Try(int rank, int64_t limit) {
  auto known = measured_.find(rank);
  if (known == measured_.end()) {
    RankedStep step = StepOf(rank);
    CompileOptions options = options_;
    options.level = step.level;
    options.bits = step.bits;
    llvm::Expected<Plan> plan = Compile(model_, options);
    if (plan) {
      ACT_TRY(MemoryLayout layout, LayOut(*plan, plan->default_batch, options.target));
      step.peak_bytes = BytesOf(layout, arenas_);
      if (!least_ || step.peak_bytes < least_->step.peak_bytes)
        least_ = std::make_unique<Compiled>(Compiled{step, std::move(*plan), std::move(layout)});
    } else if (step.bits == 0) {
      return plan.takeError();
    } else {
      llvm::consumeError(plan.takeError());  // codes of the fewest levels take more
    }
    known = measured_.emplace(rank, step).first;
  }
  const RankedStep& step = known->second;
  if (step.peak_bytes == 0) return Outcome::kTooFewBits;
  if (step.peak_bytes > limit) return Outcome::kTooLarge;
  if (!chosen_ || rank < chosen_->rank) chosen_ = step;
  return Outcome::kFits;
}

// Says what would help.
llvm::Error RankedSteps::Infeasible(int64_t limit) const {
  const MemoryLayout& layout = least_->layout;
  const bool in_training = layout.train.peak_bytes >= layout.eval.peak_bytes;
  const StepLayout& at = in_training ? layout.train : layout.eval;
  const StepGraph& step = in_training ? least_->plan.train : least_->plan.eval;
  const Node& node = step.graph.nodes[static_cast<size_t>(at.peak_node)];
  const std::string batch = std::to_string(layout.batch);
  if (layout.persistent_bytes > limit)
    return MakeError("--memory-limit",
                     FormatSize(limit) + " are less than parameters and the optimizer's state alone take: " +
                         FormatSize(layout.persistent_bytes),
                     "no batch fits; an optimizer with less state may (--optimizer)");
  std::string hint = "the model's batch is fixed";
  if (!least_->plan.fixed_batch) {
    ACT_TRY(const int64_t fits, LargestBatch(least_->plan, limit, arenas_, options_.target));
    hint = fits > 0 ? "a batch of " + std::to_string(fits) +
                          " fits; --accumulate=K adds up K such batches for one update"
                    : "not even a batch of 1 fits";
  }
  return MakeError("--memory-limit",
                   "no step fits " + FormatSize(limit) + " at batch " + batch + "; the least peak is " +
                       FormatSize(least_->step.peak_bytes) + " (" + least_->step.Name() + "), at " + node.op +
                       " " + node.name + ", where the largest are " + LargestTensors(step, at),
                   std::move(hint));
}

}  // namespace act
