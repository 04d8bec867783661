#include "runtime/executor/profile.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

namespace act {
namespace {

void SortBySeconds(std::vector<ProfileRow>& rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ProfileRow& a, const ProfileRow& b) { return a.seconds > b.seconds; });
}

// "timed: dnnl.conv 1.234 ms, dnnl.conv_bf16 0.800 ms".
std::string FormatTimes(const KernelChoice& choice) {
  std::string text;
  for (const KernelChoice::Candidate& candidate : choice.candidates) {
    char time[48];
    std::snprintf(time, sizeof time, " %.3f ms", candidate.seconds * 1e3);
    text += (text.empty() ? "timed: " : ", ") + candidate.kernel + time;
  }
  return text;
}

double Ratio(double a, double b) { return b > 0 ? a / b : 0; }

std::string FormatRow(const ProfileRow& row, double total_seconds, size_t steps) {
  char text[96];
  std::snprintf(text, sizeof text, "%10.3f ms %5.1f %%  %4lld  %7.1f  ",
                row.seconds * 1e3 / static_cast<double>(steps), 100 * Ratio(row.seconds, total_seconds),
                static_cast<long long>(row.nodes), 1e-9 * Ratio(row.bytes, row.seconds));
  std::string kernel = row.kernel;
  kernel.resize(std::max<size_t>(kernel.size(), 26), ' ');
  return text + kernel + "  " + row.what + "\n";
}

// Of all runs. Operands that are not there have none.
double OperandBytes(const BoundNode& bound) {
  double bytes = 0;
  for (const auto* operands : {&bound.inputs, &bound.outputs})
    for (const TensorView& view : *operands) bytes += static_cast<double>(view.bytes);
  return bytes * static_cast<double>(bound.times.runs);
}

}  // namespace

Profile CollectProfile(const std::vector<const BoundGraph*>& graphs) {
  // by (name or op, kernel)
  std::map<std::pair<std::string, std::string>, ProfileRow> by_node, by_kernel;
  Profile profile;
  for (const BoundGraph* graph : graphs) {
    for (const BoundNode& bound : graph->nodes()) {
      if (!bound.kernel) continue;
      const bool library = bound.kernel->IsLibraryCall();
      const double seconds = bound.times.Total(), bytes = OperandBytes(bound);
      profile.seconds += seconds;
      if (library) profile.library_seconds += seconds;
      const auto add = [&](auto& rows, const std::string& what) {
        ProfileRow& row = rows[{what, bound.kernel_name}];
        row.what = what;
        row.op = bound.node->op;
        row.kernel = bound.kernel_name;
        row.library = library;
        row.seconds += seconds;
        row.bytes += bytes;
        if (graph == graphs.front()) row.nodes += 1;  // not again at another batch
      };
      add(by_node, bound.node->op + " " + bound.node->name);
      add(by_kernel, bound.node->op);
    }
  }
  for (auto& [key, row] : by_node) profile.nodes.push_back(std::move(row));
  for (auto& [key, row] : by_kernel) profile.kernels.push_back(std::move(row));
  SortBySeconds(profile.nodes);
  SortBySeconds(profile.kernels);
  return profile;
}

std::string FormatProfile(const Profile& profile, size_t steps, size_t most_nodes) {
  steps = std::max<size_t>(1, steps);
  const std::string head = "  time a step   share nodes     GB/s  kernel                      ";
  std::string text = head + "operator\n";
  for (const ProfileRow& row : profile.kernels) text += FormatRow(row, profile.seconds, steps);
  text += "\n" + head + "node\n";
  for (size_t i = 0; i < std::min(most_nodes, profile.nodes.size()); ++i) {
    text += FormatRow(profile.nodes[i], profile.seconds, steps);
  }
  return text;
}

std::string FormatDispatch(std::span<const BoundNode> nodes) {
  std::string text;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const BoundNode& bound = nodes[i];
    text += "[" + std::to_string(i) + "] " + bound.node->op + " '" + bound.node->name + "': ";
    if (!bound.kernel) {
      text += "no kernel, shares its input's storage\n";
      continue;
    }
    const std::string details = bound.kernel->Describe();
    text += bound.kernel_name + (details.empty() ? "" : " (" + details + ")") + "\n";
    for (const std::string& refusal : bound.refusals) text += "      refused by " + refusal + "\n";
    if (bound.choice.WasTimed()) text += "      " + FormatTimes(bound.choice) + "\n";
  }
  return text;
}

}  // namespace act
