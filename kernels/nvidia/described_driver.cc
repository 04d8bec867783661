#include "kernels/nvidia/driver.h"

namespace act::cuda {
namespace {

class NoCard : public Driver {
 public:
  explicit NoCard(const Card& card) : card_(card) {}
  const Card& card() const override { return card_; }
  Status FreeBytes(int64_t*) override { return Refusal(); }
  Status Allocate(int64_t, std::byte**) override { return Refusal(); }
  void Free(std::byte*) override {}
  Status AllocatePinned(int64_t, std::byte**) override { return Refusal(); }
  void FreePinned(std::byte*) override {}
  Status CreateStream(Stream**) override { return Refusal(); }
  void Destroy(Stream*) override {}
  Status Synchronize(Stream*) override { return Refusal(); }
  Status CreateEvent(bool, Event**) override { return Refusal(); }
  void Destroy(Event*) override {}
  Status Record(Event*, Stream*) override { return Refusal(); }
  Status Wait(Stream*, Event*) override { return Refusal(); }
  Status Synchronize(Event*) override { return Refusal(); }
  Status Seconds(Event*, Event*, double*) override { return Refusal(); }
  Status CopyToDevice(Stream*, std::byte*, const std::byte*, int64_t) override { return Refusal(); }
  Status CopyToHost(Stream*, std::byte*, const std::byte*, int64_t) override { return Refusal(); }
  Status CopyOnDevice(Stream*, std::byte*, const std::byte*, int64_t) override { return Refusal(); }
  Status Fill8(Stream*, std::byte*, uint8_t, int64_t) override { return Refusal(); }
  Status Fill32(Stream*, std::byte*, uint32_t, int64_t) override { return Refusal(); }
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
  Status Refusal() const { return card_.name + " is only described: nothing can run on it"; }
  const Card card_;
};

}  // namespace

std::unique_ptr<Driver> DescribedDriver(const Card& card) { return std::make_unique<NoCard>(card); }

}  // namespace act::cuda
