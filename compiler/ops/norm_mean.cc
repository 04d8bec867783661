#include "compiler/ops/norm_mean.h"

#include "runtime/base/error.h"

namespace act {

llvm::Expected<ValueId> NormMean(GraphBuilder& builder, ValueId x, const Attributes& norm,
                                 const std::string& name) {
  ACT_TRY(const ValueId mean, builder.Add1("ReduceMean", {x}, Over(norm.Ints("axes"), true), name));
  const int64_t groups = norm.Int("groups");
  const auto axis = norm.Int("group_axis");
  const Dims dims = builder.type(mean).dims;
  if (groups == 0 || dims[static_cast<size_t>(axis)] == Dim(groups)) return mean;
  // Splits [.., C, ..] into [.., groups, C / groups, ..]. The tensor is small, since the other axes
  // have extent 1.
  Dims split = dims;
  split[static_cast<size_t>(axis)] = groups;
  split.insert(split.begin() + axis + 1, Dim(dims[static_cast<size_t>(axis)].fixed / groups));
  ACT_TRY(const ValueId channels, builder.Reshape(mean, split, name));
  ACT_TRY(const ValueId group, builder.Add1("ReduceMean", {channels}, Over({axis + 1}, true), name));
  ACT_TRY(const ValueId spread, builder.Expand(group, split, name));
  return builder.Reshape(spread, dims, name);
}

}  // namespace act
