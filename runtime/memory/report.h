// The memory report of a plan at one batch size: how much the training step needs, when, and for
// which purpose.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/memory/cards.h"
#include "runtime/memory/categories.h"
#include "runtime/memory/layout.h"

namespace act {

// A saved-activation edge at the report's batch size.
struct ReportEdge {
  std::string name, form;
  std::vector<std::string> consumers;
  double bits = 0;  // per element, metadata included
  int64_t bytes = 0, bytes_uncompressed = 0;
};

struct BatchThatFits {
  std::string card;   // "16GiB", "h200"
  int64_t batch = 0;  // 0: not even one sample
};

// Plain values: the printers below need no plan.
struct MemoryReport {
  std::string model, level;
  Compute compute = Compute::kFloat32;
  MemoryLayout layout;  // of training and evaluation
  int64_t batch = 0;
  std::vector<std::string> ops;            // label of each training node, "Conv layer1.0.conv1"
  int64_t first_backward = 0;              // node position; ops.size(): there is no backward pass
  std::vector<CategoryBytes> by_category;  // live bytes at each training node
  std::vector<ReportEdge> edges;
  int64_t saved_bytes = 0, saved_bytes_uncompressed = 0;  // of all edges together
  // Of frozen parameters that lie in the arena as codes: their codes, and their numbers in float32.
  int64_t frozen_bytes = 0, frozen_bytes_uncompressed = 0;
  // Of all parameters at once: sums over micro-batches, or gradients that wait for clipping.
  int64_t kept_gradients_bytes = 0;
  double saved_bits = 0;  // per element, mean over all elements of all edges
  std::vector<BatchThatFits> max_batch;
  // The card for which the report was asked, what it leaves to an arena, and the batch that fits.
  std::optional<BatchThatFits> card;
  int64_t card_bytes = 0;
};

// The form of each of Plan::edges. A code that waits in the host's memory is marked, and what exists only
// for a tile of samples: "uniform2,g256, swapped", "keep, in tiles".
std::vector<std::string> FormsOfEdges(const Plan& plan);

// Lays the plan out at `batch` for the target. `card` may be null. Errors: LayOut's.
llvm::Expected<MemoryReport> MakeMemoryReport(const Plan& plan, int64_t batch,
                                              TargetKind target = TargetKind::kCpu,
                                              const Card* card = nullptr);

// For people: peak, categories, saved activations, a picture of the step, and the batch that fits
// so much memory.
std::string ReportText(const MemoryReport& report);
// The keys are in docs/memory_report.md.
std::string ReportJson(const MemoryReport& report);
// One page that needs nothing else, with the timeline stacked by category.
std::string ReportHtml(const MemoryReport& report);

// A paragraph for each saved-activation edge whose name, or that of a consumer, matches the shell
// pattern `glob` (empty: all): who reads it, why it is saved, its form, bits, and bytes before and
// after at `batch`.
std::string ExplainEdges(const Plan& plan, int64_t batch, const std::string& glob);

// A line for each product that is made twice and whose name matches: the bytes of its result at `batch`, and how many of
// them exist at a time. Empty if there is none.
std::string ExplainRepeats(const Plan& plan, int64_t batch, const std::string& glob);

// A line for each weight that --frozen-weights stores as a code and whose name matches, and for each other large weight
// that does not train: who keeps it in float32. Empty if no weight is a code.
std::string ExplainFrozen(const Plan& plan, const std::string& glob);

// "Memory of model.onnx, level L3, batch 8". A target other than the CPU is named.
std::string ReportTitle(const MemoryReport& report);
// "Conv layer1.0.conv1": how reports name a node.
std::string NodeLabel(const Node& node);

}  // namespace act
