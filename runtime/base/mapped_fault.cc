#include "runtime/base/mapped_fault.h"

#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "runtime/base/file.h"

namespace act {

struct MappedRange {
  std::atomic<const std::byte*> data = nullptr;
  std::atomic<size_t> bytes = 0;  // 0: not in use
  std::string path;
  dev_t device = 0;
  ino_t number = 0;  // of the file on the device
  MappedRange* next = nullptr;
};

namespace {

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): a signal has one handler for the process
std::mutex g_changes;
std::atomic<MappedRange*> g_ranges = nullptr;
struct sigaction g_before = {};
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

// The range that holds the address. Its file is mapped as long as the thread that reads it is in this
// handler, so its entry does not change. Others may: bytes is 0 meanwhile.
const MappedRange* Find(const void* address) {
  for (const MappedRange* range = g_ranges; range; range = range->next) {
    const size_t bytes = range->bytes;
    const auto begin = reinterpret_cast<uintptr_t>(range->data.load());
    const auto at = reinterpret_cast<uintptr_t>(address);
    // A mapping ends with a page, so an address after the last byte may be in it. It does not fault there.
    if (at >= begin && at - begin < bytes && range->bytes == bytes) return range;
  }
  return nullptr;
}

// A line that is written at once, without memory.
class Line {
 public:
  Line& operator<<(const char* text) {
    for (; *text && size_ < sizeof text_; ++text) text_[size_++] = *text;
    return *this;
  }
  Line& operator<<(uint64_t number) {
    char digits[24];
    char* at = digits + sizeof digits - 1;
    *at = 0;
    do *--at = static_cast<char>('0' + number % 10);
    while (number /= 10);
    return *this << at;
  }
  void Write() const {
    for (size_t done = 0; done < size_;) {
      const ssize_t written = ::write(STDERR_FILENO, text_ + done, size_ - done);
      if (written < 0 && errno != EINTR) return;
      if (written > 0) done += static_cast<size_t>(written);
    }
  }

 private:
  char text_[8192];  // a path has at most 4096 bytes
  size_t size_ = 0;
};

// Whether the file is shorter than it was; if so, its size in `bytes`. No if another file has its path now.
bool IsShorter(const MappedRange& range, uint64_t& bytes) {
  struct stat status;
  if (::stat(range.path.c_str(), &status) != 0) return false;
  if (status.st_dev != range.device || status.st_ino != range.number) return false;
  bytes = static_cast<uint64_t>(status.st_size);
  return bytes < range.bytes;
}

[[noreturn]] void EndWithErrorOf(const MappedRange& range) {
  static std::atomic_flag ending;
  while (ending.test_and_set()) ::pause();  // another thread's error is being told

  Line line;
  termios terminal;
  if (::tcgetattr(STDERR_FILENO, &terminal) == 0) line << "\n";  // below the line that shows the progress
  line << program_invocation_short_name << ": error: " << range.path.c_str();
  uint64_t bytes = 0;
  if (IsShorter(range, bytes)) {
    line << ": became shorter while it was in use: it had " << uint64_t{range.bytes} << " bytes and has "
         << bytes
         << "\nhint: write changed data to another file, and rename that; what was saved is as it was\n";
  } else {
    line << ": cannot read: the system reports a fault of the disk, or of a file that became shorter\n";
  }
  line.Write();
  RemoveTemporaryFiles();
  ::_exit(1);
}

void OnBusError(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const bool has_address = info->si_code > 0;  // otherwise a process sent it
  if (has_address)
    if (const MappedRange* range = Find(info->si_addr)) EndWithErrorOf(*range);
  // As without this handler: the instruction runs again, or the signal comes again.
  ::sigaction(SIGBUS, &g_before, nullptr);
  if (!has_address) ::raise(SIGBUS);
}

// With g_changes held.
MappedRange& UnusedRange() {
  for (MappedRange* range = g_ranges; range; range = range->next)
    if (range->bytes == 0) return *range;
  if (!g_ranges) {
    struct sigaction action = {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigaction(SIGBUS, &action, &g_before);
  }
  auto* range = new MappedRange;
  range->next = g_ranges;
  g_ranges = range;
  return *range;
}

}  // namespace

FaultsOfFile::FaultsOfFile(const std::string& path, const std::byte* data, const struct stat& status) {
  const std::lock_guard lock(g_changes);
  range_ = &UnusedRange();
  range_->path = path;
  range_->device = status.st_dev;
  range_->number = status.st_ino;
  range_->data = data;
  range_->bytes = static_cast<size_t>(status.st_size);
}

void FaultsOfFile::CheckLength() const {
  uint64_t bytes = 0;
  if (IsShorter(*range_, bytes)) EndWithErrorOf(*range_);
}

FaultsOfFile::~FaultsOfFile() {
  const std::lock_guard lock(g_changes);
  range_->bytes = 0;
}

}  // namespace act
