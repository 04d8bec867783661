#include <algorithm>

#include "runtime/data/batch_source.h"
#include "runtime/data/splitmix.h"

namespace act {
namespace {

class RandomBatchSource : public BatchSource {
 public:
  RandomBatchSource(std::vector<InputSlot> slots, uint64_t seed) : slots_(std::move(slots)), seed_(seed) {}

  int64_t Next(int64_t batch) override { return batch; }

  bool IsRandom() const override { return true; }

  void Fill(size_t slot, std::span<std::byte> to) override {
    SplitMix64 random(seed_, slot);
    const DType dtype = slots_[slot].type.dtype;
    const int64_t elements = static_cast<int64_t>(to.size()) / ByteSize(dtype);
    std::byte* const data = to.data();
    const int64_t classes = slots_[slot].classes > 0 ? slots_[slot].classes : 2;
    switch (dtype) {
      case DType::kFloat32:
        return Floats(reinterpret_cast<float*>(data), elements, random);
      case DType::kFloat64:
        return Floats(reinterpret_cast<double*>(data), elements, random);
      case DType::kInt64:
        return Integers(reinterpret_cast<int64_t*>(data), elements, classes, random);
      case DType::kInt32:
        return Integers(reinterpret_cast<int32_t*>(data), elements, classes, random);
      case DType::kInt16:
        return Integers(reinterpret_cast<int16_t*>(data), elements, std::min<int64_t>(classes, 1 << 15),
                        random);
      case DType::kInt8:
        return Integers(reinterpret_cast<int8_t*>(data), elements, std::min<int64_t>(classes, 1 << 7),
                        random);
      case DType::kUint8:
        return Integers(reinterpret_cast<uint8_t*>(data), elements, std::min<int64_t>(classes, 1 << 8),
                        random);
      case DType::kUint16:
        return Integers(reinterpret_cast<uint16_t*>(data), elements, std::min<int64_t>(classes, 1 << 16),
                        random);
      case DType::kUint32:
        return Integers(reinterpret_cast<uint32_t*>(data), elements, classes, random);
      case DType::kUint64:
        return Integers(reinterpret_cast<uint64_t*>(data), elements, classes, random);
      case DType::kBool:
        return Integers(reinterpret_cast<uint8_t*>(data), elements, 2, random);
      case DType::kFloat16:
      case DType::kBFloat16:
        std::fill_n(reinterpret_cast<uint16_t*>(data), elements, uint16_t{0});
        return;
    }
  }

 private:
  template <class Float>
  static void Floats(Float* to, int64_t elements, SplitMix64& random) {
    // 24 bits, centred; the variance of a uniform number in [0, 1) is 1 / 12
    constexpr double kSqrt12 = 3.4641016151377544;
    for (int64_t i = 0; i < elements; ++i) {
      to[i] = static_cast<Float>((static_cast<double>(random.Next() >> 40) * 0x1p-24 - 0.5) * kSqrt12);
    }
  }
  template <class Integer>
  static void Integers(Integer* to, int64_t elements, int64_t classes, SplitMix64& random) {
    for (int64_t i = 0; i < elements; ++i)
      to[i] = static_cast<Integer>(random.Below(static_cast<uint64_t>(classes)));
  }

  std::vector<InputSlot> slots_;
  uint64_t seed_;
};

}  // namespace

std::unique_ptr<BatchSource> RandomBatch(std::vector<InputSlot> slots, uint64_t seed) {
  return std::make_unique<RandomBatchSource>(std::move(slots), seed);
}

}  // namespace act
