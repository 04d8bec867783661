#include <cstdlib>
#include <cstring>

#include "kernels/nvidia/driver.h"

namespace act::cuda {
namespace {

// Nothing is ever pending: a copy is done when it is asked for, and streams and events are nothing.
class DescribedCard : public Driver {
 public:
  explicit DescribedCard(const Card& card) : card_(card) {}
  const Card& card() const override { return card_; }
  Status FreeBytes(int64_t* bytes) override {
    *bytes = card_.memory_bytes;
    return "";
  }

  Status Allocate(int64_t bytes, std::byte** address) override {
    constexpr size_t kAlignment = 256;
    const size_t rounded = (static_cast<size_t>(bytes) / kAlignment + 1) * kAlignment;
    *address = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
    return *address ? "" : "no memory for " + std::to_string(bytes) + " bytes";
  }
  void Free(std::byte* address) override { std::free(address); }
  Status AllocatePinned(int64_t bytes, std::byte** address) override { return Allocate(bytes, address); }
  void FreePinned(std::byte* address) override { Free(address); }

  Status CreateStream(Stream** stream) override {
    *stream = nullptr;
    return "";
  }
  void Destroy(Stream*) override {}
  Status Synchronize(Stream*) override { return ""; }
  Status CreateEvent(bool, Event** event) override {
    *event = nullptr;
    return "";
  }
  void Destroy(Event*) override {}
  Status Record(Event*, Stream*) override { return ""; }
  Status Wait(Stream*, Event*) override { return ""; }
  Status Synchronize(Event*) override { return ""; }
  Status Seconds(Event*, Event*, double*) override { return Refusal(); }

  Status CopyToDevice(Stream*, std::byte* to, const std::byte* from, int64_t bytes) override {
    return Copy(to, from, bytes);
  }
  Status CopyToHost(Stream*, std::byte* to, const std::byte* from, int64_t bytes) override {
    return Copy(to, from, bytes);
  }
  Status CopyOnDevice(Stream*, std::byte* to, const std::byte* from, int64_t bytes) override {
    return Copy(to, from, bytes);
  }
  Status Fill8(Stream*, std::byte* to, uint8_t value, int64_t bytes) override {
    std::memset(to, value, static_cast<size_t>(bytes));
    return "";
  }
  Status Fill32(Stream*, std::byte* to, uint32_t value, int64_t count) override {
    for (int64_t i = 0; i < count; ++i) std::memcpy(to + 4 * i, &value, sizeof value);
    return "";
  }

  Status HostCall(Stream*, void (*)(void*), void*) override { return Refusal(); }
  Status Launch(Stream*, Function*, Extent3, Extent3, int64_t, const void*, int64_t) override {
    return Refusal();
  }
  Status BeginCapture(Stream*) override { return Refusal(); }
  Status EndCapture(Stream*, Graph**) override { return Refusal(); }
  Status Launch(Stream*, Graph*) override { return Refusal(); }
  void Destroy(Graph*) override {}
  Status Load(std::span<const std::byte>, Module**) override { return Refusal(); }
  void Unload(Module*) override {}
  Status Find(Module*, const std::string&, Function**) override { return Refusal(); }

 private:
  static Status Copy(std::byte* to, const std::byte* from, int64_t bytes) {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
    return "";
  }
  Status Refusal() const { return card_.name + " is only described: nothing can run on it"; }

  const Card card_;
};

}  // namespace

std::unique_ptr<Driver> DescribedDriver(const Card& card) { return std::make_unique<DescribedCard>(card); }

}  // namespace act::cuda
