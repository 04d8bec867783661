// The driver of the fake card.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/driver.h"
#include "tests/fake_cuda/block.h"
#include "tests/fake_cuda/image.h"
#include "tests/fake_cuda/memory.h"
#include "tests/fake_cuda/options.h"
#include "tests/fake_cuda/queue.h"

namespace act::cuda {

// Work that a stream has been given while it was captured.
struct Capture {
  Stream* origin = nullptr;
  bool over = false;
  fake::CapturedNodes nodes;
};

struct Stream {
  fake::Operations last;             // the next operation runs after these
  std::shared_ptr<Capture> capture;  // null if it is not captured
  std::vector<size_t> last_nodes;    // of the capture
};

struct Event {
  bool with_time = false;
  fake::Operations last;            // of the stream, when it was recorded
  std::shared_ptr<double> seconds;  // the time at which that was done; negative before
  std::shared_ptr<Capture> capture;
  std::vector<size_t> last_nodes;
};

struct Graph {
  fake::CapturedNodes nodes;
  fake::Operations last_launch;
};

struct Function {
  const fake::LoadedKernel* kernel = nullptr;
};

struct Module {
  std::unique_ptr<fake::Image> image;
  std::map<std::string, Function> functions;
};

}  // namespace act::cuda

namespace act::fake {

using cuda::Capture;
using cuda::Event;
using cuda::Extent3;
using cuda::Function;
using cuda::Graph;
using cuda::Module;
using cuda::Status;
using cuda::Stream;

// The error of a call.
inline Status Quoted(const char* call, const std::string& what) { return std::string(call) + ": " + what; }

class FakeDriver : public cuda::Driver {
 public:
  explicit FakeDriver(const Options& options);

  const cuda::Card& card() const override { return card_; }
  Status FreeBytes(int64_t* bytes) override;
  Status Allocate(int64_t bytes, std::byte** address) override;
  void Free(std::byte* address) override;
  Status AllocatePinned(int64_t bytes, std::byte** address) override;
  void FreePinned(std::byte* address) override;
  Status CreateStream(Stream** stream) override;
  void Destroy(Stream* stream) override;
  Status Synchronize(Stream* stream) override;
  Status CreateEvent(bool with_time, Event** event) override;
  void Destroy(Event* event) override;
  Status Record(Event* event, Stream* stream) override;
  Status Wait(Stream* stream, Event* event) override;
  Status Synchronize(Event* event) override;
  Status Seconds(Event* from, Event* to, double* seconds) override;
  Status CopyToDevice(Stream* stream, std::byte* to, const std::byte* from, int64_t bytes) override;
  Status CopyToHost(Stream* stream, std::byte* to, const std::byte* from, int64_t bytes) override;
  Status CopyOnDevice(Stream* stream, std::byte* to, const std::byte* from, int64_t bytes) override;
  Status Fill8(Stream* stream, std::byte* to, uint8_t value, int64_t bytes) override;
  Status Fill32(Stream* stream, std::byte* to, uint32_t value, int64_t count) override;
  Status HostCall(Stream* stream, void (*function)(void*), void* argument) override;
  Status Launch(Stream* stream, Function* function, Extent3 grid, Extent3 block, int64_t shared_bytes,
                const void* parameter, int64_t bytes) override;
  Status BeginCapture(Stream* stream) override;
  Status EndCapture(Stream* stream, Graph** graph) override;
  Status Launch(Stream* stream, Graph* graph) override;
  void Destroy(Graph* graph) override;
  Status Load(std::span<const std::byte> image, Module** module) override;
  void Unload(Module* module) override;
  Status Find(Module* module, const std::string& name, Function** function) override;

  // For the fake's libraries: enqueues `work`, which runs on the host.
  Status Enqueue(Stream* stream, Work work);
  Memory& memory() { return memory_; }
  BlockRunner& runner() { return runner_; }
  void Seed(uint64_t seed) { random_ = Random(seed); }

 private:
  Status CheckRange(const char* call, const std::byte* at, int64_t bytes, bool pinned) const;
  // The reason why a call cannot be made in a function of the host, or (`unsafe`) while a stream is captured.
  Status Refusal(const char* call, bool unsafe) const;
  Status Place(const char* call, int64_t bytes, bool pinned, std::byte** address);
  Status Copy(const char* call, Stream* stream, std::byte* to, bool to_pinned, const std::byte* from,
              bool from_pinned, int64_t bytes);
  template <class T>
  Status Fill(const char* call, Stream* stream, std::byte* to, T value, int64_t count);
  static Capture* CaptureOf(Stream* stream);

  const Options options_;
  cuda::Card card_;
  Memory memory_;
  Random random_;
  BlockRunner runner_;
  Queue queue_;
  int64_t allocations_ = 0, launches_ = 0;
  bool asked_for_free_bytes_ = false;
  int captures_ = 0;
  bool in_host_call_ = false;
};

}  // namespace act::fake
