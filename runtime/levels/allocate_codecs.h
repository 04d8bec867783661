// Chooses levels by sensitivity: gives each lossy code the number of levels that makes the
// gradient's variance least within a budget of bytes. The contributions of codes to that variance
// add up (docs/gradient_variance.md), so this is the problem of allocate_bits.h.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <vector>

#include "runtime/levels/code_forms.h"
#include "runtime/plan/plan.h"

namespace act {

// The codes among which the allocator may choose.
enum class Freedom : uint8_t {
  // Numbers of levels that are powers of two. Codes of bit planes take half the time of packed
  // ones.
  kPlanes,
  kLevels,  // any number of levels
  kForms,   // any form (FormChoices)
};

// The bytes of a code that count against a budget.
enum class CodeBytes : uint8_t {
  kStored,  // all bytes, for a budget in memory
  kPacked,  // PackedBytes, for an average number of bits or the level's own
};

// A saved activation whose code has levels.
struct CodedEdge {
  Codec codec;               // its present codec
  Dims dims;                 // of the tensor
  double variance = 0;       // what it adds to the gradient's variance at present
  int32_t least_bits = 0;    // it never gets a code of fewer bits
  int32_t least_levels = 0;  // nor one of fewer levels: 5 levels are a code of 3 bits, too
  double share_below = kShareBelow;
  Freedom freedom = Freedom::kLevels;
  bool normalized = false;  // the mean square of its numbers is about 1
};

// The codecs of least variance whose bytes at batch size `batch` are at most `budget_bytes` in all.
// Every edge has levels. Errors: a budget that cannot be met; the message says the least possible
// one.
llvm::Expected<std::vector<Codec>> AllocateCodecs(const std::vector<CodedEdge>& edges, int64_t batch,
                                                  int64_t budget_bytes, CodeBytes count = CodeBytes::kStored);

// Bytes at batch size `batch` with the fewest levels that each edge may have.
int64_t LeastCodeBytes(const std::vector<CodedEdge>& edges, int64_t batch,
                       CodeBytes count = CodeBytes::kStored);

// The codes with levels in a finished plan. SavedEdge::variance says what each adds to the
// gradient's variance.
struct PlanCode {
  size_t edge = 0;  // position in Plan::edges
  CodedEdge coded;
};
std::vector<PlanCode> CodesWithLevels(const Plan& plan);

// Totals of these codes at batch size `batch`.
struct Totals {
  int64_t bytes = 0;
  double variance = 0;  // added to the gradient's variance, according to the plan
};
Totals TotalsOf(const Plan& plan, int64_t batch);

// Packed bytes at batch size `batch` of codes with `average_bits` bits an
// element, metadata included.
int64_t BudgetOf(const std::vector<PlanCode>& codes, double average_bits, int64_t batch);

// Gives the edge another form of its codec, in the nodes that encode and decode it and in the
// report. SavedEdge::variance is scaled accordingly.
void SetCodec(Plan& plan, size_t edge, const Codec& codec);

// Gives the codes of a finished plan other levels or forms, so that the sum of SavedEdge::variance
// is least while all codes with levels take at most `budget_bytes` at batch size `batch`. Errors:
// those of AllocateCodecs, a plan without such codes, or a plan whose codes were not measured.
llvm::Error MoveLevels(Plan& plan, int64_t batch, int64_t budget_bytes, Freedom freedom,
                       CodeBytes count = CodeBytes::kStored);

}  // namespace act
