#include "runtime/levels/adapt_levels.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/seconds.h"
#include "runtime/levels/allocate_codecs.h"
#include "runtime/memory/layout.h"

namespace act {
namespace {

constexpr int64_t kRepeats = 2;  // passes for each code
// A smaller predicted gain is not worth a move: estimates are noisy.
constexpr double kWorthMoving = .95;
constexpr int kMostLayouts = 8;  // to try, each with a smaller budget

// The random stream that rounds the edge's code.
int32_t StreamOf(const Plan& plan, const SavedEdge& edge) {
  for (const Node& node : plan.train.graph.nodes)
    for (size_t o = 0; o < node.outputs.size() && o < node.program.outputs.size(); ++o)
      if (node.outputs[o] == edge.stored && node.program.outputs[o].kind == OutputKind::kEncode)
        return node.program.outputs[o].stream;
  return StepState::kAllStreams;
}

int64_t CountMoved(const Plan& from, const Plan& to) {
  int64_t moved = 0;
  for (size_t e = 0; e < from.edges.size(); ++e) moved += from.edges[e].form != to.edges[e].form;
  return moved;
}

// The bytes over the promised size, in the arena with the larger excess. Negative: both
// have room left.
int64_t ExcessBytes(const StepLayout& layout, const Executor& executor) {
  return std::max(layout.peak_bytes - executor.promised_peak_bytes(),
                  layout.host_peak_bytes - executor.promised_host_bytes());
}

std::string Describe(const Adaptation& a) {
  char text[160];
  if (a.moved == 0) {
    std::snprintf(text, sizeof text, "step %llu  levels stay: v %.3g",
                  static_cast<unsigned long long>(a.step), a.variance_before);
  } else {
    std::snprintf(text, sizeof text, "step %llu  levels moved in %lld of %lld codes: v %.3g -> %.3g",
                  static_cast<unsigned long long>(a.step), static_cast<long long>(a.moved),
                  static_cast<long long>(a.measured), a.variance_before, a.variance_after);
  }
  return text;
}

}  // namespace

CodeLevels LevelsOf(const Plan& file, const Plan& current) {
  CodeLevels levels;
  levels.plan = FingerprintOf(file);
  levels.counts.resize(2 * file.edges.size());
  levels.shares.resize(file.edges.size());
  for (const PlanCode& code : CodesWithLevels(current)) {
    levels.counts[2 * code.edge] = code.coded.codec.levels;
    levels.counts[2 * code.edge + 1] = code.coded.codec.below;
  }
  return levels;
}

CodeLevels LevelAdapter::levels() const {
  if (shares_.empty()) return {};
  CodeLevels levels = LevelsOf(file_, current());
  levels.shares = shares_;
  return levels;
}

llvm::Expected<std::optional<Plan>> WithLevels(const Plan& plan, const CodeLevels& levels) {
  if (levels.plan != FingerprintOf(plan)) return std::nullopt;
  std::optional<Plan> result = plan;
  if (levels.counts.size() != 2 * plan.edges.size())
    return MakeError("tensor 'levels'", "has another number of edges than the plan");
  for (const PlanCode& code : CodesWithLevels(plan)) {
    const int64_t count = levels.counts[2 * code.edge], below = levels.counts[2 * code.edge + 1];
    Codec codec = code.coded.codec;
    const bool counts = count >= 2 && count <= kMostLevels && below >= 0 && below < count;
    if (counts) {
      codec = codec.OfLevels(static_cast<int>(count));
      codec.below = static_cast<int32_t>(below);
    }
    if (!counts || CheckCodec(codec) || !CodeType(codec, code.coded.dims))
      return MakeError("tensor 'levels'", "edge '" + plan.edges[code.edge].name + "' cannot have " +
                                              std::to_string(count) + " levels, " + std::to_string(below) +
                                              " of them below zero");
    if (codec != code.coded.codec) SetCodec(*result, code.edge, codec);
  }
  return result;
}

llvm::Error LevelAdapter::CheckPlan() const {
  const std::vector<PlanCode> codes = CodesWithLevels(file_);
  for (const PlanCode& code : codes)
    if (code.coded.codec.rounding == Rounding::kNearest)
      return MakeError("--adapt-every",
                       "codes that are rounded to nearest have the same error at every step, which two "
                       "gradients do not show",
                       "use --calibrate");
  if (!codes.empty()) return llvm::Error::success();
  return MakeError("--adapt-every", "the plan stores nothing in levels", "compile the model at L1 or above");
}

llvm::Expected<bool> LevelAdapter::Resume(Executor& executor, Plan plan, const CodeLevels& levels) {
  ACT_TRY(MemoryLayout layout, LayOut(plan, executor.layout().batch, executor.layout().target));
  if (ExcessBytes(layout.train, executor) > 0) return false;
  auto next = std::make_unique<Plan>(std::move(plan));
  ACT_CHECK_OK(executor.Rebind(*next, std::move(layout)));
  current_ = std::move(next);
  shares_ = levels.shares;
  return true;
}

llvm::Expected<LevelAdapter::Form> LevelAdapter::Improve(const Executor& executor, const Plan& measured,
                                                         int64_t budget_bytes) const {
  const int64_t batch = executor.layout().batch;
  const double before = TotalsOf(measured, batch).variance;
  for (int i = 0; i < kMostLayouts && budget_bytes > 0; ++i) {
    auto tried = std::make_unique<Plan>(measured);
    if (llvm::Error error = MoveLevels(*tried, batch, budget_bytes, Freedom::kLevels)) {
      llvm::consumeError(std::move(error));  // the budget has become too small
      break;
    }
    if (TotalsOf(*tried, batch).variance > kWorthMoving * before) break;
    ACT_TRY(MemoryLayout layout, LayOut(*tried, batch, executor.layout().target));
    const int64_t excess = ExcessBytes(layout.train, executor);
    if (excess <= 0) return Form{std::move(tried), std::move(layout)};
    budget_bytes -= excess;  // at either peak, most bytes are codes
  }
  return Form{};
}

void LevelAdapter::Remember(const std::vector<PlanCode>& codes, const std::vector<double>& variance) {
  const bool first = shares_.empty();
  shares_.resize(file_.edges.size(), 0);
  for (size_t c = 0; c < codes.size(); ++c) {
    const double now = variance[c] / RelativeError(codes[c].coded.codec);
    double& share = shares_[codes[c].edge];
    share = first ? now : (share + now) / 2;
  }
}

llvm::Expected<BetweenSteps::Outcome> LevelAdapter::Before(Executor& executor, BatchSource& data,
                                                           int64_t batch, const StepState& state) {
  const auto start = std::chrono::steady_clock::now();
  const uint64_t step = state.update.updates;
  if (every_ == 0 || step == 0 || step % static_cast<uint64_t>(every_) != 0) return Outcome{};
  if (!meter_) meter_ = std::make_unique<CodeSensitivityMeter>(executor);
  const std::vector<PlanCode> codes = CodesWithLevels(current());
  std::vector<int32_t> streams;
  streams.reserve(codes.size());
  for (const PlanCode& code : codes) streams.push_back(StreamOf(current(), current().edges[code.edge]));
  ACT_TRY(BoundGraph* const graph, executor.Train(batch));
  ACT_TRY(const std::optional<CodeSensitivity> measured,
          meter_->Measure(executor, *graph, data, state, streams, kRepeats, stop_));
  if (!measured) return Outcome{.line = "", .interrupted = stop_ && *stop_};

  Plan next = current();
  Remember(codes, measured->variance);
  for (SavedEdge& edge : next.edges) edge.variance = 0;
  for (const PlanCode& code : codes)
    next.edges[code.edge].variance = shares_[code.edge] * RelativeError(code.coded.codec);
  const int64_t full = executor.layout().batch;
  Adaptation done{.step = step, .measured = static_cast<int64_t>(codes.size())};
  done.variance_before = done.variance_after = TotalsOf(next, full).variance;
  Form better;
  if (done.variance_before > 0) {
    ACT_TRY(better, Improve(executor, next, TotalsOf(file_, full).bytes));
  }
  if (better.plan) {
    done.moved = CountMoved(current(), *better.plan);
    done.variance_after = TotalsOf(*better.plan, full).variance;
    ACT_CHECK_OK(executor.Rebind(*better.plan, std::move(better.layout)));
    current_ = std::move(better.plan);
  }
  done.bytes = TotalsOf(current(), full).bytes;
  done.peak_bytes = executor.layout().train.peak_bytes;
  done.seconds = SecondsSince(start);
  history_.push_back(done);
  return Outcome{.line = Describe(done), .adaptation = done};
}

}  // namespace act
