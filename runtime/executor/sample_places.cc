#include "runtime/executor/sample_places.h"

#include "runtime/base/error.h"

namespace act {

void SamplePlaces::MoveTo(int64_t first, std::vector<TensorView>& inputs,
                          std::vector<TensorView>& outputs) const {
  const auto move = [first](const std::vector<Place>& places, std::vector<TensorView>& views) {
    for (size_t i = 0; i < places.size(); ++i)
      views[i].data = places[i].data ? places[i].data + first * places[i].sample_bytes : DevicePointer();
  };
  move(inputs_, inputs);
  move(outputs_, outputs);
  if (first == 0) return;
  for (const Sum& sum : sums_) outputs[sum.output].data = sum.partial;
}

llvm::Error SamplePlaces::AddSums(Device& device, const std::vector<TensorView>& outputs) const {
  for (const Sum& sum : sums_)
    ACT_CHECK_OK(device.AddFloats(outputs_[sum.output].data, sum.partial, outputs[sum.output].elements));
  return llvm::Error::success();
}

}  // namespace act
