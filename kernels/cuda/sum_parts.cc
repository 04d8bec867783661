#include "kernels/cuda/sum_parts.h"

#include <algorithm>

#include "kernels/cuda/float_type.h"

namespace act::cuda {
namespace {

// Blocks of 256 threads of which the largest cards run half at a time.
constexpr int64_t kBlocks = 1024;
constexpr int64_t kFloat = sizeof(float);

}  // namespace

PartSums::PartSums(const CudaContext& context, int64_t elements, int64_t blocks, int64_t length,
                   int64_t at_least, int64_t workspace_bytes, DType result)
    : elements_(elements) {
  const int64_t wanted = std::min(kBlocks / std::max<int64_t>(blocks, 1), length / at_least),
                room = elements > 0 ? workspace_bytes / (elements * kFloat) : 1;
  const int64_t parts = std::max<int64_t>(std::min(wanted, room), 1);
  part_length_ = (length + parts - 1) / parts;
  if (part_length_ > 0) count_ = (length + part_length_ - 1) / part_length_;
  if (count_ > 1 || result != DType::kFloat32)
    kernel_.emplace(context, "sum_parts", "SumPartsParameters", "sum_parts",
                    "SumParts" + TemplateArguments(FloatType(result)));
}

int64_t PartSums::WorkspaceBytes() const { return kernel_ ? count_ * elements_ * kFloat : 0; }

Status PartSums::Add(const float* workspace, void* result) const {
  if (!kernel_) return "";
  return kernel_->LaunchItems(elements_, {workspace, result, elements_, static_cast<int32_t>(count_)});
}

}  // namespace act::cuda
