#include "runtime/data/dataset.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/data/array_file.h"
#include "runtime/data/data_spec.h"
#include "runtime/data/sharded_array.h"
#include "runtime/data/splitmix.h"

namespace act {
namespace {

class DataSet : public BatchSource {
 public:
  DataSet(std::vector<ShardedArray> inputs, const DataSetOptions& options)
      : inputs_(std::move(inputs)),
        warned_(inputs_.size()),
        options_(options),
        order_(static_cast<size_t>(inputs_[0].samples())) {
    StartEpoch(0, 0);
  }

  void Warn(std::string text) { warnings_.push_back(std::move(text)); }

  int64_t SamplesPerEpoch() const override { return static_cast<int64_t>(order_.size()); }

  void StartEpoch(uint64_t epoch, int64_t position) override {
    std::iota(order_.begin(), order_.end(), 0u);
    if (options_.shuffle) ShuffleSamples(options_.seed, epoch, order_);
    next_ = std::min(position, SamplesPerEpoch());
  }

  int64_t Next(int64_t batch) override {
    first_ = next_;
    const int64_t taken = std::min(batch, SamplesPerEpoch() - first_);
    if (taken < batch && !options_.partial_batch) return 0;
    next_ = first_ + taken;
    return taken;
  }

  void Fill(size_t slot, std::span<std::byte> to) override {
    const std::span<const uint32_t> samples(order_.data() + first_, order_.data() + next_);
    inputs_[slot].Copy(samples, to.data());
    if (!warned_[slot]) LookForNotFinite(slot, samples, to.data());
  }

 private:
  // Warns of the first sample with such a number.
  void LookForNotFinite(size_t slot, std::span<const uint32_t> samples, const std::byte* data) {
    const ShardedArray& input = inputs_[slot];
    const DType dtype = input.files()[0].view().dtype;
    const int64_t elements = input.sample_bytes() / ByteSize(dtype);
    for (const uint32_t sample : samples) {
      const bool found = HasNotFinite(dtype, data, elements);
      data += input.sample_bytes();
      if (!found) continue;
      warned_[slot] = true;
      warnings_.push_back(input.FileOf(sample).path() +
                          ": holds NaN or infinite numbers, first among samples " + std::to_string(first_) +
                          " to " + std::to_string(next_ - 1) + " of this epoch's order");
      return;
    }
  }

