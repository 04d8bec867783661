#include "runtime/train/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/hash.h"
#include "runtime/data/safetensors.h"
#include "runtime/train/kernel_record.h"

namespace act {
namespace {

std::string TensorPlace(const std::string& path, const std::string& name) {
  return path + ": tensor '" + name + "'";
}

HostView Scalar(const int64_t& number) {
  return {.dtype = DType::kInt64,
          .dims = {},
          .data = reinterpret_cast<const std::byte*>(&number),
          .bytes = sizeof number};
}

// The scalar of that name, or `fallback` if the file has none.
llvm::Expected<int64_t> ReadScalar(const Safetensors& file, const std::string& name, int64_t fallback) {
  const HostView* view = file.Find(name);
  if (!view) return fallback;
  int64_t number = 0;
  if (view->dtype != DType::kInt64 || view->bytes != sizeof number) {
    return MakeError(TensorPlace(file.path(), name), "expected one i64, found " + ToString(*view));
  }
  std::memcpy(&number, view->data, sizeof number);
  if (number < 0 && name != "seed" && name != "levels_plan")
    return MakeError(TensorPlace(file.path(), name), "is negative");
  return number;
}

HostView Scalar(const double& number) {
  return {.dtype = DType::kFloat64,
          .dims = {},
          .data = reinterpret_cast<const std::byte*>(&number),
          .bytes = sizeof number};
}

// Copies the tensor `name` to `numbers`, if the file has it. Whether it has.
llvm::Expected<bool> ReadNumbers(const Safetensors& file, const std::string& name, const HostView& type,
                                 void* numbers) {
  const HostView* view = file.Find(name);
  if (!view) return false;
  if (view->dtype != type.dtype || view->dims != type.dims)
    return MakeError(TensorPlace(file.path(), name),
                     "expected " + ToString(type) + ", found " + ToString(*view));
  std::memcpy(numbers, view->data, static_cast<size_t>(type.bytes));
  return true;
}

llvm::Expected<BestEvaluations> ReadBest(const Safetensors& file) {
  BestEvaluations read;
  for (const auto& [name, figure] : {std::pair{"best_loss", &read.loss}, {"best_accuracy", &read.accuracy}}) {
    double best = 0;
    ACT_TRY(const bool found, ReadNumbers(file, name, Scalar(best), &best));
    if (found && !std::isfinite(best)) return MakeError(TensorPlace(file.path(), name), "is not finite");
    if (found) figure->best = best;
  }
  int64_t stale[2] = {};
  const HostView type{.dtype = DType::kInt64, .dims = {2}, .data = nullptr, .bytes = sizeof stale};
  if (llvm::Error error = ReadNumbers(file, "stale_evaluations", type, stale).takeError()) return error;
  if (stale[0] < 0 || stale[1] < 0)
    return MakeError(TensorPlace(file.path(), "stale_evaluations"), "is negative");
  read.loss.stale = stale[0];
  read.accuracy.stale = stale[1];
  return read;
}

// `seed`: that of a file without one.
llvm::Expected<TrainPosition> PositionIn(const Safetensors& file, uint64_t seed) {
  TrainPosition read;
  ACT_TRY(const int64_t step, ReadScalar(file, "step", 0));
  ACT_TRY(const int64_t seed_read, ReadScalar(file, "seed", static_cast<int64_t>(seed)));
  ACT_TRY(const int64_t epoch, ReadScalar(file, "epoch", 0));
  ACT_TRY(read.position, ReadScalar(file, "position", 0));
  ACT_TRY(read.samples, ReadScalar(file, "samples", 0));
  ACT_TRY(read.best, ReadBest(file));
  read.step = static_cast<uint64_t>(step);
  read.seed = static_cast<uint64_t>(seed_read);
  read.epoch = static_cast<uint64_t>(epoch);
  return read;
}

HostView TypeOf(const TensorView& view) {
  return {.dtype = view.dtype, .dims = view.dims, .data = nullptr, .bytes = view.bytes};
}

llvm::Error CheckTensor(const std::string& path, const std::string& name, const HostView* found,
                        const HostView& expected) {
  if (!found) {
    return MakeError(TensorPlace(path, name), "is missing; expected " + ToString(expected),
                     "the checkpoint is of another model");
  }
  if (found->dtype == expected.dtype && found->dims == expected.dims) return llvm::Error::success();
  return MakeError(TensorPlace(path, name), "expected " + ToString(expected) + ", found " + ToString(*found),
                   "the checkpoint is of another model");
}

}  // namespace

void BestEvaluations::Add(const Evaluation& evaluation) {
  const auto add = [](BestFigure& figure, double value, bool better) {
    if (std::isfinite(value) && (!figure.best || better)) {
      figure = {.best = value, .stale = 0};
    } else {
      ++figure.stale;
    }
  };
  add(loss, evaluation.loss, evaluation.loss < loss.best);
  if (evaluation.accuracy) add(accuracy, *evaluation.accuracy, *evaluation.accuracy > accuracy.best);
}

NamedTensor Named(Device& device, std::string name, const TensorView& view) {
  return {.name = std::move(name),
          .view = TypeOf(view),
          .read = [&device, data = view.data, bytes = view.bytes] { return device.Read(data, bytes); }};
}

HostView InFiles(const PersistentTensor& tensor) {
  if (!tensor.coded) return TypeOf(tensor.view);
  const TensorType& type = tensor.coded->type;
  return {.dtype = type.dtype,
          .dims = DimsAt(type.dims, 1),
          .data = tensor.numbers.data,
          .bytes = tensor.numbers.bytes};
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

std::string GoOnWithData(TrainPosition& position, int64_t samples) {
  const int64_t before = std::exchange(position.samples, samples);
  const bool same = before > 0 ? before == samples : position.position <= samples;
  if (same || samples == 0 || position.position == 0) return "";
  const int64_t seen = std::exchange(position.position, 0);
  return std::to_string(seen) + (before > 0 ? " of " + std::to_string(before) : "") +
         " samples of an epoch were seen, and the data now has " + std::to_string(samples) +
         ": the epoch begins anew";
}

llvm::Error StartOptimizerState(const Executor& executor, const Hyperparameters& hyper) {
  const auto value = static_cast<float>(hyper.initial_accumulator_value);
  for (const PersistentTensor& tensor : executor.persistents()) {
    if (tensor.kind != ValueKind::kOptimizer || tensor.view.dtype != DType::kFloat32) continue;
    ACT_CHECK_OK(executor.device().FillFloats(tensor.view.data, value, tensor.view.elements));
  }
  return llvm::Error::success();
}

llvm::Error SaveCheckpoint(const std::string& path, const Executor& executor, const TrainPosition& position,
                           const CodeLevels& levels) {
  const auto step = static_cast<int64_t>(position.step), seed = static_cast<int64_t>(position.seed),
             epoch = static_cast<int64_t>(position.epoch);
  std::vector<NamedTensor> named = {{"step", Scalar(step)},
                                    {"seed", Scalar(seed)},
                                    {"epoch", Scalar(epoch)},
                                    {"position", Scalar(position.position)}};
  if (position.samples > 0) named.push_back({"samples", Scalar(position.samples)});
  const KernelRecord record = RecordOf(executor);
  const int64_t kernels[] = {record.work, record.kernels};
  named.push_back({"kernels",
                   {.dtype = DType::kInt64,
                    .dims = {2},
                    .data = reinterpret_cast<const std::byte*>(kernels),
                    .bytes = sizeof kernels}});
  const BestEvaluations& best = position.best;
  if (best.loss.best) named.push_back({"best_loss", Scalar(*best.loss.best)});
  if (best.accuracy.best) named.push_back({"best_accuracy", Scalar(*best.accuracy.best)});
  const int64_t stale[] = {best.loss.stale, best.accuracy.stale};
  named.push_back({"stale_evaluations",
                   {.dtype = DType::kInt64,
                    .dims = {2},
                    .data = reinterpret_cast<const std::byte*>(stale),
                    .bytes = sizeof stale}});
  const auto plan = static_cast<int64_t>(levels.plan);
  if (!levels.counts.empty()) {
    const auto edges = static_cast<int64_t>(levels.counts.size()) / 2;
    named.push_back({"levels_plan", Scalar(plan)});
    named.push_back({"levels",
                     {.dtype = DType::kInt64,
                      .dims = {edges, 2},
                      .data = reinterpret_cast<const std::byte*>(levels.counts.data()),
                      .bytes = static_cast<int64_t>(levels.counts.size() * sizeof(int64_t))}});
    named.push_back({"levels_shares",
                     {.dtype = DType::kFloat64,
                      .dims = {edges},
                      .data = reinterpret_cast<const std::byte*>(levels.shares.data()),
                      .bytes = static_cast<int64_t>(levels.shares.size() * sizeof(double))}});
  }
  for (const PersistentTensor& tensor : executor.persistents()) {
    std::string name = CheckpointName(tensor);
    if (name.empty()) continue;
    named.push_back(tensor.coded ? NamedTensor{std::move(name), InFiles(tensor)}
                                 : Named(executor.device(), std::move(name), tensor.view));
  }
  return WriteSafetensors(path, named);
}

uint64_t FingerprintOf(const Plan& plan) {
  uint64_t hash = kEmptyHash;
  const auto add = [&hash](const std::string& text) { hash = HashOf(text + "\n", hash); };
  add(plan.model_name);
  add(plan.level);
  for (const SavedEdge& edge : plan.edges) {
    add(edge.name);
    add(edge.form);
  }
  return hash;
}

llvm::Expected<CodeLevels> ReadCodeLevels(const std::string& path) {
  ACT_TRY(const Safetensors file, Safetensors::Open(path));
  CodeLevels levels;
  const HostView* view = file.Find("levels");
  if (!view) return levels;
  if (view->dtype != DType::kInt64 || view->dims.size() != 2 || view->dims[1] != 2)
    return MakeError(TensorPlace(path, "levels"), "expected i64[edges,2], found " + ToString(*view));
  ACT_TRY(const int64_t plan, ReadScalar(file, "levels_plan", 0));
  levels.plan = static_cast<uint64_t>(plan);
  levels.counts.resize(static_cast<size_t>(view->bytes) / sizeof(int64_t));
  if (view->bytes > 0) std::memcpy(levels.counts.data(), view->data, static_cast<size_t>(view->bytes));
  const HostView* shares = file.Find("levels_shares");
  if (!shares || shares->dtype != DType::kFloat64 ||
      shares->dims != std::vector<int64_t>{static_cast<int64_t>(levels.counts.size() / 2)})
    return MakeError(TensorPlace(path, "levels_shares"), "is not one f64 for each edge of 'levels'");
  levels.shares.resize(levels.counts.size() / 2);
  if (shares->bytes > 0) std::memcpy(levels.shares.data(), shares->data, static_cast<size_t>(shares->bytes));
  for (const double share : levels.shares)
    if (!(share >= 0 && std::isfinite(share)))
      return MakeError(TensorPlace(path, "levels_shares"), "holds numbers that are no variance");
  return levels;
}

llvm::Expected<TrainPosition> ReadPosition(const std::string& path, uint64_t seed) {
  ACT_TRY(const Safetensors file, Safetensors::Open(path));
  return PositionIn(file, seed);
}

llvm::Error LoadCheckpoint(const std::string& path, Executor& executor, TrainPosition& position) {
  ACT_TRY(Safetensors file, Safetensors::Open(path));
  ACT_TRY(const int64_t step, ReadScalar(file, "step", 0));
  std::vector<std::pair<const HostView*, const PersistentTensor*>> copies;
  for (const PersistentTensor& tensor : executor.persistents()) {
    const std::string name = CheckpointName(tensor);
    if (name.empty()) continue;
    const HostView* found = file.Find(name);
    if (!found && tensor.kind == ValueKind::kOptimizer) {
      if (step == 0) continue;
      return MakeError(TensorPlace(path, name),
                       "is missing, and the checkpoint is of step " + std::to_string(step),
                       "it was trained with another optimizer; to start anew from its weights, keep param.* "
                       "and buffer.* alone");
    }
    ACT_CHECK_OK(CheckTensor(path, name, found, InFiles(tensor)));
    copies.emplace_back(found, &tensor);
  }
  ACT_TRY(const TrainPosition read, PositionIn(file, position.seed));
  for (const auto& [from, to] : copies) {
    ACT_CHECK_OK(executor.Load(*to, {file.mapped(), from->data, from->bytes}));
    file.ReleasePages();
  }
  position = read;
  return llvm::Error::success();
}

}  // namespace act
