#include "kernels/cuda/engine_timer.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "kernels/cuda/context.h"
#include "runtime/base/error.h"

namespace act::cuda {
namespace {

// An engine whose first run took this much longer than the fastest one's is not run again.
constexpr double kClearlySlower = 1.3;
// One that is hardly faster does not displace one that the library names before it.
constexpr double kHardlyFaster = .98;
// Of an engine that is not clearly slower. The shortest one counts.
constexpr int kRuns = 3;
// Operands are filled with this: .01 in float32 and, twice, in bfloat16. Zeros take less power, and so time.
constexpr uint32_t kPattern = 0x3c243c24;
constexpr int64_t kAlignment = 256;

// The file takes letters, digits and "_.-" in names. Engines' texts have spaces and "=" beside these.
std::string Replaced(std::string text, char space, char equals, char to_space, char to_equals) {
  for (char& c : text) c = c == space ? to_space : c == equals ? to_equals : c;
  return text;
}
std::string NameOf(const LibraryCall& engine) {
  const std::vector<std::byte> bytes = engine.Serialize();
  return Replaced({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, ' ', '=', '_', '-');
}

}  // namespace

EngineTimer::EngineTimer(Driver& driver, EngineTimerOptions options)
    : driver_(driver), options_(std::move(options)) {
  if (options_.path.empty()) return;
  ReadChoices read = ReadChoiceFile(options_.path, options_.machine);
  if (!options_.force) known_ = std::move(read.choices);
  if (!read.fault.empty())
    SayOnce(told_of_file_,
            "warning: " + options_.path + ": " + read.fault + "; what it lacks is timed again");
}

EngineTimer::~EngineTimer() {
  if (memory_) driver_.Free(memory_);
  for (Event* event : {from_, to_})
    if (event) driver_.Destroy(event);
  if (stream_) driver_.Destroy(stream_);
}

void EngineTimer::SayOnce(bool& told, const std::string& line) const {
  if (!std::exchange(told, true) && options_.say) options_.say(line);
}

std::string EngineTimer::Known(const std::string& problem) const {
  const auto found = known_.find(problem);
  return found == known_.end() ? "" : Replaced(found->second.kernel, '_', '-', ' ', '=');
}

double EngineTimer::Seconds(const std::string& problem) const {
  const auto found = known_.find(problem);
  if (found == known_.end()) return 0;
  for (const KernelChoice::Candidate& candidate : found->second.candidates)
    if (candidate.kernel == found->second.kernel) return candidate.seconds;
  return 0;
}

Status EngineTimer::Open() {
  if (stream_) return "";
  Status status = driver_.CreateStream(&stream_);
  for (Event** event : {&from_, &to_})
    if (status.empty()) status = driver_.CreateEvent(/*with_time=*/true, event);
  return status;
}

Status EngineTimer::Reserve(int64_t bytes) {
  if (bytes <= memory_bytes_) return "";
  if (memory_) driver_.Free(std::exchange(memory_, nullptr));
  memory_bytes_ = 0;
  if (Status status = driver_.Allocate(bytes, &memory_); !status.empty()) return status;
  memory_bytes_ = bytes;
  return driver_.Fill32(stream_, memory_, kPattern, bytes / 4);
}

double EngineTimer::TimeOnce(LibraryCall& engine, std::byte* const operands[4], std::byte* workspace) {
  Status status = driver_.Record(from_, stream_);
  if (status.empty()) status = engine.Enqueue(stream_, operands, workspace);
  if (status.empty()) status = driver_.Record(to_, stream_);
  if (const Status done = driver_.Synchronize(stream_); status.empty()) status = done;
  double seconds = 0;
  if (status.empty()) status = driver_.Seconds(from_, to_, &seconds);
  return status.empty() ? seconds : -1;
}

double EngineTimer::TimeEngine(LibraryCall& engine, std::byte* const operands[4], std::byte* workspace,
                               double least) {
  // The first run may bring code to the card, and does not count.
  double seconds = TimeOnce(engine, operands, workspace);
  for (int run = 0; run < kRuns && seconds >= 0; ++run) {
    const double once = TimeOnce(engine, operands, workspace);
    seconds = run == 0 || once < seconds ? once : seconds;
    if (least > 0 && once > kClearlySlower * least) break;
  }
  return seconds;
}

size_t EngineTimer::Fastest(const std::string& problem, std::span<const int64_t, 3> operand_bytes,
                            const std::vector<std::unique_ptr<LibraryCall>>& engines) {
  if (engines.empty() || NameOf(*engines[0]).empty()) return 0;
  if (seconds_ > options_.most_seconds) {
    SayOnce(told_of_time_,
            "engines of the other convolutions are not timed in this run: the library's order "
            "decides, and the next run goes on with timing");
    return 0;
  }
  SayOnce(told_of_work_, "timing engines of convolutions, once on this card");
  const auto start = std::chrono::steady_clock::now();
  int64_t bytes = 0, workspace_bytes = 0;
  for (const auto& engine : engines) workspace_bytes = std::max(workspace_bytes, engine->workspace_bytes());
  int64_t places[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    places[i] = bytes;
    bytes += RoundUp(operand_bytes[i], kAlignment);
  }
  Status status = Open();
  if (status.empty()) status = Reserve(bytes + RoundUp(workspace_bytes, kAlignment));
  if (!status.empty()) {
    SayOnce(told_of_memory_,
            "warning: engines of some convolutions cannot be timed, and the library's order decides, "
            "which may be far slower: " +
                status + "; a run with a smaller --batch leaves more memory");
    return 0;
  }
  std::byte* const operands[4] = {memory_ + places[0], memory_ + places[1], memory_ + places[2], nullptr};
  KernelChoice choice;
  size_t fastest = 0;
  double least = 0;
  for (size_t e = 0; e < engines.size(); ++e) {
    const double seconds = TimeEngine(*engines[e], operands, memory_ + bytes, least);
    if (seconds < 0) continue;  // it fails: no candidate
    choice.candidates.push_back({NameOf(*engines[e]), seconds});
    if (least == 0 || seconds < kHardlyFaster * least) {
      least = seconds;
      fastest = e;
    }
  }
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (choice.candidates.empty()) return 0;
  choice.kernel = NameOf(*engines[fastest]);
  known_[problem] = unkept_[problem] = choice;
  return fastest;
}

void EngineTimer::Keep() {
  if (memory_) driver_.Free(std::exchange(memory_, nullptr));
  memory_bytes_ = 0;
  if (unkept_.empty()) return;
  const auto differ =
      std::count_if(unkept_.begin(), unkept_.end(), [](const auto& each) { return each.second.Differs(); });
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f s", seconds_);
  std::string line = "engines of " + std::to_string(unkept_.size()) + " convolutions timed in " + seconds +
                     ", " + std::to_string(differ) + " differ from the library's order";
  llvm::Error error = options_.path.empty() ? llvm::Error::success()
                                            : MergeIntoChoiceFile(options_.path, options_.machine, unkept_);
  const std::string fault = llvm::toString(std::move(error));
  if (!options_.path.empty() && fault.empty()) line += "; " + options_.path;
  if (options_.say) options_.say(line);
  if (!fault.empty())
    SayOnce(told_of_file_,
            "warning: the choice of engines is not kept, and the next run may compute other bits: " + fault);
  unkept_.clear();
}

}  // namespace act::cuda
