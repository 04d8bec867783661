// Runs a FusedCase by the CUDA backend's fused loops, on the fake card.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/registry.h"
#include "tests/unit/cuda_testing.h"
#include "tests/unit/fused_case.h"

namespace act {

// A case whose kernel has been asked for, but not compiled: kernels of many cases are compiled together.
class FusedOnCard {
 public:
  // `workspace_bytes`: as planned, if it is left out.
  FusedOnCard(FusedCase& c, std::optional<int64_t> workspace_bytes = std::nullopt,
              TestCard& card = TheTestCard())
      : case_(c), card_(card) {
    KernelRegistry registry;
    cuda::RegisterCudaFused(registry, card.context());
    KernelSite site = SiteOnCard(c);
    if (workspace_bytes) site.workspace_bytes = *workspace_bytes;
    kernel_ = registry.For("Fused").front().create(site, &refusal_);
  }
  // With the workspace that a plan has for it.
  static KernelSite SiteOnCard(const FusedCase& c) {
    KernelSite site = c.Site();
    std::vector<TensorType> results;
    for (const TensorView& view : c.output_views)
      results.push_back({view.dtype, Dims(view.dims.begin(), view.dims.end())});
    site.workspace_bytes = FusedWorkspaceBound(site.node->program, results, CudaTarget()).At(site.batch);
    return site;
  }
  // Why there is no kernel, or an empty string.
  std::string refusal() const { return kernel_ ? "" : refusal_; }
  std::string Describe() const { return kernel_->Describe(); }

  // Results come to the case's tensors. `first_sample`: KernelArgs. A result that shares an operand's memory
  // in the case shares it on the card.
  void Run(int64_t first_sample = 0) {
    Check(card_.cache().CompileAll());
    std::map<std::byte*, DevicePointer> on_card;
    const auto place = [&](const TensorView& view) {
      auto* host = view.as<std::byte>();
      if (!on_card.contains(host)) {
        on_card[host] = card_.Allocate(view.bytes);
        card_.Upload(on_card[host], host, view.bytes);
      }
      TensorView placed = view;
      placed.data = on_card[host];
      return placed;
    };
    std::vector<TensorView> inputs, outputs;
    for (const TensorView& view : case_.input_views) inputs.push_back(place(view));
    for (const TensorView& view : case_.output_views) outputs.push_back(place(view));
    const DeviceRange workspace = {card_.Allocate(kernel_->WorkspaceBytes()), kernel_->WorkspaceBytes()};
    card_.SetStep(case_.state);
    Check(kernel_->Run({inputs, outputs, workspace, nullptr, first_sample}));
    Check(card_.Wait());
    for (size_t i = 0; i < outputs.size(); ++i)
      card_.Download(case_.output_views[i].as<std::byte>(), outputs[i].data, outputs[i].bytes);
    for (const auto& [host, memory] : on_card) card_.Free(memory);
    card_.Free(workspace.data);
  }

 private:
  static void Check(const std::string& error) {
    if (!error.empty()) throw std::runtime_error(error);
  }

  FusedCase& case_;
  TestCard& card_;
  std::unique_ptr<Kernel> kernel_;
  std::string refusal_ = "no reason given";
};

}  // namespace act
