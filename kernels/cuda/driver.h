// The functions of a CUDA driver that the backend calls: a narrow table, so that tests can put another
// machine behind it. This header includes nothing of CUDA. libact_cuda.so implements it over NVIDIA's
// driver (kernels/nvidia), and libact_fake_cuda.so on a processor (tests/fake_cuda).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace act::cuda {

// What failed, in words, or an empty string.
using Status = std::string;

// Handles, which the implementation alone looks into.
struct Stream;
struct Event;
struct Graph;  // instantiated, ready to be launched
struct Module;
struct Function;

struct Card {
  std::string name;            // "NVIDIA H200"
  int compute_capability = 0;  // 10 * major + minor: 90
  int multiprocessors = 0;
  int64_t memory_bytes = 0;  // of the whole card
  int64_t l2_bytes = 0;
  int64_t shared_bytes = 0;  // that a block may ask for
  int driver_version = 0;    // 1000 * major + 10 * minor: 13000
};

struct Extent3 {
  uint32_t x = 1, y = 1, z = 1;
};

// Addresses of device memory are opaque to the host. Functions with a stream are asynchronous: host
// memory that they name is pinned, and stays as it is until they are done. On a stream that captures,
// they become nodes of the graph, with the addresses and numbers of now.
class Driver {
 public:
  virtual ~Driver() = default;

  virtual const Card& card() const = 0;
  virtual Status FreeBytes(int64_t* bytes) = 0;

  // Aligned to 256 bytes.
  virtual Status Allocate(int64_t bytes, std::byte** address) = 0;
  virtual void Free(std::byte* address) = 0;
  // Host memory that copies and kernels may reach.
  virtual Status AllocatePinned(int64_t bytes, std::byte** address) = 0;
  virtual void FreePinned(std::byte* address) = 0;

  virtual Status CreateStream(Stream** stream) = 0;
  virtual void Destroy(Stream* stream) = 0;
  // Waits until all work of the stream is done. Returns the error of any of it.
  virtual Status Synchronize(Stream* stream) = 0;

  virtual Status CreateEvent(bool with_time, Event** event) = 0;
  virtual void Destroy(Event* event) = 0;
  virtual Status Record(Event* event, Stream* stream) = 0;
  // Work given to the stream from now on waits for the event.
  virtual Status Wait(Stream* stream, Event* event) = 0;
  virtual Status Synchronize(Event* event) = 0;
  virtual Status Seconds(Event* from, Event* to, double* seconds) = 0;

  virtual Status CopyToDevice(Stream* stream, std::byte* to, const std::byte* from, int64_t bytes) = 0;
  virtual Status CopyToHost(Stream* stream, std::byte* to, const std::byte* from, int64_t bytes) = 0;
  virtual Status CopyOnDevice(Stream* stream, std::byte* to, const std::byte* from, int64_t bytes) = 0;
  virtual Status Fill8(Stream* stream, std::byte* to, uint8_t value, int64_t bytes) = 0;
  virtual Status Fill32(Stream* stream, std::byte* to, uint32_t value, int64_t count) = 0;
  // Calls function(argument) on the host, in the order of the stream. It must call nothing of CUDA.
  virtual Status HostCall(Stream* stream, void (*function)(void*), void* argument) = 0;
  // Runs a kernel, whose one parameter is the struct of `bytes` bytes at `parameter`. They are copied.
  virtual Status Launch(Stream* stream, Function* function, Extent3 grid, Extent3 block, int64_t shared_bytes,
                        const void* parameter, int64_t bytes) = 0;

  virtual Status BeginCapture(Stream* stream) = 0;
  virtual Status EndCapture(Stream* stream, Graph** graph) = 0;
  virtual Status Launch(Stream* stream, Graph* graph) = 0;
  virtual void Destroy(Graph* graph) = 0;

  // What KernelCompiler made.
  virtual Status Load(std::span<const std::byte> image, Module** module) = 0;
  virtual void Unload(Module* module) = 0;
  virtual Status Find(Module* module, const std::string& name, Function** function) = 0;
};

}  // namespace act::cuda
