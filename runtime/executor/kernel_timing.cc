#include "runtime/executor/kernel_timing.h"

#include <algorithm>
#include <limits>
#include <span>

#include "runtime/base/dtype_kind.h"
#include "runtime/base/error.h"

namespace act {
namespace {

// A site is not worth timing if its first kernel takes less. If a first run takes no more than the second
// number, a second one tells.
constexpr double kShortSeconds = 50e-6, kPerhapsShortSeconds = 1e-3;
// A kernel's first run also loads its code and fills caches. It counts if it takes this long.
constexpr double kLongSeconds = 20e-3;
constexpr int kMostRounds = 8;
// Times that of the fastest kernel: slower ones drop out after a first round that does not count, after one
// that does, and after later ones.
constexpr double kSlowWhenCold = 3, kSlowAtFirst = 2, kSlow = 1.25;
// Times that of the fastest kernel: the first of the list that is this fast is chosen. Differences below it
// are noise, and the list's order then gives the same choice again.
constexpr double kAsFast = 1.03;
constexpr double kNever = std::numeric_limits<double>::infinity();

// Both halves of each 4 bytes are bfloat16 numbers between 1/64 and 1, of either sign. So the bytes are such
// numbers in float32 too, and as good as these in other float types.
std::vector<uint16_t> PlausibleNumbers() {
  std::vector<uint16_t> numbers(32 * 1024);
  uint32_t state = 1;
  for (uint16_t& number : numbers) {
    state = state * 1664525 + 1013904223;  // Numerical Recipes' generator
    const uint32_t bits = state >> 16, sign = bits >> 15, exponent = 121 + (bits >> 7) % 6;
    number = static_cast<uint16_t>(sign << 15 | exponent << 7 | (bits & 127));
  }
  return numbers;
}

llvm::Error Fill(Device& device, const TensorView& view) {
  if (!IsFloat(view.dtype)) return device.FillBytes(view.data, std::byte{0}, view.bytes);
  static const std::vector<uint16_t> kNumbers = PlausibleNumbers();
  const std::span<const std::byte> block = std::as_bytes(std::span(kNumbers));
  const auto block_bytes = static_cast<int64_t>(block.size());
  for (int64_t at = 0; at < view.bytes; at += block_bytes) {
    const auto bytes = static_cast<size_t>(std::min(block_bytes, view.bytes - at));
    ACT_CHECK_OK(device.Upload(view.data + at, block.first(bytes)));
  }
  return llvm::Error::success();
}

// Results first: they may share an operand's storage. That they are written here makes the machine provide
// their pages before a kernel is timed.
llvm::Error FillTensors(Device& device, const BoundNode& node) {
  ACT_CHECK_OK(device.FillBytes(node.workspace.data, std::byte{0}, node.workspace.bytes));
  for (const TensorView& view : node.outputs)
    if (view.data) ACT_CHECK_OK(device.FillBytes(view.data, std::byte{0}, view.bytes));
  for (const TensorView& view : node.inputs)
    if (view.data) ACT_CHECK_OK(Fill(device, view));
  return llvm::Error::success();
}

class Timing {
 public:
  Timing(Device& device, const BoundNode& node, const std::vector<NamedKernel>& kernels,
         const SecondsClock& clock, TimeLimit limit)
      : device_(device), node_(node), clock_(clock), limit_(limit) {
    for (const NamedKernel& kernel : kernels) racing_.push_back({&kernel});
  }

  llvm::Expected<KernelChoice> Choose() {
    ACT_CHECK_OK(FillTensors(device_, node_));
    ACT_CHECK_OK(device_.BeginStep(state_));
    ACT_CHECK_OK(RunOnce(racing_[0]));
    if (racing_[0].seconds < kPerhapsShortSeconds) ACT_CHECK_OK(RunOnce(racing_[0]));
    if (racing_[0].seconds < kShortSeconds) return ChoiceOf(1);
    ACT_CHECK_OK(RunRound(1));
    const bool cold = Least() < kLongSeconds;
    Drop(cold ? kSlowWhenCold : kSlowAtFirst);
    for (Racer& racer : racing_) racer.cold = cold;
    for (int round = 1; round < kMostRounds && GoesOn(round); ++round) {
      ACT_CHECK_OK(RunRound(0));
      if (racing_[0].seconds < kShortSeconds) return ChoiceOf(1);
      Drop(kSlow);
    }
    return ChoiceOf(racing_.size());
  }

 private:
  struct Racer {
    const NamedKernel* entry;
    double seconds = kNever;  // the shortest run
    bool cold = false;        // that was the first run, which counts only if there is no other
    bool out = false;
  };

  bool IsLate() const { return clock_() >= limit_.end; }

  // From the kernel at `first` on.
  llvm::Error RunRound(size_t first) {
    for (size_t i = first; i < racing_.size(); ++i)
      if (!racing_[i].out && !IsLate()) ACT_CHECK_OK(RunOnce(racing_[i]));
    return llvm::Error::success();
  }

  bool GoesOn(int round) const {
    const auto left = std::count_if(racing_.begin(), racing_.end(), [](const Racer& r) { return !r.out; });
    return left > 1 && !IsLate() && (round < 2 || clock_() < limit_.enough);
  }

  double Least() const {
    double least = kNever;
    for (const Racer& racer : racing_) least = racer.out ? least : std::min(least, racer.seconds);
    return least;
  }

  void Drop(double times) {
    const double most = times * Least();
    for (Racer& racer : racing_) racer.out |= racer.seconds > most;
  }

  llvm::Error RunOnce(Racer& racer) {
    const KernelArgs args{
        .inputs = node_.inputs, .outputs = node_.outputs, .workspace = node_.workspace, .state = &state_};
    double on_device = 0;  // of devices that measure it: the clock here also serves tests
    const double before = clock_();
    const std::string failure = device_.Run(*racer.entry->kernel, args, &on_device);
    ACT_CHECK_OK(device_.Wait());
    const double seconds = std::max(0.0, clock_() - before);  // as SecondsBetween
    racer.out = !failure.empty();
    racer.seconds = racer.out ? kNever : racer.cold ? seconds : std::min(racer.seconds, seconds);
    racer.cold = false;
    return llvm::Error::success();
  }

  // Of the first `count` kernels.
  KernelChoice ChoiceOf(size_t count) const {
    KernelChoice choice;
    double least = kNever;
    for (size_t i = 0; i < count; ++i) least = std::min(least, racing_[i].seconds);
    for (size_t i = 0; i < count; ++i) {
      const Racer& racer = racing_[i];
      if (racer.seconds == kNever) continue;
      choice.candidates.push_back({racer.entry->name, racer.seconds});
      if (choice.kernel.empty() && racer.seconds <= kAsFast * least) choice.kernel = racer.entry->name;
    }
    return choice;
  }

  Device& device_;
  const BoundNode& node_;
  const SecondsClock& clock_;
  const TimeLimit limit_;
  const StepState state_ = {};
  std::vector<Racer> racing_;
};

}  // namespace

llvm::Expected<KernelChoice> TimeKernels(Device& device, const BoundNode& node,
                                         const std::vector<NamedKernel>& kernels, const SecondsClock& clock,
                                         TimeLimit limit) {
  return Timing(device, node, kernels, clock, limit).Choose();
}

}  // namespace act
