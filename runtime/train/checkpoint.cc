#include "runtime/train/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/data/safetensors.h"

namespace act {
namespace {

HostView Scalar(const int64_t& number) {
  return {.dtype = DType::kInt64,
          .dims = {},
          .data = reinterpret_cast<const std::byte*>(&number),
          .bytes = sizeof number};
}

// The scalar of that name, or `fallback` where the file has none.
llvm::Expected<int64_t> ReadScalar(const Safetensors& file, const std::string& name, int64_t fallback) {
  const HostView* view = file.Find(name);
  if (!view) return fallback;
  int64_t number = 0;
  if (view->dtype != DType::kInt64 || view->bytes != sizeof number) {
    return MakeError(file.path() + ": tensor '" + name + "'", "expected one i64, found " + ToString(*view));
  }
  std::memcpy(&number, view->data, sizeof number);
  if (number < 0 && name != "seed") return MakeError(file.path() + ": tensor '" + name + "'", "is negative");
  return number;
}

llvm::Error CheckTensor(const std::string& path, const std::string& name, const HostView* found,
                        const TensorView& view) {
  const HostView expected = ViewOf(view);
  if (!found) {
    return MakeError(path + ": tensor '" + name + "'", "is missing; expected " + ToString(expected),
                     "the checkpoint is of another model");
  }
  if (found->dtype == expected.dtype && found->dims == expected.dims) return llvm::Error::success();
  return MakeError(path + ": tensor '" + name + "'",
                   "expected " + ToString(expected) + ", found " + ToString(*found),
                   "the checkpoint is of another model");
}

}  // namespace

HostView ViewOf(const TensorView& view) {
  return {.dtype = view.dtype,
          .dims = view.dims,
          .data = static_cast<const std::byte*>(view.data),
          .bytes = view.bytes};
}

std::string CheckpointName(const PersistentTensor& tensor) {
  switch (tensor.kind) {
    case ValueKind::kParameter:
      return "param." + tensor.name;
    case ValueKind::kBuffer:
      return "buffer." + tensor.name;
    case ValueKind::kOptimizer:
      return "optimizer." + tensor.name;
    default:
      return "";
  }
}

void StartOptimizerState(const std::vector<PersistentTensor>& tensors, const Hyperparameters& hyper) {
  for (const PersistentTensor& tensor : tensors)
    if (tensor.kind == ValueKind::kOptimizer && tensor.view.dtype == DType::kFloat32)
      std::fill_n(tensor.view.as<float>(), tensor.view.elements,
                  static_cast<float>(hyper.initial_accumulator_value));
}

llvm::Error SaveCheckpoint(const std::string& path, const std::vector<PersistentTensor>& tensors,
                           const TrainPosition& position) {
  const auto step = static_cast<int64_t>(position.step), seed = static_cast<int64_t>(position.seed),
             epoch = static_cast<int64_t>(position.epoch);
  std::vector<NamedTensor> named = {{"step", Scalar(step)},
                                    {"seed", Scalar(seed)},
                                    {"epoch", Scalar(epoch)},
                                    {"position", Scalar(position.position)}};
  for (const PersistentTensor& tensor : tensors) {
    std::string name = CheckpointName(tensor);
    if (!name.empty()) named.push_back({std::move(name), ViewOf(tensor.view)});
  }
  return WriteSafetensors(path, named);
}

llvm::Error LoadCheckpoint(const std::string& path, const std::vector<PersistentTensor>& tensors,
                           TrainPosition& position) {
  ACT_TRY(Safetensors file, Safetensors::Open(path));
  ACT_TRY(const int64_t step, ReadScalar(file, "step", 0));
  std::vector<std::pair<const HostView*, void*>> copies;
  for (const PersistentTensor& tensor : tensors) {
    const std::string name = CheckpointName(tensor);
    if (name.empty()) continue;
    const HostView* found = file.Find(name);
    if (!found && tensor.kind == ValueKind::kOptimizer) {
      if (step == 0) continue;
      return MakeError(path + ": tensor '" + name + "'",
                       "is missing, and the checkpoint is of step " + std::to_string(step),
                       "it was trained with another optimizer; to start anew from its weights, keep param.* "
                       "and buffer.* alone");
    }
    ACT_CHECK_OK(CheckTensor(path, name, found, tensor.view));
    copies.emplace_back(found, tensor.view.data);
  }
  TrainPosition read;
  ACT_TRY(const int64_t seed, ReadScalar(file, "seed", static_cast<int64_t>(position.seed)));
  ACT_TRY(const int64_t epoch, ReadScalar(file, "epoch", 0));
  ACT_TRY(read.position, ReadScalar(file, "position", 0));
  read.step = static_cast<uint64_t>(step);
  read.seed = static_cast<uint64_t>(seed);
  read.epoch = static_cast<uint64_t>(epoch);

  for (const auto& [from, to] : copies) {
    if (from->bytes > 0) std::memcpy(to, from->data, static_cast<size_t>(from->bytes));
    file.ReleasePages();
  }
  position = read;
  return llvm::Error::success();
}

}  // namespace act
