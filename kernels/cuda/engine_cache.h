// Engines of convolutions: the fastest one where they have been timed, else those that a plan brings, else the
// fastest one by time or by the library's estimate.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/engine_timer.h"
#include "kernels/cuda/libraries.h"
#include "runtime/plan/prepared.h"

namespace act::cuda {

class EngineCache {
 public:
  // The library and the timer must outlive this. Without a timer, nothing is timed. `prepared` may be null; engines of another library or kind of card are
  // left alone. `say` is told once if a choice is missing in it, and once if an engine of it does not load.
  explicit EngineCache(ConvolutionLibrary& library, std::shared_ptr<const Prepared> prepared = nullptr,
                       std::function<void(const std::string& line)> say = {}, EngineTimer* timer = nullptr);

  // As ConvolutionLibrary::Choose.
  std::unique_ptr<LibraryCall> Choose(const ConvolutionProblem& problem, int64_t limit, std::string* why);

  // The seconds of one run of the engine that Choose takes; 0 if none was timed.
  double Seconds(const ConvolutionProblem& problem, int64_t limit) const;

  // What has been chosen so far, for a plan. Engines that the library cannot write are left out.
  std::vector<PreparedEngine> Chosen();

 private:
  void SayOnce(bool& told, const std::string& line);
  // Null, without a reason, where it has none.
  std::unique_ptr<LibraryCall> ChooseTimed(const ConvolutionProblem& problem, int64_t limit,
                                           const std::string& text);
  std::unique_ptr<LibraryCall> ChooseAnew(const ConvolutionProblem& problem, int64_t limit,
                                          const std::string& text, std::string* why);

  ConvolutionLibrary& library_;
  const std::shared_ptr<const Prepared> prepared_;  // of this library and kind of card, or null
  const std::function<void(const std::string& line)> say_;
  EngineTimer* const timer_;
  std::map<std::string, std::pair<ConvolutionProblem, int64_t>> asked_;  // problems and bounds, by their text
  bool told_of_missing_ = false, told_of_damage_ = false;
};

}  // namespace act::cuda
