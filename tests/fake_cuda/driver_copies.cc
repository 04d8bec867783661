// Copies, fills and functions of the host in a stream.
#include <algorithm>
#include <cstring>

#include "tests/fake_cuda/driver.h"

namespace act::fake {

Status FakeDriver::CheckRange(const char* call, const std::byte* at, int64_t bytes, bool pinned) const {
  if (bytes == 0) return "";
  if (std::string why = memory_.Check(at, bytes); !why.empty()) return Quoted(call, why);
  if (memory_.Find(at)->pinned != pinned) return Quoted(call, pinned ? "device memory" : "host memory");
  return "";
}

Status FakeDriver::Copy(const char* call, Stream* stream, std::byte* to, bool to_pinned,
                        const std::byte* from, bool from_pinned, int64_t bytes) {
  if (Status status = Refusal(call, false); !status.empty()) return status;
  // Checked now, as a driver would, and again when it runs: memory may be freed too early.
  const auto check = [this, call, to, to_pinned, from, from_pinned, bytes] {
    Status status = CheckRange(call, from, bytes, from_pinned);
    return status.empty() ? CheckRange(call, to, bytes, to_pinned) : status;
  };
  if (Status status = check(); !status.empty()) return status;
  Work work;
  work.run = [this, check, to, from, bytes]() -> std::string {
    Status status = check();
    if (status.empty() && bytes > 0)
      std::memmove(memory_.Alias(to), memory_.Alias(from), static_cast<size_t>(bytes));
    return status;
  };
  if ((from_pinned || to_pinned) && bytes > 0) {
    work.pinned = from_pinned ? from : to;
    work.pinned_bytes = bytes;
    work.hold = from_pinned ? Hold::kRead : Hold::kWrite;
  }
  return Enqueue(stream, std::move(work));
}

Status FakeDriver::CopyToDevice(Stream* stream, std::byte* to, const std::byte* from, int64_t bytes) {
  return Copy("CopyToDevice", stream, to, false, from, true, bytes);
}
Status FakeDriver::CopyToHost(Stream* stream, std::byte* to, const std::byte* from, int64_t bytes) {
  return Copy("CopyToHost", stream, to, true, from, false, bytes);
}
Status FakeDriver::CopyOnDevice(Stream* stream, std::byte* to, const std::byte* from, int64_t bytes) {
  return Copy("CopyOnDevice", stream, to, false, from, false, bytes);
}

template <class T>
Status FakeDriver::Fill(const char* call, Stream* stream, std::byte* to, T value, int64_t count) {
  if (Status status = Refusal(call, false); !status.empty()) return status;
  if (reinterpret_cast<uintptr_t>(to) % sizeof(T) != 0) return Quoted(call, "not aligned");
  const auto check = [this, call, to, count] {
    return CheckRange(call, to, count * int64_t{sizeof(T)}, false);
  };
  if (Status status = check(); !status.empty()) return status;
  return Enqueue(stream, {[this, check, to, value, count]() -> std::string {
                   Status status = check();
                   if (status.empty() && count > 0)
                     std::fill_n(reinterpret_cast<T*>(memory_.Alias(to)), count, value);
                   return status;
                 }});
}

Status FakeDriver::Fill8(Stream* stream, std::byte* to, uint8_t value, int64_t bytes) {
  return Fill("Fill8", stream, to, value, bytes);
}
Status FakeDriver::Fill32(Stream* stream, std::byte* to, uint32_t value, int64_t count) {
  return Fill("Fill32", stream, to, value, count);
}

Status FakeDriver::HostCall(Stream* stream, void (*function)(void*), void* argument) {
  if (Status status = Refusal("HostCall", false); !status.empty()) return status;
  return Enqueue(stream, {[this, function, argument] {
                   memory_.SuspendHolds(true);  // it runs in the order of the stream, as copies do
                   in_host_call_ = true;
                   function(argument);
                   in_host_call_ = false;
                   memory_.SuspendHolds(false);
                   return "";
                 }});
}

}  // namespace act::fake
