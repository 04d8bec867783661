#include "kernels/nvidia/driver.h"

#include <algorithm>

namespace act::cuda {
namespace {

// Handles of driver.h are CUDA's own.
CUevent HandleOf(Event* event) { return reinterpret_cast<CUevent>(event); }
CUgraphExec HandleOf(Graph* graph) { return reinterpret_cast<CUgraphExec>(graph); }
CUmodule HandleOf(Module* module) { return reinterpret_cast<CUmodule>(module); }
CUfunction HandleOf(Function* function) { return reinterpret_cast<CUfunction>(function); }
CUdeviceptr AddressOf(const std::byte* address) { return reinterpret_cast<CUdeviceptr>(address); }

// What a block gets without asking for more, on every card.
constexpr int64_t kUsualSharedBytes = 48 << 10;

class NvidiaDriver : public Driver {
 public:
  NvidiaDriver(const CardContext& context, const Card& card)
      : context_(context), cuda_(context_.cuda), card_(card) {}
  ~NvidiaDriver() override { cuda_.cuDevicePrimaryCtxRelease(context_.device); }

  const Card& card() const override { return card_; }
  Status FreeBytes(int64_t* bytes) override {
    size_t free = 0, total = 0;
    const Status status = Call(cuda_.cuMemGetInfo, "cuMemGetInfo", &free, &total);
    *bytes = static_cast<int64_t>(free);
    return status;
  }

  Status Allocate(int64_t bytes, std::byte** address) override {
    CUdeviceptr pointer = 0;
    // CUDA refuses 0 bytes. Its addresses are multiples of 256 (Programming Guide, 5.3.2).
    const Status status = Call(cuda_.cuMemAlloc, "cuMemAlloc of " + std::to_string(bytes) + " bytes",
                               &pointer, static_cast<size_t>(std::max<int64_t>(bytes, 1)));
    *address = reinterpret_cast<std::byte*>(pointer);  // NOLINT: the driver's addresses are numbers
    return status;
  }
  void Free(std::byte* address) override { (void)Call(cuda_.cuMemFree, "cuMemFree", AddressOf(address)); }
  Status AllocatePinned(int64_t bytes, std::byte** address) override {
    void* pointer = nullptr;
    const Status status = Call(cuda_.cuMemHostAlloc, "cuMemHostAlloc of " + std::to_string(bytes) + " bytes",
                               &pointer, static_cast<size_t>(std::max<int64_t>(bytes, 1)),
                               static_cast<unsigned>(CU_MEMHOSTALLOC_PORTABLE));
    *address = static_cast<std::byte*>(pointer);
    return status;
  }
  void FreePinned(std::byte* address) override { (void)Call(cuda_.cuMemFreeHost, "cuMemFreeHost", address); }

