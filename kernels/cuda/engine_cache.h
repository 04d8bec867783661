// Engines of convolutions: those that a plan brings, otherwise the library's choice.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/libraries.h"
#include "runtime/plan/prepared.h"

namespace act::cuda {

class EngineCache {
 public:
  // The library must outlive this. `prepared` may be null; engines of another library or kind of card are
  // left alone. `say` is told once if a choice is missing in it, and once if an engine of it does not load.
  explicit EngineCache(ConvolutionLibrary& library, std::shared_ptr<const Prepared> prepared = nullptr,
                       std::function<void(const std::string& line)> say = {});

  // As ConvolutionLibrary::Choose.
  std::unique_ptr<LibraryCall> Choose(const ConvolutionProblem& problem, int64_t limit, std::string* why);

  // What has been chosen so far, for a plan. Engines that the library cannot write are left out.
  std::vector<PreparedEngine> Chosen();

 private:
  void SayOnce(bool& told, const std::string& line);

  ConvolutionLibrary& library_;
  const std::shared_ptr<const Prepared> prepared_;  // of this library and kind of card, or null
  const std::function<void(const std::string& line)> say_;
  std::map<std::string, std::pair<ConvolutionProblem, int64_t>> asked_;  // problems and bounds, by their text
  bool told_of_missing_ = false, told_of_damage_ = false;
};

}  // namespace act::cuda
