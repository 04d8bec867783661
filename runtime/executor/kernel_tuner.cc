#include "runtime/executor/kernel_tuner.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

// Progress is shown after this time, and again each time that it has passed.
constexpr double kProgressSeconds = 1;
// A site gets its share of the time that is left, but no more than this: a second of runs tells enough.
constexpr double kMostSecondsOfSite = 1;

double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string Counted(int64_t count, const char* thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

// Whether there may be a choice: the reference kernel is none.
bool HasSeveral(const std::vector<KernelEntry>& entries) {
  return std::count_if(entries.begin(), entries.end(), [](const auto& e) { return !e.is_reference; }) > 1;
}

int64_t BytesOf(const BoundNode& node) {
  int64_t bytes = 0;
  for (const auto* views : {&node.inputs, &node.outputs})
    for (const TensorView& view : *views) bytes = SaturatingAdd(bytes, view.bytes);
  return bytes;
}

}  // namespace

KernelTuner::KernelTuner(KernelTunerOptions options) : options_(std::move(options)) {
  if (!options_.clock) options_.clock = SteadySeconds;
  if (options_.path.empty()) return;
  ReadChoices read = ReadChoiceFile(options_.path, options_.machine);
  choices_ = std::move(read.choices);
  if (!read.fault.empty())
    Say("warning: " + options_.path + ": " + read.fault + "; sites without a choice are timed again");
}

void KernelTuner::Say(const std::string& line) const {
  if (options_.say) options_.say(line);
}

bool KernelTuner::IsKnown(const std::string& site, const std::vector<KernelEntry>& entries) const {
  const auto found = choices_.find(site);
  if (found == choices_.end() || (options_.force && !fresh_.count(site))) return false;
  return std::any_of(entries.begin(), entries.end(),
                     [&](const KernelEntry& entry) { return entry.name == found->second.kernel; });
}

llvm::Expected<std::vector<KernelChoice>> KernelTuner::Choose(const BoundGraph& graph,
                                                              const KernelRegistry& registry, bool may_time) {
  const std::vector<BoundNode>& nodes = graph.nodes();
  std::vector<std::string> site_of(nodes.size());
  std::map<std::string, Site> open;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::vector<KernelEntry>& entries = registry.For(nodes[i].node->op);
    if (IsAlias(*nodes[i].node) || !HasSeveral(entries)) continue;
    site_of[i] = SiteText(graph.Site(i));
    used_.insert(site_of[i]);
    if (!may_time || IsKnown(site_of[i], entries)) continue;
    Site& site = open.try_emplace(site_of[i], Site{.text = site_of[i], .position = i}).first->second;
    site.bytes = SaturatingAdd(site.bytes, BytesOf(nodes[i]));
  }
  std::vector<Site> sites;
  sites.reserve(open.size());
  for (auto& [text, site] : open) sites.push_back(std::move(site));
  ACT_CHECK_OK(TimeSites(graph, registry, std::move(sites)));

  std::vector<KernelChoice> choices(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto found = site_of[i].empty() ? choices_.end() : choices_.find(site_of[i]);
    if (found != choices_.end()) choices[i] = found->second;
  }
  return choices;
}

// The largest sites first: they matter most if there is not time enough for all.
llvm::Error KernelTuner::TimeSites(const BoundGraph& graph, const KernelRegistry& registry,
                                   std::vector<Site> sites) {
  std::stable_sort(sites.begin(), sites.end(),
                   [](const Site& a, const Site& b) { return a.bytes > b.bytes; });
  const double start = options_.clock(), end = start + options_.most_seconds - seconds_;
  double shown = start;
  for (size_t i = 0; i < sites.size(); ++i) {
    const double now = options_.clock(), share = (end - now) / static_cast<double>(sites.size() - i);
    if (now - shown >= kProgressSeconds) {
      Say("timing kernels: " + std::to_string(i) + " of " +
          Counted(static_cast<int64_t>(sites.size()), "site"));
      shown = now;
    }
    const TimeLimit limit{.enough = now + std::min(share, kMostSecondsOfSite), .end = end};
    ACT_TRY(KernelChoice choice, TimeSite(graph, registry, sites[i].position, limit));
    if (choice.kernel.empty()) continue;
    fresh_.insert(sites[i].text);
    unkept_[sites[i].text] = choice;
    choices_[sites[i].text] = std::move(choice);
  }
  seconds_ += std::max(0.0, options_.clock() - start);
  return llvm::Error::success();
}

llvm::Expected<KernelChoice> KernelTuner::TimeSite(const BoundGraph& graph, const KernelRegistry& registry,
                                                   size_t position, TimeLimit limit) {
  const BoundNode& node = graph.nodes()[position];
  const KernelSite site = graph.Site(position);
  std::vector<NamedKernel> kernels;
  for (const KernelEntry& entry : registry.For(node.node->op)) {
    std::string why;
    if (entry.is_reference) continue;
    if (std::unique_ptr<Kernel> kernel = CreateKernel(entry, site, &why))
      kernels.push_back({entry.name, std::move(kernel)});
    // Later runs shall choose as this one, also where there was no time.
    const bool is_late = options_.clock() >= limit.end;
    if (is_late && !kernels.empty()) break;
  }
  if (kernels.empty()) return KernelChoice{};
  if (kernels.size() == 1)
    return KernelChoice{.kernel = kernels[0].name, .candidates = {{.kernel = kernels[0].name}}};
  ACT_CHECK_OK(graph.device().Prepare());
  return TimeKernels(graph.device(), node, kernels, options_.clock, limit);
}

void KernelTuner::Keep() {
  if (unkept_.empty()) return;
  const ChoicesBySite news = std::exchange(unkept_, {});
  std::string fault;
  if (options_.path.empty()) {
    fault = "there is no folder for it; ACT_TUNE_CACHE names one";
  } else if (llvm::Error error = MergeIntoChoiceFile(options_.path, options_.machine, news)) {
    fault = llvm::toString(std::move(error));
    options_.path.clear();
  }
  if (std::any_of(news.begin(), news.end(), [](const auto& site) { return site.second.WasTimed(); }))
    Say("kernels: " + Describe());
  if (fault.empty() || std::exchange(told_of_file_, true)) return;
  Say("warning: the choice of kernels is not kept, and the next run may compute other bits: " + fault);
}

KernelTuner::Summary KernelTuner::Count() const {
  Summary summary;
  for (const std::string& site : used_) {
    const auto found = choices_.find(site);
    if (found == choices_.end() || !found->second.WasTimed()) continue;
    ++(fresh_.count(site) ? summary.timed : summary.from_file);
    summary.differ += found->second.Differs();
  }
  return summary;
}

std::string KernelTuner::Describe() const {
  const Summary summary = Count();
  std::string text;
  if (summary.timed > 0 || summary.from_file == 0) text = Counted(summary.timed, "site") + " timed";
  if (summary.from_file > 0) {
    text += text.empty() ? Counted(summary.from_file, "site") + " timed"
                         : ", " + std::to_string(summary.from_file);
    text += " before";
  }
  text += ", " + std::to_string(summary.differ) + (summary.differ == 1 ? " differs" : " differ");
  return text + " from the fixed order" + (options_.path.empty() ? "" : "; " + options_.path);
}

}  // namespace act
