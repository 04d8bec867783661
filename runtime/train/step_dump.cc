#include "runtime/train/step_dump.h"

#include "runtime/data/safetensors.h"
#include "runtime/train/checkpoint.h"

namespace act {

llvm::Error WriteStepDump(const std::string& path, double loss, const GradientCapture& gradients,
                          const Executor& executor) {
  std::vector<NamedTensor> named;
  const auto rounded = static_cast<float>(loss);
  named.push_back({"loss",
                   {.dtype = DType::kFloat32,
                    .dims = {},
                    .data = reinterpret_cast<const std::byte*>(&rounded),
                    .bytes = sizeof rounded}});
  for (const GradientCapture::Gradient& gradient : gradients.gradients()) {
    named.push_back({"grad." + gradient.name,
                     {.dtype = gradient.dtype,
                      .dims = gradient.dims,
                      .data = gradient.bytes.data(),
                      .bytes = static_cast<int64_t>(gradient.bytes.size())}});
  }
  for (const PersistentTensor& tensor : executor.persistents()) {
    if (tensor.kind == ValueKind::kBuffer)
      named.push_back(Named(executor.device(), "buffer." + tensor.name, tensor.view));
  }
  return WriteSafetensors(path, named);
}

}  // namespace act
