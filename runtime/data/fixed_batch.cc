#include <cstring>

#include "runtime/base/error.h"
#include "runtime/data/batch_source.h"
#include "runtime/data/safetensors.h"

namespace act {
namespace {

class FixedBatchSource : public BatchSource {
 public:
  FixedBatchSource(Safetensors file, std::vector<HostView> tensors, std::vector<std::string> warnings)
      : file_(std::move(file)), tensors_(std::move(tensors)) {
    warnings_ = std::move(warnings);
  }

  int64_t Next(int64_t batch) override { return batch; }
  void Fill(size_t slot, std::span<std::byte> to) override {
    if (!to.empty()) std::memcpy(to.data(), tensors_[slot].data, to.size());
    file_.ReleasePages();
  }

 private:
  Safetensors file_;
  std::vector<HostView> tensors_;  // by slot
};

}  // namespace

llvm::Expected<std::unique_ptr<BatchSource>> FixedBatch(const std::vector<InputSlot>& slots,
                                                        const std::string& path, int64_t batch) {
  ACT_TRY(Safetensors file, Safetensors::Open(path));
  std::vector<HostView> tensors;
  std::vector<std::string> warnings;
  for (const InputSlot& slot : slots) {
    const std::string place = path + ": input '" + slot.name + "'";
    const HostView expected{
        .dtype = slot.type.dtype, .dims = DimsAt(slot.type.dims, batch), .data = nullptr, .bytes = 0};
    const HostView* found = file.Find(slot.name);
    if (!found) return MakeError(place, "is missing; expected " + ToString(expected));
    if (found->dtype != expected.dtype || found->dims != expected.dims) {
      return MakeError(place, "expected " + ToString(expected) + " at --batch=" + std::to_string(batch) +
                                  ", found " + ToString(*found));
    }
    if (HasNotFinite(found->dtype, found->data, ElementCount(found->dims))) {
      warnings.push_back(place + ": holds NaN or infinite numbers");
    }
    tensors.push_back(*found);
  }
  if (file.tensors().size() > slots.size()) {
    warnings.push_back(path + ": holds tensors that are no inputs of the model; they are not used");
  }
  return std::make_unique<FixedBatchSource>(std::move(file), std::move(tensors), std::move(warnings));
}

}  // namespace act
