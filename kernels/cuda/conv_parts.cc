#include "kernels/cuda/conv_parts.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/tensor_type.h"

namespace act::cuda {
namespace {

// A part has so many samples, or elements of x and y: less leaves a card's multiprocessors without work.
constexpr int64_t kLeastSamples = 8, kLeastElements = 1 << 21;
// More parts have to gain this much: each is a launch more.
constexpr double kWorthCutting = .95;

double SecondsOf(const std::vector<ConvPart>& parts) {
  double all = 0;
  for (const ConvPart& part : parts) {
    if (part.seconds == 0) return 0;
    all += part.seconds;
  }
  return all;
}

}  // namespace

std::vector<ConvPart> CutSamples(EngineCache& engines, ConvolutionProblem problem, int64_t samples,
                                 int64_t limit, std::string* why) {
  const int64_t batch = problem.x[0];
  std::vector<ConvPart> parts;
  for (int64_t first = 0; first < batch; first += samples) {
    ConvPart part{.first = first, .samples = std::min(samples, batch - first), .call = nullptr};
    const bool adds = problem.direction == ConvolutionDirection::kWeightGradient && first > 0;
    if (!parts.empty() && part.samples == problem.x[0] && adds == problem.accumulates) {
      part.call = parts.back().call;
      part.seconds = parts.back().seconds;
    } else {
      problem.x[0] = problem.y[0] = part.samples;
      problem.accumulates = adds;
      part.call = engines.Choose(problem, limit, why);
      if (!part.call) return {};
      part.seconds = engines.Seconds(problem, limit);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

std::vector<ConvPart> ChooseParts(EngineCache& engines, ConvolutionProblem problem, int64_t limit,
                                  std::string* why) {
  const bool tensor_cores = problem.math != FloatMath::kStrict;
  const int64_t batch = problem.x[0], x = ElementCount(problem.x) / batch,
                y = ElementCount(problem.y) / batch,
                element_bytes = problem.math == FloatMath::kBFloat16 ? 2 : 4;
  std::vector<ConvPart> best;
  for (int64_t count = 1; count <= batch; count *= 2) {
    const int64_t samples = (batch + count - 1) / count;
    if (count > 1 && samples < kLeastSamples && samples * (x + y) < kLeastElements) break;
    if (count > 1) problem.alignment = std::gcd(problem.alignment, element_bytes * std::gcd(x, y));
    std::string refusal;
    std::vector<ConvPart> parts = CutSamples(engines, problem, samples, limit, count == 1 ? why : &refusal);
    if (parts.empty()) continue;
    const double seconds = SecondsOf(parts), least = SecondsOf(best);
    const bool faster = seconds > 0 && least > 0 && seconds < kWorthCutting * least,
               first_with = tensor_cores && UseTensorCores(parts) && !best.empty() && least == 0;
    if (best.empty() || faster || first_with) best = std::move(parts);
    if (tensor_cores ? UseTensorCores(best) : SecondsOf(best) == 0) break;
  }
  return best;
}

bool UseTensorCores(const std::vector<ConvPart>& parts) {
  return std::all_of(parts.begin(), parts.end(),
                     [](const ConvPart& part) { return part.call->uses_tensor_cores(); });
}

int64_t WorkspaceBytes(const std::vector<ConvPart>& parts) {
  int64_t most = 0;
  for (const ConvPart& part : parts) most = std::max(most, part.call->workspace_bytes());
  return most;
}

std::string PartsText(const std::vector<ConvPart>& parts) {
  return parts.size() == 1 ? "" : ", in " + std::to_string(parts.size()) + " parts of the samples";
}

}  // namespace act::cuda
