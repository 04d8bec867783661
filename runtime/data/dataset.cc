#include "runtime/data/dataset.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/data/npy.h"
#include "runtime/data/splitmix.h"

namespace act {
namespace {

class DataSet : public BatchSource {
 public:
  DataSet(std::vector<NpyFile> files, int64_t samples, const DataSetOptions& options)
      : files_(std::move(files)),
        warned_(files_.size()),
        options_(options),
        order_(static_cast<size_t>(samples)) {
    for (const NpyFile& file : files_) sample_bytes_.push_back(file.view().bytes / samples);
    StartEpoch(0, 0);
  }

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
    const int64_t bytes = sample_bytes_[slot];
    if (bytes == 0) return;
    const HostView& file = files_[slot].view();
    std::byte* at = to.data();
    for (int64_t i = first_; i < next_; ++i, at += bytes)
      std::memcpy(at, file.data + order_[static_cast<size_t>(i)] * bytes, static_cast<size_t>(bytes));
    files_[slot].ReleasePages();
    const int64_t elements = static_cast<int64_t>(to.size()) / ByteSize(file.dtype);
    if (!warned_[slot] && HasNotFinite(file.dtype, to.data(), elements)) {
      warned_[slot] = true;
      warnings_.push_back(files_[slot].path() + ": holds NaN or infinite numbers, first among samples " +
                          std::to_string(first_) + " to " + std::to_string(next_ - 1) +
                          " of this epoch's order");
    }
  }

 private:
  std::vector<NpyFile> files_;         // by slot
  std::vector<int64_t> sample_bytes_;  // by slot
  std::vector<bool> warned_;
  DataSetOptions options_;
  std::vector<uint32_t> order_;
  int64_t first_ = 0, next_ = 0;  // range of the batch in `order_`
};

// "NAME=FILE,NAME=FILE" -> name to file.
llvm::Expected<std::map<std::string, std::string>> ParseSpec(const std::string& flag,
                                                             const std::string& spec) {
  std::map<std::string, std::string> files;
  for (size_t begin = 0; begin <= spec.size();) {
    const size_t end = std::min(spec.find(',', begin), spec.size());
    const std::string item = spec.substr(begin, end - begin);
    // Input names hold no '=' in practice; file names may.
    const size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == item.size()) {
      return MakeError(flag, "'" + item + "' is not NAME=FILE.npy");
    }
    if (!files.emplace(item.substr(0, equals), item.substr(equals + 1)).second) {
      return MakeError(flag, "input '" + item.substr(0, equals) + "' is given twice");
    }
    begin = end + 1;
  }
  return files;
}

llvm::Error CheckFile(const InputSlot& slot, int64_t batch, const NpyFile& file) {
  const std::string place = file.path() + ": input '" + slot.name + "'";
  const HostView& found = file.view();
  HostView expected{
      .dtype = slot.type.dtype, .dims = DimsAt(slot.type.dims, batch), .data = nullptr, .bytes = 0};
  if (expected.dims.empty() || expected.dims[0] != batch) {
    return MakeError(place, "has no batch axis: a data set cannot feed it", "give one batch with --inputs");
  }
  const bool same_sample = found.dims.size() == expected.dims.size() &&
                           std::equal(found.dims.begin() + 1, found.dims.end(), expected.dims.begin() + 1);
  if (found.dtype == expected.dtype && same_sample) return llvm::Error::success();
  std::string dims = DimsToString(expected.dims);
  dims.replace(1, std::to_string(batch).size(), "samples");
  return MakeError(place,
                   "expected " + std::string(ToString(expected.dtype)) + dims + ", found " + ToString(found));
}

}  // namespace

void ShuffleSamples(uint64_t seed, uint64_t epoch, std::vector<uint32_t>& order) {
  SplitMix64 random(seed, epoch);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
}

llvm::Expected<std::unique_ptr<BatchSource>> OpenDataSet(const std::vector<InputSlot>& slots, int64_t batch,
                                                         const std::string& flag, const std::string& spec,
                                                         const DataSetOptions& options) {
  ACT_TRY(auto paths, ParseSpec(flag, spec));
  std::vector<NpyFile> files;
  std::string names;
  for (const InputSlot& slot : slots) {
    names += (names.empty() ? "" : ", ") + slot.name;
    const auto path = paths.find(slot.name);
    if (path == paths.end()) return MakeError(flag, "has no file for input '" + slot.name + "'");
    ACT_TRY(NpyFile file, NpyFile::Open(path->second));
    ACT_CHECK_OK(CheckFile(slot, batch, file));
    files.push_back(std::move(file));
    paths.erase(path);
  }
  if (!paths.empty()) {
    return MakeError(flag, "the model has no input '" + paths.begin()->first + "'",
                     "its inputs are: " + names);
  }
  if (files.empty()) return MakeError(flag, "the model has no inputs");
  const int64_t samples = files[0].view().dims[0];
  for (const NpyFile& file : files) {
    if (file.view().dims[0] == samples) continue;
    return MakeError(flag, file.path() + " has " + std::to_string(file.view().dims[0]) + " samples, " +
                               files[0].path() + " has " + std::to_string(samples));
  }
  if (samples == 0) return MakeError(flag, files[0].path() + " has no samples");
  if (samples > int64_t{UINT32_MAX}) return MakeError(flag, files[0].path() + " has more than 2^32 samples");
  if (samples < batch && !options.partial_batch) {
    return MakeError(flag, "has " + std::to_string(samples) +
                               " samples, less than the model's fixed batch of " + std::to_string(batch));
  }
  return std::make_unique<DataSet>(std::move(files), samples, options);
}

}  // namespace act
