#include "kernels/cuda/cuda_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cuda/prepare.h"
#include "kernels/cuda/source/arena_parameters.h"
#include "kernels/cuda/step_image.h"
#include "kernels/site/dereference.h"
#include "runtime/base/error.h"

namespace act::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kFaultOffset = (sizeof(StepImage) + 255) / 256 * 256;

KernelSource SourceOf(const char* kernel) {
  return {kernel, std::string("// ") + kernel + "\n#include \"kernels/cuda/source/arena.h\"\n"};
}

class CudaRecording : public Recording {
 public:
  CudaRecording(Driver& driver, Graph* graph) : driver_(driver), graph_(graph) {}
  ~CudaRecording() override { driver_.Destroy(graph_); }
  Graph* graph() const { return graph_; }

 private:
  Driver& driver_;
  Graph* graph_;
};

std::string Describe(const FaultRecord& fault) {
  switch (static_cast<DataFault>(fault.kind)) {
    case DataFault::kNone:
      break;
    case DataFault::kLabel:
      return "label " + std::to_string(fault.value) + " is not a class";
    case DataFault::kIndex:
      return "index " + std::to_string(fault.value) + " is out of range";
    case DataFault::kDivision:
      return "divides by zero";
  }
  return "unknown fault";
}

}  // namespace

CudaDevice::CudaDevice(std::unique_ptr<Toolkit> toolkit, const CudaOptions& options)
    : toolkit_(std::move(toolkit)),
      options_(options),
      cache_(toolkit_->driver(), toolkit_->compiler(), options.kernels),
      timer_(options.timer ? std::make_unique<EngineTimer>(toolkit_->driver(), *options.timer) : nullptr),
      engines_(toolkit_->convolutions(), options.kernels.prepared, options.kernels.say, timer_.get()),
      host_work_(toolkit_->driver()),
      context_{.toolkit = *toolkit_,
               .cache = cache_,
               .engines = engines_,
               .fault_sites = fault_sites_,
               .host_work = host_work_,
               .conv_math = options.conv_math,
               .product_math = options.product_math} {}

llvm::Expected<std::unique_ptr<CudaDevice>> CudaDevice::Open(std::unique_ptr<Toolkit> toolkit,
                                                             const CudaOptions& options) {
  std::unique_ptr<CudaDevice> device(new CudaDevice(std::move(toolkit), options));
  ACT_CHECK_OK(device->Start());
  return device;
}

llvm::Error CudaDevice::Start() {
  if (const KernelCacheOptions& kernels = options_.kernels; kernels.prepared && kernels.say)
    if (const std::string misfit =
            MisfitOf(*kernels.prepared, driver().card(), cache_, toolkit_->convolutions());
        !misfit.empty())
      kernels.say(misfit);
  ACT_CHECK_OK(Check(driver().CreateStream(&context_.stream)));
  ACT_CHECK_OK(Check(driver().FreeBytes(&free_at_open_)));
  constexpr int64_t kStateBytes = kFaultOffset + sizeof(FaultRecord);
  ACT_CHECK_OK(Check(driver().Allocate(kStateBytes, &state_)));
  context_.step_block = DevicePointer(state_);
  context_.fault_record = context_.step_block + kFaultOffset;
  ACT_CHECK_OK(Check(driver().Fill8(context_.stream, state_, 0, kStateBytes)));
  ACT_CHECK_OK(Check(driver().Allocate(kMostLooks * 8, &looks_)));
  ACT_CHECK_OK(Check(bounce_.Allocate(driver(), kBounceBytes)));
  pinned_bytes_ = kBounceBytes;
  for (Slot& slot : steps_) ACT_CHECK_OK(Check(MakeSlot(slot, sizeof(StepImage))));
  for (Slot& slot : tickets_) ACT_CHECK_OK(Check(MakeSlot(slot, sizeof(FaultRecord) + sizeof(float))));
  add_floats_ = cache_.Request(SourceOf("add_floats"));
  hash_ = cache_.Request(SourceOf("hash_bytes"));
  find_other_ = cache_.Request(SourceOf("find_other"));
  return llvm::Error::success();
}

CudaDevice::~CudaDevice() {
  if (context_.stream) (void)driver().Synchronize(context_.stream);
  const auto destroy = [this](Event* event) {
    if (event) driver().Destroy(event);
  };
  for (Slot& slot : steps_) destroy(slot.event);
  for (Slot& slot : tickets_) destroy(slot.event);
  for (auto& [to, input] : staged_)
    for (Slot& slot : input.slots) destroy(slot.event);
  for (const std::vector<Timing>* timings : {&timings_, &free_timings_})
    for (const Timing& timing : *timings) {
      destroy(timing.from);
      destroy(timing.to);
    }
  for (std::byte* memory : {state_, looks_})
    if (memory) driver().Free(memory);
  if (context_.stream) driver().Destroy(context_.stream);
}

std::string CudaDevice::name() const { return driver().card().name; }

llvm::Error CudaDevice::Check(const Status& status) const {
  if (status.empty()) return llvm::Error::success();
  return MakeError(name(), status);
}

llvm::Expected<int64_t> CudaDevice::AvailableBytes() const {
  int64_t bytes = 0;
  ACT_CHECK_OK(Check(driver().FreeBytes(&bytes)));
  return bytes;
}

