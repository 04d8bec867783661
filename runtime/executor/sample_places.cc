#include "runtime/executor/sample_places.h"

namespace act {
namespace {

// Below this a second thread costs more than it saves.
constexpr int64_t kParallelElements = 1 << 16;

}  // namespace

void SamplePlaces::MoveTo(int64_t first, std::vector<TensorView>& inputs,
                          std::vector<TensorView>& outputs) const {
  const auto move = [first](const std::vector<Place>& places, std::vector<TensorView>& views) {
    for (size_t i = 0; i < places.size(); ++i)
      views[i].data = places[i].data ? places[i].data + first * places[i].sample_bytes : nullptr;
  };
  move(inputs_, inputs);
  move(outputs_, outputs);
  if (first == 0) return;
  for (const Sum& sum : sums_) outputs[sum.output].data = sum.partial;
}

void SamplePlaces::AddSums(const std::vector<TensorView>& outputs) const {
  for (const Sum& sum : sums_) {
    const int64_t count = outputs[sum.output].elements;
    const auto* from = reinterpret_cast<const float*>(sum.partial);
    auto* to = reinterpret_cast<float*>(outputs_[sum.output].data);
#pragma omp parallel for simd if (count > kParallelElements)
    for (int64_t i = 0; i < count; ++i) to[i] += from[i];
  }
}

}  // namespace act
