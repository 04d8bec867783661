// Levels by sensitivity: gives each lossy code as many levels as keep the gradient's variance least within a
// budget of bytes. The contributions of codes to that variance add up (docs/gradient_variance.md), so this
// is the problem of allocate_bits.h.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <vector>

#include "runtime/plan/plan.h"

namespace act {

// What the side of a sign code that the ReLU cuts off adds to the gradient's variance, beside the other side
// at the same step: the gradient there is 0, so only the terms of the normalization that are means over all
// elements read it. Fits codes of 2+2 to 12+4 levels within 5 % (measured on six layers of convolution,
// BatchNorm and ReLU).
inline constexpr double kShareBelow = 1. / 200;

// A saved activation with a code that has levels.
struct CodedEdge {
  Codec codec;             // as it is
  Dims dims;               // of the tensor
  double variance = 0;     // what it adds to the gradient's variance as it is
  int32_t least_bits = 0;  // it never gets a code of fewer bits
  double share_below = kShareBelow;
  // Numbers of levels that are powers of two alone: codes of bit planes take half the time of packed ones.
  bool planes_only = false;
};

// What a code adds to the gradient's variance, up to a factor that depends on the tensor and the rounding but
// not on the number of levels: the square of the step between levels, relative to the range that they cover.
// 1 / (K - 1)^2 of K levels (kernels/math/level_code.h); of a sign code that of the levels above 0, and a
// little of those below.
double RelativeError(const Codec& codec, double share_below = kShareBelow);

// The same kind of code with other numbers of levels, 2 to 256, as far as CheckCodec allows them; of a sign
// code as many of them below zero as make the relative error least. Empty for codes without levels.
std::vector<Codec> LevelChoices(const Codec& codec, double share_below = kShareBelow);

// The codecs of least variance whose bytes at batch size `batch` are at most `budget_bytes` in all. Every
// edge has levels. Errors: a budget that cannot be kept, with the least possible in the message.
llvm::Expected<std::vector<Codec>> AllocateCodecs(const std::vector<CodedEdge>& edges, int64_t batch,
                                                  int64_t budget_bytes);

// The codes with levels of a finished plan. What each adds to the gradient's variance is what the plan says
// of it (SavedEdge::variance).
struct PlanCode {
  size_t edge = 0;  // position in Plan::edges
  CodedEdge coded;
};
std::vector<PlanCode> CodesWithLevels(const Plan& plan);

// Of these codes at batch size `batch`.
struct Totals {
  int64_t bytes = 0;
  double variance = 0;  // added to the gradient's, as the plan says of it
};
Totals TotalsOf(const Plan& plan, int64_t batch);

// Bytes at batch size `batch` of codes with `average_bits` bits an element, metadata included.
int64_t BudgetOf(const std::vector<PlanCode>& codes, double average_bits, int64_t batch);

// Gives the edge another codec of the same kind: where it is encoded, where it is decoded, and in what the
// report says. SavedEdge::variance is scaled along.
void SetCodec(Plan& plan, size_t edge, const Codec& codec);

// Moves levels between the codes of a finished plan so that the sum of SavedEdge::variance is least, within
// `budget_bytes` of all codes with levels at batch size `batch`. Errors: those of AllocateCodecs; a plan
// without such codes, or of whose codes nothing was measured.
llvm::Error MoveLevels(Plan& plan, int64_t batch, int64_t budget_bytes);

}  // namespace act
