// The kernels of a scatter (kernels/cuda/source/scatter.h): updates are sorted by target, then combined
// in order.
#pragma once

#include <optional>
#include <string>

#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/pair_sort.h"
#include "kernels/cuda/source/lookup_parameters.h"
#include "kernels/site/gather_shape.h"

namespace act::cuda {

class SortedUpdates {
 public:
  // `shape`: without operands, and without what Run adds. `lookup`: the template arguments of
  // FindTargets. Nullopt, with the reason in *why, if there are too many elements or no such numbers in
  // device code.
  static std::optional<SortedUpdates> Of(const CudaContext& context, const ScatterParameters& shape,
                                         DType dtype, Reduction reduction, const std::string& lookup,
                                         std::string* why);
  int64_t WorkspaceBytes() const;
  // `p`: the shape with its operands. y holds what the updates are combined with.
  Status Run(ScatterParameters p, const DeviceRange& workspace) const;

 private:
  using ScatterKernel = OwnKernel<ScatterParameters>;

  SortedUpdates(const CudaContext& context, const std::string& lookup, const std::string& type,
                const std::string& wide, const std::string& reduction);

  ScatterKernel find_, combine_, join_;
  PairSort sort_;
  int64_t rows_ = 0, row_bytes_ = 0, length_ = 0;
};

}  // namespace act::cuda