  Status CreateStream(Stream** stream) override {
    return Call(cuda_.cuStreamCreate, "cuStreamCreate", reinterpret_cast<CUstream*>(stream),
                static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
  }
  void Destroy(Stream* stream) override {
    (void)Call(cuda_.cuStreamDestroy, "cuStreamDestroy", StreamOf(stream));
  }
  Status Synchronize(Stream* stream) override {
    return Call(cuda_.cuStreamSynchronize, "cuStreamSynchronize", StreamOf(stream));
  }

  Status CreateEvent(bool with_time, Event** event) override {
    const unsigned flags = with_time ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
    return Call(cuda_.cuEventCreate, "cuEventCreate", reinterpret_cast<CUevent*>(event), flags);
  }
  void Destroy(Event* event) override { (void)Call(cuda_.cuEventDestroy, "cuEventDestroy", HandleOf(event)); }
  // While a stream captures, "external" makes a node of it, which other streams and later times can refer to.
  // Otherwise CUDA would only note a dependency within the graph.
  Status Record(Event* event, Stream* stream) override {
    bool captures = false;
    if (Status status = IsCapturing(stream, &captures); !status.empty()) return status;
    const unsigned flags = captures ? CU_EVENT_RECORD_EXTERNAL : CU_EVENT_RECORD_DEFAULT;
    return Call(cuda_.cuEventRecordWithFlags, "cuEventRecordWithFlags", HandleOf(event), StreamOf(stream),
                flags);
  }
  Status Wait(Stream* stream, Event* event) override {
    bool captures = false;
    if (Status status = IsCapturing(stream, &captures); !status.empty()) return status;
    const unsigned flags = captures ? CU_EVENT_WAIT_EXTERNAL : CU_EVENT_WAIT_DEFAULT;
    return Call(cuda_.cuStreamWaitEvent, "cuStreamWaitEvent", StreamOf(stream), HandleOf(event), flags);
  }
  Status Synchronize(Event* event) override {
    return Call(cuda_.cuEventSynchronize, "cuEventSynchronize", HandleOf(event));
  }
  Status Seconds(Event* from, Event* to, double* seconds) override {
    float milliseconds = 0;
    const Status status =
        Call(cuda_.cuEventElapsedTime, "cuEventElapsedTime", &milliseconds, HandleOf(from), HandleOf(to));
    *seconds = milliseconds * 1e-3;
    return status;
  }

  Status CopyToDevice(Stream* stream, std::byte* to, const std::byte* from, int64_t bytes) override {
    if (bytes == 0) return "";
    return Call(cuda_.cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync", AddressOf(to), static_cast<const void*>(from),
                static_cast<size_t>(bytes), StreamOf(stream));
  }
  Status CopyToHost(Stream* stream, std::byte* to, const std::byte* from, int64_t bytes) override {
    if (bytes == 0) return "";
    return Call(cuda_.cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync", static_cast<void*>(to), AddressOf(from),
                static_cast<size_t>(bytes), StreamOf(stream));
  }
  Status CopyOnDevice(Stream* stream, std::byte* to, const std::byte* from, int64_t bytes) override {
    if (bytes == 0) return "";
    return Call(cuda_.cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync", AddressOf(to), AddressOf(from),
                static_cast<size_t>(bytes), StreamOf(stream));
  }
  Status Fill8(Stream* stream, std::byte* to, uint8_t value, int64_t bytes) override {
    if (bytes == 0) return "";
    return Call(cuda_.cuMemsetD8Async, "cuMemsetD8Async", AddressOf(to), value, static_cast<size_t>(bytes),
                StreamOf(stream));
  }
  Status Fill32(Stream* stream, std::byte* to, uint32_t value, int64_t count) override {
    if (count == 0) return "";
    return Call(cuda_.cuMemsetD32Async, "cuMemsetD32Async", AddressOf(to), value, static_cast<size_t>(count),
                StreamOf(stream));
  }
  Status HostCall(Stream* stream, void (*function)(void*), void* argument) override {
    return Call(cuda_.cuLaunchHostFunc, "cuLaunchHostFunc", StreamOf(stream), function, argument);
  }
  Status Launch(Stream* stream, Function* function, Extent3 grid, Extent3 block, int64_t shared_bytes,
                const void* parameter, int64_t bytes) override {
    if (shared_bytes > kUsualSharedBytes) {
      const Status status =
          Call(cuda_.cuFuncSetAttribute, "cuFuncSetAttribute", HandleOf(function),
               CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(shared_bytes));
      if (!status.empty()) return status;
    }
    size_t size = static_cast<size_t>(bytes);
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<void*>(parameter),
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    return Call(cuda_.cuLaunchKernel, "cuLaunchKernel", HandleOf(function), grid.x, grid.y, grid.z, block.x,
                block.y, block.z, static_cast<unsigned>(shared_bytes), StreamOf(stream),
                static_cast<void**>(nullptr), static_cast<void**>(extra));
  }

  // Relaxed: cuDNN and cuBLAS may load a kernel's code at its first use, which the other modes forbid.
  Status BeginCapture(Stream* stream) override {
    return Call(cuda_.cuStreamBeginCapture, "cuStreamBeginCapture", StreamOf(stream),
                CU_STREAM_CAPTURE_MODE_RELAXED);
  }
  Status EndCapture(Stream* stream, Graph** graph) override {
    *graph = nullptr;
    CUgraph captured = nullptr;
    Status status = Call(cuda_.cuStreamEndCapture, "cuStreamEndCapture", StreamOf(stream), &captured);
    if (!status.empty()) return status;
    status = Call(cuda_.cuGraphInstantiate, "cuGraphInstantiate", reinterpret_cast<CUgraphExec*>(graph),
                  captured, 0ull);
    cuda_.cuGraphDestroy(captured);
    return status;
  }
  Status Launch(Stream* stream, Graph* graph) override {
    return Call(cuda_.cuGraphLaunch, "cuGraphLaunch", HandleOf(graph), StreamOf(stream));
  }
  void Destroy(Graph* graph) override {
    (void)Call(cuda_.cuGraphExecDestroy, "cuGraphExecDestroy", HandleOf(graph));
  }

  Status Load(std::span<const std::byte> image, Module** module) override {
    return Call(cuda_.cuModuleLoadData, "cuModuleLoadData", reinterpret_cast<CUmodule*>(module),
                static_cast<const void*>(image.data()));
  }
  void Unload(Module* module) override {
    (void)Call(cuda_.cuModuleUnload, "cuModuleUnload", HandleOf(module));
  }
  Status Find(Module* module, const std::string& name, Function** function) override {
    return Call(cuda_.cuModuleGetFunction, "cuModuleGetFunction of " + name,
                reinterpret_cast<CUfunction*>(function), HandleOf(module), name.c_str());
  }

 private:
  // Calls a function of the driver in this card's context, which belongs to a thread.
  template <class Function, class... Arguments>
  Status Call(Function function, const std::string& name, Arguments... arguments) {
    const Status bound = context_.Bind();
    return bound.empty() ? cuda_.Check(function(arguments...), name) : bound;
  }

  Status IsCapturing(Stream* stream, bool* captures) {
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    const Status status = Call(cuda_.cuStreamIsCapturing, "cuStreamIsCapturing", StreamOf(stream), &state);
    *captures = state == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return status;
  }

  const CardContext context_;
  const DriverFunctions& cuda_;
  const Card card_;
};

Status ReadProperties(const DriverFunctions& cuda, CUdevice device, Card* card) {
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    cuda.cuDeviceGetAttribute(&value, which, device);
    return value;
  };
  char name[256] = "";
  Status status = cuda.Check(cuda.cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName");
  if (!status.empty()) return status;
  size_t memory = 0;
  status = cuda.Check(cuda.cuDeviceTotalMem(&memory, device), "cuDeviceTotalMem");
  if (!status.empty()) return status;
  card->name = name;
  card->compute_capability = 10 * attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                             attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  card->multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  card->memory_bytes = static_cast<int64_t>(memory);
  card->l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  card->shared_bytes = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  return cuda.Check(cuda.cuDriverGetVersion(&card->driver_version), "cuDriverGetVersion");
}

// Warps of our kernels take the least and the greatest of integers in one instruction.
constexpr int kLeastComputeCapability = 80;

}  // namespace

Status OpenContext(int device, CardContext* context, Card* card, std::string* hint) {
  DriverFunctions& cuda = context->cuda;
  Status error = LoadDriver(&cuda, hint);
  if (!error.empty()) return error;
  int count = 0;
  error = cuda.Check(cuda.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (!error.empty()) return error;
  if (device < 0 || device >= count) {
    *hint = "cards count from 0; nvidia-smi lists them, and CUDA_VISIBLE_DEVICES may hide some";
    return "there is no card " + std::to_string(device) + ": NVIDIA's driver has " + std::to_string(count);
  }
  error = cuda.Check(cuda.cuDeviceGet(&context->device, device), "cuDeviceGet");
  if (error.empty()) error = ReadProperties(cuda, context->device, card);
  if (!error.empty()) return error;
  if (card->compute_capability < kLeastComputeCapability) {
    *hint = "cards from 2020 on have it (A100, RTX 30 and later); --device=cpu needs no card";
    return card->name + " has compute capability " + std::to_string(card->compute_capability / 10) + "." +
           std::to_string(card->compute_capability % 10) + ", and the kernels need 8.0";
  }
  *hint = "another process may have the card for itself, or all of its memory: see nvidia-smi";
  return cuda.Check(cuda.cuDevicePrimaryCtxRetain(&context->handle, context->device),
                    "cuDevicePrimaryCtxRetain");
}

std::unique_ptr<Driver> MakeDriver(const CardContext& context, const Card& card) {
  return std::make_unique<NvidiaDriver>(context, card);
}

}  // namespace act::cuda