llvm::Expected<Device::BytesBeside> CudaDevice::MeasureBeside() const {
  int64_t free = 0;
  ACT_CHECK_OK(Check(driver().FreeBytes(&free)));
  return BytesBeside{.device = std::max<int64_t>(0, free_at_open_ - free - allocated_bytes_),
                     .host = pinned_bytes_ + host_work_.bytes()};
}

// ---- Steps

llvm::Error CudaDevice::Prepare() {
  if (timer_) timer_->Keep();
  ACT_CHECK_OK(Check(host_work_.Prepare()));
  return Check(cache_.CompileAll());
}

llvm::Error CudaDevice::BeginStep(const StepState& state) {
  Slot& slot = steps_[next_step_++ % kTickets];
  ACT_CHECK_OK(Check(Await(slot)));
  const StepImage image = ImageOf(state);
  std::memcpy(slot.memory.data(), &image, sizeof image);
  ACT_CHECK_OK(Check(driver().CopyToDevice(context_.stream, state_, slot.memory.data(), sizeof image)));
  return Check(MarkPending(slot));
}

std::string CudaDevice::Run(Kernel& kernel, const KernelArgs& args, double* seconds) {
  if (!options_.profile) return kernel.Run(args);
  Timing timing;
  if (!free_timings_.empty()) {
    timing = free_timings_.back();
    free_timings_.pop_back();
  } else {
    for (Event** event : {&timing.from, &timing.to})
      if (Status status = driver().CreateEvent(/*with_time=*/true, event); !status.empty()) return status;
  }
  timing.seconds = seconds;
  timings_.push_back(timing);
  Status status = driver().Record(timing.from, context_.stream);
  if (status.empty()) status = kernel.Run(args);
  if (status.empty()) status = driver().Record(timing.to, context_.stream);
  return status;
}

llvm::Error CudaDevice::AddFloats(DevicePointer sum, DevicePointer part, int64_t count) {
  if (count == 0) return llvm::Error::success();
  const AddParameters p{sum.as<float>(), part.as<const float>(), count};
  return Check(cuda::Launch(context_, *add_floats_, (count + kThreads - 1) / kThreads, kThreads, p));
}

llvm::Error CudaDevice::StartRecording() { return Check(driver().BeginCapture(context_.stream)); }

llvm::Expected<std::unique_ptr<Recording>> CudaDevice::FinishRecording() {
  Graph* graph = nullptr;
  ACT_CHECK_OK(Check(driver().EndCapture(context_.stream, &graph)));
  return std::make_unique<CudaRecording>(driver(), graph);
}

llvm::Error CudaDevice::Launch(Recording& recording) {
  return Check(driver().Launch(context_.stream, static_cast<CudaRecording&>(recording).graph()));
}

llvm::Error CudaDevice::Settle(const FaultRecord& fault) {
  if (const std::string error = host_work_.TakeError(); !error.empty()) return MakeError(name(), error);
  if (fault.kind != 0) return MakeError(fault_sites_.Place(fault.node), Describe(fault));
  return llvm::Error::success();
}

Status CudaDevice::SettleTimings() {
  for (const Timing& timing : timings_) {
    double seconds = 0;
    if (Status status = driver().Seconds(timing.from, timing.to, &seconds); !status.empty()) return status;
    *timing.seconds += seconds;
    free_timings_.push_back(timing);
  }
  timings_.clear();
  return "";
}

llvm::Error CudaDevice::Wait() {
  ACT_CHECK_OK(Check(driver().Synchronize(context_.stream)));
  ACT_CHECK_OK(Check(SettleTimings()));
  FaultRecord fault;
  ACT_CHECK_OK(Download(std::as_writable_bytes(std::span(&fault, 1)), context_.fault_record));
  return Settle(fault);
}

// The fault record comes with each float, so that the host learns of a fault without a copy of its own.
llvm::Expected<uint64_t> CudaDevice::StartRead(DevicePointer from) {
  const uint64_t ticket = next_ticket_++;
  Slot& slot = tickets_[ticket % (kReads * kTickets)];
  ACT_CHECK_OK(Check(driver().CopyToHost(context_.stream, slot.memory.data(),
                                         context_.fault_record.as<std::byte>(), sizeof(FaultRecord))));
  ACT_CHECK_OK(Check(driver().CopyToHost(context_.stream, slot.memory.data() + sizeof(FaultRecord),
                                         from.as<std::byte>(), sizeof(float))));
  ACT_CHECK_OK(Check(MarkPending(slot)));
  return ticket;
}

llvm::Expected<float> CudaDevice::FinishRead(uint64_t ticket) {
  Slot& slot = tickets_[ticket % (kReads * kTickets)];
  ACT_CHECK_OK(Check(Await(slot)));
  FaultRecord fault;
  std::memcpy(&fault, slot.memory.data(), sizeof fault);
  ACT_CHECK_OK(Settle(fault));
  if (options_.profile) ACT_CHECK_OK(Wait());
  float value = 0;
  std::memcpy(&value, slot.memory.data() + sizeof fault, sizeof value);
  return value;
}

}  // namespace act::cuda
