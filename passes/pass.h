// A pass rewrites a graph. One pass, one file; pipeline.cc is the list, in order, with the reason for each.
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/autodiff/append_updates.h"
#include "compiler/policy/policy.h"
#include "runtime/plan/graph.h"
#include "runtime/plan/plan.h"

namespace act {

// What passes share beside the graph.
struct PassContext {
  ValueId loss = kNoValue;
  std::vector<ValueId> trainable;
  // The graph has its own backward pass, and its outputs behind the loss are the gradients of `trainable`.
  bool own_backward = false;
  UpdateOptions updates;
  Policy policy;
  // Made by derived nodes that run in the forward pass, of what a product's gradient reads: a level that
  // codes only the latter codes these too, or it would store more than L0, which needs no second tensor.
  std::set<ValueId> from_product_input;
  // Of all codes with levels, by the prior of mix-levels: comparable between steps of the same model.
  double expected_variance = 0;
  int64_t least_saved_bytes = 0;  // under Policy::saved_limit: with all codes in their fewest levels
  // What is re-run from anchors has at most so many elements a sample: what a re-run brings back lies in
  // memory at full size. 0: nothing is re-run.
  int64_t rerun_elements = 0;
  std::set<ValueId> rebuilt_from;  // stored values that others are computed of again
  std::set<ValueId> anchors;       // what re-runs start from: stored, whatever it could be made of
  std::map<ValueId, std::vector<std::string>> computed_from;  // by anchor: what runs again from it
  // Beside what operators read as statistics (Need::kStatistics): kept exactly.
  std::set<ValueId> statistics;
  std::set<ValueId> low_frequencies;  // averages over blocks of an image (split-frequencies)
  std::set<ValueId> range_codes;      // numbers of levels over a fixed range (fix-ranges)
  std::vector<SavedEdge> edges;       // filled by compress; `stored` follows the graph through later passes
  int32_t next_stream = 0;            // random streams: dropout and stochastic rounding
};

using PassFunction = llvm::Error (*)(Graph&, PassContext&);

// Each of these is documented in its own file.
llvm::Error RecognizeAttention(Graph& graph, PassContext& context);
llvm::Error RecognizeNorms(Graph& graph, PassContext& context);
llvm::Error RecognizeActivations(Graph& graph, PassContext& context);
llvm::Error CancelTransposes(Graph& graph, PassContext& context);
llvm::Error PackAttention(Graph& graph, PassContext& context);
llvm::Error SinkRelu(Graph& graph, PassContext& context);
llvm::Error LowerForTraining(Graph& graph, PassContext& context);
llvm::Error LowerForEvaluation(Graph& graph, PassContext& context);
llvm::Error LowerLayerNorm(Graph& graph, PassContext& context);
llvm::Error EliminateDeadCode(Graph& graph, PassContext& context);
llvm::Error EliminateCommonSubexpressions(Graph& graph, PassContext& context);
llvm::Error AddGradients(Graph& graph, PassContext& context);
llvm::Error PlaceDerived(Graph& graph, PassContext& context);
llvm::Error RebuildSaved(Graph& graph, PassContext& context);
llvm::Error ShareCodes(Graph& graph, PassContext& context);
llvm::Error SplitFrequencies(Graph& graph, PassContext& context);
llvm::Error FixRanges(Graph& graph, PassContext& context);
llvm::Error Compress(Graph& graph, PassContext& context);
llvm::Error MixLevels(Graph& graph, PassContext& context);
llvm::Error RoundProducts(Graph& graph, PassContext& context);
llvm::Error FoldBias(Graph& graph, PassContext& context);
llvm::Error RepeatCheapNodes(Graph& graph, PassContext& context);
llvm::Error FuseLoops(Graph& graph, PassContext& context);
llvm::Error SwapCodes(Graph& graph, PassContext& context);
llvm::Error ScheduleNodes(Graph& graph, PassContext& context);

}  // namespace act