  std::vector<ShardedArray> inputs_;  // by slot
  std::vector<bool> warned_;          // by slot
  DataSetOptions options_;
  std::vector<uint32_t> order_;
  int64_t first_ = 0, next_ = 0;  // range of the batch in `order_`
};

// "i64" is int64, "f32" float32.
std::string NumpyName(DType dtype) {
  const std::string name(ToString(dtype));
  if (dtype == DType::kBool) return name;
  return std::string(name[0] == 'f' ? "float" : name[0] == 'u' ? "uint" : "int") + name.substr(1);
}

// What NumPy makes of an array with the samples `found` one with the samples `expected`; "" where that is
// no matter of form.
std::string HowToConvert(const HostView& found, const HostView& expected) {
  const std::vector<int64_t>&from = found.dims, &to = expected.dims;
  if (from.empty()) return "";
  std::string change;
  if (from.size() != to.size() || !std::equal(from.begin() + 1, from.end(), to.begin() + 1)) {
    std::vector<size_t> order = {0};  // of the axes of `found`
    for (size_t axis = 1; axis < to.size(); ++axis)
      for (size_t i = 1; i < from.size(); ++i)
        if (from[i] == to[axis] && std::find(order.begin(), order.end(), i) == order.end()) {
          order.push_back(i);
          break;
        }
    const auto elements = [](const std::vector<int64_t>& dims) {
      return ElementCount({dims.begin() + 1, dims.end()});
    };
    if (order.size() == to.size() && from.size() == to.size()) {
      for (const size_t axis : order)
        change += (change.empty() ? ".transpose(" : ", ") + std::to_string(axis);
      change += ")";
    } else if (elements(from) == elements(to)) {
      for (size_t axis = 0; axis < to.size(); ++axis)
        change += axis == 0 ? ".reshape(-1" : ", " + std::to_string(to[axis]);
      change += ")";
    } else {
      return "";
    }
  }
  if (found.dtype != expected.dtype) change += ".astype('" + NumpyName(expected.dtype) + "')";
  return change;
}

llvm::Error CheckFile(const InputSlot& slot, int64_t batch, const ArrayFile& file) {
  const std::string place = file.path() + ": input '" + slot.name + "'";
  const HostView& found = file.view();
  HostView expected{
      .dtype = slot.type.dtype, .dims = DimsAt(slot.type.dims, batch), .data = nullptr, .bytes = 0};
  if (expected.dims.empty() || expected.dims[0] != batch) {
    return MakeError(place, "has no batch axis: a data set cannot feed it", "give one batch with --inputs");
  }
  // The last batch of an epoch may be smaller, and its samples must have the same size.
  for (size_t axis = 1; axis < slot.type.dims.size(); ++axis) {
    if (!slot.type.dims[axis].IsFixed())
      return MakeError(place, "has several axes that depend on the batch size: a data set cannot feed it",
                       "give one batch with --inputs");
  }
  const bool same_sample = found.dims.size() == expected.dims.size() &&
                           std::equal(found.dims.begin() + 1, found.dims.end(), expected.dims.begin() + 1);
  if (found.dtype == expected.dtype && same_sample) return llvm::Error::success();
  std::string dims = DimsToString(expected.dims);
  dims.replace(1, std::to_string(batch).size(), "samples");
  const std::string change = HowToConvert(found, expected);
  return MakeError(
      place, "expected " + std::string(ToString(expected.dtype)) + dims + ", found " + ToString(found),
      change.empty() ? "" : "if the numbers mean the same: numpy.save(FILE, array" + change + ")");
}

// Errors: a file of no input, or an input without a file.
llvm::Error CheckNames(const std::string& flag, const std::vector<InputSlot>& slots, const DataSpec& files) {
  std::string names, form;
  for (const InputSlot& slot : slots) {
    names += (names.empty() ? "" : ", ") + slot.name;
    form += (form.empty() ? flag + "=" : ",") + slot.name + "=FILE";
  }
  for (const auto& given : files.inputs)
    if (std::none_of(slots.begin(), slots.end(), [&](const InputSlot& s) { return s.name == given.first; }))
      return MakeError(flag, "the model has no input '" + given.first + "'", "its inputs are: " + names);
  for (const InputSlot& slot : slots)
    if (!files.others && !files.inputs.count(slot.name))
      return MakeError(flag, "has no file for input '" + slot.name + "'", "one flag names all: " + form);
  return llvm::Error::success();
}

llvm::Expected<ShardedArray> OpenInput(const InputSlot& slot, int64_t batch, const std::string& flag,
                                       const DataFiles& files) {
  auto paths = FindFiles(files.pattern);
  if (!paths) return WithPlace(paths.takeError(), flag + ": input '" + slot.name + "'");
  std::vector<ArrayFile> opened;
  opened.reserve(paths->size());
  for (const std::string& path : *paths) {
    ACT_TRY(ArrayFile file, ArrayFile::Open(path, files.tensor.empty() ? slot.name : files.tensor));
    ACT_CHECK_OK(CheckFile(slot, batch, file));
    if (file.view().dims[0] == 0) return MakeError(flag, path + " has no samples");
    opened.push_back(std::move(file));
  }
  return ShardedArray(std::move(opened));
}

// "x.npy has 5 samples", "the 3 files of input 'x' have 5 samples".
std::string TellSamples(const InputSlot& slot, const ShardedArray& input) {
  const std::string samples = std::to_string(input.samples());
  if (input.files().size() == 1) return input.files()[0].path() + " has " + samples;
  return "the " + std::to_string(input.files().size()) + " files of input '" + slot.name + "' have " +
         samples;
}

// Files of two inputs belong together in their order, and must then have as many samples. One file may
// belong to several.
llvm::Error CheckShards(const std::string& flag, const std::vector<InputSlot>& slots,
                        const std::vector<ShardedArray>& inputs) {
  const auto sharded = std::find_if(inputs.begin(), inputs.end(),
                                    [](const ShardedArray& input) { return input.files().size() > 1; });
  const size_t first = sharded == inputs.end() ? 0 : static_cast<size_t>(sharded - inputs.begin());
  const std::vector<ArrayFile>& files = inputs[first].files();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<ArrayFile>& others = inputs[i].files();
    if (others.size() == 1 || files.size() == 1) {
      if (inputs[i].samples() == inputs[first].samples()) continue;
      return MakeError(
          flag, TellSamples(slots[i], inputs[i]) + " samples, " + TellSamples(slots[first], inputs[first]));
    }
    for (size_t shard = 0; shard < std::min(files.size(), others.size()); ++shard) {
      const int64_t here = others[shard].view().dims[0], there = files[shard].view().dims[0];
      if (here == there) continue;
      return MakeError(flag, others[shard].path() + " has " + std::to_string(here) + " samples, " +
                                 files[shard].path() + " has " + std::to_string(there));
    }
    if (files.size() == others.size()) continue;
    const bool more = others.size() > files.size();
    const ArrayFile& alone = more ? others[files.size()] : files[others.size()];
    return MakeError(
        flag, alone.path() + ": no file of input '" + slots[more ? first : i].name + "' belongs to it");
  }
  return llvm::Error::success();
}

}  // namespace

