#include "tests/fake_cuda/driver.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace act::fake {
namespace {

constexpr uint32_t kMaxBlockThreads = 1024, kMaxGridYz = 65535;
constexpr int64_t kSharedBytes = 227 << 10, kStaticLimit = 4096;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

FakeDriver::FakeDriver(const Options& options)
    : options_(options),
      memory_(options.card_bytes),
      random_(options.seed),
      runner_(memory_, random_),
      queue_(memory_, random_) {
  card_ = {"fake",
           90,
           options.multiprocessors,
           options.card_bytes,
           int64_t{50} << 20,
           kSharedBytes,
           options.driver_version};
}

// ---- Memory

Status FakeDriver::Refusal(const char* call, bool unsafe) const {
  if (in_host_call_) return Quoted(call, "called by a function of the host that runs in a stream");
  if (unsafe && captures_ > 0) return Quoted(call, "not permitted while a stream is captured");
  return "";
}

Status FakeDriver::FreeBytes(int64_t* bytes) {
  *bytes = memory_.FreeBytes();
  if (!asked_for_free_bytes_) memory_.Steal(options_.stolen_bytes);
  asked_for_free_bytes_ = true;
  return Refusal("FreeBytes", false);
}

Status FakeDriver::Place(const char* call, int64_t bytes, bool pinned, std::byte** address) {
  if (Status status = Refusal(call, true); !status.empty()) return status;
  *address = ++allocations_ == options_.fail_allocation ? nullptr : memory_.Allocate(bytes, pinned);
  return *address ? "" : Quoted(call, "out of memory");
}

Status FakeDriver::Allocate(int64_t bytes, std::byte** address) {
  return Place("Allocate", bytes, false, address);
}
Status FakeDriver::AllocatePinned(int64_t bytes, std::byte** address) {
  return Place("AllocatePinned", bytes, true, address);
}

void FakeDriver::Free(std::byte* address) {
  queue_.Report(Refusal("Free", true));
  if (address && !memory_.Free(address, false)) queue_.Report("Free: no allocation begins there");
}
void FakeDriver::FreePinned(std::byte* address) {
  queue_.Report(Refusal("FreePinned", true));
  if (address && !memory_.Free(address, true)) queue_.Report("FreePinned: no allocation begins there");
}

// ---- Streams and events

Capture* FakeDriver::CaptureOf(Stream* stream) {
  if (stream->capture && stream->capture->over) stream->capture = nullptr;
  return stream->capture.get();
}

Status FakeDriver::Enqueue(Stream* stream, Work work) {
  auto shared = std::make_shared<const Work>(std::move(work));
  if (Capture* capture = CaptureOf(stream)) {
    capture->nodes.push_back({std::move(shared), stream->last_nodes});
    stream->last_nodes = {capture->nodes.size() - 1};
  } else {
    stream->last = {queue_.Add(std::move(shared), stream->last)};
  }
  return "";
}

Status FakeDriver::CreateStream(Stream** stream) {
  *stream = new Stream;
  return Refusal("CreateStream", false);
}
void FakeDriver::Destroy(Stream* stream) { delete stream; }

Status FakeDriver::Synchronize(Stream* stream) {
  if (Status status = Refusal("Synchronize", false); !status.empty()) return status;
  if (CaptureOf(stream)) return "Synchronize: the stream is captured";
  return queue_.RunUntil(stream->last);
}

Status FakeDriver::CreateEvent(bool with_time, Event** event) {
  *event = new Event{with_time, {}, {}, {}, {}};
  return Refusal("CreateEvent", false);
}
void FakeDriver::Destroy(Event* event) { delete event; }

Status FakeDriver::Record(Event* event, Stream* stream) {
  if (Status status = Refusal("Record", false); !status.empty()) return status;
  if (CaptureOf(stream)) {
    event->capture = stream->capture;
    event->last_nodes = stream->last_nodes;
    return "";
  }
  event->capture = nullptr;
  event->seconds = std::make_shared<double>(-1);
  Status status = Enqueue(stream, {[seconds = event->seconds] {
                            *seconds = Now();
                            return "";
                          }});
  event->last = stream->last;
  return status;
}

Status FakeDriver::Wait(Stream* stream, Event* event) {
  if (Status status = Refusal("Wait", false); !status.empty()) return status;
  Capture* capture = CaptureOf(stream);
  if (event->capture) {
    if (event->capture->over) return "Wait: the event was recorded in a capture that is over";
    if (capture && capture != event->capture.get()) return "Wait: the event is of another capture";
    if (!capture) stream->last_nodes.clear();
    stream->capture = event->capture;  // from here on, this stream is captured, too
    for (const size_t node : event->last_nodes)
      if (std::find(stream->last_nodes.begin(), stream->last_nodes.end(), node) == stream->last_nodes.end())
        stream->last_nodes.push_back(node);
  } else if (capture) {
    if (event->seconds) return "Wait: a captured stream cannot wait for work outside of the capture";
  } else {
    stream->last.insert(stream->last.end(), event->last.begin(), event->last.end());
  }
  return "";
}

Status FakeDriver::Synchronize(Event* event) {
  if (Status status = Refusal("Synchronize", false); !status.empty()) return status;
  if (event->capture) return "Synchronize: the event was recorded in a capture";
  return queue_.RunUntil(event->last);
}

Status FakeDriver::Seconds(Event* from, Event* to, double* seconds) {
  if (!from->with_time || !to->with_time) return "Seconds: an event without time";
  if (!from->seconds || !to->seconds || *from->seconds < 0 || *to->seconds < 0)
    return "Seconds: an event that is not recorded or not done";
  *seconds = *to->seconds - *from->seconds;
  return "";
}

// ---- Kernels

Status FakeDriver::Launch(Stream* stream, Function* function, Extent3 grid, Extent3 block,
                          int64_t shared_bytes, const void* parameter, int64_t bytes) {
  const LoadedKernel& kernel = *function->kernel;
  const KernelEntryPoint& entry = *kernel.entry;
  if (Status status = Refusal("Launch", false); !status.empty()) return kernel.name + ": " + status;
  const auto refuse = [&kernel](const std::string& why) { return "Launch of " + kernel.name + ": " + why; };
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (grid.x == 0 || grid.x > 0x7fffffffu || grid.y == 0 || grid.y > kMaxGridYz || grid.z == 0 ||
      grid.z > kMaxGridYz)
    return refuse("a grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " +
                  std::to_string(grid.z) + " blocks");
  if (threads == 0 || threads > kMaxBlockThreads || threads > entry.threads)
    return refuse("blocks of " + std::to_string(threads) + " threads, of at most " +
                  std::to_string(entry.threads));
  if (shared_bytes < 0 || shared_bytes > card_.shared_bytes)
    return refuse(std::to_string(shared_bytes) + " bytes of shared memory");
  if (bytes != entry.parameter_bytes || bytes > kStaticLimit)
    return refuse("a parameter of " + std::to_string(bytes) + " bytes, of which the kernel takes " +
                  std::to_string(entry.parameter_bytes));
  // Copied to where its type may be.
  using Slot = std::max_align_t;
  auto copy =
      std::make_shared<std::vector<Slot>>((static_cast<size_t>(bytes) + sizeof(Slot) - 1) / sizeof(Slot));
  std::memcpy(copy->data(), parameter, static_cast<size_t>(bytes));
  const LaunchShape shape = {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes};
  return Enqueue(stream, {[this, &kernel, shape, copy]() -> std::string {
                   if (++launches_ == options_.fail_launch)
                     return "kernel " + kernel.name + ": launch failed";
                   return runner_.Run(kernel, shape, copy->data());
                 }});
}

Status FakeDriver::Load(std::span<const std::byte> image, Module** module) {
  if (Status status = Refusal("Load", true); !status.empty()) return status;
  Status error;
  auto loaded = std::make_unique<Module>();
  loaded->image = std::make_unique<Image>(image, &error);
  if (error.empty()) *module = loaded.release();
  return error;
}
void FakeDriver::Unload(Module* module) { delete module; }

Status FakeDriver::Find(Module* module, const std::string& name, Function** function) {
  const LoadedKernel* kernel = module->image->Find(name);
  if (!kernel) return "the image has no kernel " + name;
  *function = &module->functions.try_emplace(name, Function{kernel}).first->second;
  return "";
}

// ---- Graphs

Status FakeDriver::BeginCapture(Stream* stream) {
  if (Status status = Refusal("BeginCapture", false); !status.empty()) return status;
  if (CaptureOf(stream)) return "BeginCapture: the stream is captured already";
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream;
  stream->last_nodes.clear();
  ++captures_;
  return "";
}

Status FakeDriver::EndCapture(Stream* stream, Graph** graph) {
  if (Status status = Refusal("EndCapture", false); !status.empty()) return status;
  Capture* capture = CaptureOf(stream);
  if (!capture || capture->origin != stream) return "EndCapture: the capture did not begin with this stream";
  std::vector<bool> followed(capture->nodes.size(), false);
  for (const CapturedNode& node : capture->nodes)
    for (const size_t before : node.after) followed[before] = true;
  for (const size_t last : stream->last_nodes) followed[last] = true;
  const bool joined = std::find(followed.begin(), followed.end(), false) == followed.end();
  if (joined) *graph = new Graph{std::move(capture->nodes), {}};
  --captures_;
  capture->over = true;
  stream->capture = nullptr;
  return joined
             ? ""
             : "EndCapture: the stream does not wait for all work of other streams that joined the capture";
}

Status FakeDriver::Launch(Stream* stream, Graph* graph) {
  if (Status status = Refusal("Launch", false); !status.empty()) return status;
  if (CaptureOf(stream)) return "Launch: a graph inside of a graph";
  Operations first = stream->last;  // and after the graph's launch before
  first.insert(first.end(), graph->last_launch.begin(), graph->last_launch.end());
  Operations all;
  for (const CapturedNode& node : graph->nodes) {
    Operations after;
    for (const size_t before : node.after) after.push_back(all[before]);
    all.push_back(queue_.Add(node.work, node.after.empty() ? first : after));
  }
  static const auto kNothing = std::make_shared<const Work>(Work{[] { return std::string(); }});
  all.insert(all.end(), first.begin(), first.end());
  graph->last_launch = stream->last = {queue_.Add(kNothing, all)};
  return "";
}
void FakeDriver::Destroy(Graph* graph) { delete graph; }

}  // namespace act::fake
