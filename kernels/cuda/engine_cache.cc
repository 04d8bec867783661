#include "kernels/cuda/engine_cache.h"

#include "kernels/cuda/problem_text.h"
#include "runtime/base/tensor_type.h"

namespace act::cuda {
namespace {

// Engines of one convolution that are timed at most. cuDNN names up to some 40.
constexpr size_t kMostTimed = 16;

}  // namespace

EngineCache::EngineCache(ConvolutionLibrary& library, std::shared_ptr<const Prepared> prepared,
                         std::function<void(const std::string& line)> say, EngineTimer* timer)
    : library_(library),
      prepared_(prepared && prepared->library == library.Key() ? std::move(prepared) : nullptr),
      say_(std::move(say)),
      timer_(timer) {}

void EngineCache::SayOnce(bool& told, const std::string& line) {
  if (!std::exchange(told, true) && say_) say_(line);
}

std::unique_ptr<LibraryCall> EngineCache::ChooseTimed(const ConvolutionProblem& problem, int64_t limit,
                                                      const std::string& text) {
  const std::string known = timer_ ? timer_->Known(text) : "";
  std::string ignored;  // an engine that this library no longer takes is chosen anew
  return known.empty() ? nullptr : library_.Load(problem, limit, std::as_bytes(std::span(known)), &ignored);
}

std::unique_ptr<LibraryCall> EngineCache::ChooseAnew(const ConvolutionProblem& problem, int64_t limit,
                                                     const std::string& text, std::string* why) {
  if (!timer_) return library_.Choose(problem, limit, why);
  auto engines = library_.Find(problem, limit, kMostTimed, why);
  if (engines.empty()) return nullptr;
  const int64_t element = problem.math == FloatMath::kBFloat16 ? 2 : 4;
  const int64_t bytes[] = {element * ElementCount(problem.x), element * ElementCount(problem.w),
                           element * ElementCount(problem.y)};
  return std::move(engines[timer_->Fastest(text, bytes, engines)]);
}

std::unique_ptr<LibraryCall> EngineCache::Choose(const ConvolutionProblem& problem, int64_t limit,
                                                 std::string* why) {
  const std::string text = TextOf(problem, limit);
  asked_.try_emplace(text, problem, limit);
  if (auto timed = ChooseTimed(problem, limit, text)) return timed;
  if (!prepared_) return ChooseAnew(problem, limit, text, why);
  const PreparedEngine* engine = prepared_->FindEngine(text);
  if (!engine) {
    SayOnce(told_of_missing_, "the plan brings engines for batch " + std::to_string(prepared_->batch) +
                                  ", but not for all convolutions of this run: the library chooses those");
    return ChooseAnew(problem, limit, text, why);
  }
  if (engine->plan.bytes == 0) {
    *why = engine->engine;
    return nullptr;
  }
  auto call =
      library_.Load(problem, limit, {engine->plan.data, static_cast<size_t>(engine->plan.bytes)}, why);
  if (call && call->workspace_bytes() != engine->workspace_bytes) {
    *why = "it needs " + std::to_string(call->workspace_bytes()) + " bytes of workspace and not " +
           std::to_string(engine->workspace_bytes);
    call = nullptr;
  }
  if (call) return call;
  SayOnce(told_of_damage_,
          "an engine that the plan brings does not load: the library chooses (" + *why + ")");
  return ChooseAnew(problem, limit, text, why);
}

double EngineCache::Seconds(const ConvolutionProblem& problem, int64_t limit) const {
  return timer_ ? timer_->Seconds(TextOf(problem, limit)) : 0;
}

std::vector<PreparedEngine> EngineCache::Chosen() {
  std::vector<PreparedEngine> engines;
  for (const auto& [text, asked] : asked_) {
    std::string why;
    const auto call = library_.Choose(asked.first, asked.second, &why);
    if (!call) {
      engines.push_back({.problem = text, .engine = why, .plan = {}});
      continue;
    }
    const std::vector<std::byte> bytes = call->Serialize();
    if (bytes.empty()) continue;
    engines.push_back({.problem = text,
                       .engine = call->engine(),
                       .workspace_bytes = call->workspace_bytes(),
                       .plan = HostTensor::Copy(bytes.data(), static_cast<int64_t>(bytes.size()))});
  }
  return engines;
}

}  // namespace act::cuda
