#include "tests/fake_cuda/accesses.h"

#include <algorithm>
#include <bit>

namespace act::fake {
namespace {

constexpr uint64_t kSectorBytes = 32;

}  // namespace

void WarpAccesses::Add(uint32_t lane, const void* place, const void* address, uint32_t bytes) {
  Place& at = places_[place];
  at.bytes = bytes;
  const uint32_t number = at.done[lane]++;
  if (number == at.requests.size()) at.requests.emplace_back();
  Request& request = at.requests[number];
  request.lanes |= 1u << lane;
  request.addresses[lane] = reinterpret_cast<uint64_t>(address);
}

void WarpAccesses::Count(const Request& request, uint32_t bytes, AccessCounts& counts) {
  uint64_t addresses[kLanes];
  uint64_t* last = addresses;
  for (uint32_t left = request.lanes; left != 0; left &= left - 1)
    *last++ = request.addresses[std::countr_zero(left)];
  if (!std::is_sorted(addresses, last)) std::sort(addresses, last);
  uint64_t distinct = 0, end = 0, next_sector = 0;
  for (const uint64_t* a = addresses; a < last; ++a) {
    const uint64_t a_end = *a + bytes;
    distinct += a_end - std::max(*a, end);
    end = a_end;
    const uint64_t first = std::max(*a / kSectorBytes, next_sector);
    next_sector = (a_end + kSectorBytes - 1) / kSectorBytes;
    counts.sectors += next_sector > first ? static_cast<int64_t>(next_sector - first) : 0;
  }
  ++counts.requests;
  counts.ideal_sectors += static_cast<int64_t>((distinct + kSectorBytes - 1) / kSectorBytes);
}

void WarpAccesses::CountInto(AccessCounts& counts) {
  for (auto& [place, at] : places_) {
    for (const Request& request : at.requests) Count(request, at.bytes, counts);
    at.requests.clear();
    std::fill(std::begin(at.done), std::end(at.done), 0);
  }
}

}  // namespace act::fake
