// Kernels whose time a clock says that only they move.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "kernels/site/dereference.h"
#include "runtime/executor/kernel_tuner.h"

namespace act::testing {

class TimedKernels {
 public:
  using Body = std::function<void(const KernelArgs&)>;
  struct Spec {
    double seconds = 0;
    double first_seconds = 0;  // of the first run at a site; 0: as the others
    std::function<bool(const KernelSite&)> accepts = [](const KernelSite&) { return true; };
    std::string failure = {};  // of each run
    bool is_reference = false;
  };

  // `body` is what each kernel of the operator computes.
  void Add(KernelRegistry& registry, const std::string& op, const std::string& name, const Spec& kernel,
           const Body& body = {}) {
    speeds_[name] = kernel.seconds;
    KernelEntry entry{name, [this, name, kernel, body](const KernelSite& site, std::string* why) {
                        *why = "not this one";
                        return kernel.accepts(site) ? std::make_unique<Running>(*this, name, kernel, body)
                                                    : nullptr;
                      }};
    entry.is_reference = kernel.is_reference;
    registry.Add(op, std::move(entry));
  }

  SecondsClock Clock() {
    return [this] { return now_; };
  }
  int Runs(const std::string& name) const {
    const auto found = runs_.find(name);
    return found == runs_.end() ? 0 : found->second;
  }
  int AllRuns() const {
    int all = 0;
    for (const auto& [name, runs] : runs_) all += runs;
    return all;
  }
  // From now on.
  void SetSpeed(const std::string& name, double seconds) { speeds_[name] = seconds; }
  void ForgetRuns() { runs_.clear(); }

 private:
  class Running final : public Kernel {
   public:
    Running(TimedKernels& all, std::string name, Spec kernel, Body body)
        : all_(all), name_(std::move(name)), kernel_(std::move(kernel)), body_(std::move(body)) {}
    std::string Run(const KernelArgs& args) override {
      ++all_.runs_[name_];
      const bool first = !std::exchange(ran_, true);
      all_.now_ += first && kernel_.first_seconds > 0 ? kernel_.first_seconds : all_.speeds_[name_];
      if (body_) body_(args);
      return kernel_.failure;
    }

   private:
    TimedKernels& all_;
    const std::string name_;
    const Spec kernel_;
    const Body body_;
    bool ran_ = false;
  };

  double now_ = 100;
  std::map<std::string, double> speeds_;
  std::map<std::string, int> runs_;
};

}  // namespace act::testing