void ShuffleSamples(uint64_t seed, uint64_t epoch, std::vector<uint32_t>& order) {
  SplitMix64 random(seed, epoch);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
}

llvm::Expected<std::unique_ptr<BatchSource>> OpenDataSet(const std::vector<InputSlot>& slots, int64_t batch,
                                                         const std::string& flag, const std::string& spec,
                                                         const DataSetOptions& options) {
  ACT_TRY(DataSpec files, DataSpec::Parse(flag, spec));
  if (slots.empty()) return MakeError(flag, "the model has no inputs");
  ACT_CHECK_OK(CheckNames(flag, slots, files));
  std::vector<ShardedArray> inputs;
  for (const InputSlot& slot : slots) {
    const auto named = files.inputs.find(slot.name);
    ACT_TRY(ShardedArray input,
            OpenInput(slot, batch, flag, named == files.inputs.end() ? *files.others : named->second));
    inputs.push_back(std::move(input));
  }
  ACT_CHECK_OK(CheckShards(flag, slots, inputs));
  const int64_t samples = inputs[0].samples();
  const std::string& path = inputs[0].files()[0].path();
  if (samples > int64_t{UINT32_MAX}) return MakeError(flag, path + ": there are more than 2^32 samples");
  if (samples < batch && !options.partial_batch) {
    return MakeError(flag, "has " + std::to_string(samples) +
                               " samples, less than the model's fixed batch of " + std::to_string(batch));
  }
  auto result = std::make_unique<DataSet>(std::move(inputs), options);
  if (samples < batch && options.shuffle)
    result->Warn(flag + ": has " + std::to_string(samples) + " samples, fewer than the batch of " +
                 std::to_string(batch) +
                 ": each step takes all of them, and memory is planned for the batch");
  if (const int64_t left = samples % batch; left > 0 && !options.partial_batch)
    result->Warn(flag + ": has " + std::to_string(samples) +
                 " samples, no multiple of the model's fixed batch of " + std::to_string(batch) + ": " +
                 (options.shuffle
                      ? "each epoch leaves out " + std::to_string(left) + ", others each time"
                      : "the last " + std::to_string(left) + (left == 1 ? " is" : " are") + " never used"));
  return result;
}

}  // namespace act
