// The variance that a step is expected to have, in units of that of codes of 3 bits:
// * A code of K levels has one in proportion to 1 / (K - 1)^2.
// * What is stored exactly has none, so at 8 bits L3 has the less of it the larger its exact part is. L4 and L5, which
//   take more time, count as if all was in codes there: their exact parts, too, come after L3 with codes for all. The
//   variance of 8 bits is so small that no step should be re-run for it.
// * A step in bfloat16 rounds each activation and gradient. Its squared error, measured at L0 in golden cases
//   (docs/measurements/mixed_precision.md), is .1 to 3.5 times the variance of L3's codes of 3 bits there, which the
//   initial weights of both share. The list takes the geometric mean.
// * Frozen weights in a few bits change the model, and so the gradient (FrozenForm::variance).
// * The optimizer's state has no part in the gradient.
// * Codes that wait in the host's memory keep their bits.
// Where variances are equal, the step that takes less time comes first: without 8-bit state, which is decoded and
// encoded, and without copies to the host; then at L3, which runs nothing twice, L4, and L5, which runs more nodes
// twice, in smaller tiles.
#include "passes/pipeline/ranked_step.h"

#include <llvm/Support/Format.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "passes/pipeline/frozen_form.h"
#include "runtime/base/size.h"

namespace act {
namespace {

constexpr const char* kCodedLevels[] = {"L3", "L4", "L5"};
constexpr int kBitSteps = 26;
constexpr double kVarianceOfBFloat16 = .6;
// Steps that store a part exactly come before each step with codes of 8 bits for all: sixteenths, and below two of them
// smaller parts, since a sixteenth of what L0 stores may be as much as all codes take.
constexpr double kSixteenths[] = {15, 14, 13, 12,  11, 10,  9,  8,    7,   6,    5,
                                  4,  3,  2,  1.5, 1,  .75, .5, .375, .25, .125, 0};

// Average bits of codes (--bits): 8, then in quarters of a bit from 7.625 down to 1.625, which few models allow. A
// quarter changes the variance by about 1.4 times. With 8 bits nothing is left to distribute, and codes of small
// tensors keep the bits that L3 and L4 give them. The others are fractions: with a whole number every code has the
// same bits, and the variance is larger.
double BitsAt(int step) { return step == 0 ? 8 : 7.875 - .25 * step; }

double VarianceOf(const RankedStep& step) {
  const double codes = step.bits > 0 ? std::pow(7 / (std::exp2(step.bits) - 1), 2) : 0;
  const double coded = step.level == "L3" ? 1 - step.exact_part : 1;
  const double frozen = step.frozen_weights.empty() ? 0 : FindFrozenForm(step.frozen_weights)->variance;
  return coded * codes + (step.bfloat16 ? kVarianceOfBFloat16 : 0) + frozen;
}

}  // namespace

std::string RankedStep::Name() const {
  std::string flags;
  llvm::raw_string_ostream out(flags);
  if (bits > 0) out << llvm::format(" --bits=%g", bits);
  if (exact_part > 0) out << llvm::format(" --exact=%g", exact_part);
  if (bfloat16) out << " --compute=bf16";
  if (!frozen_weights.empty()) out << " --frozen-weights=" << frozen_weights;
  if (quantized_state) out << " --optimizer-state=8bit";
  if (host_limit > 0) {
    if (!flags.empty()) out << " and";
    if (host_bytes > 0) out << " " << FormatSize(host_bytes) << " of";
    out << " codes on the host";
  }
  return flags.empty() ? level : level + " with" + flags;
}

void RankedStep::SetIn(CompileOptions& options) const {
  options.level = level;
  options.bits = bits;
  options.exact_part = exact_part;
  if (bfloat16) options.compute = Compute::kBFloat16;
  if (!frozen_weights.empty()) options.frozen_weights = FindFrozenForm(frozen_weights)->codec;
  if (quantized_state) options.state = StateFormat::k8Bit;
  options.host_limit = host_limit;
  if (swapped > 0) options.most_swapped = swapped;
  options.reruns = reruns;
}

std::vector<RankedStep> ListSteps(const StepChoices& choices) {
  std::vector<RankedStep> steps;
  const auto add_all = [&](bool bfloat16, const std::string& frozen) {
    const auto add = [&](const std::string& level, double bits, double exact_part = 0) {
      RankedStep step{.level = level,
                      .bits = bits,
                      .exact_part = exact_part,
                      .bfloat16 = bfloat16,
                      .frozen_weights = frozen};
      steps.push_back(step);
      step.quantized_state = true;
      if (choices.quantized_state) steps.push_back(step);
      step.quantized_state = false;
      step.host_limit = choices.host_limit;
      if (choices.host_limit > 0) steps.push_back(step);
    };
    add("L0", 0);
    for (const char* level : kCodedLevels)
      for (const double sixteenths : kSixteenths) add(level, BitsAt(0), sixteenths / 16);
    for (int step = 1; step < kBitSteps; ++step)
      for (const char* level : kCodedLevels) add(level, BitsAt(step));
  };
  for (const bool bfloat16 : {false, true})
    for (const FrozenForm& form : FrozenForms())
      if (bfloat16 <= choices.bfloat16 && (!form.codec || choices.frozen_weights))
        add_all(bfloat16, form.codec ? form.name : "");
  std::stable_sort(steps.begin(), steps.end(),
                   [](const RankedStep& a, const RankedStep& b) { return VarianceOf(a) < VarianceOf(b); });
  for (size_t s = 0; s < steps.size(); ++s) steps[s].rank = static_cast<int>(s);
  return steps;
}

std::vector<std::vector<int>> ColumnsOf(const std::vector<RankedStep>& steps) {
  using Key = std::tuple<std::string, bool, std::string, bool, bool>;
  std::map<Key, size_t> known;
  std::vector<std::vector<int>> columns;
  for (const RankedStep& step : steps) {
    const Key key{step.level, step.bfloat16, step.frozen_weights, step.quantized_state, step.host_limit > 0};
    const auto [it, fresh] = known.try_emplace(key, columns.size());
    if (fresh) columns.emplace_back();
    columns[it->second].push_back(step.rank);
  }
  return columns;
}

}  // namespace act
